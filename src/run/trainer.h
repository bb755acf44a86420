// Everything that a training run holds open: model, shards, walks, resident policies, engine, task. One of each; run/grpo.c
// is the algorithm on top.
#pragma once
#include "comm/mesh.h"
#include "config/settings.h"
#include "rollout/engine.h"
#include "run/loaded_model.h"
#include "run/task.h"
#include "run/tensorboard.h"
#include "train/walk.h"

// How ranks divide the model: mesh.tensor shares it.
typedef struct TrainerLayout {
    Mesh mesh;
    Architecture share;               // what this rank holds; all of it when mesh.tensor has one rank
    ParameterTable own;               // closed then
    const ParameterTable *parameters; // of the share
} TrainerLayout;

typedef struct Trainer {
    const Settings *settings;
    Ops ops;
    Mesh mesh; // the ranks of the run: all hold the same samples, counts and settings, and decide alike (training's)
    TrainerLayout training, sampling; // sampling: of the rollout; often the same, but communicators of its own
    LoadedModel model;
    Shards shards;      // fp32 masters and moments
    Walk walk;          // training walk over them
    Resident rollout;   // the policy as the engine reads it; loaded anew by trainer_refit
    Resident reference; // the initial policy; opened when a KL penalty reads it, and loaded while it does
    bool has_reference;
    Engine *engine; // NULL with sft
    Task task;
    char model_digest[33];
    Tensorboard board; // closed unless logger.tensorboard_enabled
    double started;    // log_seconds at trainer_open
    // A step is abandoned when a signal asks the run to stop (base/stop_signal.h), until its first optimizer step: from then
    // on it is finished first, validation and checkpoint included.
    bool committed;
    int stop;     // the signal that some rank was sent, as all know; 0: none
    bool stopped; // the run ended by it
} Trainer;

// Opens all, with the weights of policy.model_name in the shards. Those of rollout and reference are not loaded yet. All ranks of
// the world fail together.
bool trainer_open_ranks(Trainer *trainer, const Settings *settings, Comm *world, Error *error);
bool trainer_open(Trainer *trainer, const Settings *settings, Error *error); // one rank
// The same without weights, text and task, on the plan device, as a rank of a pretended world: policies and engine take as much
// as they would (run/plan.h).
bool trainer_open_plan(Trainer *trainer, const Settings *settings, const Comm *world, const Architecture *architecture,
                       const ParameterTable *parameters, Error *error);
void trainer_close(Trainer *trainer); // accepts a half-opened one

// Gives back what the rollout holds between its runs: weights, pages of keys and values, logits, scratch. trainer_refit, and
// the next run, take them again.
void trainer_rest(Trainer *trainer);

// Hands the masters over to the rollout, unit by unit, in the compute dtype.
void trainer_refit(Trainer *trainer);

// What this rank has sent, and how long it took, since the last call.
CommCounts trainer_sent(Trainer *trainer);

static inline bool trainer_writes(const Trainer *trainer) { // what the run writes into files is written by rank 0
    return trainer->mesh.world.rank == 0;
}

// Whether a signal asks some rank to stop. Says once what it has led to. All ranks call it.
bool trainer_asked(Trainer *trainer);

// Whether the step under way is to be abandoned now. All ranks call it.
bool trainer_stops(Trainer *trainer);

// Samples answers to the requests under the given options, each on one of the ranks (run/deal.h); all ranks have all samples in the end,
// and rank 0 their texts, where there is a tokenizer. counts (may be NULL) are sums over ranks. *complete is false, and the samples are undefined, when the step was
// abandoned.
bool trainer_rollout(Trainer *trainer, Samples *samples, EngineCounts *counts, bool *complete, Arena *arena,
                     const EngineRequest *requests, int64_t count, const GenerationOptions *options, EngineRun run,
                     const char *label, Error *error);

// What the samples are worth (task_reward): rank 0 scores each once, all know.
bool trainer_reward(Trainer *trainer, Samples *samples, bool held_out, int64_t step, Arena *arena, Error *error);
