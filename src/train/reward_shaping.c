#include "train/reward_shaping.h"

#include <math.h>

bool reward_shaping_check_scaling(const RewardScaling *options, Error *error) {
    if (!options->enabled) return true;
    return options->source_min < options->source_max ||
           error_set(error, "grpo.reward_scaling.source_min: %g: expected a number below source_max (%g)",
                     options->source_min, options->source_max);
}

bool reward_shaping_check(const RewardShaping *options, Error *error) {
    double coefficient = options->stop_properly_penalty_coef;
    if (!options->enabled) return true;
    if (!isnan(coefficient))
        return (coefficient >= 0 && coefficient <= 1) ||
               error_set(error, "grpo.reward_shaping.stop_properly_penalty_coef: %g: expected a number from 0 to 1",
                         coefficient);
    const char *missing = options->overlong_buffer_length < 0       ? "overlong_buffer_length"
                          : options->max_response_length < 0        ? "max_response_length"
                          : isnan(options->overlong_buffer_penalty) ? "overlong_buffer_penalty"
                                                                    : NULL;
    if (missing)
        return error_set(error,
                         "grpo.reward_shaping.%s: null: expected a number, or one at "
                         "grpo.reward_shaping.stop_properly_penalty_coef",
                         missing);
    if (options->overlong_buffer_length == 0 || options->overlong_buffer_length > options->max_response_length)
        return error_set(error,
                         "grpo.reward_shaping.overlong_buffer_length: %lld: expected 1 to max_response_length (%lld)",
                         (long long)options->overlong_buffer_length, (long long)options->max_response_length);
    return options->overlong_buffer_penalty >= 0 ||
           error_set(error, "grpo.reward_shaping.overlong_buffer_penalty: %g: expected a number that is at least 0",
                     options->overlong_buffer_penalty);
}

int64_t reward_shaping_scale(float *reward, const float *valid, int64_t count, const RewardScaling *options) {
    int64_t outside = 0;
    double source = options->source_max - options->source_min, target = options->target_max - options->target_min;
    for (int64_t b = 0; options->enabled && b < count; b++) {
        if (valid[b] == 0) continue;
        double value = (double)reward[b], clamped = fmin(fmax(value, options->source_min), options->source_max);
        outside += value != clamped;
        reward[b] = (float)(options->target_min + (clamped - options->source_min) / source * target);
    }
    return outside;
}

static double overlong_penalty(const RewardShaping *options, int64_t tokens) {
    double buffer = (double)options->overlong_buffer_length;
    double exceeding = (double)tokens - ((double)options->max_response_length - buffer);
    return fmin(-exceeding / buffer * options->overlong_buffer_penalty, 0);
}

void reward_shaping_apply(float *reward, const float *valid, const int64_t *answer_tokens, const bool *truncated,
                          int64_t count, const RewardShaping *options) {
    bool scales = !isnan(options->stop_properly_penalty_coef);
    for (int64_t b = 0; options->enabled && b < count; b++) {
        if (valid[b] == 0) continue;
        if (!scales)
            reward[b] = (float)((double)reward[b] + overlong_penalty(options, answer_tokens[b]));
        else if (truncated[b])
            reward[b] = (float)((double)reward[b] * options->stop_properly_penalty_coef);
    }
}
