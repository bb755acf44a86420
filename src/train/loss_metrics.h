// What the policy-gradient loss tells of a batch. Sums are already divided by the counts of the global batch, so that adding
// up chunks, micro-batches and ranks gives the value of the whole step; extrema combine by min and max (±INFINITY: no token).
#pragma once

typedef struct LossMetrics {
    double loss;
    double kl_penalty; // the KL term without its coefficient
    double probs_ratio, probs_ratio_clamped;
    double probs_ratio_min, probs_ratio_max, probs_ratio_clamped_min, probs_ratio_clamped_max;
    double token_mult_prob_error;         // mean exp |gen − prev|
    double gen_kl_error, policy_kl_error; // KL of gen from prev and of prev from gen, in reference_policy_kl_type
    double js_divergence_error;
    double sampling_importance_ratio; // mean w after truncation, also where the correction is off; GSPO: over sequences
    double is_oob_ratio; // share of tokens (seq-mask-tis: of sequences) whose w is outside its bounds; with a type only
    double approx_entropy;         // −mean exp(cur − gen)·cur
    double positive_nll_loss;      // mean −cur over the tokens of samples with a reward above 0
    double clipped_tokens;         // share of tokens whose gradient a clip took away (CISPO: whose r was clamped)
    double num_valid_samples;      // not touched by the loss: the caller counts samples
    double mean_abs_logprob_error; // mean |prev − gen|
    double max_abs_logprob_error;  // largest |prev − gen| over valid tokens; NaN when one is NaN
} LossMetrics;

LossMetrics loss_metrics_zero(void);
void loss_metrics_add(LossMetrics *sum, const LossMetrics *part);
void loss_metrics_scale(LossMetrics *metrics, double factor); // all sums; extrema stay

// *most becomes x when x is larger, or NaN; *least when x is smaller.
void loss_metrics_raise(double *most, double x);
void loss_metrics_lower(double *least, double x);
