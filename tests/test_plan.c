// What is planned and assumed: peaks, lengths, models by file and by name, machines, what fits. tests/test_plan_run.c compares with runs.
#include "base/file.h"
#include "base/log.h"
#include "run/plan_fit.h"
#include "support/toy_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static Arena arena;
static Error error;
static char folder[64];
enum { MOST_OVERRIDES = 16 };

static const char recipe[] =
    "grpo: {num_prompts_per_step: 4, num_generations_per_prompt: 4, max_num_steps: 2, max_num_epochs: 100, val_period: "
    "2, "
    "val_at_start: true, max_val_samples: 5, val_batch_size: 3}\n"
    "policy:\n"
    "  precision: float32\n"
    "  train_global_batch_size: 8\n"
    "  train_micro_batch_size: 3\n"
    "  max_total_sequence_length: 96\n"
    "  sequence_packing: {enabled: false}\n"
    "  generation: {max_new_tokens: 12, ignore_eos: true}\n"
    "  optimizer: {kwargs: {lr: 1.0e-3}}\n"
    "checkpointing: {enabled: false}\n"
    "data:\n"
    "  train: {dataset_name: arithmetic, left: [0, 900], right: [0, 12], split_validation_size: 5}\n"
    "  default: {env_name: last_integer}\n";

static const char *path(const char *name) {
    return arena_format(&arena, "%s/%s", folder, name);
}

static void require(bool good) {
    if (!good) fail_msg("%s", error.text);
}

static Settings *settings(const char *model, char *const *overrides) {
    char *all[MOST_OVERRIDES] = {arena_format(&arena, "policy.model_name=%s", path(model)),
                                 arena_format(&arena, "logger.log_dir=%s", path("run"))};
    int count = 2;
    while (*overrides) all[count++] = *overrides++;
    Settings *settings;
    require(settings_load(&settings, &arena, path("recipe.yaml"), count, all, &error));
    return settings;
}
#define SETTINGS(model, ...) settings(model, (char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static int setup(void **state) {
    (void)state;
    log_set_level(LOG_QUIET);
    snprintf(folder, sizeof folder, "/tmp/whet-plan-%d", (int)getpid());
    return toy_model_write(path("llama"), MODEL_LLAMA, 1, &error) &&
                   file_write(path("recipe.yaml"), recipe, strlen(recipe), &error)
               ? 0
               : -1;
}

static int teardown(void **state) {
    (void)state;
    file_remove_tree(folder, &error);
    arena_close(&arena);
    return 0;
}

// ---- peaks

// The whole of `whet plan` says what the second step of the same run says, and the shorter way says the same.
static void test_peaks(void **state) {
    (void)state;
    Settings *s = SETTINGS("llama", "policy.precision=bfloat16", "policy.train_global_batch_size=4");
    PlanOptions options = {.ranks = 1, .prompt_tokens = 20};
    Plan plan, quick;
    require(plan_make(&plan, s, &options, &error));
    options.memory_only = true;
    require(plan_make(&quick, s, &options, &error));
    assert_memory_equal(&plan.peak, &quick.peak, sizeof plan.peak);
    assert_memory_equal(&plan.update_peak, &quick.update_peak, sizeof plan.peak);
    assert_memory_equal(plan.by_phase, quick.by_phase, sizeof plan.by_phase);
    assert_int_equal(plan.answer_tokens, 12);
    assert_int_equal(plan.step_tokens, 16 * 32);
    assert_true(plan.work[PHASE_ROLLOUT].flops > quick.work[PHASE_ROLLOUT].flops);
    // Three of four updates: the reference walks 8 samples of 32 tokens at once, and they have a ninth beside them.
    assert_int_equal(3 * plan.work[PHASE_BACKWARD].flops, 4 * quick.work[PHASE_BACKWARD].flops);
    // Forward is 2 operations for each weight of a block and token, and attention; masters, moments and gradients are AdamW's.
    uint64_t total = (uint64_t)plan.parameters;
    assert_in_range(plan.peak.by_tag[MEMORY_OPTIMIZER], 8 * total, 8 * total + 65536);
    // Four updates: the norm reads gradients twice, AdamW reads four numbers and writes three.
    assert_in_range(plan.work[PHASE_OPTIMIZER].bytes, 4 * 36 * total, 4 * (36 * total + 65536));
    assert_in_range(plan.update_phase, PHASE_FORWARD, PHASE_BACKWARD);
}

