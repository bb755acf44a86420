// The questions of a run and what an answer is worth.
#pragma once
#include "base/digest.h"
#include "config/settings.h"
#include "rollout/engine.h"
#include "run/loaded_model.h"
#include "text/arithmetic.h"
#include "text/reward.h"

typedef struct Task {
    const LoadedModel *model; // not owned
    Arithmetic questions;
    const Reward *reward;
    int64_t train_count, validation_count; // questions
    int64_t prompts_per_batch;             // of one rollout: num_prompts_per_step · batch_multiplier, rounded down
    bool shuffle;                          // data.shuffle: an order of its own for each epoch
    char data_digest[DIGEST_HEX];          // of what the questions are made from
    int64_t max_prompt_length;             // the longest prompt that the recipe leaves room for
} Task;

bool task_open(Task *task, const Settings *settings, const LoadedModel *model, Error *error);

// The prompts_per_batch training questions from `position` on, each with G samples. Positions go on over the epochs, so that
// each epoch asks every question once, also where a batch begins in one and ends in the next. Which questions they are
// depends on (data.train.seed, position) alone. The prompts are numbered from first_prompt on.
bool task_train_requests(const Task *task, EngineRequest **requests, int64_t position, int64_t first_prompt,
                         int32_t samples, Arena *arena, Error *error);

// Held-out questions first..first+count-1.
bool task_validation_requests(const Task *task, EngineRequest **requests, int64_t first, int64_t count, int32_t samples,
                              Arena *arena, Error *error);

// The question as text, in the arena.
const char *task_question(const Task *task, bool held_out, int64_t index, Arena *arena);

// The question as a conversation, [{role, content}, …], with an answer behind it unless that is NULL. New reference.
json_t *task_messages(const Task *task, bool held_out, int64_t index, const char *answer);

// Fills reward and valid of samples whose text is there. A reward of NaN is none: the sample could not be scored.
void task_reward(const Task *task, Samples *samples, bool held_out, Arena *arena);
