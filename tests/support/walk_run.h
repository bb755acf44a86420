// One pass of the training walk over a batch, with everything that it computes copied: for comparing two policies by bits.
#pragma once
#include "support/model_setup.h"
#include "train/batch.h"

// A tensor as the walk left it.
typedef struct WalkTensor {
    int unit;         // one behind the last block: final norm and head
    const char *name; // "x": the unit's input after the cast on entry; "output": of the last block, after the same cast
    DType dtype;      // as the walk stores it
    int64_t count;
    float *values;
} WalkTensor;

typedef struct WalkRun {
    int count;
    WalkTensor *tensors;  // in the order in which the walk computes them
    float *logprobs;      // [loss rows] of their targets
    double *losses;       // [sequences] parts of the loss
    float **gradients;    // [parameters]
    DType boundary_dtype; // of what a block hands on, and of its gradient
    double gradient_norm;
    Overflow overflow;
} WalkRun;

// The default loss over the whole batch as one micro-batch; results in the arena. Weights stay as they are.
void walk_run(WalkRun *run, ModelSetup *setup, const TrainBatch *batch, int64_t head_chunk, Arena *arena);

// Index of the first tensor with different bits, and in how many elements it differs; -1: all are equal.
int walk_run_first_difference(const WalkRun *a, const WalkRun *b, int64_t *elements);
int64_t walk_run_differing(const float *a, const float *b, int64_t count); // elements with different bits
