// The policy-gradient loss of the GRPO family (NeMo-RL's ClippedPGLossFn; reference/nemo_rl.md section 2) on the
// log-probs of response tokens, with its gradient and metrics. fp32 per token as PyTorch computes it, sums in double.
#pragma once
#include "base/error.h"

#include <stdint.h>

typedef enum KlType { KL_K1, KL_K2, KL_K3 } KlType;

// loss_fn.* of the recipe. Options that are parsed but not computed yet are refused by loss_options_check.
typedef struct LossOptions {
    double reference_policy_kl_penalty;                 // β
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

LossOptions loss_options_default(void); // NeMo-RL's defaults (section 1.2)

// Refuses contradictory options (as NeMo-RL does) and, for now, what is not computed, naming loss_fn.<key>.
bool loss_options_check(const LossOptions *options, Error *error);

// The tokens of one chunk of a micro-batch, in order. Only positions whose token_mask is 1 need to be present; mask[i] is
// token_mask · sample_mask (a token of mask 0 takes no part and gets gradient 0).
typedef struct LossTokens {
    int64_t count;
    const float *current;            // log-probs of the policy being trained (filtered as in sampling)
    const float *current_unfiltered; // for the KL term; may be the same array as current
    const float *previous;           // of the policy before the update
    const float *generation;         // as recorded by the sampler
    const float *reference;          // NULL when the KL penalty is 0
    const float *advantage;
    const float *mask;
} LossTokens;

// Sums over tokens, already divided by the global counts, so that adding up chunks, micro-batches and ranks gives the value
// of the whole step; extrema combine by min and max (±INFINITY: no token). Start from loss_metrics_zero().
typedef struct LossMetrics {
    double loss, kl_penalty, probs_ratio, probs_ratio_clamped, token_mult_prob_error, gen_kl_error, policy_kl_error,
        js_divergence_error, sampling_importance_ratio, approx_entropy, positive_nll_loss, num_valid_samples;
    double probs_ratio_min, probs_ratio_max, probs_ratio_clamped_min, probs_ratio_clamped_max;
    double
        max_abs_logprob_error; // max |previous − generation|, and |current − generation| when previous is the sampler's
    double clipped_tokens;     // share of tokens whose ratio was clipped
} LossMetrics;

LossMetrics loss_metrics_zero(void);
void loss_metrics_add(LossMetrics *sum, const LossMetrics *part);

// Adds the chunk's loss and metrics to *metrics and writes dcurrent[count] (and dunfiltered[count] when current_unfiltered is
// another array, else the KL gradient is in dcurrent too). Token-level loss: valid for any chunking.
void loss_clipped_pg(LossMetrics *metrics, float *dcurrent, float *dunfiltered, const LossTokens *tokens,
                     const LossOptions *options, double global_valid_seqs, double global_valid_toks);

// NLL of supervised fine-tuning: Σ −current·mask / global_valid_toks, gradient likewise.
void loss_nll(double *loss, float *dcurrent, const float *current, const float *mask, int64_t count,
              double global_valid_toks);
