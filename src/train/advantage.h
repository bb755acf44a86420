// Rewards → advantages (reference/nemo_rl.md section 3). Groups are the samples of one prompt.
#pragma once
#include "base/error.h"

#include <stdint.h>

typedef struct AdvantageOptions {
    const char *name; // grpo.adv_estimator.name: "grpo" (others refused for now)
    bool normalize_rewards, use_leave_one_out_baseline;
    double advantage_clip_low, advantage_clip_high; // -INFINITY / INFINITY: off (null)
} AdvantageOptions;

// Baseline and spread of each sample. group[i] names the group of sample i (equal numbers form a group, any order);
// valid[i] = 0 leaves sample i out of every statistic (its advantage is 0). Two-pass in double; equal rewards give spread 0
// exactly, where NeMo-RL's difference of means leaves a residue (docs/differences.md).
void advantage_baseline(float *baseline, float *spread, const float *reward, const float *valid, const int32_t *group,
                        int64_t count, bool leave_one_out);

// advantage[i] = reward − baseline, divided by (spread + 1e-6) where normalize_rewards and spread > 0, then clipped.
// Returns how many groups had equal rewards throughout (no gradient).
int64_t advantage_grpo(float *advantage, const float *reward, const float *valid, const int32_t *group, int64_t count,
                       const AdvantageOptions *options);
