// The policy-gradient loss: hand-made values, gradients against differences, masks, chunks and refusals.
// The cases computed by NeMo-RL are in tests/data/loss (tests/fixtures/check_loss.c).
#include "base/rng.h"
#include "train/loss.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 64 };

// One chunk of made-up tokens; every fourth is masked.
typedef struct Chunk {
    float current[MANY], previous[MANY], generation[MANY], reference[MANY], advantage[MANY], mask[MANY];
    float dcurrent[MANY];
    LossTokens tokens;
} Chunk;

static float noise(int column, int i, float scale) {
    RngCounter at = {.sample = (uint32_t)column, .token = (uint32_t)i};
    return scale * (2 * rng_uniform(7, RNG_TEST_WEIGHTS, at) - 1);
}

static void chunk_make(Chunk *chunk) {
    for (int i = 0; i < MANY; i++) {
        chunk->previous[i] = -1.5f + noise(0, i, 1.4f);
        chunk->current[i] = chunk->previous[i] + noise(1, i, 0.5f);
        chunk->generation[i] = chunk->previous[i] + noise(2, i, 0.3f);
        chunk->reference[i] = chunk->previous[i] + noise(3, i, 1);
        chunk->advantage[i] = noise(4, i, 2);
        chunk->mask[i] = i % 4 != 3;
    }
    chunk->tokens = (LossTokens){.count = MANY,
                                 .current = chunk->current,
                                 .current_unfiltered = chunk->current,
                                 .previous = chunk->previous,
                                 .generation = chunk->generation,
                                 .reference = chunk->reference,
                                 .advantage = chunk->advantage,
                                 .mask = chunk->mask};
}

static LossMetrics run(Chunk *chunk, const LossOptions *options, double valid) {
    LossMetrics metrics = loss_metrics_zero();
    loss_clipped_pg(&metrics, chunk->dcurrent, NULL, &chunk->tokens, options, (LossCounts){.valid_toks = valid});
    return metrics;
}

// One token: the numbers that most tests look at.
typedef struct Single {
    LossMetrics metrics;
    double gradient;
} Single;

static Single single(const LossOptions *options, float current, float previous, float generation, float reference,
                     float advantage) {
    float mask = 1, dcurrent;
    LossTokens tokens = {.count = 1,
                         .current = &current,
                         .current_unfiltered = &current,
                         .previous = &previous,
                         .generation = &generation,
                         .reference = &reference,
                         .advantage = &advantage,
                         .mask = &mask};
    Single out = {.metrics = loss_metrics_zero()};
    loss_clipped_pg(&out.metrics, &dcurrent, NULL, &tokens, options, (LossCounts){.valid_toks = 1});
    out.gradient = dcurrent;
    return out;
}

static void near_to(double found, double expected, double tolerance) {
    if (found != expected && !(fabs(found - expected) <= tolerance))
        fail_msg("%.17g is not %.17g +- %g", found, expected, tolerance);
}

// ---- the KL term

static Single kl_single(const char *type, double in, double out, double d) {
    LossOptions options = loss_options_default();
    options.reference_policy_kl_penalty = 1;
    options.reference_policy_kl_type = type;
    options.kl_input_clamp_value = in;
    options.kl_output_clamp_value = out;
    return single(&options, 0, 0, 0, (float)d, 0);
}

