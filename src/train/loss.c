#include "train/loss.h"

#include <math.h>
#include <string.h>

typedef enum KlType { KL_K1, KL_K2, KL_K3 } KlType;

static bool is(const char *text, const char *word) {
    return text && !strcmp(text, word);
}

bool loss_needs_reference(const LossOptions *options) {
    return options->reference_policy_kl_penalty != 0 && !options->use_kl_in_reward;
}

static bool masks_sequences(const LossOptions *options) {
    return is(options->truncated_importance_sampling_type, "seq-mask-tis");
}

static bool has_sequence_ratio(const LossOptions *options) {
    return options->sequence_level_importance_ratios && !options->disable_ppo_ratio && !options->force_on_policy_ratio;
}

bool loss_reads_sequences(const LossOptions *options) {
    return !options->token_level_loss || options->sequence_level_importance_ratios || masks_sequences(options);
}

bool loss_reads_current_first(const LossOptions *options) {
    bool weighs_sequences = options->sequence_level_importance_ratios || masks_sequences(options);
    return has_sequence_ratio(options) || (weighs_sequences && options->force_on_policy_ratio);
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

// Of what is infinite in fp32 too, as in NeMo-RL: a gradient of that size could not be written down.
static double zero_unless_finite(double x) {
    return isfinite((float)x) ? x : 0;
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

// Of a ratio to the policy before; the slope is by the ratio's logarithm.
static ActorTerm clipped_term(const LossOptions *options, double ratio, double advantage) {
    double clamped = clamp(ratio, 1 - options->ratio_clip_min, 1 + options->ratio_clip_max);
    // The derivative of −A·exp(x) is itself; at a tie (r inside the clip) both arms of the maximum agree.
    ActorTerm term = {{-advantage * ratio, -advantage * ratio}, ratio, clamped, false};
    if (-advantage * clamped > term.loss.value) term = (ActorTerm){{-advantage * clamped, 0}, ratio, clamped, true};
    double most = -advantage * options->ratio_clip_c; // NAN: off
    if (advantage < 0 && term.loss.value > most) term = (ActorTerm){{most, 0}, ratio, clamped, true};
    return term;
}

static ActorTerm actor_term(const LossOptions *options, const LossSequence *sequence, double current, double previous,
                            double advantage) {
    if (has_sequence_ratio(options)) {
        ActorTerm term = clipped_term(options, sequence->ratio, advantage);
        term.loss.slope = sequence->slope;
        return term;
    }
    if (options->force_on_policy_ratio) return (ActorTerm){{-advantage, -advantage}, 1, 1, false};
    if (options->disable_ppo_ratio) return (ActorTerm){{-advantage * current, -advantage}, current, current, false};
    double ratio = exponential(current - previous);
    if (!options->use_cispo) return clipped_term(options, ratio, advantage);
    double clamped = clamp(ratio, 1 - options->ratio_clip_min, 1 + options->ratio_clip_max);
    return (ActorTerm){{-advantage * clamped * current, -advantage * clamped}, ratio, clamped, ratio != clamped};
}

double loss_kl(const LossOptions *options, double current, double reference) {
    double in = options->kl_input_clamp_value, out = options->kl_output_clamp_value;
    return clamp(kl_estimate(kl_type_of(options), clamp(reference - current, -in, in)), -out, out);
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

static bool within_bounds(const LossOptions *options, double weight) {
    double least = options->truncated_importance_sampling_ratio_min; // NAN: none
    return !(weight < least) && weight <= options->truncated_importance_sampling_ratio;
}

// exp(log_weight), bounded by "tis" and "icepop", and whether it was outside the bounds.
static double sampling_weight(const LossOptions *options, double log_weight, bool *outside) {
    double weight = zero_unless_finite(exponential(log_weight));
    *outside = false;
    if (!options->truncated_importance_sampling_type || masks_sequences(options)) return weight;
    *outside = !within_bounds(options, weight);
    if (!*outside) return weight;
    if (is(options->truncated_importance_sampling_type, "icepop")) return 0;
    double most = options->truncated_importance_sampling_ratio;
    return weight > most ? most : options->truncated_importance_sampling_ratio_min;
}

// How far the two log-probs of one token, from trainer and sampler, are apart.
static void add_mismatch(LossMetrics *metrics, KlType type, double share, double previous, double generation) {
    double apart = previous - generation, size = fabs(apart);
    loss_metrics_raise(&metrics->max_abs_logprob_error, size);
    metrics->mean_abs_logprob_error += share * size;
    metrics->token_mult_prob_error += share * exponential(size);
    metrics->gen_kl_error += share * kl_estimate(type, apart);
    metrics->policy_kl_error += share * kl_estimate(type, -apart);
    if (size == 0) return; // no rounding left
    // With M = (p + q) / 2: the larger of log p and log q is `above` above log M, the smaller size − above below it.
    double above = -(logarithm(1 + exponential(-size)) - 0x1.62e42fefa39efp-1);
    metrics->js_divergence_error += share * (kl_estimate(KL_K3, above) + kl_estimate(KL_K3, above - size)) / 2;
}

static void add_actor(LossMetrics *metrics, double share, const ActorTerm *actor) {
    metrics->probs_ratio += share * actor->ratio;
    metrics->probs_ratio_clamped += share * actor->clamped;
    loss_metrics_lower(&metrics->probs_ratio_min, actor->ratio);
    loss_metrics_raise(&metrics->probs_ratio_max, actor->ratio);
    loss_metrics_lower(&metrics->probs_ratio_clamped_min, actor->clamped);
    loss_metrics_raise(&metrics->probs_ratio_clamped_max, actor->clamped);
    if (actor->clipped) metrics->clipped_tokens += share;
}

// ---- sequences

static double previous_of(const LossTokens *tokens, const LossOptions *options, int64_t i) {
    return options->force_on_policy_ratio ? tokens->current[i] : tokens->previous[i];
}

// Sums over the tokens of a sequence.
typedef struct SequenceSums {
    double tokens;
    double log_ratio;  // cur − prev
    double log_weight; // prev − gen
    double finite;     // prev − gen where finite
} SequenceSums;

static SequenceSums sequence_sums(const LossTokens *tokens, const LossOptions *options) {
    SequenceSums sums = {0};
    bool ratio = has_sequence_ratio(options);
    for (int64_t i = 0; i < tokens->count; i++) {
        if (tokens->mask[i] == 0) continue;
        double previous = previous_of(tokens, options, i), off = previous - tokens->generation[i];
        sums.tokens += 1;
        if (ratio) sums.log_ratio += tokens->current[i] - previous;
        sums.log_weight += off;
        sums.finite += zero_unless_finite(off);
    }
    return sums;
}

// The mean of the tokens' slopes by the ratio's logarithm, which is the mean of all their log-probs.
static double sequence_slope(double ratio, const LossTokens *tokens, const LossOptions *options, double number) {
    double sum = 0;
    for (int64_t i = 0; i < tokens->count; i++)
        if (tokens->mask[i] != 0) sum += clipped_term(options, ratio, tokens->advantage[i]).loss.slope;
    return sum / number;
}

void loss_sequence(LossSequence *sequence, LossMetrics *metrics, const LossTokens *tokens, const LossOptions *options,
                   LossCounts counts) {
    *sequence = (LossSequence){0};
    SequenceSums sums = sequence_sums(tokens, options);
    if (sums.tokens == 0 || counts.valid_seqs <= 0) return;
    sequence->share = 1 / (counts.valid_seqs * sums.tokens);
    sequence->ratio = exponential(sums.log_ratio / sums.tokens);
    if (options->sequence_level_importance_ratios) {
        sequence->weight = sampling_weight(options, sums.log_weight, &sequence->outside);
        metrics->sampling_importance_ratio += sequence->weight / counts.valid_seqs;
    } else if (masks_sequences(options)) {
        sequence->weight = within_bounds(options, exponential(sums.finite / sums.tokens));
        metrics->is_oob_ratio += (1 - sequence->weight) / counts.valid_seqs;
    }
    if (has_sequence_ratio(options)) sequence->slope = sequence_slope(sequence->ratio, tokens, options, sums.tokens);
}

// ---- tokens

// w of a token; adds it to the metrics.
static double token_weight(LossMetrics *metrics, const LossOptions *options, const LossSequence *sequence, double share,
                           double log_weight) {
    bool outside;
    double weight;
    if (options->sequence_level_importance_ratios) { // its mean over sequences: loss_sequence
        weight = sequence->weight;
        outside = sequence->outside;
    } else {
        weight = sampling_weight(options, log_weight, &outside);
        if (masks_sequences(options)) weight *= sequence->weight;
        metrics->sampling_importance_ratio += share * weight;
    }
    if (outside) metrics->is_oob_ratio += share;
    return weight;
}

void loss_clipped_pg(LossMetrics *metrics, float *dcurrent, float *dunfiltered, const LossTokens *tokens,
                     const LossOptions *options, LossCounts counts) {
    KlType type = kl_type_of(options);
    const LossSequence *sequence = tokens->sequence;
    bool needs_reference = loss_needs_reference(options), apart = tokens->current_unfiltered != tokens->current;
    double likelihood = tokens->positive && counts.positive_toks > 0 ? 1 / counts.positive_toks : 0;
    CHECK(!needs_reference || tokens->reference, "KL penalty %g without reference log-probs",
          options->reference_policy_kl_penalty);
    CHECK(!loss_reads_sequences(options) || sequence, "a loss over sequences without a sequence");
    for (int64_t i = 0; i < tokens->count; i++) {
        dcurrent[i] = 0;
        if (apart) dunfiltered[i] = 0;
        if (tokens->mask[i] == 0 || counts.valid_toks <= 0) continue;
        double share = tokens->mask[i] / counts.valid_toks;
        double part = options->token_level_loss ? share : tokens->mask[i] * sequence->share;
        double current = tokens->current[i], generation = tokens->generation[i];
        double previous = previous_of(tokens, options, i);

        ActorTerm actor = actor_term(options, sequence, current, previous, tokens->advantage[i]);
        double weight = token_weight(metrics, options, sequence, share, previous - generation);
        double used = options->use_importance_sampling_correction ? weight : 1;
        Term kl = {0, 0};
        if (needs_reference)
            kl = kl_term(options, type, tokens->current_unfiltered[i], tokens->reference[i], generation);
        double nll = options->positive_example_nll_weight != 0 ? tokens->mask[i] * likelihood : 0;

        double actor_slope = part * (used * actor.loss.slope);
        double kl_slope = part * (options->reference_policy_kl_penalty * kl.slope);
        actor_slope -= options->positive_example_nll_weight * nll;
        dcurrent[i] = (float)(apart ? actor_slope : actor_slope + kl_slope);
        if (apart) dunfiltered[i] = (float)kl_slope;

        metrics->loss += part * (used * actor.loss.value + options->reference_policy_kl_penalty * kl.value) -
                         options->positive_example_nll_weight * nll * current;
        metrics->kl_penalty += part * kl.value;
        metrics->positive_nll_loss -= nll * current;
        metrics->approx_entropy -= share * (exponential(current - generation) * current);
        add_actor(metrics, share, &actor);
        add_mismatch(metrics, type, share, previous, generation);
    }
}

void loss_nll(double *loss, float *dcurrent, const float *current, const float *mask, int64_t count,
              double valid_toks) {
    for (int64_t i = 0; i < count; i++) {
        double share = mask[i] == 0 || valid_toks <= 0 ? 0 : mask[i] / valid_toks;
        dcurrent[i] = (float)-share;
        if (share != 0) *loss -= share * (double)current[i];
    }
}