#define SAMPLING "policy.generation.vllm_cfg.tensor_parallel_size=2"

// What ranks that share the rollout's weights exchange grows with the rows of a round: of prompts, or of answers. The reference walks
// samples of several updates together.
static void test_the_shorter_way_on_ranks(void **state) {
    (void)state;
    static const struct {
        int ranks;
        int64_t prompt_tokens;
        char *overrides[4];
    } cases[] = {
        {2, 20, {SAMPLING}},
        {2, 1, {SAMPLING}},
        {2, 40, {SAMPLING, "whet.prefill_chunk=24"}},
        {2, 20, {SAMPLING, "whet.max_sequences=6", "policy.precision=bfloat16"}},
        {2, 20, {SAMPLING, "whet.kv_cache_tokens=96"}},
        {4, 20, {SAMPLING, "grpo.num_prompts_per_step=5", "policy.train_global_batch_size=20"}},
        {2, 20, {SAMPLING, "policy.generation.max_new_tokens=1"}},
        {16, 20, {SAMPLING, "policy.automodel_cfg.tensor_parallel_size=2"}},
        {2, 20, {"policy.train_global_batch_size=1"}},
        {1, 20, {"policy.train_global_batch_size=2", "policy.logprob_batch_size=100"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Settings *s = settings("llama", cases[i].overrides);
        PlanOptions options = {.ranks = cases[i].ranks, .prompt_tokens = cases[i].prompt_tokens};
        Plan plan, quick;
        require(plan_make(&plan, s, &options, &error));
        options.memory_only = true;
        require(plan_make(&quick, s, &options, &error));
        for (int phase = 0; phase < PHASE_COUNT; phase++)
            if (memcmp(&plan.by_phase[phase], &quick.by_phase[phase], sizeof *plan.by_phase))
                fail_msg("case %zu: %s takes %llu bytes, by the shorter way %llu", i,
                         ledger_phase_name((MemoryPhase)phase), (unsigned long long)plan.by_phase[phase].total,
                         (unsigned long long)quick.by_phase[phase].total);
    }
}

// What happens to answers and rewards takes no memory: answers of full length are trained on, and all estimators find what they read.
static void test_answers_that_are_made_up(void **state) {
    (void)state;
    static char *const cases[][4] = {
        {"grpo.overlong_filtering=true"},
        {"grpo.adv_estimator.name=gdpo", "data.default.env_name=math_multi_reward"},
        {"grpo.adv_estimator.name=gdpo", "data.default.env_name=judge", "++env.judge.command=[true]",
         "grpo.adv_estimator.reward_weights=[1,2,3]"},
        {"grpo.adv_estimator.name=raw_reward"},
        {"grpo.adv_estimator.name=reinforce_plus_plus", "loss_fn.use_kl_in_reward=true"},
        {"grpo.reward_shaping.enabled=true", "grpo.reward_shaping.overlong_buffer_length=8"},
    };
    PlanOptions options = {.ranks = 1, .prompt_tokens = 20};
    Plan plain, plan;
    require(plan_make(&plain, SETTINGS("llama"), &options, &error));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *overrides[5] = {0};
        memcpy(overrides, cases[i], sizeof cases[i]);
        require(plan_make(&plan, settings("llama", overrides), &options, &error));
        assert_memory_equal(plan.by_phase, plain.by_phase, sizeof plan.by_phase);
        assert_memory_equal(plan.work, plain.work, sizeof plan.work);
    }
}

// ---- what is assumed

static void test_lengths(void **state) {
    (void)state;
    static const struct {
        const char *total, *answer, *input; // of the recipe
        int64_t given_prompt, given_answer, prompt, answer_tokens;
        const char *refused;
    } cases[] = {
        {"512", "512", "512", 0, 0, 128, 384, NULL},
        {"512", "256", "512", 0, 0, 256, 256, NULL},
        {"512", "256", "100", 0, 0, 100, 256, NULL},
        {"1536", "1024", "1536", 0, 0, 512, 1024, NULL},
        {"512", "512", "512", 30, 0, 30, 482, NULL},
        {"512", "512", "512", 0, 500, 12, 500, NULL},
        {"512", "512", "512", 20, 100, 20, 100, NULL},
        {"512", "512", "512", 512, 0, 0, 0, "--prompt-tokens is 512; the recipe allows at most 511"},
        {"512", "256", "100", 101, 0, 0, 0, "--prompt-tokens is 101; the recipe allows at most 100"},
        {"512", "512", "512", 20, 493, 0, 0, "--answer-tokens is 493; behind a prompt of 20 tokens"},
        {"512", "64", "512", 0, 65, 0, 0, "at most 64"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Settings *s =
            SETTINGS("llama", arena_format(&arena, "policy.max_total_sequence_length=%s", cases[i].total),
                     arena_format(&arena, "policy.generation.max_new_tokens=%s", cases[i].answer),
                     arena_format(&arena, "data.max_input_seq_length=%s", cases[i].input));
        PlanOptions options = {.prompt_tokens = cases[i].given_prompt, .answer_tokens = cases[i].given_answer};
        int64_t prompt, answer;
        bool good = plan_lengths(&prompt, &answer, s, &options, &error);
        if (cases[i].refused) {
            assert_false(good);
            assert_non_null(strstr(error.text, cases[i].refused));
            continue;
        }
        require(good);
        assert_int_equal(prompt, cases[i].prompt);
        assert_int_equal(answer, cases[i].answer_tokens);
    }
}

static void test_models(void **state) {
    (void)state;
    static const char config[] =
        "{\"model_type\": \"qwen2\", \"vocab_size\": 100, \"hidden_size\": 32, \"intermediate_size\": 48, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2}";
    PlanModel model;
    require(file_write(path("shape.json"), config, strlen(config), &error));
    require(plan_model_open(&model, path("shape.json"), NULL, &error));
    assert_int_equal(model.architecture.layer_count, 2);
    plan_model_close(&model);
    require(plan_model_open(&model, path("shape.json"), "{\"num_hidden_layers\": 5}", &error));
    assert_int_equal(model.architecture.layer_count, 5);
    plan_model_close(&model);
    require(plan_model_open(&model, "Qwen/Qwen2.5-72B", NULL, &error));
    assert_int_equal(model.parameters.total, 72706203648);
    plan_model_close(&model);
    assert_false(plan_model_open(&model, "Qwen/Qwen2.5-73B", NULL, &error));
    assert_non_null(strstr(error.text, "policy.model_name: 'Qwen/Qwen2.5-73B' is no file"));
    assert_non_null(strstr(error.text, "like Qwen2.5-"));
    plan_model_close(&model);
    require(file_write(path("broken.json"), "{}", 2, &error));
    assert_false(plan_model_open(&model, path("broken.json"), NULL, &error));
    assert_non_null(strstr(error.text, "broken.json: key model_type is missing"));
    plan_model_close(&model);
}

static void test_machines(void **state) {
    (void)state;
    PlanMachine machine;
    char *names = arena_string(&arena, plan_machine_names());
    for (char *name = strtok(names, "|"); name; name = strtok(NULL, "|")) {
        if (!strcmp(name, "this")) continue; // takes a while
        require(plan_machine_find(&machine, name, &error));
        assert_string_equal(machine.name, name);
        assert_true(machine.flops[1] >= machine.flops[0] && machine.bytes > machine.link);
    }
    assert_false(plan_machine_find(&machine, "h10", &error));
    assert_non_null(strstr(error.text, "did you mean h100"));
    // A machine whose memory is slow is waiting for it all the time, and one that computes slowly for that.
    Settings *s = SETTINGS("llama");
    PlanOptions options = {.ranks = 1, .machine = {.name = "slow memory", .flops = {1e18, 1e18}, .bytes = 1e6}};
    Plan plan;
    require(plan_make(&plan, s, &options, &error));
    for (int phase = PHASE_ROLLOUT; phase < PHASE_CHECKPOINT; phase++)
        assert_true(fabs(plan.work[phase].seconds - (double)plan.work[phase].bytes * 1e-6) <=
                    1e-9 * plan.work[phase].seconds);
    options.machine = (PlanMachine){.name = "slow", .flops = {1e6, 1e6}, .bytes = 1e18};
    require(plan_make(&plan, s, &options, &error));
    assert_true(plan.work[PHASE_FORWARD].seconds > 0.999 * (double)plan.work[PHASE_FORWARD].flops * 1e-6);
    assert_true(plan.work[PHASE_FORWARD].seconds < 1.001 * (double)plan.work[PHASE_FORWARD].flops * 1e-6);
}

// ---- what fits

static uint64_t peak_with(char *first, char *second) {
    PlanOptions options = {.ranks = 1, .memory_only = true};
    Plan plan;
    require(plan_make(&plan, SETTINGS("llama", "policy.precision=bfloat16", first, second), &options, &error));
    return plan.peak.total;
}

static PlanArm planned_arm(char *setting, const PlanOptions *options) {
    char **overrides = arena_array(&arena, char *, 2);
    overrides[0] = arena_format(&arena, "policy.model_name=%s", path("llama"));
    overrides[1] = setting;
    PlanArm arm = {.label = "", .overrides = overrides, .override_count = 2, .settings = SETTINGS("llama", setting)};
    require(plan_make(&arm.plan, arm.settings, options, &error));
    return arm;
}

// What is said to fit does, one more does not; a setting saves what it is said to save.
static void test_fit(void **state) {
    (void)state;
    PlanOptions options = {.ranks = 1};
    PlanArm arm = planned_arm("policy.precision=bfloat16", &options);
    PlanFit fit;
    uint64_t memory = arm.plan.peak.total + 20000;
    require(plan_fit(&fit, memory, &arm, &options, &arena, &error));
    assert_true(fit.fits && fit.micro_batch >= 3 && fit.micro_batch < 8 && !fit.whole_batch && !fit.all_positions);
    for (int more = 0; more < 2; more++) {
        char *micro = arena_format(&arena, "policy.train_micro_batch_size=%lld", (long long)(fit.micro_batch + more));
        uint64_t peak = peak_with(micro, "whet.threads=1");
        if (!more) assert_int_equal(peak, fit.peak_micro_batch);
        assert_true(more == (peak > memory));
    }
    assert_in_range(fit.sequence_length, 96, 511);
    assert_true(fit.peak_sequence_length <= memory);
    assert_in_range(fit.help_count, 3, PLAN_FIT_HELPS);
    for (int i = 0; i < fit.help_count; i++) {
        assert_true(fit.helps[i].saved > 0 && (!i || fit.helps[i].saved <= fit.helps[i - 1].saved));
        if (strchr(fit.helps[i].setting, ' ')) continue;
        char *setting = arena_string(&arena, fit.helps[i].setting);
        assert_int_equal(peak_with(setting, "whet.threads=1"), arm.plan.peak.total - (uint64_t)fit.helps[i].saved);
    }
    require(plan_fit(&fit, 1, &arm, &options, &arena, &error));
    assert_true(!fit.fits && !fit.micro_batch && !fit.sequence_length);
    require(plan_fit(&fit, (uint64_t)1 << 40, &arm, &options, &arena, &error));
    assert_true(fit.fits && fit.whole_batch && fit.micro_batch == 8 && fit.all_positions);
}

// Where ranks see the vocabulary piece by piece, the softmax blocks of a micro-batch are in the account: two floats for each block
// of each loss row. 272 tokens are one block; three samples have twelve loss rows each.
static void test_softmax_blocks(void **state) {
    (void)state;
    Settings *s = SETTINGS("llama");
    PlanModel model;
    Trainer t = {0};
    Comm world = comm_pretend(0, 2);
    int64_t tokens[] = {20, 20, 20, 20}, bytes = (3 * 12 * 2 * 4 + 63) / 64 * 64;
    int taken = 0, given = 0;
    require(plan_model_open(&model, s->policy.model_name, NULL, &error) &&
            trainer_open_plan(&t, s, &world, &model.architecture, &model.parameters, &error));
    const Ledger *ledger = &t.ops.device.ledger;
    trainer_refit(&t);
    t.ops.device.ledger.record = true;
    require(plan_step(&t, &(PlanOptions){.memory_only = true}, tokens, 0, &error));
    for (size_t i = 0; i < ledger->event_count; i++) {
        const LedgerEvent *event = &ledger->events[i];
        if (event->phase != PHASE_BACKWARD || event->tag != MEMORY_LOGITS) continue;
        taken += event->bytes == bytes;
        given += event->bytes == -bytes;
    }
    assert_true(taken > 0);
    assert_int_equal(taken, given);
    trainer_close(&t);
    plan_model_close(&model);
}

// The peak of all ranks is the largest of those of each alone.
static void test_one_rank_of_many(void **state) {
    (void)state;
    Settings *s = SETTINGS("llama", "policy.precision=bfloat16");
    Plan all, one;
    uint64_t most = 0;
    require(plan_make(&all, s, &(PlanOptions){.ranks = 3, .memory_only = true}, &error));
    for (int rank = 0; rank < 3; rank++) {
        require(plan_make(&one, s, &(PlanOptions){.ranks = 3, .memory_only = true, .only = rank + 1}, &error));
        assert_int_equal(one.ranks_planned, 1);
        assert_int_equal(one.peak_rank, rank);
        if (one.peak.total > most) most = one.peak.total;
    }
    assert_int_equal(all.ranks_planned, 3);
    assert_int_equal(most, all.peak.total);
}

// On ranks of which some need more than others, what fits does so on all of them, and one more does not.
static void test_fit_on_ranks(void **state) {
    (void)state;
    PlanOptions options = {.ranks = 3, .memory_only = true};
    PlanArm arm = planned_arm("policy.precision=bfloat16", &options);
    PlanFit fit;
    Plan plan;
    uint64_t memory = arm.plan.peak.total + 20000;
    require(plan_fit(&fit, memory, &arm, &options, &arena, &error));
    assert_true(fit.micro_batch >= 1 && !fit.whole_batch);
    for (int more = 0; more < 2; more++) {
        char *micro = arena_format(&arena, "policy.train_micro_batch_size=%lld", (long long)(fit.micro_batch + more));
        require(plan_make(&plan, SETTINGS("llama", "policy.precision=bfloat16", micro), &options, &error));
        if (!more) assert_int_equal(plan.peak.total, fit.peak_micro_batch);
        assert_true(more == (plan.peak.total > memory));
    }
}

// Micro-batches are multiples of whet.reduction_block, in which they are walked: they take what one block takes.
static void test_fit_in_blocks(void **state) {
    (void)state;
    PlanOptions options = {.ranks = 1};
    PlanArm arm = planned_arm("whet.reduction_block=3", &options);
    PlanFit fit;
    require(plan_fit(&fit, arm.plan.peak.total, &arm, &options, &arena, &error));
    assert_true(fit.fits && fit.whole_batch && fit.micro_batch == 6);
    assert_int_equal(fit.peak_micro_batch, arm.plan.peak.total);
}

int main(void) {
    const struct CMUnitTest tests[] = {

        cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_the_shorter_way_on_ranks),
        cmocka_unit_test(test_answers_that_are_made_up),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_machines),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_fit_in_blocks),
        cmocka_unit_test(test_softmax_blocks),
        cmocka_unit_test(test_one_rank_of_many),
        cmocka_unit_test(test_fit_on_ranks),
    };
    return cmocka_run_group_tests_name("plan", tests, setup, teardown);
}
