// Rewards → advantages (NeMo-RL's GRPO estimator). A group is the samples of one prompt.
//
// Baseline and spread of a sample are mean and sample standard deviation (divisor n − 1) of the valid rewards of its group,
// its own left out with leave-one-out. A group with at most one valid sample: baseline = own reward, spread 0. Two rewards
// with leave-one-out leave one, whose spread is 0. Two passes in double, samples by index ascending: equal rewards give
// spread 0 exactly, where NeMo-RL's difference of means leaves a residue that blows advantages up (docs/numbers.md).
#pragma once
#include "base/error.h"

#include <stdint.h>

typedef struct AdvantageOptions {
    const char *name; // grpo.adv_estimator.name: "grpo"
    bool normalize_rewards, use_leave_one_out_baseline;
    double advantage_clip_low, advantage_clip_high; // -INFINITY / INFINITY: off (null)
} AdvantageOptions;

// Refuses other estimators and clips that exclude each other, naming grpo.<key>.
bool advantage_options_check(const AdvantageOptions *options, Error *error);

// group[i] names the group of sample i (equal numbers form a group, in any order). valid[i] = 0 leaves sample i out of every
// statistic, whatever its reward is. What a sample that is left out itself gets is NeMo-RL's and of no use: with
// leave-one-out the sums over all valid rewards of its group, divided as if there were one less.
void advantage_baseline(float *baseline, float *spread, const float *reward, const float *valid, const int32_t *group,
                        int64_t count, bool leave_one_out);

// advantage[i] = reward − baseline, divided by (spread + 1e-6) where normalize_rewards and spread > 0, then clipped; 0 where
// valid is 0. Returns how many groups have equal valid rewards throughout: they teach nothing.
int64_t advantage_grpo(float *advantage, const float *reward, const float *valid, const int32_t *group, int64_t count,
                       const AdvantageOptions *options);
