// What happens to rewards before they become advantages: mapping to another range, then the penalties of DAPO (Yu et al.
// 2025) and ProRL. Double inside, rounded once. Samples with valid = 0 are left alone.
#pragma once
#include "base/error.h"

#include <stdint.h>

// grpo.reward_scaling.*
typedef struct RewardScaling {
    bool enabled;
    double source_min, source_max, target_min, target_max;
} RewardScaling;

// grpo.reward_shaping.*
typedef struct RewardShaping {
    bool enabled;
    int64_t overlong_buffer_length, max_response_length; // tokens; -1: null
    double overlong_buffer_penalty;                      // NAN: null
    double stop_properly_penalty_coef;                   // NAN: null
} RewardShaping;

// Refuse an empty source range, penalties out of range, a shaping that has neither a coefficient nor its three numbers, naming
// grpo.<key>. Nothing is checked of what is not enabled.
bool reward_shaping_check_scaling(const RewardScaling *options, Error *error);
bool reward_shaping_check(const RewardShaping *options, Error *error);

// Rewards clamped to [source_min, source_max] and mapped linearly to [target_min, target_max], when enabled. Returns how
// many were outside.
int64_t reward_shaping_scale(float *reward, const float *valid, int64_t count, const RewardScaling *options);

// When enabled: with stop_properly_penalty_coef the reward of a truncated answer is multiplied by it. Else an answer of L
// tokens gets min(0, −(L − (max_response_length − overlong_buffer_length)) / overlong_buffer_length ·
// overlong_buffer_penalty) added, without a lower bound.
void reward_shaping_apply(float *reward, const float *valid, const int64_t *answer_tokens, const bool *truncated,
                          int64_t count, const RewardShaping *options);
