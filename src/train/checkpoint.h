// Checkpoints: folders step_N that appear whole or not at all, and resume to the same bits (reference section 4.6).
//
//   step_N/training_info.json                         counters, metrics, digests of the files below
//         /config.yaml                                the resolved recipe
//         /policy/weights/model/{model.safetensors, config.json}   fp32 masters under Hugging Face names: Transformers loads it
//         /policy/optimizer/optim/optimizer.safetensors            exp_avg.<name>, exp_avg_sq.<name>; metadata "step"
//
// Written to tmp_step_N, every file and folder fsynced, then renamed; on removal renamed to old_step_N first. So what bears
// the name step_N is whole, whenever the program or the machine stops. Names that are not step_N are ignored.
#pragma once
#include "base/jsonio.h"
#include "train/shard.h"

typedef struct CheckpointSave {
    const char *folder; // that holds the step_N
    int64_t step;       // from 1
    Shards *shards;
    const Architecture *architecture; // of the model
    Comm *ranks;                      // that hold the model together, by shards and shares; NULL: one
    bool optimizer;                   // save moments too
    json_t *info;                     // becomes training_info.json; "files" is added, also on failure
    const char *config;               // text of config.yaml
} CheckpointSave;

// Makes the folder when needed. A step_N that exists already is replaced. On failure nothing of the checkpoint is left and
// older ones are untouched. All ranks call it, and learn of a failure on any: the first makes folders and files, each writes its own part
// of every tensor. The files do not tell how many ranks there were.
bool checkpoint_save(const CheckpointSave *save, Error *error);

// The highest complete step_N; *step is 0 and true is returned when there is none (or no folder).
bool checkpoint_latest(int64_t *step, const char *folder, Error *error);

// What folder/step_N/training_info.json holds, an object (caller decrefs); without the files that it names.
bool checkpoint_info(json_t **info, const char *folder, int64_t step, Error *error);

// Whether the weights in a folder step_N (place) have the digest that info notes.
bool checkpoint_check_weights(const json_t *info, const char *place, Error *error);

// Fills weights, moments and the optimizer's step from folder/step_N. *info is the training_info (caller decrefs). Refuses
// files whose digest, names or shapes do not fit; then the shards are as before and *info is NULL. Where no moments were
// saved, moments and step stay as they are and *optimizer is false. All `ranks` (NULL: one) call it, of any number and division of the
// model; each reads its own part, and its share of what is digested.
bool checkpoint_load(Shards *shards, Comm *ranks, const char *folder, int64_t step, json_t **info, bool *optimizer,
                     Error *error);

typedef struct CheckpointRetention {
    int64_t save_period; // steps that it divides are candidates
    int64_t keep_top_k;  // candidates that stay; below 0: all
    const char *metric;  // those with the best info[metric] (missing: worst; ties: newer first); NULL: the newest
    bool higher_is_better;
    int64_t ft_keep_latest_k; // so many of the newest of all stay besides
} CheckpointRetention;

// Removes the checkpoints that do not stay by these rules, but never the newest, and leftovers (tmp_step_N, old_step_N) of
// what was stopped.
bool checkpoint_retain(const char *folder, const CheckpointRetention *retention, Error *error);
