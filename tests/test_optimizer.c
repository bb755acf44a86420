// Learning-rate schedules and clipping. torch's own tables and traces are in tests/data/optim
// (tests/fixtures/check_optim.c, which also runs the AdamW update).
#include "train/optimizer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void near_to(double found, double expected, double relative) {
    if (!(fabs(found - expected) <= relative * fabs(expected))) fail_msg("%.17g is not %.17g", found, expected);
}

static ScheduleOptions recipe(void) { // of grpo_math_1B.yaml
    return (ScheduleOptions){
        .part_count = 2,
        .parts = {{SCHEDULE_LINEAR, 0.1, 1, 50, 0}, {SCHEDULE_CONSTANT, 1, 0, 1e10, 0}},
        .milestones = {50},
    };
}

static void test_recipe_warms_up_over_fifty_steps(void **state) {
    (void)state;
    ScheduleOptions schedule = recipe();
    const struct {
        int64_t step; // counted from 1
        double rate;
    } cases[] = {{1, 5e-7}, {2, 5.9e-7}, {26, 2.75e-6}, {50, 4.91e-6}, {51, 5e-6}, {52, 5e-6}, {1000000, 5e-6}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        near_to(optimizer_learning_rate(&schedule, 5e-6, cases[i].step - 1), cases[i].rate, 1e-14);
    schedule.part_count = 0;
    near_to(optimizer_learning_rate(&schedule, 5e-6, 7), 5e-6, 0);
}

static void test_each_part_counts_from_its_milestone(void **state) {
    (void)state;
    ScheduleOptions schedule = {
        .part_count = 3,
        .parts = {{SCHEDULE_CONSTANT, 0.5, 0, 2, 0}, {SCHEDULE_LINEAR, 1, 0, 4, 0}, {SCHEDULE_COSINE, 0, 0, 4, 0.2}},
        .milestones = {3, 8},
    };
    Error error;
    assert_true(optimizer_schedule_check(&schedule, &error));
    const double expected[] = {0.5, 0.5, 1, 1, 0.75, 0.5, 0.25, 0, 1, 0, 0.6, 0, 0.2, 0, 0.6, 0, 1};
    for (int i = 0; i < 17; i++)
        if (i < 8 || i % 2 == 0) near_to(optimizer_learning_rate(&schedule, 1, i), expected[i], 1e-15);
    near_to(optimizer_learning_rate(&schedule, 1, 9), 0.2 + 0.4 * (1 + sqrt(0.5)), 1e-15);
}

static void test_cosine_follows_the_cosine(void **state) {
    (void)state;
    ScheduleOptions schedule = {.part_count = 1, .parts = {{SCHEDULE_COSINE, 0, 0, 937, 0}}};
    for (int i = 0; i < 3000; i++) {
        double expected = 3e-4 * (1 + cos(acos(-1) * i / 937)) / 2;
        double found = optimizer_learning_rate(&schedule, 3e-4, i);
        if (!(fabs(found - expected) <= 3e-4 * 2e-15)) fail_msg("step %d: %.17g is not %.17g", i, found, expected);
    }
    assert_true(optimizer_learning_rate(&schedule, 3e-4, 937) == 0);
    near_to(optimizer_learning_rate(&schedule, 3e-4, 0), 3e-4, 1e-15);
}

static void test_clip_factor(void **state) {
    (void)state;
    near_to(optimizer_clip_factor(4, 1), 1 / (4 + 1e-6), 1e-16);
    assert_true(optimizer_clip_factor(0.5, 1) == 1);
    assert_true(optimizer_clip_factor(0, 1) == 1);
    assert_true(optimizer_clip_factor(1e30, 0) == 1);
    assert_true(optimizer_clip_factor(INFINITY, 1) == 0);
    assert_true(isnan(optimizer_clip_factor(NAN, 1)));
}

static void refused(const ScheduleOptions *schedule, const char *words) {
    Error error = {.text = ""};
    assert_false(optimizer_schedule_check(schedule, &error));
    if (!strstr(error.text, words)) fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void test_schedules_that_cannot_be_obeyed_are_refused(void **state) {
    (void)state;
    ScheduleOptions schedule = recipe();
    Error error;
    assert_true(optimizer_schedule_check(&schedule, &error));
    schedule.milestones[0] = 0;
    refused(&schedule, "milestone 0: expected one above 0");
    schedule = recipe();
    schedule.parts[0].total_iters = 0;
    refused(&schedule, "policy.scheduler[0].kwargs.total_iters: 0");
    schedule.parts[0].total_iters = NAN;
    refused(&schedule, "total_iters");
    schedule = recipe();
    schedule.parts[0].start_factor = 0;
    refused(&schedule, "policy.scheduler[0].kwargs.start_factor: 0");
    schedule = recipe();
    schedule.parts[1].start_factor = 1.5;
    refused(&schedule, "policy.scheduler[1].kwargs.factor: 1.5");
    schedule.parts[1] = (SchedulePart){SCHEDULE_COSINE, 0, 0, 0, 0};
    refused(&schedule, "policy.scheduler[1].kwargs.T_max: 0");
    schedule.part_count = SCHEDULE_MAX_PARTS + 1;
    refused(&schedule, "9 schedulers");
}

static void test_optimizers_that_cannot_be_obeyed_are_refused(void **state) {
    (void)state;
    const OptimizerOptions good = {"torch.optim.AdamW", 5e-6, 0.01, 0.9, 0.999, 1e-8, 1, false};
    Error error;
    assert_true(optimizer_options_check(&good, &error));
    OptimizerOptions bad = good;
    bad.name = "torch.optim.SGD";
    assert_false(optimizer_options_check(&bad, &error));
    assert_non_null(strstr(error.text, "policy.optimizer.name: \"torch.optim.SGD\""));
    bad = good;
    bad.beta2 = 1;
    assert_false(optimizer_options_check(&bad, &error));
    assert_non_null(strstr(error.text, "policy.optimizer.kwargs.betas[1]: 1"));
    bad = good;
    bad.lr = NAN;
    assert_false(optimizer_options_check(&bad, &error));
    bad = good;
    bad.max_grad_norm = -1;
    assert_false(optimizer_options_check(&bad, &error));
    assert_non_null(strstr(error.text, "policy.max_grad_norm: -1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recipe_warms_up_over_fifty_steps),
        cmocka_unit_test(test_each_part_counts_from_its_milestone),
        cmocka_unit_test(test_cosine_follows_the_cosine),
        cmocka_unit_test(test_clip_factor),
        cmocka_unit_test(test_schedules_that_cannot_be_obeyed_are_refused),
        cmocka_unit_test(test_optimizers_that_cannot_be_obeyed_are_refused),
    };
    return cmocka_run_group_tests_name("optimizer", tests, NULL, NULL);
}
