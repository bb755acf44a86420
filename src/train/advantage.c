#include "train/advantage.h"

#include "base/arena.h"
#include "train/reward_groups.h"

#include <math.h>
#include <string.h>

static bool is(const AdvantageOptions *options, const char *name) {
    return options->name && !strcmp(options->name, name);
}

// ---- options

static bool check_name(const AdvantageOptions *options, Error *error) {
    const char *key = "grpo.adv_estimator.name";
    if (is(options, "gae"))
        return error_set(error, "%s: \"gae\": needs the values of a value model, and whet trains none (PPO)", key);
    if (is(options, "opd"))
        return error_set(error, "%s: \"opd\": needs the log-probabilities of a teacher, and whet walks none", key);
    return is(options, "grpo") || is(options, "gdpo") || is(options, "reinforce_plus_plus") ||
           is(options, "raw_reward") ||
           error_set(error, "%s: \"%s\": expected \"grpo\", \"gdpo\", \"reinforce_plus_plus\" or \"raw_reward\"", key,
                     options->name ? options->name : "null");
}

bool advantage_options_check(const AdvantageOptions *options, const LossOptions *loss, Error *error) {
    if (!check_name(options, error)) return false;
    if (!(options->advantage_clip_low <= options->advantage_clip_high))
        return error_set(error, "grpo.advantage_clip_low: %g: expected a number up to grpo.advantage_clip_high (%g)",
                         options->advantage_clip_low, options->advantage_clip_high);
    for (int64_t i = 0; i < options->reward_weight_count; i++)
        if (!isfinite(options->reward_weights[i]))
            return error_set(error, "grpo.adv_estimator.reward_weights: %g: expected numbers",
                             options->reward_weights[i]);
    return !loss->use_kl_in_reward || is(options, "reinforce_plus_plus") ||
           error_set(error,
                     "loss_fn.use_kl_in_reward: true: grpo.adv_estimator.name \"%s\" takes no KL penalty off the "
                     "reward, so it would be lost; expected \"reinforce_plus_plus\"",
                     options->name);
}

bool advantage_needs_reference(const AdvantageOptions *options, const LossOptions *loss) {
    return is(options, "reinforce_plus_plus") && loss->use_kl_in_reward && loss->reference_policy_kl_penalty != 0;
}

// ---- by sample

// into[b] += weight · advantage of sample b within its group.
static void add_group_advantages(double *into, double weight, const float *reward, const AdvantageInput *in,
                                 bool leave_one_out, bool normalize) {
    Arena arena = {0};
    float *baseline = arena_array(&arena, float, in->count), *spread = arena_array(&arena, float, in->count);
    reward_groups_baseline(baseline, spread, reward, in->valid, in->group, in->count, leave_one_out);
    for (int64_t b = 0; b < in->count; b++) {
        if (in->valid[b] == 0) continue;
        double value = (double)reward[b] - (double)baseline[b];
        if (normalize && spread[b] > 0) value /= (double)spread[b] + 1e-6;
        into[b] += weight * value;
    }
    arena_close(&arena);
}

// Mean off and divided by the sample standard deviation. Values that are all equal have none, whatever rounding says.
static void standardize(double *value, const AdvantageInput *in) {
    double sum = 0, squares = 0, number = 0, least = INFINITY, most = -INFINITY;
    for (int64_t b = 0; b < in->count; b++) {
        if (in->valid[b] == 0) continue;
        sum += value[b];
        number += 1;
        least = fmin(least, value[b]), most = fmax(most, value[b]);
    }
    double mean = least == most ? least : sum / number;
    for (int64_t b = 0; b < in->count; b++)
        if (in->valid[b] != 0) squares += (value[b] - mean) * (value[b] - mean);
    double spread = number > 1 ? sqrt(squares / (number - 1)) : 0;
    for (int64_t b = 0; b < in->count; b++)
        if (in->valid[b] != 0) value[b] = (value[b] - mean) / (spread > 0 ? spread : 1);
}

