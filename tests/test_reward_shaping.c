// Rewards before they become advantages: scaling, the soft penalty of long answers, the factor of those cut off, refusals.
#include "train/reward_shaping.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const float all[] = {1, 1, 1, 1, 1, 1};

static RewardShaping overlong(int64_t most, int64_t buffer, double penalty) {
    return (RewardShaping){.enabled = true,
                           .overlong_buffer_length = buffer,
                           .max_response_length = most,
                           .overlong_buffer_penalty = penalty,
                           .stop_properly_penalty_coef = NAN};
}

static void test_scaling_clamps_and_maps(void **state) {
    (void)state;
    RewardScaling options = {.enabled = true, .source_min = 0, .source_max = 2, .target_min = -1, .target_max = 1};
    float reward[] = {0, 1, 2, 5, -3, NAN};
    const float valid[] = {1, 1, 1, 1, 1, 0}, expected[] = {-1, 0, 1, 1, -1};
    assert_int_equal(reward_shaping_scale(reward, valid, 6, &options), 2);
    assert_memory_equal(reward, expected, sizeof expected);
    assert_true(isnan(reward[5])); // it could not be scored, and stays so
    options.enabled = false;
    assert_int_equal(reward_shaping_scale(reward, valid, 6, &options), 0);
    assert_memory_equal(reward, expected, sizeof expected);
}

static void test_long_answers_lose_reward_softly(void **state) {
    (void)state;
    const RewardShaping options = overlong(100, 20, 0.5);
    const int64_t tokens[] = {1, 80, 81, 90, 100, 140};
    const bool cut[6] = {0};
    float reward[] = {1, 1, 1, 1, 1, 1};
    const double expected[] = {1, 1, 1 - 0.5 / 20, 0.75, 0.5, -0.5}; // without a lower bound
    reward_shaping_apply(reward, all, tokens, cut, 6, &options);
    for (int i = 0; i < 6; i++) assert_true(fabs((double)reward[i] - expected[i]) < 1e-7);
}

static void test_answers_cut_off_lose_reward_by_a_factor(void **state) {
    (void)state;
    RewardShaping options = overlong(100, 20, 0.5);
    options.stop_properly_penalty_coef = 0.25;
    const int64_t tokens[] = {1, 1, 100, 100};
    const bool cut[] = {false, true, true, false};
    float reward[] = {1, 1, -1, 1};
    const float expected[] = {1, 0.25f, -0.25f, 1}; // the penalty by length is not looked at
    reward_shaping_apply(reward, all, tokens, cut, 4, &options);
    assert_memory_equal(reward, expected, sizeof expected);
}

static void refused(const RewardShaping *options, const char *words) {
    Error error = {.text = ""};
    assert_false(reward_shaping_check(options, &error));
    if (!strstr(error.text, words)) fail_msg("\"%s\" does not name \"%s\"", error.text, words);
}

static void test_refusals(void **state) {
    (void)state;
    Error error;
    RewardShaping options = overlong(100, 20, 1);
    assert_true(reward_shaping_check(&options, &error));
    options.overlong_buffer_length = 0;
    refused(&options, "overlong_buffer_length: 0");
    options.overlong_buffer_length = 101;
    refused(&options, "overlong_buffer_length: 101");
    options.overlong_buffer_length = -1;
    refused(&options, "overlong_buffer_length: null");
    options = overlong(100, 20, -1);
    refused(&options, "overlong_buffer_penalty: -1");
    options.overlong_buffer_penalty = NAN;
    refused(&options, "overlong_buffer_penalty: null");
    options.stop_properly_penalty_coef = 0;
    assert_true(reward_shaping_check(&options, &error));
    options.stop_properly_penalty_coef = 1.5;
    refused(&options, "stop_properly_penalty_coef: 1.5");
    options.enabled = false;
    assert_true(reward_shaping_check(&options, &error));
    RewardScaling scaling = {.enabled = true, .source_min = 1, .source_max = 1};
    assert_false(reward_shaping_check_scaling(&scaling, &error));
    assert_non_null(strstr(error.text, "grpo.reward_scaling.source_min: 1"));
    scaling.enabled = false;
    assert_true(reward_shaping_check_scaling(&scaling, &error));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scaling_clamps_and_maps),
        cmocka_unit_test(test_long_answers_lose_reward_softly),
        cmocka_unit_test(test_answers_cut_off_lose_reward_by_a_factor),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("reward_shaping", tests, NULL, NULL);
}