static void test_kl_estimates_have_their_golden_values(void **state) {
    (void)state;
    const struct {
        const char *type;
        double in, out, d, kl, gradient;
    } cases[] = {
        // The gradient of the KL term is k + dk/d cur, as its weight exp(cur − stop(cur)) has one too.
        {"k1", 20, 10, 0.5, -0.5, 0.5},
        {"k2", 20, 10, 0.5, 0.125, -0.375},
        {"k3", 20, 10, 0.5, 0.148721270700128, -0.5},
        {"k1", 20, 10, -0.5, 0.5, 1.5},
        {"k2", 20, 10, -0.5, 0.125, 0.625},
        {"k3", 20, 10, -0.5, 0.106530659712633, 0.5},
        {"k3", 20, 10, 0, 0, 0},
        {"k3", INFINITY, INFINITY, -1, 0.36787944117144233, 1},
        {"k3", INFINITY, INFINITY, -20, 19.000000002061153, 20},
        // Where either clamp acts there is no gradient.
        {"k1", 20, 10, 25, -10, 0},
        {"k2", 20, 10, 25, 10, 0},
        {"k3", 20, 10, 25, 10, 0},
        {"k3", 20, 10, 100, 10, 0},
        {"k1", 20, INFINITY, 25, -20, 0},
        {"k3", 1, INFINITY, 3, 0.718281828459045, 0},
        {"k3", 1, INFINITY, -3, 0.367879441171442, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Single found = kl_single(cases[i].type, cases[i].in, cases[i].out, cases[i].d);
        near_to(found.metrics.kl_penalty, cases[i].kl, 1e-14 * (1 + fabs(cases[i].kl)));
        near_to(found.metrics.loss, cases[i].kl, 1e-14 * (1 + fabs(cases[i].kl)));
        near_to(found.gradient, cases[i].gradient, 1e-7);
    }
}

static void test_kl_penalty_is_reported_without_its_coefficient(void **state) {
    (void)state;
    LossOptions options = loss_options_default();
    Single found = single(&options, -1, -1, -1, -0.5f, 0);
    near_to(found.metrics.kl_penalty, 0.148721270700128, 1e-14);
    near_to(found.metrics.loss, 0.00148721270700128, 1e-16);
    options.use_kl_in_reward = true;
    assert_false(loss_needs_reference(&options));
    found = single(&options, -1, -1, -1, -0.5f, 0);
    near_to(found.metrics.kl_penalty, 0, 0);
    near_to(found.gradient, 0, 0);
}

static void test_on_policy_kl_weight_that_overflows_counts_as_zero(void **state) {
    (void)state;
    LossOptions options = loss_options_default();
    options.use_on_policy_kl_approximation = true;
    options.kl_output_clamp_value = INFINITY;
    Single found = single(&options, -1, -1, -2000, -0.5f, 0);
    near_to(found.metrics.kl_penalty, 0, 0);
    near_to(found.gradient, 0, 0);
}

static void test_kl_of_unfiltered_logprobs_has_its_own_gradient(void **state) {
    (void)state;
    float current = -0.25f, unfiltered = -1, previous = -0.25f, reference = -0.5f, advantage = 2, mask = 1;
    float dcurrent, dunfiltered;
    LossTokens tokens = {.count = 1,
                         .current = &current,
                         .current_unfiltered = &unfiltered,
                         .previous = &previous,
                         .generation = &previous,
                         .reference = &reference,
                         .advantage = &advantage,
                         .mask = &mask};
    LossOptions options = loss_options_default();
    LossMetrics metrics = loss_metrics_zero();
    loss_clipped_pg(&metrics, &dcurrent, &dunfiltered, &tokens, &options, (LossCounts){.valid_toks = 1});
    near_to(dcurrent, -2, 0);
    near_to(dunfiltered, -0.005, 1e-9);
    near_to(metrics.kl_penalty, 0.148721270700128, 1e-14);
}

// ---- the actor term

static void test_clipping_keeps_the_pessimistic_arm(void **state) {
    (void)state;
    LossOptions options = loss_options_default();
    options.reference_policy_kl_penalty = 0;
    const struct {
        double ratio, advantage, loss, gradient;
    } cases[] = {
        {1, 3, -3, -3},       // on policy: the gradient of REINFORCE
        {1.1, 1, -1.1, -1.1}, // inside
        {1.5, 1, -1.2, 0},    // gained enough
        {0.5, 1, -0.5, -0.5}, // a loss is not clipped
        {0.5, -1, 0.8, 0},    // reduced enough
        {1.5, -1, 1.5, 1.5},  // a gain of a bad token is not clipped
        {10, -1, 10, 10},     {0.5, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Single found = single(&options, (float)log(cases[i].ratio), 0, 0, 0, (float)cases[i].advantage);
        near_to(found.metrics.loss, cases[i].loss, 1e-6);
        near_to(found.gradient, cases[i].gradient, 1e-6);
        near_to(found.metrics.probs_ratio, cases[i].ratio, 1e-6);
        assert_int_equal(found.metrics.clipped_tokens, cases[i].gradient == 0 && cases[i].advantage != 0);
    }
    options.ratio_clip_c = 3;
    Single found = single(&options, logf(10), 0, 0, 0, -1);
    near_to(found.metrics.loss, 3, 0);
    near_to(found.gradient, 0, 0);
    near_to(single(&options, logf(10), 0, 0, 0, 1).metrics.loss, -1.2, 1e-7); // dual clip is for A < 0 only
}

static void test_truncated_importance_weights(void **state) {
    (void)state;
    const double log_ratio[] = {0.1, -1.5, 0.8, -10, 0.3};
    const double tis[] = {1.1051709180756477, 0.22313016014842982, 2, 4.5399929762484854e-05, 1.3498588075760032};
    const double icepop[] = {1.1051709180756477, 0, 0, 0, 1.3498588075760032};
    LossOptions options = loss_options_default();
    options.reference_policy_kl_penalty = 0;
    options.use_importance_sampling_correction = true;
    options.truncated_importance_sampling_ratio = 2;
    for (int i = 0; i < 5; i++) {
        float previous = (float)log_ratio[i];
        options.truncated_importance_sampling_type = "tis";
        options.truncated_importance_sampling_ratio_min = NAN;
        Single found = single(&options, previous, previous, 0, 0, -1);
        near_to(found.metrics.sampling_importance_ratio, tis[i], 5e-8);
        near_to(found.metrics.loss, tis[i], 5e-8);
        near_to(found.gradient, tis[i], 2e-7);
        assert_int_equal(found.metrics.is_oob_ratio, i == 2);
        options.truncated_importance_sampling_type = "icepop";
        options.truncated_importance_sampling_ratio_min = 0.5;
        found = single(&options, previous, previous, 0, 0, -1);
        near_to(found.metrics.loss, icepop[i], 5e-8);
        assert_int_equal(found.metrics.is_oob_ratio, i >= 1 && i <= 3);
    }
    // exp(100) is infinite in fp32, where NeMo-RL computes: no weight at all, also before "tis" would clamp it.
    options.truncated_importance_sampling_type = "tis";
    options.truncated_importance_sampling_ratio_min = NAN;
    near_to(single(&options, 0, 0, -100, 0, -1).metrics.loss, 0, 0);
    options.truncated_importance_sampling_type = NULL;
    options.truncated_importance_sampling_ratio = NAN;
    near_to(single(&options, 0, 0, -100, 0, -1).metrics.loss, 0, 0);
    // Without the correction the weight is a metric only.
    options = loss_options_default();
    Single found = single(&options, 0.5f, 0.5f, 0, 0.5f, -1);
    near_to(found.metrics.loss, 1, 0);
    near_to(found.metrics.sampling_importance_ratio, exp(0.5), 1e-15);
}

static void test_variants_of_the_ratio(void **state) {
    (void)state;
    LossOptions options = loss_options_default();
    options.reference_policy_kl_penalty = 0;
    options.use_cispo = true;
    Single found = single(&options, logf(2), 0, 0, 0, 1.5f);
    near_to(found.gradient, -1.5 * 1.2, 1e-6); // clamped weight, gradient kept
    near_to(found.metrics.loss, -1.5 * 1.2 * log(2), 1e-6);
    options.use_cispo = false;
    options.disable_ppo_ratio = true;
    found = single(&options, -0.75f, -2, 0, 0, 1.5f);
    near_to(found.metrics.loss, 1.125, 0);
    near_to(found.gradient, -1.5, 0);
    near_to(found.metrics.probs_ratio, -0.75, 0);
    options.disable_ppo_ratio = false;
    options.force_on_policy_ratio = true;
    found = single(&options, -0.75f, NAN, -0.5f, 0, 1.5f); // previous is not read
    near_to(found.metrics.loss, -1.5, 0);
    near_to(found.gradient, -1.5, 0);
    near_to(found.metrics.max_abs_logprob_error, 0.25, 0);
}

// ---- gradients

static void check_gradient(LossOptions options) {
    Chunk chunk;
    chunk_make(&chunk);
    run(&chunk, &options, 48);
    float dcurrent[MANY];
    memcpy(dcurrent, chunk.dcurrent, sizeof dcurrent);
    for (int i = 0; i < MANY; i++) {
        float at = chunk.current[i], up = at + 0x1p-10f, down = at - 0x1p-10f;
        chunk.current[i] = up;
        double high = run(&chunk, &options, 48).loss;
        chunk.current[i] = down;
        double low = run(&chunk, &options, 48).loss;
        chunk.current[i] = at;
        double slope = (high - low) / ((double)up - down);
        if (chunk.mask[i] == 0) near_to(dcurrent[i], 0, 0);
        near_to(dcurrent[i], slope, 2e-6 + 1e-4 * fabs(slope));
    }
}

static void test_gradients_agree_with_differences(void **state) {
    (void)state;
    LossOptions plain = loss_options_default();
    plain.reference_policy_kl_penalty = 0;
    check_gradient(plain);
    LossOptions options = plain;
    options.ratio_clip_c = 1.1;
    check_gradient(options);
    options = plain;
    options.disable_ppo_ratio = true;
    check_gradient(options);
    options = plain;
    options.use_importance_sampling_correction = true;
    options.truncated_importance_sampling_type = "icepop";
    options.truncated_importance_sampling_ratio = 1.2;
    options.truncated_importance_sampling_ratio_min = 0.8;
    check_gradient(options);
    // With the sampler's log-probs in the weight, the whole KL term is differentiable.
    const char *types[] = {"k1", "k2", "k3"};
    for (int i = 0; i < 3; i++) {
        options = plain;
        options.reference_policy_kl_penalty = 0.5;
        options.reference_policy_kl_type = types[i];
        options.use_on_policy_kl_approximation = true;
        options.kl_output_clamp_value = 0.3;
        check_gradient(options);
    }
}

// ---- sums

static void test_chunks_change_no_bit(void **state) {
    (void)state;
    LossOptions options = loss_options_default();
    Chunk whole, cut;
    chunk_make(&whole);
    chunk_make(&cut);
    LossMetrics expected = run(&whole, &options, 48);
    LossMetrics found = loss_metrics_zero();
    for (int begin = 0, size = 1; begin < MANY; begin += size, size = 1 + size % 7) {
        int count = begin + size <= MANY ? size : MANY - begin;
        LossTokens part = {.count = count,
                           .current = cut.current + begin,
                           .current_unfiltered = cut.current + begin,
                           .previous = cut.previous + begin,
                           .generation = cut.generation + begin,
                           .reference = cut.reference + begin,
                           .advantage = cut.advantage + begin,
                           .mask = cut.mask + begin};
        loss_clipped_pg(&found, cut.dcurrent + begin, NULL, &part, &options, (LossCounts){.valid_toks = 48});
    }
    assert_memory_equal(cut.dcurrent, whole.dcurrent, sizeof cut.dcurrent);
    assert_memory_equal(&found, &expected, sizeof found);
}

static void test_micro_batches_add_up(void **state) {
    (void)state;
    LossOptions options = loss_options_default();
    Chunk chunk;
    chunk_make(&chunk);
    LossMetrics whole = run(&chunk, &options, 48), sum = loss_metrics_zero();
    for (int half = 0; half < 2; half++) {
        LossTokens part = chunk.tokens;
        part.count = MANY / 2;
        const float **columns[] = {&part.current,   &part.current_unfiltered, &part.previous, &part.generation,
                                   &part.reference, &part.advantage,          &part.mask};
        for (int i = 0; i < 7; i++) *columns[i] += half * MANY / 2;
        LossMetrics metrics = loss_metrics_zero();
        loss_clipped_pg(&metrics, chunk.dcurrent, NULL, &part, &options, (LossCounts){.valid_toks = 48});
        loss_metrics_add(&sum, &metrics);
    }
    near_to(sum.loss, whole.loss, 1e-14);
    near_to(sum.kl_penalty, whole.kl_penalty, 1e-14);
    near_to(sum.approx_entropy, whole.approx_entropy, 1e-14);
    near_to(sum.clipped_tokens, whole.clipped_tokens, 1e-14);
    near_to(sum.probs_ratio_min, whole.probs_ratio_min, 0);
    near_to(sum.probs_ratio_max, whole.probs_ratio_max, 0);
    near_to(sum.max_abs_logprob_error, whole.max_abs_logprob_error, 0);
    loss_metrics_scale(&sum, 0.5); // sums only
    near_to(sum.loss, whole.loss / 2, 1e-14);
    near_to(sum.js_divergence_error, whole.js_divergence_error / 2, 1e-14);
    near_to(sum.probs_ratio_max, whole.probs_ratio_max, 0);
    near_to(sum.max_abs_logprob_error, whole.max_abs_logprob_error, 0);
}

static void test_masked_tokens_may_hold_anything(void **state) {
    (void)state;
    LossOptions options = loss_options_default();
    Chunk chunk;
    chunk_make(&chunk);
    LossMetrics expected = run(&chunk, &options, 48);
    for (int i = 3; i < MANY; i += 4)
        chunk.current[i] = chunk.generation[i] = chunk.reference[i] = i % 8 == 3 ? NAN : -INFINITY;
    LossMetrics found = run(&chunk, &options, 48);
    assert_memory_equal(&found, &expected, sizeof found);
    for (int i = 3; i < MANY; i += 4) near_to(chunk.dcurrent[i], 0, 0);
}

static void test_no_valid_token_gives_zero(void **state) {
    (void)state;
    LossOptions options = loss_options_default();
    Chunk chunk;
    chunk_make(&chunk);
    memset(chunk.mask, 0, sizeof chunk.mask);
    LossMetrics none = loss_metrics_zero();
    for (int valid = 0; valid <= 5; valid += 5) {
        LossMetrics found = run(&chunk, &options, valid);
        assert_memory_equal(&found, &none, sizeof found);
        for (int i = 0; i < MANY; i++) near_to(chunk.dcurrent[i], 0, 0);
    }
    near_to(none.probs_ratio_min, INFINITY, 0);
    near_to(none.probs_ratio_max, -INFINITY, 0);
}

// ---- metrics of the mismatch between sampler and trainer

static void test_mismatch_metrics(void **state) {
    (void)state;
    float generation[] = {-1, -2, -0.5f}, previous[] = {-1, -2.1f, -0.45f}, zero[3] = {0}, mask[] = {1, 1, 1}, d[3];
    LossOptions options = loss_options_default();
    options.reference_policy_kl_penalty = 0;
    LossTokens tokens = {.count = 3,
                         .current = previous,
                         .current_unfiltered = previous,
                         .previous = previous,
                         .generation = generation,
                         .advantage = zero,
                         .mask = mask};
    LossMetrics metrics = loss_metrics_zero();
    loss_clipped_pg(&metrics, d, NULL, &tokens, &options, (LossCounts){.valid_toks = 3});
    near_to(metrics.token_mult_prob_error, 1.0521473381505573, 1e-7);
    near_to(metrics.gen_kl_error, 0.0020361714706612264, 1e-8);
    near_to(metrics.max_abs_logprob_error, 0.1, 1e-7);
    double js = 0;
    for (int i = 0; i < 3; i++) {
        double p = previous[i], q = generation[i], middle = log((exp(p) + exp(q)) / 2);
        js += (exp(p - middle) - 1 - (p - middle) + exp(q - middle) - 1 - (q - middle)) / 6;
    }
    near_to(metrics.js_divergence_error, js, 1e-15);
    options.reference_policy_kl_type = "k1";
    metrics = loss_metrics_zero();
    loss_clipped_pg(&metrics, d, NULL, &tokens, &options, (LossCounts){.valid_toks = 3});
    near_to(metrics.policy_kl_error, -0.0166666666666667, 1e-7);
    near_to(metrics.gen_kl_error, 0.0166666666666667, 1e-7);
}

static void test_equal_logprobs_have_no_error_at_all(void **state) {
    (void)state;
    LossOptions options = loss_options_default();
    Chunk chunk;
    chunk_make(&chunk);
    chunk.tokens.previous = chunk.tokens.generation = chunk.tokens.reference = chunk.current;
    LossMetrics metrics = run(&chunk, &options, 48);
    assert_true(metrics.max_abs_logprob_error == 0 && metrics.gen_kl_error == 0 && metrics.policy_kl_error == 0 &&
                metrics.kl_penalty == 0 && metrics.clipped_tokens == 0 && metrics.js_divergence_error == 0);
    assert_true(metrics.probs_ratio_min == 1 && metrics.probs_ratio_max == 1);
    for (int i = 0; i < MANY; i++)
        assert_true(chunk.dcurrent[i] == (float)(chunk.mask[i] / 48.0 * -(double)chunk.advantage[i]));
}

static void test_logprob_error_is_of_valid_tokens(void **state) {
    (void)state;
    LossOptions options = loss_options_default();
    Chunk chunk;
    chunk_make(&chunk);
    memcpy(chunk.previous, chunk.generation, sizeof chunk.previous);
    near_to(run(&chunk, &options, 48).max_abs_logprob_error, 0, 0);
    chunk.previous[5] = chunk.generation[5] - 0.5f;
    chunk.previous[7] = chunk.generation[7] - 9; // masked
    near_to(run(&chunk, &options, 48).max_abs_logprob_error, 0.5, 1e-6);
    chunk.previous[6] = NAN;
    assert_true(isnan(run(&chunk, &options, 48).max_abs_logprob_error));
}

static void test_exp_is_right_over_its_range(void **state) {
    (void)state;
    LossOptions options = loss_options_default();
    options.reference_policy_kl_penalty = 0;
    options.ratio_clip_max = INFINITY;
    for (float x = -700; x < 700; x += 0.37f) {
        double found = single(&options, x, 0, x, 0, 1).metrics.probs_ratio;
        near_to(found / exp((double)x), 1, 4e-16);
    }
    near_to(single(&options, -800, 0, 0, 0, 1).metrics.probs_ratio, 0, 0);
    assert_true(single(&options, 800, 0, 0, 0, 1).metrics.probs_ratio == INFINITY);
    near_to(single(&options, 0, -INFINITY, 0, 0, 1).metrics.sampling_importance_ratio, 0, 0);
}

static void test_nll(void **state) {
    (void)state;
    float current[] = {-1, -2, NAN, -4}, mask[] = {1, 1, 0, 1}, dcurrent[4];
    double loss = 0.5;
    loss_nll(&loss, dcurrent, current, mask, 4, 8);
    near_to(loss, 0.5 + 7.0 / 8, 1e-15);
    near_to(dcurrent[0], -0.125, 0);
    near_to(dcurrent[2], 0, 0);
    loss_nll(&loss, dcurrent, current, mask, 4, 0);
    near_to(loss, 0.5 + 7.0 / 8, 1e-15);

    // The mean over all tokens of two micro-batches, not the mean of their means.
    float ones[10], twos[6], d[10], all[10];
    for (int i = 0; i < 10; i++) ones[i] = -1, all[i] = 1;
    for (int i = 0; i < 6; i++) twos[i] = -2;
    loss = 0;
    loss_nll(&loss, d, ones, all, 10, 16);
    loss_nll(&loss, d, twos, all, 6, 16);
    near_to(loss, 1.375, 1e-15);
}

// ---- whole sequences

// Three sequences of MANY tokens: lengths 5, 22 and 37, the second one masked.
static const int begins[] = {0, 5, 27, MANY};

// The loss of the sequences, in chunks of at most `most` tokens.
static LossMetrics run_sequences(Chunk *chunk, const LossOptions *options, int most) {
    LossMetrics metrics = loss_metrics_zero();
    double valid = 0, positive = 0;
    for (int i = 0; i < MANY; i++) {
        valid += chunk->mask[i];
        if (i >= begins[2]) positive += chunk->mask[i];
    }
    LossCounts counts = {.valid_toks = valid, .valid_seqs = 2, .positive_toks = positive};
    for (int b = 0; b < 3; b++) {
        LossSequence sequence;
        for (int first = begins[b], count; first < begins[b + 1]; first += count) {
            LossTokens part = chunk->tokens;
            const float **columns[] = {&part.current,   &part.current_unfiltered, &part.previous, &part.generation,
                                       &part.reference, &part.advantage,          &part.mask};
            for (int i = 0; i < 7; i++) *columns[i] += first;
            part.count = begins[b + 1] - first;
            part.positive = b == 2;
            part.sequence = &sequence;
            if (first == begins[b]) loss_sequence(&sequence, &metrics, &part, options, counts);
            count = part.count < most ? (int)part.count : most;
            part.count = count;
            loss_clipped_pg(&metrics, chunk->dcurrent + first, NULL, &part, options, counts);
        }
    }
    return metrics;
}

static void sequences_make(Chunk *chunk) {
    chunk_make(chunk);
    for (int i = begins[1]; i < begins[2]; i++) chunk->mask[i] = 0;
}

static LossOptions sequence_options(bool gspo) {
    LossOptions options = loss_options_default();
    options.reference_policy_kl_penalty = 0;
    options.token_level_loss = false;
    options.sequence_level_importance_ratios = gspo;
    return options;
}

static void test_mean_over_sequences(void **state) {
    (void)state;
    LossOptions options = sequence_options(false);
    Chunk chunk;
    sequences_make(&chunk);
    for (int i = 0; i < MANY; i++) chunk.current[i] = chunk.previous[i], chunk.advantage[i] = i < 5 ? -1 : -2;
    near_to(run_sequences(&chunk, &options, MANY).loss, 1.5, 1e-14); // not the mean over tokens
    near_to(chunk.dcurrent[0], 1.0 / 2 / 4, 1e-8);                   // four of five tokens count
    near_to(chunk.dcurrent[MANY - 2], 2.0 / 2 / 27, 1e-8);
    near_to(chunk.dcurrent[7], 0, 0);
    options.token_level_loss = true;
    near_to(run_sequences(&chunk, &options, MANY).loss, (4 + 2 * 27) / 31.0, 1e-14);
}

static void test_sequence_ratio_is_the_geometric_mean(void **state) {
    (void)state;
    LossOptions options = sequence_options(true);
    Chunk chunk;
    sequences_make(&chunk);
    const float log_ratio[] = {0.1f, -0.2f, 0.3f, 9, 0};
    for (int i = 0; i < MANY; i++) {
        chunk.current[i] = chunk.previous[i] = chunk.generation[i] = -1;
        if (i < 5) chunk.current[i] += log_ratio[i];
        if (i >= 5) chunk.mask[i] = 0;
    }
    chunk.mask[4] = 0;
    LossMetrics metrics = run_sequences(&chunk, &options, MANY);
    near_to(metrics.probs_ratio, 1.0689391057472464, 1e-7);
    near_to(metrics.probs_ratio_max, metrics.probs_ratio_min, 0);
    near_to(metrics.sampling_importance_ratio, 0.5, 1e-15); // one of two sequences has tokens
}

static void test_sequence_weights(void **state) {
    (void)state;
    LossOptions options = sequence_options(true);
    Chunk chunk;
    sequences_make(&chunk);
    double log_weight[2] = {0};
    for (int i = 0; i < MANY; i++)
        if (chunk.mask[i] != 0) log_weight[i >= 5] += (double)chunk.previous[i] - (double)chunk.generation[i];
    double one = exp(log_weight[0]), other = exp(log_weight[1]);
    near_to(run_sequences(&chunk, &options, MANY).sampling_importance_ratio, (one + other) / 2, 1e-12);
    // Bounds that only the larger is outside of.
    double least = one < other ? one : other, most = one < other ? other : one;
    options.use_importance_sampling_correction = true;
    options.truncated_importance_sampling_type = "tis";
    options.truncated_importance_sampling_ratio = (least + most) / 2;
    near_to(run_sequences(&chunk, &options, MANY).sampling_importance_ratio, (3 * least + most) / 4, 1e-12);
    options.truncated_importance_sampling_type = "icepop";
    options.truncated_importance_sampling_ratio_min = 0;
    LossMetrics metrics = run_sequences(&chunk, &options, MANY);
    near_to(metrics.sampling_importance_ratio, least / 2, 1e-12);
    near_to(metrics.is_oob_ratio, most == one ? 4 / 31.0 : 27 / 31.0, 1e-15); // of tokens, as NeMo-RL counts
}

static void test_sequences_far_from_the_sampler_are_masked(void **state) {
    (void)state;
    LossOptions options = sequence_options(false);
    options.use_importance_sampling_correction = true;
    options.truncated_importance_sampling_type = "seq-mask-tis";
    options.truncated_importance_sampling_ratio = 1.1;
    options.truncated_importance_sampling_ratio_min = 0.9;
    Chunk chunk;
    sequences_make(&chunk);
    for (int i = 0; i < MANY; i++) chunk.generation[i] = chunk.previous[i] - (i < 5 ? 0.2f : i % 2 ? 1 : -1);
    for (int i = begins[2]; i < MANY; i++) chunk.mask[i] = i >= MANY - 36; // as many of each sign
    LossMetrics metrics = run_sequences(&chunk, &options, MANY);
    near_to(metrics.is_oob_ratio, 0.5, 0);
    for (int i = 0; i < 5; i++) near_to(chunk.dcurrent[i], 0, 0);
    near_to(metrics.sampling_importance_ratio, 36 / 40.0 * cosh(1), 1e-7); // weights of the others stay as they are
}

static void test_positive_examples(void **state) {
    (void)state;
    LossOptions options = loss_options_default();
    options.reference_policy_kl_penalty = 0;
    Chunk chunk;
    sequences_make(&chunk);
    double plain = run_sequences(&chunk, &options, MANY).loss, nll = 0;
    float before[MANY];
    memcpy(before, chunk.dcurrent, sizeof before);
    for (int i = begins[2]; i < MANY; i++) nll -= chunk.mask[i] * (double)chunk.current[i] / 27;
    options.positive_example_nll_weight = 0.25;
    LossMetrics metrics = run_sequences(&chunk, &options, MANY);
    near_to(metrics.positive_nll_loss, nll, 1e-14);
    near_to(metrics.loss, plain + 0.25 * nll, 1e-14);
    for (int i = 0; i < MANY; i++)
        near_to(chunk.dcurrent[i], before[i] - (i >= begins[2] ? 0.25 / 27 * chunk.mask[i] : 0), 1e-8);
}

static void test_gradients_of_sequences_agree_with_differences(void **state) {
    (void)state;
    for (int variant = 0; variant < 3; variant++) {
        LossOptions options = sequence_options(variant > 0);
        options.use_importance_sampling_correction = variant == 2;
        options.ratio_clip_min = options.ratio_clip_max = variant == 1 ? 0.05 : 1;
        options.positive_example_nll_weight = 0.1;
        Chunk chunk;
        sequences_make(&chunk);
        run_sequences(&chunk, &options, MANY);
        float dcurrent[MANY];
        memcpy(dcurrent, chunk.dcurrent, sizeof dcurrent);
        for (int i = 0; i < MANY; i++) {
            float at = chunk.current[i], up = at + 0x1p-10f, down = at - 0x1p-10f;
            chunk.current[i] = up;
            double high = run_sequences(&chunk, &options, MANY).loss;
            chunk.current[i] = down;
            double low = run_sequences(&chunk, &options, MANY).loss;
            chunk.current[i] = at;
            double slope = (high - low) / ((double)up - down);
            near_to(dcurrent[i], slope, 2e-6 + 1e-4 * fabs(slope));
        }
    }
}

static void test_chunks_of_sequences_change_no_bit(void **state) {
    (void)state;
    for (int variant = 0; variant < 2; variant++) {
        LossOptions options = sequence_options(variant);
        options.reference_policy_kl_penalty = 0.1;
        options.use_importance_sampling_correction = true;
        Chunk whole, cut;
        sequences_make(&whole);
        sequences_make(&cut);
        LossMetrics expected = run_sequences(&whole, &options, MANY);
        for (int most = 1; most < 9; most += 3) {
            LossMetrics found = run_sequences(&cut, &options, most);
            assert_memory_equal(cut.dcurrent, whole.dcurrent, sizeof cut.dcurrent);
            assert_memory_equal(&found, &expected, sizeof found);
        }
    }
}

static void test_what_must_be_known_before_the_first_token(void **state) {
    (void)state;
    LossOptions options = loss_options_default();
    assert_false(loss_reads_sequences(&options) || loss_reads_current_first(&options));
    options.token_level_loss = false;
    assert_true(loss_reads_sequences(&options));
    assert_false(loss_reads_current_first(&options));
    options.sequence_level_importance_ratios = true;
    assert_true(loss_reads_current_first(&options));
    options.disable_ppo_ratio = true;
    assert_false(loss_reads_current_first(&options));
    options.force_on_policy_ratio = true; // then the weights are made of current log-probs
    assert_true(loss_reads_current_first(&options));
}

// ---- refusals

static void refused(LossOptions options, const char *words) {
    Error error = {.text = ""};
    assert_false(loss_options_check(&options, &error));
    if (!strstr(error.text, words)) fail_msg("\"%s\" does not name \"%s\"", error.text, words);
    assert_non_null(strstr(error.text, "loss_fn."));
}

static void test_options_that_cannot_be_obeyed_are_refused(void **state) {
    (void)state;
    const LossOptions good = loss_options_default();
    Error error;
    assert_true(loss_options_check(&good, &error));
    LossOptions bad = good;
    bad.reference_policy_kl_type = "k4";
    refused(bad, "\"k4\"");
    bad.reference_policy_kl_type = NULL;
    refused(bad, "reference_policy_kl_type");
    bad = good;
    bad.ratio_clip_c = 1;
    refused(bad, "above 1");
    bad = good;
    bad.ratio_clip_min = -0.2;
    refused(bad, "-0.2");
    bad = good;
    bad.kl_output_clamp_value = NAN;
    refused(bad, "kl_output_clamp_value");
    bad = good;
    bad.truncated_importance_sampling_ratio = 2;
    refused(bad, "truncated_importance_sampling_type");
    bad.truncated_importance_sampling_type = "tis";
    refused(bad, "use_importance_sampling_correction");
    bad.use_importance_sampling_correction = true;
    assert_true(loss_options_check(&bad, &error));
    bad.truncated_importance_sampling_type = "icepop";
    refused(bad, "truncated_importance_sampling_ratio_min");
    bad.truncated_importance_sampling_ratio_min = 0;
    assert_true(loss_options_check(&bad, &error)); // 0 is a bound, null is none
    bad.truncated_importance_sampling_ratio_min = 2.5;
    refused(bad, "2.5");
    bad.truncated_importance_sampling_ratio_min = -0.5;
    refused(bad, "-0.5");
    bad.truncated_importance_sampling_ratio = 0;
    refused(bad, "ratio: 0");
    bad.truncated_importance_sampling_ratio = NAN;
    refused(bad, "ratio: null");
    bad = good;
    bad.truncated_importance_sampling_ratio_min = 0.5;
    refused(bad, "ratio_min: 0.5 without");
    bad = good;
    bad.sequence_level_importance_ratios = true;
    refused(bad, "token_level_loss: false only");
    bad.token_level_loss = false;
    assert_true(loss_options_check(&bad, &error));
    bad.use_importance_sampling_correction = true;
    bad.truncated_importance_sampling_type = "seq-mask-tis";
    bad.truncated_importance_sampling_ratio = 2;
    bad.truncated_importance_sampling_ratio_min = 0.5;
    refused(bad, "seq-mask-tis");
    bad = good;
    bad.positive_example_nll_weight = -0.1;
    refused(bad, "positive_example_nll_weight");
    bad = good;
    bad.use_cispo = true;
    assert_true(loss_options_check(&bad, &error));
    bad.disable_ppo_ratio = true;
    refused(bad, "disable_ppo_ratio");
    bad.disable_ppo_ratio = false, bad.force_on_policy_ratio = true;
    refused(bad, "force_on_policy_ratio");
    bad.force_on_policy_ratio = false, bad.ratio_clip_c = 3;
    refused(bad, "ratio_clip_c");
    bad.ratio_clip_c = NAN, bad.token_level_loss = false;
    refused(bad, "token_level_loss");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kl_estimates_have_their_golden_values),
        cmocka_unit_test(test_kl_penalty_is_reported_without_its_coefficient),
        cmocka_unit_test(test_on_policy_kl_weight_that_overflows_counts_as_zero),
        cmocka_unit_test(test_kl_of_unfiltered_logprobs_has_its_own_gradient),
        cmocka_unit_test(test_clipping_keeps_the_pessimistic_arm),
        cmocka_unit_test(test_truncated_importance_weights),
        cmocka_unit_test(test_variants_of_the_ratio),
        cmocka_unit_test(test_gradients_agree_with_differences),
        cmocka_unit_test(test_chunks_change_no_bit),
        cmocka_unit_test(test_micro_batches_add_up),
        cmocka_unit_test(test_masked_tokens_may_hold_anything),
        cmocka_unit_test(test_no_valid_token_gives_zero),
        cmocka_unit_test(test_mismatch_metrics),
        cmocka_unit_test(test_equal_logprobs_have_no_error_at_all),
        cmocka_unit_test(test_logprob_error_is_of_valid_tokens),
        cmocka_unit_test(test_exp_is_right_over_its_range),
        cmocka_unit_test(test_nll),
        cmocka_unit_test(test_mean_over_sequences),
        cmocka_unit_test(test_sequence_ratio_is_the_geometric_mean),
        cmocka_unit_test(test_sequence_weights),
        cmocka_unit_test(test_sequences_far_from_the_sampler_are_masked),
        cmocka_unit_test(test_positive_examples),
        cmocka_unit_test(test_gradients_of_sequences_agree_with_differences),
        cmocka_unit_test(test_chunks_of_sequences_change_no_bit),
        cmocka_unit_test(test_what_must_be_known_before_the_first_token),
        cmocka_unit_test(test_options_that_cannot_be_obeyed_are_refused),
    };
    return cmocka_run_group_tests_name("loss", tests, NULL, NULL);
}
