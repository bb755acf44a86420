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
