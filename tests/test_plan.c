// Plan = run: the planned step makes the allocations of the real one, event by event; lengths, models by file and by name,
// machines, refusals.
#include "base/file.h"
#include "base/log.h"
#include "run/grpo.h"
#include "run/plan_fit.h"
#include "run/sft.h"
#include "run/supervision.h"
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
enum { STEPS = 2, MOST_OVERRIDES = 16 };

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
                   toy_model_write(path("qwen3"), MODEL_QWEN3, 1, &error) &&
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

// ---- plan = run

static void run_plan(Trainer *planned, const Trainer *real, const Settings *s) {
    static const PlanOptions options = {.ranks = 1};
    trainer_refit(planned);
    if (s->run.val_at_start) require(plan_validation(planned, &options, 9, &error));
    for (int64_t step = 1; step <= STEPS; step++) {
        int64_t tokens[8], count = real->task.prompts_per_batch;
        EngineRequest *requests;
        require(task_train_requests(&real->task, &requests, (step - 1) * count, 0, 4, &arena, &error));
        for (int64_t p = 0; p < count; p++) tokens[p] = requests[p].count;
        require(plan_step(planned, &options, tokens, step, &error));
        if (step % s->run.val_period == 0) require(plan_validation(planned, &options, 9, &error));
    }
}

static void compare_events(const Ledger *run, const Ledger *plan, const char *what) {
    assert_true(run->event_count > 100);
    for (size_t i = 0; i < run->event_count && i < plan->event_count; i++) {
        const LedgerEvent *a = &run->events[i], *b = &plan->events[i];
        if (a->phase != b->phase || a->tag != b->tag || a->bytes != b->bytes)
            fail_msg("%s: event %zu is %s %s %lld, planned %s %s %lld", what, i, ledger_phase_name(a->phase),
                     ledger_tag_name(a->tag), (long long)a->bytes, ledger_phase_name(b->phase), ledger_tag_name(b->tag),
                     (long long)b->bytes);
    }
    assert_int_equal(run->event_count, plan->event_count);
    assert_memory_equal(&run->peak, &plan->peak, sizeof run->peak);
}

static void check_events(const Settings *s, const char *what) {
    Trainer real, planned;
    PlanModel model;
    Comm world = comm_pretend(0, 1);
    require(trainer_open(&real, s, &error) &&
            plan_model_open(&model, s->policy.model_name, s->policy.hf_config_overrides, &error) &&
            trainer_open_plan(&planned, s, &world, &model.architecture, &model.parameters, &error));
    Ledger *run = &real.ops.device.ledger, *plan = &planned.ops.device.ledger;
    assert_memory_equal(run->live, plan->live, sizeof run->live);
    assert_memory_equal(run->tag_peak, plan->tag_peak, sizeof run->tag_peak);
    run->record = plan->record = true;
    require(grpo_train(&real, &error));
    run_plan(&planned, &real, s);
    compare_events(run, plan, what);
    // Not only what lies there, but also what is done with it; but real prompts share their first pages.
    for (int phase = PHASE_LOGPROB; phase < PHASE_VALIDATE; phase++)
        assert_int_equal(real.ops.work[phase].flops, planned.ops.work[phase].flops);
    trainer_close(&real);
    trainer_close(&planned);
    plan_model_close(&model);
}

static void test_precisions_and_output_dtypes(void **state) {
    (void)state;
    static const char *const dtypes[] = {"float32", "bfloat16", "float16"};
    for (int c = 0; c < 3; c++)
        for (int o = 0; o < 3; o++) {
            char *precision = arena_format(&arena, "policy.precision=%s", dtypes[c]);
            char *output = arena_format(&arena, "policy.automodel_cfg.fsdp_output_dtype=%s", dtypes[o]);
            check_events(SETTINGS("llama", precision, output), arena_format(&arena, "%s %s", dtypes[c], dtypes[o]));
        }
}

