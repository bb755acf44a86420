// The rewards of the samples of one prompt: their baseline, their spread, whether they differ at all.
#pragma once
#include "base/error.h"

#include <stdint.h>

// group[i] for each sample: samples whose prompts have the same tokens form a group, also when a prompt is asked twice
// (NeMo-RL). The prompt of sample b are the first prompt_length[b] ids behind offset[b]. Returns the number of groups; they are
// numbered by first appearance.
int64_t reward_groups_of_prompts(int32_t *group, const int32_t *ids, const int64_t *offset,
                                 const int32_t *prompt_length, int64_t count);

// Mean and sample standard deviation (divisor n − 1) of the valid rewards of each sample's group, its own left out with
// leave-one-out. A group with at most one valid sample: baseline = own reward, spread 0. Two rewards with leave-one-out leave
// one, whose spread is 0. Two passes in double, samples by index ascending: equal rewards give spread 0 exactly, where
// NeMo-RL's difference of means leaves a residue that blows advantages up (docs/differences.md).
//
// Equal numbers in group form a group, in any order. valid[i] = 0 leaves sample i out of every statistic, whatever its reward
// is. What a sample that is left out itself gets is NeMo-RL's and of no use: with leave-one-out the sums over all valid
// rewards of its group, divided as if there were one less.
void reward_groups_baseline(float *baseline, float *spread, const float *reward, const float *valid,
                            const int32_t *group, int64_t count, bool leave_one_out);

typedef struct RewardGroupCounts {
    int64_t groups, equal; // equal: those whose valid rewards are all the same, or one or none: they teach nothing
} RewardGroupCounts;

// differs[i] (NULL: not wanted): the valid rewards of sample i's group are not all the same.
RewardGroupCounts reward_groups_compare(bool *differs, const float *reward, const float *valid, const int32_t *group,
                                        int64_t count);
