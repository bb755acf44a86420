// The embedding's rows between the ranks of the shards, which own some each: those that micro-batches read go to their readers,
// those of the gradient to their owners. A gradient's row is a sum token by token over the global batch: the micro-batches in
// order, of a round those of rank 0, 1, …
#pragma once
#include "model/block.h"
#include "model/tensor_share.h"
#include "train/shard.h"

// Row of the part of the embedding that `owner` has. owner -1: the share does not hold the id.
typedef struct EmbeddingPlace {
    int owner;
    int32_t row;
} EmbeddingPlace;

typedef struct EmbeddingRows {
    Shards *shards;
    const Architecture *share; // what this rank's shards are of: mostly all
    int64_t rows_held, width;  // of the embedding in the shards; D
    int unit;                  // the root
    bool apart; // a tied head has its gradient in the same matrix: the rows have a table of their own until the end
    EmbeddingPlace *place; // [V]
    int32_t *row_of_id;    // [V] row of table_UD, or -1: another rank's, or not announced
    int32_t *distinct;     // [V] ids of this rank in the global batch
    int64_t distinct_count;
    Tensor table_UD; // fp32: apart, or a view of the gradient
    int32_t *rows;   // of a micro-batch
    int64_t rows_capacity;
    Arena arena;
} EmbeddingRows;

void embedding_rows_open(EmbeddingRows *rows, Shards *shards, const Architecture *share);
void embedding_rows_close(EmbeddingRows *rows); // accepts a zero-initialised object

// Opens the sums of a global batch, whose token ids are ids[count]; folds them into the gradient.
void embedding_rows_begin(EmbeddingRows *rows, const int32_t *ids, int64_t count);
void embedding_rows_end(EmbeddingRows *rows);

// y_TD of this rank's micro-batch, batches[rank] of the batches[ranks] of a round; −0 for ids that the share does not hold.
void embedding_rows_forward(EmbeddingRows *rows, Tensor *y_TD, const TokenBatch *batches, DType compute);

// Adds the gradients of a round; dy_TD is this rank's (not read when it has no tokens), in the compute dtype.
void embedding_rows_backward(EmbeddingRows *rows, Tensor *dy_TD, const TokenBatch *batches, DType compute);
