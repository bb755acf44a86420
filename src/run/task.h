// The questions of a run and what an answer is worth: the data sets of data.train and data.validation, what stands around their
// questions, and the rewards that they name.
#pragma once
#include "config/settings.h"
#include "rollout/engine.h"
#include "run/loaded_model.h"
#include "text/dataset.h"
#include "text/reward_command.h"

typedef struct TaskSource {
    Dataset data;
    const Reward *reward;
    int command; // of Task.commands; -1: the reward is whet's own
} TaskSource;

// Questions with neighbouring numbers, of one part of one data set.
typedef struct TaskStretch {
    int source;
    DatasetPart part;
    int64_t first, count;
} TaskStretch;

typedef struct TaskQuestions {
    int stretch_count;
    TaskStretch *stretches;
    int64_t count; // of all
} TaskQuestions;

typedef struct Task {
    Arena arena;                        // of what the task holds
    const LoadedModel *model;           // not owned
    bool scores;                        // task_reward is called
    const AdvantageOptions *advantages; // their reward_weights
    int source_count, command_count;
    TaskSource *sources;
    RewardCommand **commands;
    TaskQuestions train, validation;       // validation: the held-out parts of data.train, then data.validation
    int64_t train_count, validation_count; // of questions
    int64_t prompts_per_batch;             // of one rollout: num_prompts_per_step · batch_multiplier, rounded down; of
                                           // supervised fine-tuning the conversations of a step
    int64_t prompts_per_turn;              // data.num_prompts_per_dataloader; 0: one order for all data sets
    bool shuffle;                          // data.shuffle: an order of its own for each epoch, by
    uint64_t seed;                         // grpo.seed
    int64_t epochs;                        // grpo.max_num_epochs
    int64_t max_prompt_length;    // the longest prompt, or conversation to learn from, that the recipe leaves room for
    char data_digest[DIGEST_HEX]; // of all questions and what is held out of them
} Task;

// Opens data sets and, where the task scores, starts the rewards' commands, whose standard error goes to log_dir/reward_<name>.log.
bool task_open(Task *task, const Settings *settings, const LoadedModel *model, bool scores, Error *error);
void task_close(Task *task); // accepts a half-opened one

// Training questions of all epochs together.
int64_t task_questions(const Task *task);

// The training question at a position. Positions go on over the epochs, so that each epoch asks every question once, also
// where a batch begins in one and ends in the next. It depends on (grpo.seed, position) alone.
int64_t task_train_question(const Task *task, int64_t position);

// The prompts_per_batch training questions from `position` on, each with G samples. The prompts are numbered from first_prompt on. A prompt that is too long is cut to its
// first tokens, as in NeMo-RL, and one line says how many are; task_reward leaves its samples out.
bool task_train_requests(const Task *task, EngineRequest **requests, int64_t position, int64_t first_prompt,
                         int32_t samples, Arena *arena, Error *error);

// Validation questions first..first+count-1.
bool task_validation_requests(const Task *task, EngineRequest **requests, int64_t first, int64_t count, int32_t samples,
                              Arena *arena, Error *error);

// A question, or a conversation to learn from, as its data set gives it; the caller closes it.
bool task_open_question(DatasetQuestion *question, const Task *task, bool held_out, int64_t index, Arena *arena,
                        Error *error);

// What the model is asked last, as text, in the arena.
const char *task_question(const Task *task, bool held_out, int64_t index, Arena *arena);

// The question as a conversation, [{role, content}, …], with an answer behind it unless that is NULL. New reference.
json_t *task_messages(const Task *task, bool held_out, int64_t index, const char *answer);

// Fills reward, valid and components of samples whose text is there. valid is 0 where the engine lost numbers, where the prompt was
// cut (reward 0), and where a command could not score (reward NaN). Components are those that all these samples have in common: none
// when their data sets' rewards have others. Fails when a command does.
bool task_reward(const Task *task, Samples *samples, bool held_out, int64_t step, Arena *arena, Error *error);
