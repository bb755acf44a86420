// Advantages: golden values, small groups, equal rewards, samples left out, clips, whitening, KL in the reward, components.
// The cases computed by NeMo-RL are in tests/data/advantage (tests/fixtures/check_advantage.c).
#include "train/advantage.h"
#include "train/reward_groups.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 64 };

static AdvantageOptions grpo(bool leave_one_out, bool normalize) {
    return (AdvantageOptions){.name = "grpo",
                              .normalize_rewards = normalize,
                              .use_leave_one_out_baseline = leave_one_out,
                              .advantage_clip_low = -INFINITY,
                              .advantage_clip_high = INFINITY};
}

// Samples of one token each. Returns how many groups have equal rewards.
static int64_t estimate(float *advantage, const float *reward, const float *valid, const int32_t *group, int64_t count,
                        AdvantageOptions options) {
    int64_t offset[MANY + 1];
    float mask[MANY];
    Error error;
    LossOptions loss = loss_options_default();
    for (int i = 0; i <= MANY; i++) offset[i] = i;
    for (int i = 0; i < MANY; i++) mask[i] = 1;
    AdvantageInput input =
        {.count = count, .offset = offset, .reward = reward, .valid = valid, .group = group, .mask = mask};
    assert_true(advantage_estimate(advantage, &input, &options, &loss, &error));
    return reward_groups_compare(NULL, reward, valid, group, count).equal;
}

// One group, every sample valid.
static int64_t advantages(float *advantage, const float *reward, int64_t count, AdvantageOptions options) {
    float valid[MANY];
    int32_t group[MANY] = {0};
    for (int i = 0; i < MANY; i++) valid[i] = 1;
    return estimate(advantage, reward, valid, group, count, options);
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
    assert_int_equal(estimate(advantage, reward, valid, group, 6, options), 1); // the group of one
    const double expected[] = {1, 2.0 / 3, -1.0 / 3, -1, -1.0 / 3, 0};
    for (int i = 0; i < 6; i++) near_to(advantage[i], expected[i], 1e-7);
    assert_int_equal(estimate(advantage, reward, valid, group, 0, options), 0);
}

static void test_samples_left_out_take_part_in_nothing(void **state) {
    (void)state;
    float reward[] = {1, 0, NAN, 0}, valid[] = {1, 1, 0, 1}, advantage[4];
    int32_t group[4] = {0};
    AdvantageOptions options = grpo(true, false);
    assert_int_equal(estimate(advantage, reward, valid, group, 4, options), 0);
    const double expected[] = {1, -0.5, 0, -0.5};
    for (int i = 0; i < 4; i++) near_to(advantage[i], expected[i], 0);
    // One or none left: nothing to compare with.
    for (int left = 1; left >= 0; left--) {
        float few[] = {(float)left, 0, 0, 0};
        assert_int_equal(estimate(advantage, reward, few, group, 4, options), 1);
        for (int i = 0; i < 4; i++) assert_true(advantage[i] == 0);
    }
}

