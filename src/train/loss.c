#include "train/loss.h"

#include <math.h>
#include <string.h>

typedef enum KlType { KL_K1, KL_K2, KL_K3 } KlType;

// ---- options

LossOptions loss_options_default(void) {
    return (LossOptions){
        .reference_policy_kl_penalty = 0.01,
        .reference_policy_kl_type = "k3",
        .kl_input_clamp_value = 20,
        .kl_output_clamp_value = 10,
        .ratio_clip_min = 0.2,
        .ratio_clip_max = 0.2,
        .token_level_loss = true,
    };
}

static bool is(const char *text, const char *word) {
    return text && !strcmp(text, word);
}

static bool check_number(double value, const char *key, Error *error) {
    return value >= 0 || error_set(error, "loss_fn.%s: %g: expected a number that is at least 0", key, value);
}

static bool check_numbers(const LossOptions *options, Error *error) {
    return check_number(options->reference_policy_kl_penalty, "reference_policy_kl_penalty", error) &&
           check_number(options->kl_input_clamp_value, "kl_input_clamp_value", error) &&
           check_number(options->kl_output_clamp_value, "kl_output_clamp_value", error) &&
           check_number(options->ratio_clip_min, "ratio_clip_min", error) &&
           check_number(options->ratio_clip_max, "ratio_clip_max", error);
}

static bool check_clip(const LossOptions *options, Error *error) {
    if (options->ratio_clip_c != 0 && !(options->ratio_clip_c > 1))
        return error_set(error, "loss_fn.ratio_clip_c: %g: expected a bound of the ratio above 1, or null",
                         options->ratio_clip_c);
    if (options->sequence_level_importance_ratios && options->token_level_loss)
        return error_set(error, "loss_fn.sequence_level_importance_ratios: true goes with "
                                "loss_fn.token_level_loss: false only");
    if (!options->use_cispo) return true;
    const char *other = options->disable_ppo_ratio                  ? "disable_ppo_ratio: true"
                        : options->force_on_policy_ratio            ? "force_on_policy_ratio: true"
                        : options->sequence_level_importance_ratios ? "sequence_level_importance_ratios: true"
                        : options->ratio_clip_c != 0                ? "ratio_clip_c"
                        : !options->token_level_loss                ? "token_level_loss: false"
                                                                    : NULL;
    return !other || error_set(error, "loss_fn.use_cispo: true cannot go with loss_fn.%s", other);
}

static bool check_truncation(const LossOptions *options, Error *error) {
    const char *type = options->truncated_importance_sampling_type;
    double most = options->truncated_importance_sampling_ratio;
    double least = options->truncated_importance_sampling_ratio_min;
    if (!type)
        return (most == 0 && least == 0) ||
               error_set(error,
                         "loss_fn.truncated_importance_sampling_ratio%s: %g without "
                         "loss_fn.truncated_importance_sampling_type: expected \"tis\" or \"icepop\" there",
                         most != 0 ? "" : "_min", most != 0 ? most : least);
    if (!is(type, "tis") && !is(type, "icepop") && !is(type, "seq-mask-tis"))
        return error_set(error,
                         "loss_fn.truncated_importance_sampling_type: \"%s\": expected \"tis\", \"icepop\", "
                         "\"seq-mask-tis\" or null",
                         type);
    if (!options->use_importance_sampling_correction)
        return error_set(error,
                         "loss_fn.truncated_importance_sampling_type: \"%s\" needs "
                         "loss_fn.use_importance_sampling_correction: true",
                         type);
    if (!(most > 0))
        return error_set(error, "loss_fn.truncated_importance_sampling_ratio: %s: expected a number above 0 for \"%s\"",
                         most == 0 ? "0 or null" : "negative", type);
    if (!(least >= 0 && least <= most))
        return error_set(error,
                         "loss_fn.truncated_importance_sampling_ratio_min: %g: expected a number from 0 to "
                         "truncated_importance_sampling_ratio (%g)",
                         least, most);
    if (least == 0 && !is(type, "tis"))
        return error_set(error,
                         "loss_fn.truncated_importance_sampling_ratio_min: 0 or null: expected a number above 0 for "
                         "\"%s\"",
                         type);
    return !(is(type, "seq-mask-tis") && options->sequence_level_importance_ratios) ||
           error_set(error, "loss_fn.truncated_importance_sampling_type: \"seq-mask-tis\" cannot go with "
                            "loss_fn.sequence_level_importance_ratios: true");
}