static bool gdpo(double *value, const AdvantageInput *in, const AdvantageOptions *options, Error *error) {
    int64_t weights = options->reward_weight_count;
    if (in->component_count < 2)
        return error_set(
            error,
            "grpo.adv_estimator.name: \"gdpo\": the reward has %d components, expected 2 or more; \"grpo\" "
            "takes one",
            in->component_count);
    if (weights && weights != in->component_count)
        return error_set(error, "grpo.adv_estimator.reward_weights: %lld numbers for %d components of the reward",
                         (long long)weights, in->component_count);
    for (int i = 0; i < in->component_count; i++)
        add_group_advantages(value, weights ? options->reward_weights[i] : 1, in->components[i], in,
                             options->use_leave_one_out_baseline, options->normalize_rewards);
    standardize(value, in);
    return true;
}

// ---- by token

typedef struct Whitening {
    bool unbiased;         // variance of the sample, not of the population
    double epsilon, least; // added to the variance; what it counts as at least
} Whitening;

static bool counts(const AdvantageInput *in, int64_t b, int64_t t) {
    return in->valid[b] != 0 && in->mask[t] != 0;
}

// Takes the mean off and divides by the root of the variance. Statistics are over tokens with mask ≠ 0; all tokens of valid
// samples are changed.
static void whiten(double *value, const AdvantageInput *in, Whitening how) {
    double sum = 0, squares = 0, number = 0;
    for (int64_t b = 0; b < in->count; b++)
        for (int64_t t = in->offset[b]; t < in->offset[b + 1]; t++)
            if (counts(in, b, t)) sum += value[t], number += 1;
    if (number == 0) return;
    double mean = sum / number;
    for (int64_t b = 0; b < in->count; b++)
        for (int64_t t = in->offset[b]; t < in->offset[b + 1]; t++)
            if (counts(in, b, t)) squares += (value[t] - mean) * (value[t] - mean);
    double variance = squares / (how.unbiased && number > 1 ? number - 1 : number) + how.epsilon;
    double spread = sqrt(variance < how.least ? how.least : variance);
    for (int64_t b = 0; b < in->count; b++)
        for (int64_t t = in->offset[b]; in->valid[b] != 0 && t < in->offset[b + 1]; t++)
            value[t] = (value[t] - mean) / spread;
}

static void spread_over_tokens(double *by_token, const double *by_sample, const AdvantageInput *in) {
    for (int64_t b = 0; b < in->count; b++)
        for (int64_t t = in->offset[b]; t < in->offset[b + 1]; t++) by_token[t] = by_sample[b];
}

static void take_kl_off(double *by_token, const AdvantageInput *in, const LossOptions *loss) {
    for (int64_t b = 0; b < in->count; b++)
        for (int64_t t = in->offset[b]; in->valid[b] != 0 && t < in->offset[b + 1]; t++)
            by_token[t] -= loss->reference_policy_kl_penalty * loss_kl(loss, in->policy[t], in->reference[t]);
}

static void valid_rewards(double *by_sample, const AdvantageInput *in) {
    for (int64_t b = 0; b < in->count; b++) by_sample[b] = in->valid[b] != 0 ? (double)in->reward[b] : 0;
}

// ---- all

static bool estimate(double *by_token, double *by_sample, const AdvantageInput *in, const AdvantageOptions *options,
                     const LossOptions *loss, Error *error) {
    const Whitening whitening = {.least = 1e-8};
    if (is(options, "gdpo")) {
        if (!gdpo(by_sample, in, options, error)) return false;
    } else if (is(options, "grpo"))
        add_group_advantages(by_sample, 1, in->reward, in, options->use_leave_one_out_baseline,
                             options->normalize_rewards);
    else if (is(options, "reinforce_plus_plus") && options->minus_baseline)
        add_group_advantages(by_sample, 1, in->reward, in, false, false);
    else
        valid_rewards(by_sample, in);
    spread_over_tokens(by_token, by_sample, in);
    if (advantage_needs_reference(options, loss)) take_kl_off(by_token, in, loss);
    if (is(options, "reinforce_plus_plus") || (is(options, "raw_reward") && options->normalize_advantages))
        whiten(by_token, in, whitening);
    return true;
}

