// TensorBoard events: the scalars of metrics.jsonl under NeMo-RL's tags, and the recipe as hyperparameters. One file for each
// start of the program, in FOLDER/events.out.tfevents.<seconds>.<host>.<process>; `tensorboard --logdir` joins them. The format:
// records of a length, its checksum, a protobuf message (tensorboard_event.proto), its checksum.
#pragma once
#include "base/error.h"
#include "config/value.h"

#include <jansson.h>

typedef struct Tensorboard {
    int descriptor;
    char *path; // NULL: closed
    Arena arena;
} Tensorboard;

// Opens a new file in folder, which is made when it is missing. What earlier files hold of steps behind `step` no longer
// counts.
bool tensorboard_open(Tensorboard *board, const char *folder, int64_t step, Error *error);
void tensorboard_close(Tensorboard *board); // accepts a closed or zero-initialised one

// The numbers of a line of metrics as scalars of that step; what is no number is left out.
bool tensorboard_scalars(const Tensorboard *board, const json_t *line, int64_t step, Error *error);

// The leaves of a resolved recipe.
bool tensorboard_hparams(const Tensorboard *board, const Value *tree, Error *error);