bool loss_options_check(const LossOptions *options, Error *error) {
    const char *type = options->reference_policy_kl_type;
    if (!is(type, "k1") && !is(type, "k2") && !is(type, "k3"))
        return error_set(error, "loss_fn.reference_policy_kl_type: \"%s\": expected \"k1\", \"k2\" or \"k3\"",
                         type ? type : "null");
    if (!check_numbers(options, error) || !check_clip(options, error) || !check_truncation(options, error))
        return false;
    const char *missing = options->sequence_level_importance_ratios ? "sequence_level_importance_ratios: true"
                          : !options->token_level_loss              ? "token_level_loss: false"
                          : is(options->truncated_importance_sampling_type, "seq-mask-tis")
                              ? "truncated_importance_sampling_type: \"seq-mask-tis\""
                          : options->positive_example_nll_weight != 0 ? "positive_example_nll_weight"
                                                                      : NULL;
    return !missing || error_set(error, "loss_fn.%s: not supported yet", missing);
}

bool loss_needs_reference(const LossOptions *options) {
    return options->reference_policy_kl_penalty != 0 && !options->use_kl_in_reward;
}

// ---- exp and log in double, of plain additions and multiplications: about 1e-16 relative, the same bits everywhere

static double exponential(double x) {
    const double per_ln2 = 0x1.71547652b82fep+0, ln2_high = 0x1.62e42fefa3800p-1, ln2_low = 0x1.ef35793c76730p-45;
    if (!(x < 709.7)) return x >= 709.7 ? INFINITY : x; // NaN comes back
    if (x < -745) return 0;
    double n = (x * per_ln2 + 0x1.8p52) - 0x1.8p52; // the nearest integer
    double rest = (x - n * ln2_high) - n * ln2_low;
    double sum = 1; // Taylor; |rest| <= 0.35, so that term 15 is below 1e-19
    for (int k = 14; k > 0; k--) sum = 1 + sum * rest / k;
    return ldexp(sum, (int)n);
}

// For 1 <= x <= 2: log x = 2·artanh((x − 1) / (x + 1)), whose argument is at most 1/3.
static double logarithm(double x) {
    double s = (x - 1) / (x + 1), sum = 0;
    for (int k = 33; k > 0; k -= 2) sum = sum * (s * s) + 1.0 / k;
    return 2 * s * sum;
}

// ---- the loss

static KlType kl_type_of(const LossOptions *options) {
    return is(options->reference_policy_kl_type, "k1")   ? KL_K1
           : is(options->reference_policy_kl_type, "k2") ? KL_K2
                                                         : KL_K3;
}

// KL estimate from d = log-prob under the other distribution minus log-prob under the sampling one.
static double kl_estimate(KlType type, double d) {
    switch (type) {
    case KL_K1: return -d;
    case KL_K2: return d * d / 2;
    case KL_K3: break;
    }
    return exponential(d) - 1 - d;
}

static double clamp(double x, double least, double most) {
    return x < least ? least : x > most ? most : x;
}

static double zero_unless_finite(double x) {
    return isfinite(x) ? x : 0;
}

// A summand of the loss and its derivative by the current log-prob.
typedef struct Term {
    double value, slope;
} Term;

typedef struct ActorTerm {
    Term loss;
    double ratio, clamped;
    bool clipped;
} ActorTerm;

