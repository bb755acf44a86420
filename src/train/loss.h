// The policy-gradient loss of the GRPO family (NeMo-RL's ClippedPGLossFn) on the log-probs of response tokens, with its
// gradient and metrics, and the NLL of supervised fine-tuning. Inputs and gradients are fp32; what happens between them is
// double with exp and log of our own, so that a token's numbers have the same bits on every machine. Sums over tokens run
// in order and go on from what is there: cutting a micro-batch into chunks changes no bit.
//
// Per token, with mask m, A the advantage, N the global count of valid tokens, cur/prev/gen/ref the log-probs:
//   r = exp(cur − prev), r' = r clamped to [1 − ratio_clip_min, 1 + ratio_clip_max]
//   L = max(−A·r, −A·r'), and where A < 0 at most −A·ratio_clip_c (Ye et al. 2020)
//     CISPO: −A·stop(r')·cur (MiniMax 2025); disable_ppo_ratio: r = r' = cur; force_on_policy_ratio: prev = stop(cur)
//   d = ref − cur clamped to ±kl_input_clamp_value; k1 = −d, k2 = d²/2, k3 = exp(d) − 1 − d (Schulman 2020)
//   K = v·k clamped to ±kl_output_clamp_value; v = exp(cur − stop(cur)) or, with use_on_policy_kl_approximation,
//     exp(cur − gen): K carries the gradient of the sampling distribution too (Tang & Munos 2025); where the input clamp
//     acts v counts as constant
//   loss = Σ m·(w·L + reference_policy_kl_penalty·K) / N; w = exp(prev − gen) with use_importance_sampling_correction
//     ("tis": clamped to [ratio_min, ratio]; "icepop": 0 outside of it), else 1; a w that is not finite counts as 0
#pragma once
#include "base/error.h"

#include <stdint.h>

// loss_fn.* of the recipe.
typedef struct LossOptions {
    double reference_policy_kl_penalty;
    const char *reference_policy_kl_type;               // "k1", "k2", "k3"
    double kl_input_clamp_value, kl_output_clamp_value; // INFINITY: off (null)
    double ratio_clip_min, ratio_clip_max;
    double ratio_clip_c; // dual clip; 0: off (null)
    bool use_on_policy_kl_approximation, use_importance_sampling_correction;
    const char *truncated_importance_sampling_type; // NULL, "tis", "icepop", "seq-mask-tis"
    double truncated_importance_sampling_ratio, truncated_importance_sampling_ratio_min; // 0: null
    bool sequence_level_importance_ratios, token_level_loss, force_on_policy_ratio, use_kl_in_reward, use_cispo,
        disable_ppo_ratio;
    double positive_example_nll_weight;
} LossOptions;

LossOptions loss_options_default(void); // NeMo-RL's defaults

// Refuses contradictory options, as NeMo-RL does, and what needs whole sequences ("not supported yet":
// token_level_loss false, sequence_level_importance_ratios, seq-mask-tis, positive_example_nll_weight). The message names
// loss_fn.<key>, what was found and what is expected.
bool loss_options_check(const LossOptions *options, Error *error);

// Whether the loss reads reference log-probs: a KL penalty that is not left to the reward.
bool loss_needs_reference(const LossOptions *options);

// The tokens of one chunk of a micro-batch, in order. Only positions whose token_mask is 1 need to be present; mask[i] is
// token_mask · sample_mask. A token of mask 0 takes no part, whatever its numbers are, and gets gradient 0.
typedef struct LossTokens {
    int64_t count;
    const float *current;            // log-probs of the policy being trained (filtered as in sampling)
    const float *current_unfiltered; // for the KL term; may be the same array as current
    const float *previous;           // of the policy before the update; not read with force_on_policy_ratio
    const float *generation;         // as recorded by the sampler; may be the same array as previous
    const float *reference;          // not read (may be NULL) unless loss_needs_reference
    const float *advantage;
    const float *mask;
} LossTokens;

// Sums over tokens, already divided by the global counts, so that adding up chunks, micro-batches and ranks gives the value
// of the whole step; extrema combine by min and max (±INFINITY: no token). Start from loss_metrics_zero().
typedef struct LossMetrics {
    double loss;
    double kl_penalty; // Σ K / N: the KL term without its coefficient
    double probs_ratio, probs_ratio_clamped;
    double probs_ratio_min, probs_ratio_max, probs_ratio_clamped_min, probs_ratio_clamped_max;
    double token_mult_prob_error;         // mean exp |gen − prev|
    double gen_kl_error, policy_kl_error; // KL of gen from prev and of prev from gen, in reference_policy_kl_type
    double js_divergence_error;
    double sampling_importance_ratio; // mean w after truncation, also where the correction is off
    double is_oob_ratio;          // share of tokens whose w was truncated; to be reported with a truncation type only
    double approx_entropy;        // −mean exp(cur − gen)·cur
    double clipped_tokens;        // share of tokens whose gradient a clip took away (CISPO: whose r was clamped)
    double num_valid_samples;     // not touched here: the caller counts samples
    double max_abs_logprob_error; // largest |prev − gen| over valid tokens; NaN when one is NaN
} LossMetrics;

LossMetrics loss_metrics_zero(void);
void loss_metrics_add(LossMetrics *sum, const LossMetrics *part);
void loss_metrics_scale(LossMetrics *metrics, double factor); // all sums; extrema stay

// Adds the chunk's loss and metrics to *metrics and writes dcurrent[count], and dunfiltered[count] when current_unfiltered
// is another array (else the KL gradient is in dcurrent and dunfiltered may be NULL). A global count of 0 gives 0.
void loss_clipped_pg(LossMetrics *metrics, float *dcurrent, float *dunfiltered, const LossTokens *tokens,
                     const LossOptions *options, double global_valid_toks);

// *loss += Σ −current·mask / global_valid_toks, with its gradient.
void loss_nll(double *loss, float *dcurrent, const float *current, const float *mask, int64_t count,
              double global_valid_toks);
