// What a step learns from: answers of the policy with their rewards, scaled and shaped; with dynamic sampling only groups
// whose rewards differ, of as many rollouts as it takes (DAPO, Yu et al. 2025).
#pragma once
#include "run/trainer.h"
#include "train/reward_groups.h"

// Of all rollouts of the step, also of what dynamic sampling left out.
typedef struct ExperienceCounts {
    int64_t gen_batches, generated, unscored;
    double reward;            // mean of those scored
    int64_t discarded;        // samples of groups that differ but were not needed
    RewardGroupCounts groups; // dynamic sampling: by the rewards before shaping, else by those after it
    EngineCounts rollout;     // sums
    double generation_seconds, reward_seconds;
} ExperienceCounts;

typedef struct Experience {
    Samples samples;
    ExperienceCounts counts;
} Experience;

// Fills the experience of a step. *position is the next training question, and moves on by one batch for each rollout; the
// draws depend on (grpo.seed, step, prompt, sample, token), and prompts are numbered through all rollouts of a step, so
// that a step has the same bits wherever it begins. *complete is false when the questions are over before the step is full,
// or the step is abandoned (trainer_stops): then nothing is to be trained. Refuses to go on beyond grpo.dynamic_sampling_max_gen_batches.
bool experience_collect(Experience *experience, bool *complete, Trainer *trainer, int64_t step, int64_t *position,
                        Arena *arena, Error *error);