static ActorTerm actor_term(const LossOptions *options, double current, double previous, double advantage) {
    if (options->disable_ppo_ratio && !options->force_on_policy_ratio)
        return (ActorTerm){{-advantage * current, -advantage}, current, current, false};
    double ratio = exponential(current - previous);
    double clamped = clamp(ratio, 1 - options->ratio_clip_min, 1 + options->ratio_clip_max);
    if (options->use_cispo)
        return (ActorTerm){{-advantage * clamped * current, -advantage * clamped}, ratio, clamped, ratio != clamped};
    // The derivative of −A·exp(cur − prev) is itself; at a tie (r inside the clip) both arms of the maximum agree.
    ActorTerm term = {{-advantage * ratio, -advantage * ratio}, ratio, clamped, false};
    if (-advantage * clamped > term.loss.value) term = (ActorTerm){{-advantage * clamped, 0}, ratio, clamped, true};
    double most = -advantage * options->ratio_clip_c;
    if (options->ratio_clip_c != 0 && advantage < 0 && term.loss.value > most)
        term = (ActorTerm){{most, 0}, ratio, clamped, true};
    return term;
}

static Term kl_term(const LossOptions *options, KlType type, double current, double reference, double generation) {
    double d = clamp(reference - current, -options->kl_input_clamp_value, options->kl_input_clamp_value);
    double weight = options->use_on_policy_kl_approximation ? zero_unless_finite(exponential(current - generation)) : 1;
    // d(v·k)/d cur = v·(k + dk/d cur), as v is its own derivative: 1 − d, d²/2 − d, −d.
    double slope = type == KL_K1 ? 1 - d : type == KL_K2 ? d * d / 2 - d : -d;
    if (d != reference - current) slope = 0;
    double value = weight * kl_estimate(type, d), most = options->kl_output_clamp_value;
    if (value < -most || value > most) slope = 0;
    return (Term){clamp(value, -most, most), weight * slope};
}

// w and whether the truncation touched it.
static double sampling_weight(const LossOptions *options, double previous, double generation, bool *outside) {
    double weight = zero_unless_finite(exponential(previous - generation));
    if (!options->truncated_importance_sampling_type) return weight;
    double bounded =
        clamp(weight, options->truncated_importance_sampling_ratio_min, options->truncated_importance_sampling_ratio);
    *outside = bounded != weight;
    return *outside && is(options->truncated_importance_sampling_type, "icepop") ? 0 : bounded;
}

static void raise_to(double *most, double x) {
    if (x > *most || isnan(x)) *most = x;
}
static void lower_to(double *least, double x) {
    if (x < *least) *least = x;
}

// How far the two log-probs of one token, from trainer and sampler, are apart.
static void add_mismatch(LossMetrics *metrics, KlType type, double share, double previous, double generation) {
    double apart = previous - generation, size = fabs(apart);
    raise_to(&metrics->max_abs_logprob_error, size);
    metrics->token_mult_prob_error += share * exponential(size);
    metrics->gen_kl_error += share * kl_estimate(type, apart);
    metrics->policy_kl_error += share * kl_estimate(type, -apart);
    // With M = (p + q) / 2: the larger of log p and log q is `above` above log M, the smaller size − above below it.
    double above = -(logarithm(1 + exponential(-size)) - 0x1.62e42fefa39efp-1);
    metrics->js_divergence_error += share * (kl_estimate(KL_K3, above) + kl_estimate(KL_K3, above - size)) / 2;
}

LossMetrics loss_metrics_zero(void) {
    return (LossMetrics){
        .probs_ratio_min = INFINITY,
        .probs_ratio_max = -INFINITY,
        .probs_ratio_clamped_min = INFINITY,
        .probs_ratio_clamped_max = -INFINITY,
    };
}

void loss_metrics_add(LossMetrics *sum, const LossMetrics *part) {
    sum->loss += part->loss;
    sum->kl_penalty += part->kl_penalty;
    sum->probs_ratio += part->probs_ratio;
    sum->probs_ratio_clamped += part->probs_ratio_clamped;
    lower_to(&sum->probs_ratio_min, part->probs_ratio_min);
    raise_to(&sum->probs_ratio_max, part->probs_ratio_max);
    lower_to(&sum->probs_ratio_clamped_min, part->probs_ratio_clamped_min);
    raise_to(&sum->probs_ratio_clamped_max, part->probs_ratio_clamped_max);
    sum->token_mult_prob_error += part->token_mult_prob_error;
    sum->gen_kl_error += part->gen_kl_error;
    sum->policy_kl_error += part->policy_kl_error;
    sum->js_divergence_error += part->js_divergence_error;
    sum->sampling_importance_ratio += part->sampling_importance_ratio;
    sum->is_oob_ratio += part->is_oob_ratio;
    sum->approx_entropy += part->approx_entropy;
    sum->clipped_tokens += part->clipped_tokens;
    sum->num_valid_samples += part->num_valid_samples;
    raise_to(&sum->max_abs_logprob_error, part->max_abs_logprob_error);
}

