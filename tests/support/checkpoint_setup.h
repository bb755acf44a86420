// A folder of checkpoints and tiny shards whose every value follows from one number, the mark, so that a checkpoint can be
// recognised as whole.
#pragma once
#include "train/checkpoint.h"

typedef struct CheckpointSetup {
    Ops ops;
    Architecture architecture;
    ParameterTable table;
    Shards shards, loaded; // what is saved; what checkpoint_setup_mark fills
    Arena arena;
    const char *folder; // in memory when the machine has /dev/shm
} CheckpointSetup;

// cmocka's setup and teardown: *state is a CheckpointSetup.
int checkpoint_setup_open(void **state);
int checkpoint_setup_close(void **state);

Architecture checkpoint_setup_architecture(ModelFamily family, int64_t hidden, int64_t intermediate);

// Saves folder/step_N of mark, with metric under "val:accuracy" unless it is NaN.
bool checkpoint_setup_save(CheckpointSetup *setup, int64_t step, int mark, double metric, bool optimizer, Error *error);

// Loads folder/step_N into `loaded`; the mark when every value is of that mark, 0 with one line in error otherwise.
int checkpoint_setup_mark(CheckpointSetup *setup, int64_t step, Error *error);

const char *checkpoint_setup_path(CheckpointSetup *setup, const char *name); // folder/name
// The names in the folder, sorted, each followed by a blank.
const char *checkpoint_setup_names(CheckpointSetup *setup);
