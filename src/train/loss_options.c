#include "train/loss_options.h"

#include <math.h>
#include <string.h>

LossOptions loss_options_default(void) {
    return (LossOptions){
        .reference_policy_kl_penalty = 0.01,
        .reference_policy_kl_type = "k3",
        .kl_input_clamp_value = 20,
        .kl_output_clamp_value = 10,
        .ratio_clip_min = 0.2,
        .ratio_clip_max = 0.2,
        .ratio_clip_c = NAN,
        .truncated_importance_sampling_ratio = NAN,
        .truncated_importance_sampling_ratio_min = NAN,
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
           check_number(options->ratio_clip_max, "ratio_clip_max", error) &&
           check_number(options->positive_example_nll_weight, "positive_example_nll_weight", error);
}

static bool check_clip(const LossOptions *options, Error *error) {
    if (!isnan(options->ratio_clip_c) && !(options->ratio_clip_c > 1))
        return error_set(error, "loss_fn.ratio_clip_c: %g: expected a bound of the ratio above 1, or null",
                         options->ratio_clip_c);
    if (options->sequence_level_importance_ratios && options->token_level_loss)
        return error_set(error, "loss_fn.sequence_level_importance_ratios: true goes with "
                                "loss_fn.token_level_loss: false only");
    if (!options->use_cispo) return true;
    const char *other = options->disable_ppo_ratio                  ? "disable_ppo_ratio: true"
                        : options->force_on_policy_ratio            ? "force_on_policy_ratio: true"
                        : options->sequence_level_importance_ratios ? "sequence_level_importance_ratios: true"
                        : !isnan(options->ratio_clip_c)             ? "ratio_clip_c"
                        : !options->token_level_loss                ? "token_level_loss: false"
                                                                    : NULL;
    return !other || error_set(error, "loss_fn.use_cispo: true cannot go with loss_fn.%s", other);
}

// Bounds without a type would have no effect.
static bool check_no_bounds(const LossOptions *options, Error *error) {
    double most = options->truncated_importance_sampling_ratio;
    double least = options->truncated_importance_sampling_ratio_min;
    return (isnan(most) && isnan(least)) ||
           error_set(error,
                     "loss_fn.truncated_importance_sampling_ratio%s: %g without "
                     "loss_fn.truncated_importance_sampling_type: expected \"tis\", \"icepop\" or \"seq-mask-tis\" "
                     "there",
                     isnan(most) ? "_min" : "", isnan(most) ? least : most);
}

static bool check_bounds(const LossOptions *options, Error *error) {
    const char *type = options->truncated_importance_sampling_type;
    double most = options->truncated_importance_sampling_ratio;
    double least = options->truncated_importance_sampling_ratio_min;
    if (isnan(most))
        return error_set(
            error, "loss_fn.truncated_importance_sampling_ratio: null: expected a number above 0 for \"%s\"", type);
    if (!(most > 0))
        return error_set(error, "loss_fn.truncated_importance_sampling_ratio: %g: expected a number above 0 for \"%s\"",
                         most, type);
    if (isnan(least))
        return is(type, "tis") ||
               error_set(error, "loss_fn.truncated_importance_sampling_ratio_min: null: expected a number for \"%s\"",
                         type);
    return (least >= 0 && least <= most) ||
           error_set(error,
                     "loss_fn.truncated_importance_sampling_ratio_min: %g: expected a number from 0 to "
                     "truncated_importance_sampling_ratio (%g)",
                     least, most);
}

static bool check_truncation(const LossOptions *options, Error *error) {
    const char *type = options->truncated_importance_sampling_type;
    if (!type) return check_no_bounds(options, error);
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
    if (!check_bounds(options, error)) return false;
    return !(is(type, "seq-mask-tis") && options->sequence_level_importance_ratios) ||
           error_set(error, "loss_fn.truncated_importance_sampling_type: \"seq-mask-tis\" cannot go with "
                            "loss_fn.sequence_level_importance_ratios: true");
}

bool loss_options_check(const LossOptions *options, Error *error) {
    const char *type = options->reference_policy_kl_type;
    if (!is(type, "k1") && !is(type, "k2") && !is(type, "k3"))
        return error_set(error, "loss_fn.reference_policy_kl_type: \"%s\": expected \"k1\", \"k2\" or \"k3\"",
                         type ? type : "null");
    return check_numbers(options, error) && check_clip(options, error) && check_truncation(options, error);
}