void loss_metrics_scale(LossMetrics *metrics, double factor) {
    double *sums[] = {&metrics->loss,
                      &metrics->kl_penalty,
                      &metrics->probs_ratio,
                      &metrics->probs_ratio_clamped,
                      &metrics->token_mult_prob_error,
                      &metrics->gen_kl_error,
                      &metrics->policy_kl_error,
                      &metrics->js_divergence_error,
                      &metrics->sampling_importance_ratio,
                      &metrics->is_oob_ratio,
                      &metrics->approx_entropy,
                      &metrics->clipped_tokens,
                      &metrics->num_valid_samples};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) *sums[i] *= factor;
}

static void add_actor(LossMetrics *metrics, double share, const ActorTerm *actor) {
    metrics->probs_ratio += share * actor->ratio;
    metrics->probs_ratio_clamped += share * actor->clamped;
    lower_to(&metrics->probs_ratio_min, actor->ratio);
    raise_to(&metrics->probs_ratio_max, actor->ratio);
    lower_to(&metrics->probs_ratio_clamped_min, actor->clamped);
    raise_to(&metrics->probs_ratio_clamped_max, actor->clamped);
    if (actor->clipped) metrics->clipped_tokens += share;
}

void loss_clipped_pg(LossMetrics *metrics, float *dcurrent, float *dunfiltered, const LossTokens *tokens,
                     const LossOptions *options, double global_valid_toks) {
    KlType type = kl_type_of(options);
    bool needs_reference = loss_needs_reference(options), apart = tokens->current_unfiltered != tokens->current;
    CHECK(!needs_reference || tokens->reference, "KL penalty %g without reference log-probs",
          options->reference_policy_kl_penalty);
    for (int64_t i = 0; i < tokens->count; i++) {
        dcurrent[i] = 0;
        if (apart) dunfiltered[i] = 0;
        if (tokens->mask[i] == 0 || global_valid_toks <= 0) continue;
        double share = tokens->mask[i] / global_valid_toks;
        double current = tokens->current[i], generation = tokens->generation[i];
        double previous = options->force_on_policy_ratio ? current : tokens->previous[i];

        ActorTerm actor = actor_term(options, current, previous, tokens->advantage[i]);
        bool outside = false;
        double weight = sampling_weight(options, previous, generation, &outside);
        double used = options->use_importance_sampling_correction ? weight : 1;
        Term kl = {0, 0};
        if (needs_reference)
            kl = kl_term(options, type, tokens->current_unfiltered[i], tokens->reference[i], generation);

        double actor_slope = share * (used * actor.loss.slope);
        double kl_slope = share * (options->reference_policy_kl_penalty * kl.slope);
        dcurrent[i] = (float)(apart ? actor_slope : actor_slope + kl_slope);
        if (apart) dunfiltered[i] = (float)kl_slope;

        metrics->loss += share * (used * actor.loss.value + options->reference_policy_kl_penalty * kl.value);
        metrics->kl_penalty += share * kl.value;
        metrics->sampling_importance_ratio += share * weight;
        if (outside) metrics->is_oob_ratio += share;
        metrics->approx_entropy -= share * (exponential(current - generation) * current);
        add_actor(metrics, share, &actor);
        add_mismatch(metrics, type, share, previous, generation);
    }
}

void loss_nll(double *loss, float *dcurrent, const float *current, const float *mask, int64_t count,
              double global_valid_toks) {
    for (int64_t i = 0; i < count; i++) {
        double share = mask[i] == 0 || global_valid_toks <= 0 ? 0 : mask[i] / global_valid_toks;
        dcurrent[i] = (float)-share;
        if (share != 0) *loss -= share * (double)current[i];
    }
}
