// Advantages: golden values, small groups, equal rewards, samples left out, clips.
// The cases computed by NeMo-RL are in tests/data/advantage (tests/fixtures/check_advantage.c).
#include "train/advantage.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 64 };

static AdvantageOptions grpo(bool leave_one_out, bool normalize) {
    return (AdvantageOptions){"grpo", normalize, leave_one_out, -INFINITY, INFINITY};
}

// One group, every sample valid.
static int64_t advantages(float *advantage, const float *reward, int64_t count, AdvantageOptions options) {
    float valid[MANY];
    int32_t group[MANY] = {0};
    for (int i = 0; i < MANY; i++) valid[i] = 1;
    return advantage_grpo(advantage, reward, valid, group, count, &options);
}

static void near_to(double found, double expected, double tolerance) {
    if (!(fabs(found - expected) <= tolerance)) fail_msg("%.17g is not %.17g +- %g", found, expected, tolerance);
}

static void test_binary_rewards_have_their_golden_values(void **state) {
    (void)state;
    const struct {
        int count, winners;
        double loo_winner, loo_loser, plain_winner, plain_loser;
    } cases[] = {
        {2, 1, 1, -1, 0.707106, -0.707106}, // leave-one-out leaves one: no spread
        {4, 1, 1, -0.577349, 1.499997, -0.499999},
        {4, 2, 1.154699, -1.154699, 0.866024, -0.866024},
        {4, 3, 0.577349, -1, 0.499999, -1.499997},
        {16, 1, 1, -0.258198, 3.749985, -0.249999},
        {16, 8, 1.032794, -1.032794, 0.968244, -0.968244},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float reward[MANY] = {0}, advantage[MANY];
        for (int j = 0; j < cases[i].winners; j++) reward[j] = 1;
        int last = cases[i].count - 1;
        assert_int_equal(advantages(advantage, reward, cases[i].count, grpo(true, true)), 0);
        near_to(advantage[0], cases[i].loo_winner, 1e-6);
        near_to(advantage[last], cases[i].loo_loser, 1e-6);
        assert_int_equal(advantages(advantage, reward, cases[i].count, grpo(false, true)), 0);
        near_to(advantage[0], cases[i].plain_winner, 1e-6);
        near_to(advantage[last], cases[i].plain_loser, 1e-6);
    }
    float reward[] = {1, 0, 0, 0}, advantage[4];
    advantages(advantage, reward, 4, grpo(true, false));
    near_to(advantage[0], 1, 0);
    near_to(advantage[1], -1.0 / 3, 1e-7);
}

static void test_equal_rewards_give_exactly_zero(void **state) {
    (void)state;
    const float values[] = {0.7f, 0.1f, 0.3f, 0.35f, 1e-30f, 1e30f, -0.9f, 0};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
        for (int count = 1; count <= MANY; count++) {
            float reward[MANY], advantage[MANY];
            for (int i = 0; i < count; i++) reward[i] = values[v];
            for (int variant = 0; variant < 4; variant++) {
                assert_int_equal(advantages(advantage, reward, count, grpo(variant & 1, variant & 2)), 1);
                for (int i = 0; i < count; i++) assert_true(advantage[i] == 0);
            }
        }
}

static void test_one_winner_among_equals_is_not_blown_up(void **state) {
    (void)state;
    float reward[] = {0.35f, 0.35f, 0.35f, 0.35f, 0.35f, 0.35f, 0.35f, 1}, advantage[8];
    assert_int_equal(advantages(advantage, reward, 8, grpo(true, true)), 0);
    near_to(advantage[7], 0.65, 1e-7); // the others have no spread: raw
    for (int i = 0; i < 7; i++) assert_true(advantage[i] < 0 && advantage[i] > -1);
}

static void test_groups_may_have_any_size_and_order(void **state) {
    (void)state;
    float reward[] = {3, 1, 0, 1, 0, 5}, valid[] = {1, 1, 1, 1, 1, 1}, advantage[6];
    int32_t group[] = {9, -4, -4, 9, -4, 100};
    AdvantageOptions options = grpo(false, false);
    assert_int_equal(advantage_grpo(advantage, reward, valid, group, 6, &options), 1); // the group of one
    const double expected[] = {1, 2.0 / 3, -1.0 / 3, -1, -1.0 / 3, 0};
    for (int i = 0; i < 6; i++) near_to(advantage[i], expected[i], 1e-7);
    assert_int_equal(advantage_grpo(advantage, reward, valid, group, 0, &options), 0);
}

