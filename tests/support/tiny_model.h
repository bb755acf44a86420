// A model of a few thousand random weights in memory, with the resident walk over it.
#pragma once
#include "model/resident.h"
#include "support/family.h"

typedef struct TinyModel {
    Ops ops;
    Architecture architecture;
    ParameterTable table;
    Resident resident;
} TinyModel;

enum { TINY_VOCABULARY = 131, TINY_POSITIONS = 192 };

// Qwen2: a tied head; more in support/family.h. 2 layers, 4 query and 2 key/value heads. No size is round.
Architecture tiny_model_architecture(ModelFamily family);

// The same weights whatever the precision. rows: most rows of a walk. Ends the test program on an unknown isa.
void tiny_model_open(TinyModel *model, ModelFamily family, PrecisionPolicy policy, OpsOptions options, int64_t rows);
void tiny_model_close(TinyModel *model);

// The fp32 weights of one unit: flat has table->unit_sizes[unit] elements. Gaps are 0.
void tiny_model_weights(const ParameterTable *table, int unit, float *flat);
