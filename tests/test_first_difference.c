// Where two runs part: the tensor that is named is the one that it must be by docs/numbers.md.
#include "base/file.h"
#include "base/jsonio.h"
#include "run/first_difference.h"
#include "support/run_setup.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const names[] = {"one", "other"};

static const char recipe[] =
    "grpo: {num_prompts_per_step: 2, num_generations_per_prompt: 4, max_num_steps: 50, max_num_epochs: 1000,\n"
    "       val_period: 1, val_at_start: true, max_val_samples: 5, val_batch_size: 5}\n"
    "policy:\n"
    "  precision: bfloat16\n"
    "  train_global_batch_size: 8\n"
    "  max_total_sequence_length: 96\n"
    "  generation: {max_new_tokens: 12}\n"
    "  optimizer: {kwargs: {lr: 1.0e-3}}\n"
    "data:\n"
    "  train: {dataset_name: arithmetic, left: [0, 9], right: [0, 9], split_validation_size: 5}\n"
    "  default: {env_name: last_integer}\n";

static int setup(void **state) {
    (void)state;
    return run_setup_open("first-difference", recipe);
}

static Settings *settings(const char *override, int number) {
    char *all[] = {arena_format(&run_arena, "policy.model_name=%s", run_path("model")),
                   arena_format(&run_arena, "logger.log_dir=%s", run_path(arena_format(&run_arena, "%d", number))),
                   arena_string(&run_arena, override)};
    Settings *s;
    if (!settings_load(&s, &run_arena, run_path("recipe.yaml"), 3, all, &run_error)) fail_msg("%s", run_error.text);
    return s;
}

static FirstDifference between(const char *one, const char *other, int64_t steps) {
    FirstDifference d;
    int stop = 0;
    if (!first_difference_find(&d, settings(one, 1), settings(other, 2), steps, &stop, &run_error))
        fail_msg("%s", run_error.text);
    assert_false(file_exists(run_path("1/val_data_step0.jsonl"))); // nothing but the steps
    return d;
}

static void expect(const FirstDifference *d, int64_t step, MemoryPhase phase, bool root, const char *operation) {
    assert_true(d->found);
    assert_int_equal(d->record.step, step);
    assert_string_equal(ledger_phase_name(d->record.phase), ledger_phase_name(phase));
    assert_int_equal(d->record.unit == d->root, root);
    assert_string_equal(d->record.operation, operation);
    assert_true(d->elements > 0 && d->elements <= d->record.rows * d->record.columns);
    assert_true(d->farthest > 0 && d->farthest_units > 0 && d->values[0] != d->values[1]);
    assert_true(d->farthest >= fabs(d->values[0] - d->values[1]));
    assert_true(d->equal > 0);
}

// bfloat16 blocks see nothing of bfloat16 outputs: the final norm does. float16 outputs are rounded twice on the way in.
static void test_output_dtype(void **state) {
    (void)state;
    const char *float32 = "policy.automodel_cfg.fsdp_output_dtype=float32";
    FirstDifference d = between(float32, "policy.automodel_cfg.fsdp_output_dtype=bfloat16", 1);
    expect(&d, 1, PHASE_ROLLOUT, true, "rms_norm_forward");
    assert_int_equal(d.record.dtype, DTYPE_BF16);
    assert_int_equal(d.cast[0].dtype, DTYPE_F32);
    assert_int_equal(d.cast[1].dtype, DTYPE_BF16);
    assert_string_equal(d.cast[0].operation, "rows_add");
    assert_int_equal(d.cast[0].unit, 0);
    d = between(float32, "policy.automodel_cfg.fsdp_output_dtype=float16", 1);
    expect(&d, 1, PHASE_ROLLOUT, false, "rows_cast");
    assert_int_equal(d.record.unit, 1);
    assert_int_equal(d.farthest_units, 1);
    d = between("policy.precision=float32", "policy.precision=bfloat16", 1); // everything is in another dtype
    assert_true(d.other_dtype > 0);
}

static void test_optimizer_and_schedule(void **state) {
    (void)state;
    FirstDifference d = between("policy.optimizer.kwargs.lr=1e-3", "policy.optimizer.kwargs.lr=2e-3", 3);
    expect(&d, 1, PHASE_OPTIMIZER, false, "adamw_update");
    assert_int_equal(d.record.unit, 0);
    assert_int_equal(d.record.dtype, DTYPE_F32);
    const char *schedule = "policy.scheduler=[{name:torch.optim.lr_scheduler.LinearLR,kwargs:{start_factor:0.5,end_"
                           "factor:%s,total_iters:2}}]";
    char slow[256], fast[256];
    snprintf(slow, sizeof slow, "%.*s0.5%s", (int)(strstr(schedule, "%s") - schedule), schedule,
             strstr(schedule, "%s") + 2);
    snprintf(fast, sizeof fast, "%.*s1.0%s", (int)(strstr(schedule, "%s") - schedule), schedule,
             strstr(schedule, "%s") + 2);
    d = between(slow, fast, 3); // alike in the first step
    expect(&d, 2, PHASE_OPTIMIZER, false, "adamw_update");
}

static void test_what_changes_no_bit(void **state) {
    (void)state;
    FirstDifference d = between("whet.threads=1", "whet.threads=3", 2);
    assert_false(d.found);
    assert_int_equal(d.alone + d.other_dtype, 0);
    assert_true(d.equal > 100);
    StrBuf text = {0};
    first_difference_text(&text, &d, names);
    assert_non_null(strstr(text.text, "No tensor differs"));
    strbuf_close(&text);
}

static void test_what_is_told(void **state) {
    (void)state;
    FirstDifference d = {.found = true,
                         .record = {.operation = "rows_add",
                                    .step = 3,
                                    .phase = PHASE_FORWARD,
                                    .unit = 4,
                                    .dtype = DTYPE_BF16,
                                    .rows = 2,
                                    .columns = 5},
                         .equal = 7,
                         .elements = 1,
                         .farthest = 0.5,
                         .farthest_units = 1,
                         .row = 1,
                         .column = 2,
                         .values = {1, 1.5},
                         .root = 4};
    StrBuf text = {0};
    first_difference_text(&text, &d, names);
    assert_string_equal(
        text.text,
        "The first tensor whose bits differ: step 3, phase forward, root unit, rows_add, [2, 5] in bfloat16.\n"
        "1 of 10 elements differ, by at most 0.5 (1 unit in the last place); the first, in row 1 and column 2, is 1 "
        "with one and 1.5 with other.\n"
        "7 tensors before it agree to the bit.\n");
    strbuf_close(&text);
    json_t *all = first_difference_json(&d, names);
    assert_string_equal(json_string_value(json_object_get(json_object_get(all, "tensor"), "unit")), "root");
    assert_int_equal(json_integer_value(json_object_get(all, "differing")), 1);
    json_decref(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_output_dtype),
        cmocka_unit_test(test_optimizer_and_schedule),
        cmocka_unit_test(test_what_changes_no_bit),
        cmocka_unit_test(test_what_is_told),
    };
    return cmocka_run_group_tests(tests, setup, run_setup_close);
}
