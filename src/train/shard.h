// The parameters that training owns, one FSDP unit at a time: fp32 master weights, gradients and AdamW moments of this rank's
// part of each unit's flat array (model/parameters.h). A unit is gathered in the compute dtype for as long as it is walked; its
// gradient of one micro-batch is reduced when its backward is through. On one rank the part is the whole.
//
// What is gathered and reduced at a time is a slice of a flat array: a decoder block is cut into what a walk reads at a time, the
// root by rows of embedding and head, so that no rank ever holds a vocabulary matrix. A slice is divided into equal parts, one a
// rank, in rank order; the last ranks may have less, or nothing. Parts of the embedding's and the head's slices are whole rows.
#pragma once
#include "base/arena.h"
#include "comm/comm.h"
#include "model/model_file.h"
#include "ops/rows.h"
#include "train/optimizer.h"

typedef struct ShardSlice {
    int64_t first, count; // elements of the unit's flat array
    int64_t block;        // elements that no two ranks share, and whose squares are summed together
    int64_t part;         // elements of a rank's part, the last ones excepted: whole blocks
    int64_t local, own;   // where this rank's part lies in its arrays, and its elements
} ShardSlice;

// Slices of a block: the matrices of attention (q, k, v, o), gate and up, down; biases and norms.
typedef enum ShardBlockSlice {
    SHARD_ATTENTION,
    SHARD_GATE_UP,
    SHARD_DOWN,
    SHARD_VECTORS,
    SHARD_BLOCK_SLICES
} ShardBlockSlice;

typedef struct ShardUnit {
    int slice_count;
    ShardSlice *slices;
    int64_t own; // elements of this rank
} ShardUnit;

typedef struct ShardOptions {
    Comm *comm;         // the ranks that share; NULL: one. Not owned
    int64_t piece_rows; // of a slice of embedding or head; 0: SHARD_PIECE_ROWS. Multiples of SOFTMAX_BLOCK
} ShardOptions;
enum { SHARD_PIECE_ROWS = 2048 };

typedef struct Shards {
    Ops *ops;
    const ParameterTable *table; // not owned
    Comm self, *comm;            // comm: NULL on one rank (shard_comm)
    int64_t piece_rows;
    ShardUnit *units;          // [units]
    Tensor *weight;            // [units] fp32, this rank's parts of the slices one after the other
    Tensor *gradient;          // [units] data NULL outside an update
    Tensor *moment1, *moment2; // [units]
    int64_t step;              // AdamW steps taken
    Arena arena;
} Shards;

// Weights zero, moments zero.
void shard_open(Shards *shards, Ops *ops, const ParameterTable *table); // on one rank
void shard_open_ranks(Shards *shards, Ops *ops, const ParameterTable *table, ShardOptions options);
void shard_close(Shards *shards); // accepts a zero-initialised object

static inline Comm *shard_comm(const Shards *shards) {
    return shards->comm ? shards->comm : (Comm *)&shards->self;
}

static inline bool shard_whole(const Shards *shards) { // one rank: arrays are the flat arrays
    return shard_comm(shards)->size == 1;
}

int shard_slice_of(const Shards *shards, const Parameter *parameter); // the first that holds elements of it

// Fills this rank's weights from a model file.
bool shard_load(Shards *shards, const ModelFile *file, Error *error);

// A parameter's elements inside its unit's flat array (a view).
Tensor shard_view(const Tensor *flat, const Parameter *parameter);

// The elements of a parameter that lie in this rank's part of a slice: count of them (mostly 0) from `first` on, at `local` of its
// arrays.
typedef struct ShardPart {
    int64_t first, count, local;
} ShardPart;
ShardPart shard_part(const Shards *shards, const Parameter *parameter, int slice);

// A slice of one of this rank's arrays (weight, gradient, moment1, moment2 of a unit), of all ranks, in a dtype: `count` elements
// (and room behind them). SHARD_ALL: the whole flat array. On one rank fp32 is a view of the array (no byte is copied); otherwise
// a new tensor with tag MEMORY_GATHERED_UNIT. Give it back with shard_release.
enum { SHARD_ALL = -1 };
Tensor shard_gather(Shards *shards, const Tensor *array, int unit, int slice, DType dtype);
void shard_release(Shards *shards, Tensor *gathered);

void shard_gradients_open(Shards *shards); // zeros
void shard_gradients_close(Shards *shards);

// Where the gradient of one micro-batch is summed: a slice of a unit's flat array. On one rank a view of the gradients;
// else zeros, with tag MEMORY_GRADIENT_SHARD. shard_reduce adds those of all ranks to the gradients, rank by rank, and releases it:
// so the sum over micro-batches is the same for every number of ranks that walk them in turn.
Tensor shard_unreduced(Shards *shards, int unit, int slice);
void shard_reduce(Shards *shards, Tensor *unreduced, int unit, int slice);

// L2 norm over all gradients, of all ranks of the shards and of `tensor` (NULL: none) together; the same bits however they lie
// (rows_squares). NaN or infinite when an element is.
double shard_gradient_norm(const Shards *shards, Comm *tensor);

// One AdamW step on every unit with gradients times gradient_scale; options->spares_vectors: without weight decay for parameters
// that are vectors.
void shard_update(Shards *shards, const OptimizerOptions *options, double lr, double gradient_scale);