static void test_samples_left_out_take_part_in_nothing(void **state) {
    (void)state;
    float reward[] = {1, 0, NAN, 0}, valid[] = {1, 1, 0, 1}, advantage[4];
    int32_t group[4] = {0};
    AdvantageOptions options = grpo(true, false);
    assert_int_equal(advantage_grpo(advantage, reward, valid, group, 4, &options), 0);
    const double expected[] = {1, -0.5, 0, -0.5};
    for (int i = 0; i < 4; i++) near_to(advantage[i], expected[i], 0);
    // One or none left: nothing to compare with.
    for (int left = 1; left >= 0; left--) {
        float few[] = {(float)left, 0, 0, 0};
        assert_int_equal(advantage_grpo(advantage, reward, few, group, 4, &options), 1);
        for (int i = 0; i < 4; i++) assert_true(advantage[i] == 0);
    }
}

static void test_baseline_and_spread_match_their_definition(void **state) {
    (void)state;
    float reward[] = {0.25f, -1.5f, 2, 0.75f, 3.5f}, valid[] = {1, 1, 1, 1, 1}, baseline[5], spread[5];
    int32_t group[5] = {0};
    for (int leave_one_out = 0; leave_one_out < 2; leave_one_out++) {
        advantage_baseline(baseline, spread, reward, valid, group, 5, leave_one_out);
        for (int i = 0; i < 5; i++) {
            double mean = 0, squares = 0, n = leave_one_out ? 4 : 5;
            for (int j = 0; j < 5; j++) mean += leave_one_out && i == j ? 0 : reward[j] / n;
            for (int j = 0; j < 5; j++)
                squares += leave_one_out && i == j ? 0 : (reward[j] - mean) * (reward[j] - mean);
            near_to(baseline[i], mean, 1e-7);
            near_to(spread[i], sqrt(squares / (n - 1)), 1e-7);
        }
    }
}

static void test_advantages_are_clipped_after_normalisation(void **state) {
    (void)state;
    float reward[] = {1, 0, 0, 0}, advantage[4];
    AdvantageOptions options = grpo(false, true);
    options.advantage_clip_low = -0.25;
    options.advantage_clip_high = 1.25;
    advantages(advantage, reward, 4, options);
    assert_true(advantage[0] == 1.25f && advantage[1] == -0.25f);
}

static void test_options_that_cannot_be_obeyed_are_refused(void **state) {
    (void)state;
    Error error;
    AdvantageOptions options = grpo(true, true);
    assert_true(advantage_options_check(&options, &error));
    const char *names[] = {"gae", "reinforce_plus_plus", "grop", NULL};
    for (int i = 0; i < 4; i++) {
        options.name = names[i];
        assert_false(advantage_options_check(&options, &error));
        assert_non_null(strstr(error.text, "grpo.adv_estimator.name"));
        assert_non_null(strstr(error.text, names[i] ? names[i] : "null"));
    }
    options = grpo(true, true);
    options.advantage_clip_low = 2, options.advantage_clip_high = 1;
    assert_false(advantage_options_check(&options, &error));
    assert_non_null(strstr(error.text, "advantage_clip_low: 2"));
    options.advantage_clip_high = NAN;
    assert_false(advantage_options_check(&options, &error));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binary_rewards_have_their_golden_values),
        cmocka_unit_test(test_equal_rewards_give_exactly_zero),
        cmocka_unit_test(test_one_winner_among_equals_is_not_blown_up),
        cmocka_unit_test(test_groups_may_have_any_size_and_order),
        cmocka_unit_test(test_samples_left_out_take_part_in_nothing),
        cmocka_unit_test(test_baseline_and_spread_match_their_definition),
        cmocka_unit_test(test_advantages_are_clipped_after_normalisation),
        cmocka_unit_test(test_options_that_cannot_be_obeyed_are_refused),
    };
    return cmocka_run_group_tests_name("advantage", tests, NULL, NULL);
}