bool advantage_estimate(float *advantage, const AdvantageInput *in, const AdvantageOptions *options,
                        const LossOptions *loss, Error *error) {
    Arena arena = {0};
    int64_t tokens = in->offset[in->count];
    double *by_token = arena_array(&arena, double, tokens), *by_sample = arena_array(&arena, double, in->count);
    bool good = estimate(by_token, by_sample, in, options, loss, error);
    double low = options->advantage_clip_low, high = options->advantage_clip_high;
    for (int64_t b = 0; good && b < in->count; b++)
        for (int64_t t = in->offset[b]; t < in->offset[b + 1]; t++) {
            double value = by_token[t] < low ? low : by_token[t] > high ? high : by_token[t];
            advantage[t] = in->valid[b] != 0 ? (float)value : 0;
        }
    arena_close(&arena);
    return good;
}

// ---- GAE

static void gae_rewards(double *reward, const AdvantageInput *in, const LossOptions *loss) {
    bool kl = loss->use_kl_in_reward && loss->reference_policy_kl_penalty != 0;
    for (int64_t b = 0; b < in->count; b++) {
        int64_t last = -1;
        for (int64_t t = in->offset[b]; t < in->offset[b + 1]; t++) {
            if (!counts(in, b, t)) continue;
            if (kl) reward[t] -= loss->reference_policy_kl_penalty * loss_kl(loss, in->policy[t], in->reference[t]);
            last = t;
        }
        if (last >= 0) reward[last] += (double)in->reward[b];
    }
}

// A of every token of sequence b; at a token of mask 0 that of the next one that counts is carried on.
static void gae_backwards(double *out, const double *reward, const float *values, const AdvantageInput *in, int64_t b,
                          double gamma, double lambda) {
    double next_value = 0, next = 0;
    for (int64_t t = in->offset[b + 1] - 1; t >= in->offset[b]; t--) {
        if (counts(in, b, t)) {
            next = reward[t] + gamma * next_value - (double)values[t] + gamma * lambda * next;
            next_value = (double)values[t];
        }
        out[t] = next;
    }
}

static double policy_lambda(const GaeOptions *options, const AdvantageInput *in, int64_t b) {
    if (options->length_adaptive_alpha <= 0)
        return isnan(options->gae_lambda_policy) ? options->gae_lambda : options->gae_lambda_policy;
    double tokens = 0;
    for (int64_t t = in->offset[b]; t < in->offset[b + 1]; t++) tokens += counts(in, b, t);
    return 1 - 1 / fmax(options->length_adaptive_alpha * tokens, 1);
}

void advantage_gae(float *advantage, float *returns, const AdvantageInput *in, const float *values,
                   const GaeOptions *options, const LossOptions *loss) {
    Arena arena = {0};
    int64_t tokens = in->offset[in->count];
    double *reward = arena_array(&arena, double, tokens), *value = arena_array(&arena, double, tokens);
    double value_lambda = isnan(options->gae_lambda_value) ? options->gae_lambda : options->gae_lambda_value;
    gae_rewards(reward, in, loss);
    for (int64_t b = 0; b < in->count; b++) {
        gae_backwards(value, reward, values, in, b, options->gae_gamma, value_lambda);
        for (int64_t t = in->offset[b]; t < in->offset[b + 1]; t++) returns[t] = (float)(value[t] + (double)values[t]);
        gae_backwards(value, reward, values, in, b, options->gae_gamma, policy_lambda(options, in, b));
    }
    if (options->normalize_advantages) whiten(value, in, (Whitening){.unbiased = true, .epsilon = 1e-8});
    for (int64_t b = 0; b < in->count; b++)
        for (int64_t t = in->offset[b]; t < in->offset[b + 1]; t++)
            advantage[t] = counts(in, b, t) ? (float)value[t] : 0;
    arena_close(&arena);
}

void advantage_opd(float *advantage, const AdvantageInput *in, const float *teacher) {
    for (int64_t b = 0; b < in->count; b++)
        for (int64_t t = in->offset[b]; t < in->offset[b + 1]; t++)
            advantage[t] = counts(in, b, t) ? (float)((double)teacher[t] - (double)in->policy[t]) : 0;
}