static void test_baseline_and_spread_match_their_definition(void **state) {
    (void)state;
    float reward[] = {0.25f, -1.5f, 2, 0.75f, 3.5f}, valid[] = {1, 1, 1, 1, 1}, baseline[5], spread[5];
    int32_t group[5] = {0};
    for (int leave_one_out = 0; leave_one_out < 2; leave_one_out++) {
        reward_groups_baseline(baseline, spread, reward, valid, group, 5, leave_one_out);
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

// ---- estimators over tokens and components

// Three sequences of 3, 2 and 4 tokens; the first token of each is a prompt's. The last sample could not be scored.
static const int64_t offset[] = {0, 3, 5, 9, 11};
static const float rewards[] = {1, 0, 0.5f, NAN}, all_but_last[] = {1, 1, 1, 0},
                   answer[] = {0, 1, 1, 0, 1, 0, 1, 1, 1, 0, 1};
static const int32_t one_group[4] = {0};

static AdvantageInput by_token(void) {
    return (AdvantageInput){.count = 4,
                            .offset = offset,
                            .reward = rewards,
                            .valid = all_but_last,
                            .group = one_group,
                            .mask = answer};
}

static AdvantageOptions named(const char *name) {
    AdvantageOptions options = grpo(false, true);
    options.name = name;
    return options;
}

// Mean 0 and variance 1 over the six answer tokens of the scored samples; prompts are changed alike, the last gets 0.
static void check_white(const float *advantage) {
    double sum = 0, squares = 0;
    for (int t = 0; t < 9; t++)
        if (answer[t] != 0) sum += (double)advantage[t], squares += (double)advantage[t] * (double)advantage[t];
    near_to(sum, 0, 1e-6);
    near_to(squares / 6, 1, 1e-6);
    assert_true(advantage[9] == 0 && advantage[10] == 0);
}

static void test_rewards_are_whitened_over_tokens(void **state) {
    (void)state;
    Error error;
    LossOptions loss = loss_options_default();
    AdvantageInput input = by_token();
    float advantage[11];
    AdvantageOptions options = named("raw_reward");
    assert_true(advantage_estimate(advantage, &input, &options, &loss, &error));
    near_to(advantage[2], 1, 0);
    near_to(advantage[8], 0.5, 0);
    options.normalize_advantages = true;
    assert_true(advantage_estimate(advantage, &input, &options, &loss, &error));
    check_white(advantage);
    near_to(advantage[0], advantage[2], 0);
    options = named("reinforce_plus_plus");
    assert_true(advantage_estimate(advantage, &input, &options, &loss, &error));
    check_white(advantage);
    // Nothing to compare with: the least variance is 1e-8, and nothing blows up.
    const float same[] = {0.7f, 0.7f, 0.7f, 0.7f};
    input.reward = same;
    assert_true(advantage_estimate(advantage, &input, &options, &loss, &error));
    for (int t = 0; t < 11; t++) near_to(advantage[t], 0, 0);
}

static void test_kl_is_taken_off_the_reward(void **state) {
    (void)state;
    Error error;
    LossOptions loss = loss_options_default();
    loss.use_kl_in_reward = true;
    loss.reference_policy_kl_penalty = 0.5;
    loss.reference_policy_kl_type = "k2";
    loss.kl_input_clamp_value = 1;
    float policy[11], reference[11], advantage[11];
    for (int t = 0; t < 11; t++) policy[t] = -1, reference[t] = -1 + (t == 1 ? 1.0f : t == 2 ? 9.0f : 0.0f);
    AdvantageInput input = by_token();
    input.policy = policy, input.reference = reference;
    AdvantageOptions options = named("reinforce_plus_plus");
    assert_true(advantage_needs_reference(&options, &loss));
    assert_true(advantage_estimate(advantage, &input, &options, &loss, &error));
    check_white(advantage);
    near_to(advantage[1], advantage[2], 0); // both clamped to d = 1: 1 - 0.5 · 1/2
    // Rewards of the six tokens: 0.75, 0.75, 0, 0.5, 0.5, 0.5.
    double mean = 3.0 / 6, spread = sqrt((2 * 0.0625 + 0.25) / 6);
    near_to(advantage[1], (0.75 - mean) / spread, 1e-6);
    near_to(advantage[0], (1 - mean) / spread, 1e-6);
    loss.reference_policy_kl_penalty = 0;
    assert_false(advantage_needs_reference(&options, &loss));
    options = grpo(true, true);
    assert_false(advantage_options_check(&options, &loss, &error));
    assert_non_null(strstr(error.text, "loss_fn.use_kl_in_reward"));
}

static void test_components_are_normalized_one_by_one(void **state) {
    (void)state;
    Error error;
    LossOptions loss = loss_options_default();
    const float right[] = {1, 0, 0, NAN}, form[] = {100, 100, 0, NAN};
    const float *components[] = {form, right};
    AdvantageInput input = by_token();
    input.components = components, input.component_count = 1;
    AdvantageOptions options = named("gdpo");
    float advantage[11];
    assert_false(advantage_estimate(advantage, &input, &options, &loss, &error));
    assert_non_null(strstr(error.text, "1 components"));
    input.component_count = 2;
    assert_true(advantage_estimate(advantage, &input, &options, &loss, &error));
    // Winner and loser of both, one each: the scale of a component does not matter.
    double part = 1 / sqrt(3.0), value[3] = {3 * part, 0, -3 * part};
    double spread = sqrt((value[0] * value[0] + value[2] * value[2]) / 2);
    near_to(advantage[2], value[0] / spread, 1e-5);
    near_to(advantage[3], 0, 1e-5);
    near_to(advantage[8], value[2] / spread, 1e-5);
    assert_true(advantage[10] == 0);
    options.reward_weight_count = 3;
    assert_false(advantage_estimate(advantage, &input, &options, &loss, &error));
    assert_non_null(strstr(error.text, "3 numbers for 2"));
    options.reward_weight_count = 2;
    options.reward_weights[0] = 0, options.reward_weights[1] = 1; // the form does not count
    assert_true(advantage_estimate(advantage, &input, &options, &loss, &error));
    near_to(advantage[3], advantage[8], 0);
    // Equal in every component: exactly 0.
    components[0] = components[1] = all_but_last;
    assert_true(advantage_estimate(advantage, &input, &options, &loss, &error));
    for (int t = 0; t < 11; t++) near_to(advantage[t], 0, 0);
}

static void test_gae_with_full_lambda_is_the_return(void **state) {
    (void)state;
    LossOptions loss = loss_options_default();
    AdvantageInput input = by_token();
    const float values[] = {0, 0.25f, 0.5f, 0, 0.125f, 0, 0.5f, 0.25f, 0.75f, 0, 0};
    GaeOptions options = {.gae_gamma = 1, .gae_lambda = 1, .gae_lambda_value = NAN, .gae_lambda_policy = NAN};
    float advantage[11], returns[11];
    advantage_gae(advantage, returns, &input, values, &options, &loss);
    for (int b = 0; b < 3; b++)
        for (int64_t t = offset[b]; t < offset[b + 1]; t++) {
            near_to(advantage[t], answer[t] != 0 ? rewards[b] - values[t] : 0, 1e-7);
            if (answer[t] != 0) near_to(returns[t], rewards[b], 1e-7);
        }
    options.gae_lambda_policy = 0; // one step only, while returns go on over all
    advantage_gae(advantage, returns, &input, values, &options, &loss);
    near_to(advantage[1], 0.25, 1e-7);
    near_to(advantage[2], 0.5, 1e-7);
    near_to(returns[1], 1, 1e-7);
    options.length_adaptive_alpha = 0.5; // max(0.5 · 2 tokens, 1) = 1: λ = 0 again; 1 − 1/1.5 for three
    advantage_gae(advantage, returns, &input, values, &options, &loss);
    near_to(advantage[1], 0.25, 1e-7);
    near_to(advantage[7], 0.5 + (0.5 - 0.75) / 3, 1e-7);
    options.normalize_advantages = true;
    advantage_gae(advantage, returns, &input, values, &options, &loss);
    double sum = 0;
    for (int t = 0; t < 9; t++) sum += (double)advantage[t];
    near_to(sum, 0, 1e-6);
}

static void test_equal_prompts_are_one_group(void **state) {
    (void)state;
    const int32_t ids[] = {1, 2, 9, 1, 2, 3, 9, 1, 2, 8, 8, 5, 9}, length[] = {2, 3, 2, 0, 1};
    const int64_t begins[] = {0, 3, 7, 10, 11};
    int32_t group[5];
    assert_int_equal(reward_groups_of_prompts(group, ids, begins, length, 5), 4);
    const int32_t expected[] = {0, 1, 0, 2, 3};
    assert_memory_equal(group, expected, sizeof expected);
    assert_int_equal(reward_groups_of_prompts(group, ids, begins, length, 0), 0);
    // Which groups differ, by sample.
    const float reward[] = {1, 0.5f, 1, NAN, 3}, scored[] = {1, 1, 1, 0, 1};
    bool differs[5];
    assert_int_equal(reward_groups_compare(differs, reward, scored, group, 5).equal, 4);
    const float other[] = {1, 0.5f, 0, NAN, 3};
    assert_int_equal(reward_groups_compare(differs, other, scored, group, 5).equal, 3);
    const bool wanted[] = {true, false, true, false, false};
    assert_memory_equal(differs, wanted, sizeof wanted);
}

static void test_options_that_cannot_be_obeyed_are_refused(void **state) {
    (void)state;
    Error error;
    LossOptions loss = loss_options_default();
    AdvantageOptions options = grpo(true, true);
    assert_true(advantage_options_check(&options, &loss, &error));
    const struct {
        const char *name, *words;
    } names[] = {{"gae", "value model"}, {"opd", "teacher"}, {"grop", "\"grop\": expected"}, {NULL, "null"}};
    for (int i = 0; i < 4; i++) {
        options.name = names[i].name;
        assert_false(advantage_options_check(&options, &loss, &error));
        assert_non_null(strstr(error.text, "grpo.adv_estimator.name"));
        assert_non_null(strstr(error.text, names[i].words));
    }
    options = named("gdpo");
    options.reward_weight_count = 1, options.reward_weights[0] = NAN;
    assert_false(advantage_options_check(&options, &loss, &error));
    options = grpo(true, true);
    options.advantage_clip_low = 2, options.advantage_clip_high = 1;
    assert_false(advantage_options_check(&options, &loss, &error));
    assert_non_null(strstr(error.text, "advantage_clip_low: 2"));
    options.advantage_clip_high = NAN;
    assert_false(advantage_options_check(&options, &loss, &error));
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
        cmocka_unit_test(test_rewards_are_whitened_over_tokens),
        cmocka_unit_test(test_kl_is_taken_off_the_reward),
        cmocka_unit_test(test_components_are_normalized_one_by_one),
        cmocka_unit_test(test_gae_with_full_lambda_is_the_return),
        cmocka_unit_test(test_equal_prompts_are_one_group),
        cmocka_unit_test(test_options_that_cannot_be_obeyed_are_refused),
    };
    return cmocka_run_group_tests_name("advantage", tests, NULL, NULL);
}
