// The policy-gradient loss of the GRPO family (NeMo-RL's ClippedPGLossFn) on the log-probs of response tokens, with its
// gradient and metrics, and the NLL of supervised fine-tuning. Inputs and gradients are fp32; what happens between them is
// double with exp and log of our own, so that a token's numbers have the same bits on every machine. Sums over tokens run
// in order and go on from what is there: cutting a micro-batch into chunks changes no bit.
//
// Per token, with mask m, A the advantage, cur/prev/gen/ref the log-probs:
//   r = exp(cur − prev), r' = r clamped to [1 − ratio_clip_min, 1 + ratio_clip_max]
//   L = max(−A·r, −A·r'), and where A < 0 at most −A·ratio_clip_c (Ye et al. 2020)
//     sequence_level_importance_ratios (GSPO, Zheng et al. 2025): r = exp(mean of cur − prev over the sequence)
//     use_cispo: −A·stop(r')·cur (MiniMax 2025); disable_ppo_ratio (REINFORCE): r = r' = cur
//     force_on_policy_ratio: prev = stop(cur), and r = r' = exp(cur − stop(cur)), of one token always
//   d = ref − cur clamped to ±kl_input_clamp_value; k1 = −d, k2 = d²/2, k3 = exp(d) − 1 − d (Schulman 2020)
//   K = v·k clamped to ±kl_output_clamp_value; v = exp(cur − stop(cur)) or, with use_on_policy_kl_approximation,
//     exp(cur − gen): K carries the gradient of the sampling distribution too (Tang & Munos 2025); where the input clamp
//     acts v counts as constant
//   w = exp(prev − gen) with use_importance_sampling_correction, for GSPO exp(Σ prev − gen) of the sequence, else 1; not
//     finite in fp32: 0, as v. Outside of [ratio_min, ratio] "tis" clamps it, "icepop" makes it 0; "seq-mask-tis" leaves it
//     and makes all w of a sequence 0 whose exp(mean of prev − gen) is outside
//   loss = Σ s·m·(w·L + reference_policy_kl_penalty·K) + positive_example_nll_weight·(mean −cur over the valid tokens of
//     samples with a reward above 0), where s = 1 / (valid tokens of the global batch), or, with token_level_loss false,
//     1 / (valid sequences of the global batch · tokens of this sequence)
#pragma once
#include "train/loss_metrics.h"
#include "train/loss_options.h"

// Whether the loss reads reference log-probs: a KL penalty that is not left to the reward.
bool loss_needs_reference(const LossOptions *options);

// K of one token with v = 1.
double loss_kl(const LossOptions *options, double current, double reference);

// Whether loss_clipped_pg needs a LossSequence, and whether that is made of current log-probs too: then those of the whole
// sequence must be known before the first token's gradient is.
bool loss_reads_sequences(const LossOptions *options);
bool loss_reads_current_first(const LossOptions *options);

// Counts of the global batch, which normalise the sums. A count of 0 gives 0.
typedef struct LossCounts {
    double valid_toks, valid_seqs;
    double positive_toks; // valid tokens of samples with a reward above 0
} LossCounts;

// What the tokens of one sequence share. Zero-initialised: a sequence without a valid token.
typedef struct LossSequence {
    double share;        // of each token in the mean over sequences: 1 / (valid_seqs · tokens)
    double ratio, slope; // GSPO's r, and the derivative of the mean L by the log-prob of each token
    double weight;       // GSPO's w; seq-mask-tis: 1 or 0
    bool outside;        // GSPO's w is outside its bounds
} LossSequence;

// Some tokens of one sequence, in order. Only positions whose token_mask is 1 need to be present; mask[i] is
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
    bool positive;                // the sample's reward is above 0; read with positive_example_nll_weight only
    const LossSequence *sequence; // not read (may be NULL) unless loss_reads_sequences
} LossTokens;

// Makes *sequence of all its tokens (current is read only if loss_reads_current_first), and adds what counts by sequences,
// not by tokens, to *metrics: GSPO's sampling_importance_ratio, seq-mask-tis's is_oob_ratio.
void loss_sequence(LossSequence *sequence, LossMetrics *metrics, const LossTokens *tokens, const LossOptions *options,
                   LossCounts counts);

// Adds the tokens' loss and metrics to *metrics and writes dcurrent[count], and dunfiltered[count] when current_unfiltered
// is another array (else the KL gradient is in dcurrent and dunfiltered may be NULL).
void loss_clipped_pg(LossMetrics *metrics, float *dcurrent, float *dunfiltered, const LossTokens *tokens,
                     const LossOptions *options, LossCounts counts);

// *loss += Σ −current·mask / valid_toks, with its gradient.
void loss_nll(double *loss, float *dcurrent, const float *current, const float *mask, int64_t count, double valid_toks);
