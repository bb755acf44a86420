// A model from disk with everything that walks it, for tests and fixtures.
#pragma once
#include "model/resident.h"
#include "train/walk.h"

typedef struct ModelSetup {
    Ops ops;
    ModelFile *file;
    const Architecture *architecture;
    const ParameterTable *parameters;
    Shards shards;
    Walk walk;
    Resident resident;
} ModelSetup;

// positions: longest sequence; rows: most rows of the resident walk. options may be zero.
bool model_setup_open(ModelSetup *setup, const char *path, PrecisionPolicy policy, OpsOptions options, int64_t rows,
                      int64_t positions, Error *error);
void model_setup_close(ModelSetup *setup); // accepts a half-opened one

// Prefills `count` ids and decodes `more` greedily, one token a walk, on pages in reversed order; ids must have room for both.
// After each walk the row's logits (fp32, V) are handed to look(context, index of the token just chosen, logits); the caller
// may then put another token into ids[index] to steer what follows.
void model_setup_greedy(ModelSetup *setup, int32_t *ids, int64_t count, int64_t more,
                        void (*look)(void *context, int64_t index, const float *logits), void *context);
