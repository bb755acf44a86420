// How a model is divided over tensor-parallel ranks. Rank r of N holds, next to each other, the r-th part of
//   query heads, and of key/value heads (fewer than ranks: the one that its query heads read, as other ranks do),
//   columns of the MLP, rows of embedding and head (whole blocks of the softmax's sums; what is missing at the end is padding);
// norms lie on all of them. So q, k, v, gate, up, embedding and head are cut by rows (outputs), o and down by columns (inputs),
// whose products are sums that ranks share, as are the gradients that leave q·k·v, gate·up and the head.
//
// Such sums have segments (ops/linear.h) that depend on the model alone, so all numbers of ranks that divide them give the
// same bits, one rank included.
#pragma once
#include "model/architecture.h"
#include "ops/linear.h"

enum { TENSOR_SHARE_MAX_SEGMENTS = 8 }; // that are chosen unasked

// The largest power of two up to 8 that divides query heads and MLP columns, and divides or is a multiple of key/value heads.
int tensor_share_segments(const Architecture *whole);

// The share of rank `rank` of `ranks` of a model, which must outlive it. segments 0: those of the model, or, when `ranks` does
// not divide them, as many as there are ranks. Refuses what cannot be divided, naming the key (of the number of ranks), the
// sizes and the numbers of ranks that can.
bool tensor_share_open(Architecture *share, const Architecture *whole, int rank, int ranks, int64_t segments,
                       const char *key, Error *error);

// Whether the model's shared sums can have so many segments; else an error that names whet.tensor_segments.
bool tensor_share_check_segments(const Architecture *whole, int64_t segments, Error *error);

// Rows of the vocabulary of each rank's share, padding included, and where they begin; of all ids without ranks.
int64_t tensor_share_vocabulary_first(const Architecture *share);
int64_t tensor_share_vocabulary_count(const Architecture *share); // rows that are ids
void tensor_share_ids(const Architecture *share, int32_t *rows, const int32_t *ids,
                      int64_t count); // its row of each, or -1

// How its shared sums are cut, of a share or a whole model.
typedef struct TensorShareSums {
    LinearSegments heads, ffn;   // o over its inputs, down over its inputs
    LinearSegments qkv, gate_up; // over their outputs
    LinearSegments vocabulary;   // the head, over its outputs
    int kv_parts;                // the query heads of a key/value head are that many groups, each a sum of its own
    int kv_sharers;              // ranks that hold the same key/value head
} TensorShareSums;
TensorShareSums tensor_share_sums(const Architecture *share);