static void test_choices(void **state) {
    (void)state;
    static const struct {
        const char *model;
        char *overrides[5];
    } cases[] = {
        {"llama", {"policy.automodel_cfg.activation_checkpointing=true"}},
        {"llama", {"policy.automodel_cfg.activation_checkpointing=selective", "policy.precision=bfloat16"}},
        {"llama", {"policy.logprob_chunk_size=5"}},
        {"llama", {"policy.logprob_chunk_size=500", "policy.precision=bfloat16"}},
        {"llama", {"policy.sequence_packing.enabled=true", "policy.sequence_packing.train_mb_tokens=100"}},
        {"llama",
         {"policy.sequence_packing.enabled=true", "policy.sequence_packing.train_mb_tokens=96",
          "policy.sequence_packing.algorithm=first_fit_shuffle"}},
        {"llama", {"policy.dynamic_batching.enabled=true", "policy.dynamic_batching.train_mb_tokens=128"}},
        {"llama", {"loss_fn.reference_policy_kl_penalty=0"}},
        {"llama", {"policy.train_global_batch_size=16", "policy.train_micro_batch_size=16"}},
        {"llama", {"whet.kv_cache_tokens=128", "whet.max_sequences=3"}},
        {"llama", {"policy.generation.top_p=0.9"}},
        {"llama", {"grpo.val_at_start=false", "whet.threads=1"}},
        {"qwen3", {"policy.precision=bfloat16"}},
        {"qwen3", {"policy.automodel_cfg.activation_checkpointing=true"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_events(settings(cases[i].model, cases[i].overrides), cases[i].overrides[0]);
}

static const char sft_recipe[] =
    "sft: {max_num_steps: 2, max_num_epochs: 100, val_period: 1, val_at_start: true, val_batches: 1, "
    "val_global_batch_size: 4, val_micro_batch_size: 2}\n"
    "policy:\n"
    "  precision: bfloat16\n"
    "  train_global_batch_size: 6\n"
    "  train_micro_batch_size: 2\n"
    "  max_total_sequence_length: 96\n"
    "  sequence_packing: {enabled: false}\n"
    "checkpointing: {enabled: false}\n"
    "data:\n"
    "  add_generation_prompt: true\n"
    "  train: {dataset_name: arithmetic, left: [20, 60], right: [1, 9], split_validation_size: 5}\n";

// Conversations of one shape: the answers have two digits.
static void test_supervised(void **state) {
    (void)state;
    char *overrides[] = {arena_format(&arena, "policy.model_name=%s", path("llama")),
                         arena_format(&arena, "logger.log_dir=%s", path("run_sft"))};
    Settings *s;
    require(file_write(path("sft.yaml"), sft_recipe, strlen(sft_recipe), &error));
    require(settings_load(&s, &arena, path("sft.yaml"), 2, overrides, &error));
    Trainer real, planned;
    PlanModel model;
    Comm world = comm_pretend(0, 1);
    Supervision read;
    require(trainer_open(&real, s, &error) && supervision_read(&read, &real, false, 0, 6, &arena, &error));
    int64_t length = read.batch.offset[1], learned = 0, tokens[6];
    for (int64_t i = 0; i < length; i++) learned += read.batch.mask[i] != 0;
    for (int b = 0; b < 6; b++) {
        assert_int_equal(read.batch.offset[b + 1], (b + 1) * length);
        tokens[b] = length - learned;
    }
    Settings lengths = *s;
    lengths.generation.max_new_tokens = learned;
    PlanOptions options = {.ranks = 1};
    require(plan_model_open(&model, s->policy.model_name, NULL, &error) &&
            trainer_open_plan(&planned, &lengths, &world, &model.architecture, &model.parameters, &error));
    Ledger *run = &real.ops.device.ledger, *plan = &planned.ops.device.ledger;
    run->record = plan->record = true;
    require(sft_train(&real, &error));
    require(plan_validation(&planned, &options, tokens[0], &error));
    for (int step = 1; step <= STEPS; step++)
        require(plan_step(&planned, &options, tokens, step, &error) &&
                plan_validation(&planned, &options, tokens[0], &error));
    compare_events(run, plan, "sft");
    trainer_close(&real);
    trainer_close(&planned);
    plan_model_close(&model);
}

// The whole of `whet plan` says what the second step of the same run says, and the shorter way says the same.
static void test_peaks(void **state) {
    (void)state;
    Settings *s = SETTINGS("llama", "policy.precision=bfloat16");
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
    assert_int_equal(plan.work[PHASE_BACKWARD].flops, 2 * quick.work[PHASE_BACKWARD].flops); // one of two updates
    // Forward is 2 operations for each weight of a block and token, and attention; masters, moments and gradients are AdamW's.
    uint64_t total = (uint64_t)plan.parameters;
    assert_in_range(plan.peak.by_tag[MEMORY_OPTIMIZER], 8 * total, 8 * total + 65536);
    // Two updates: the norm reads gradients twice, AdamW reads four numbers and writes three.
    assert_in_range(plan.work[PHASE_OPTIMIZER].bytes, 2 * 36 * total, 2 * (36 * total + 65536));
    assert_int_equal(plan.update_phase, PHASE_BACKWARD);
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

// What is said to fit does, one more does not; a setting saves what it is said to save.
static void test_fit(void **state) {
    (void)state;
    char *overrides[] = {arena_format(&arena, "policy.model_name=%s", path("llama")), "policy.precision=bfloat16"};
    PlanOptions options = {.ranks = 1};
    PlanArm arm = {.label = "", .overrides = overrides, .override_count = 2};
    arm.settings = SETTINGS("llama", "policy.precision=bfloat16");
    require(plan_make(&arm.plan, arm.settings, &options, &error));
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_precisions_and_output_dtypes),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_supervised),
        cmocka_unit_test(test_peaks),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_models),
        cmocka_unit_test(test_machines),
        cmocka_unit_test(test_fit),
    };
    return cmocka_run_group_tests_name("plan", tests, setup, teardown);
}
