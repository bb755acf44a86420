#include "train/loss_metrics.h"

#include <math.h>
#include <stddef.h>

LossMetrics loss_metrics_zero(void) {
    return (LossMetrics){
        .probs_ratio_min = INFINITY,
        .probs_ratio_max = -INFINITY,
        .probs_ratio_clamped_min = INFINITY,
        .probs_ratio_clamped_max = -INFINITY,
    };
}

void loss_metrics_raise(double *most, double x) {
    if (x > *most || isnan(x)) *most = x;
}

void loss_metrics_lower(double *least, double x) {
    if (x < *least) *least = x;
}

// The fields that are sums.
static const size_t sums[] = {
    offsetof(LossMetrics, loss),
    offsetof(LossMetrics, kl_penalty),
    offsetof(LossMetrics, probs_ratio),
    offsetof(LossMetrics, probs_ratio_clamped),
    offsetof(LossMetrics, token_mult_prob_error),
    offsetof(LossMetrics, gen_kl_error),
    offsetof(LossMetrics, policy_kl_error),
    offsetof(LossMetrics, js_divergence_error),
    offsetof(LossMetrics, sampling_importance_ratio),
    offsetof(LossMetrics, is_oob_ratio),
    offsetof(LossMetrics, approx_entropy),
    offsetof(LossMetrics, positive_nll_loss),
    offsetof(LossMetrics, clipped_tokens),
    offsetof(LossMetrics, num_valid_samples),
    offsetof(LossMetrics, mean_abs_logprob_error),
};

static double *sum_at(LossMetrics *metrics, size_t i) {
    return (double *)((char *)metrics + sums[i]);
}

void loss_metrics_add(LossMetrics *sum, const LossMetrics *part) {
    LossMetrics other = *part;
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) *sum_at(sum, i) += *sum_at(&other, i);
    loss_metrics_lower(&sum->probs_ratio_min, part->probs_ratio_min);
    loss_metrics_raise(&sum->probs_ratio_max, part->probs_ratio_max);
    loss_metrics_lower(&sum->probs_ratio_clamped_min, part->probs_ratio_clamped_min);
    loss_metrics_raise(&sum->probs_ratio_clamped_max, part->probs_ratio_clamped_max);
    loss_metrics_raise(&sum->max_abs_logprob_error, part->max_abs_logprob_error);
}

void loss_metrics_scale(LossMetrics *metrics, double factor) {
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) *sum_at(metrics, i) *= factor;
}
