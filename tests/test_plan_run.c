// Plan = run: the planned step of a rank makes the allocations of the real one, event by event, and sends as many bytes.
// ranks: 2 4
#include "base/file.h"
#include "base/log.h"
#include "run/grpo.h"
#include "run/plan.h"
#include "run/sft.h"
#include "run/supervision.h"
#include "support/ranked_test.h"
#include "support/toy_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static Comm world;
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
    "  generation: {max_new_tokens: 12, ignore_eos: true, vllm_cfg: {enable_prefix_caching: false}}\n"
    "  optimizer: {kwargs: {lr: 1.0e-3}}\n"
    "checkpointing: {enabled: false}\n"
    "data:\n"
    "  train: {dataset_name: arithmetic, left: [0, 900], right: [0, 12], split_validation_size: 5}\n"
    "  default: {env_name: last_integer}\n";

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

static bool write_files(void) {
    return toy_model_write(path("llama"), MODEL_LLAMA, 1, &error) &&
           toy_model_write(path("qwen3"), MODEL_QWEN3, 1, &error) &&
           file_write(path("recipe.yaml"), recipe, strlen(recipe), &error) &&
           file_write(path("sft.yaml"), sft_recipe, strlen(sft_recipe), &error);
}

static int setup(void **state) {
    (void)state;
    log_set_level(LOG_QUIET);
    int pid = (int)getpid();
    comm_broadcast(&world, &pid, sizeof pid, 0);
    snprintf(folder, sizeof folder, "/tmp/whet-plan-run-%d", pid);
    bool good = world.rank || write_files();
    return comm_agree(&world, good, &error) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    bool removed = world.rank || file_remove_tree(folder, &error);
    comm_agree(&world, removed, &error);
    arena_close(&arena);
    return 0;
}

// ---- plan = run

static void run_plan(Trainer *planned, const Trainer *real, const Settings *s) {
    static const PlanOptions options = {0};
    EngineRequest *asked;
    int64_t questions[8], total = plan_validation_questions(s, &options);
    require(task_validation_requests(&real->task, &asked, 0, total, 1, &arena, &error));
    for (int64_t q = 0; q < total; q++) questions[q] = asked[q].count;
    trainer_refit(planned);
    if (s->run.val_at_start) require(plan_validation(planned, &options, questions, &error));
    for (int64_t step = 1; step <= STEPS; step++) {
        int64_t tokens[8], count = real->task.prompts_per_batch;
        EngineRequest *requests;
        require(task_train_requests(&real->task, &requests, (step - 1) * count, 0, 4, &arena, &error));
        for (int64_t p = 0; p < count; p++) tokens[p] = requests[p].count;
        require(plan_step(planned, &options, tokens, step, &error));
        if (step % s->run.val_period == 0) require(plan_validation(planned, &options, questions, &error));
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
    Comm pretended = comm_pretend(world.rank, world.size);
    require(trainer_open_ranks(&real, s, &world, &error) &&
            plan_model_open(&model, s->policy.model_name, s->policy.hf_config_overrides, &error) &&
            trainer_open_plan(&planned, s, &pretended, &model.architecture, &model.parameters, &error));
    Ledger *run = &real.ops.device.ledger, *plan = &planned.ops.device.ledger;
    assert_memory_equal(run->live, plan->live, sizeof run->live);
    assert_memory_equal(run->tag_peak, plan->tag_peak, sizeof run->tag_peak);
    run->record = plan->record = true;
    require(grpo_train(&real, &error));
    run_plan(&planned, &real, s);
    compare_events(run, plan, what);
    // Not only what lies there, but also what is done with it. Who is idle first samples what waits: that is not planned.
    for (int phase = PHASE_ROLLOUT; phase < PHASE_CHECKPOINT; phase++)
        if (world.size == 1 || (phase != PHASE_ROLLOUT && phase != PHASE_VALIDATE))
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
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool filters = strstr(cases[i].overrides[0], "top_p"); // which need whole rows of logits
        if (!filters || world.size == 1)
            check_events(settings(cases[i].model, cases[i].overrides), cases[i].overrides[0]);
    }
}

#define TENSOR "policy.automodel_cfg.tensor_parallel_size=2"
#define ROWS "policy.automodel_cfg.sequence_parallel=true"
#define SAMPLING "policy.generation.vllm_cfg.tensor_parallel_size=2"

// Ranks that share the model, in training, in sampling, in both.
static void test_tensor_parallel(void **state) {
    (void)state;
    static char *const cases[][5] = {
        {TENSOR, SAMPLING},
        {TENSOR, SAMPLING, "policy.precision=bfloat16", "policy.automodel_cfg.activation_checkpointing=true"},
        {TENSOR, SAMPLING, "policy.precision=bfloat16", "policy.logprob_chunk_size=5"},
        {TENSOR, "policy.precision=bfloat16", "policy.automodel_cfg.fsdp_output_dtype=bfloat16"},
        {SAMPLING, "policy.sequence_packing.enabled=true", "policy.sequence_packing.train_mb_tokens=100"},
        {TENSOR, ROWS, "policy.precision=float16", "policy.automodel_cfg.activation_checkpointing=selective"},
        {TENSOR, ROWS, "policy.sequence_packing.enabled=true", "policy.sequence_packing.train_mb_tokens=100"},
    };
    if (world.size % 2) skip();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_events(settings(i % 2 ? "qwen3" : "llama", cases[i]), cases[i][2] ? cases[i][2] : TENSOR);
}

// Conversations of one shape: the answers have two digits.
static void test_supervised(void **state) {
    (void)state;
    char *overrides[] = {arena_format(&arena, "policy.model_name=%s", path("llama")),
                         arena_format(&arena, "logger.log_dir=%s", path("run_sft"))};
    Settings *s;
    require(settings_load(&s, &arena, path("sft.yaml"), 2, overrides, &error));
    Trainer real, planned;
    PlanModel model;
    Comm pretended = comm_pretend(world.rank, world.size);
    Supervision read;
    require(trainer_open_ranks(&real, s, &world, &error) &&
            supervision_read(&read, &real, false, 0, 6, &arena, &error));
    int64_t length = read.batch.offset[1], learned = 0, tokens[6];
    for (int64_t i = 0; i < length; i++) learned += read.batch.mask[i] != 0;
    for (int b = 0; b < 6; b++) {
        assert_int_equal(read.batch.offset[b + 1], (b + 1) * length);
        tokens[b] = length - learned;
    }
    Settings lengths = *s;
    lengths.generation.max_new_tokens = learned;
    PlanOptions options = {0};
    require(plan_model_open(&model, s->policy.model_name, NULL, &error) &&
            trainer_open_plan(&planned, &lengths, &pretended, &model.architecture, &model.parameters, &error));
    Ledger *run = &real.ops.device.ledger, *plan = &planned.ops.device.ledger;
    run->record = plan->record = true;
    require(sft_train(&real, &error));
    require(plan_validation(&planned, &options, tokens, &error));
    for (int step = 1; step <= STEPS; step++)
        require(plan_step(&planned, &options, tokens, step, &error) &&
                plan_validation(&planned, &options, tokens, &error));
    compare_events(run, plan, "sft");
    trainer_close(&real);
    trainer_close(&planned);
    plan_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_precisions_and_output_dtypes),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_tensor_parallel),
        cmocka_unit_test(test_supervised),
    };
    if (!ranked_test_open(&world)) return 1;
    int failed = cmocka_run_group_tests_name("plan and run", tests, setup, teardown);
    comm_close_world(&world);
    return failed;
}
