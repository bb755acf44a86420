// TensorBoard events: the scalars of metrics.jsonl under NeMo-RL's tags, histograms, texts, and the recipe as hyperparameters. One file for each
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

// How the values are spread: TENSORBOARD_BUCKETS buckets of equal width between the least and the largest (one when these are
// equal). What is not finite is left out; nothing is written when nothing is left.
enum { TENSORBOARD_BUCKETS = 30 };
bool tensorboard_histogram(const Tensorboard *board, const char *tag, const float *values, int64_t count, int64_t step,
                           Error *error);

// A text that TensorBoard shows as Markdown.
bool tensorboard_text(const Tensorboard *board, const char *tag, const char *text, int64_t step, Error *error);

// The leaves of a resolved recipe.
bool tensorboard_hparams(const Tensorboard *board, const Value *tree, Error *error);
