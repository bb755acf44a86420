// The parameters that training owns, one FSDP unit at a time: fp32 master weights, gradients and AdamW moments, flat
// (model/parameters.h). One rank owns whole units; a unit is gathered in the compute dtype for as long as it is walked.
#pragma once
#include "base/arena.h"
#include "comm/comm.h"
#include "model/model_file.h"
#include "ops/rows.h"
#include "train/optimizer.h"

typedef struct Shards {
    Ops *ops;
    const ParameterTable *table; // not owned
    Tensor *weight;              // [units] fp32 flat arrays
    Tensor *gradient;            // [units] data NULL outside an update
    Tensor *moment1, *moment2;   // [units]
    int64_t step;                // AdamW steps taken
    Arena arena;
} Shards;

// Weights zero, moments zero.
void shard_open(Shards *shards, Ops *ops, const ParameterTable *table);
void shard_close(Shards *shards); // accepts a zero-initialised object

// Fills the weights from a model file.
bool shard_load(Shards *shards, const ModelFile *file, Error *error);

// A parameter's elements inside its unit's flat array (a view).
Tensor shard_view(const Tensor *flat, const Parameter *parameter);

// The unit's weights in the compute dtype. fp32 on one rank is the shard itself (no byte is copied); otherwise a new tensor
// with tag MEMORY_GATHERED_UNIT. Give it back with shard_release.
Tensor shard_gather(Shards *shards, int unit, DType compute);
void shard_release(Shards *shards, Tensor *gathered);

void shard_gradients_open(Shards *shards); // zeros
void shard_gradients_close(Shards *shards);

// L2 norm over all gradients, of all ranks of `tensor` (NULL: none) together; the same bits however they lie (rows_squares). NaN or
// infinite when an element is.
double shard_gradient_norm(const Shards *shards, Comm *tensor);

// One AdamW step on every unit with gradients times gradient_scale.
void shard_update(Shards *shards, const OptimizerOptions *options, double lr, double gradient_scale);
