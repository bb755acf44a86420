// The training walk over FSDP units: forward keeps what backward reads, the root unit's head runs chunk by chunk with the
// loss in between, backward adds gradients into the shards. No padding exists: a micro-batch is whole sequences, packed.
//
//   walk_begin(…ids of the global batch…)
//   for each micro-batch:  walk_forward; walk_head_open; for each chunk of loss rows: walk_head_forward, (loss),
//                          walk_head_backward; walk_head_close; walk_backward
//   walk_end
//
// A micro-batch's gradient of a parameter is one chain over its tokens, from 0, whatever chunks the head is walked in; it is
// added to the sum over the micro-batches before it. The embedding's is a sum token by token over the global batch.
//
// On many ranks micro-batches are walked in rounds, one a rank; a rank without one (count 0) makes the same calls, for the
// others need its part of each unit. The head is then walked in pieces (train/walk_piece.h).
//
// Where the output dtype acts (reference/nemo_rl.md section 9): a block's last sum is rounded once to policy.output; the next
// block casts it to the compute dtype on entry and keeps only that; the final norm, in the root unit, reads it as it is. In
// backward the gradient crosses each boundary in policy.output too.
#pragma once
#include "model/block.h"
#include "model/overflow.h"
#include "model/precision.h"
#include "train/embedding_rows.h"
#include "train/shard.h"

// What a block keeps between forward and backward. No choice changes a bit.
typedef enum WalkCheckpointing {
    WALK_KEEPS_ALL,
    WALK_KEEPS_INPUTS,   // the block's input; backward walks the block again
    WALK_KEEPS_ATTENTION // all but gate_up_T2F, by far the largest; backward makes it again
} WalkCheckpointing;

typedef struct WalkOptions {
    PrecisionPolicy policy;
    WalkCheckpointing activation_checkpointing;
    int64_t kept_blocks;    // so many, the last ones, keep all whatever activation_checkpointing says
    int64_t max_positions;  // size of the rotary table
    Comm *tensor;           // ranks that share the model, NULL: none; not owned
    bool sequence_parallel; // they divide the rows of a micro-batch between the blocks' products too; changes no bit
} WalkOptions;

// The loss rows of a micro-batch on their way through final norm and head.
typedef struct WalkHead {
    int64_t count, done;      // N; rows that are through walk_head_backward
    const int32_t *rows;      // [N]
    int64_t own, own_first;   // those that this rank has of the last block's output, a run of the N
    const int32_t *own_rows;  // [own] which of its rows they are
    Tensor norm_ND, dnorm_ND; // in the compute dtype
    Tensor chain_VD;          // the head's gradient, unfinished while some rows are done
    Tensor chains_WND;        // in pieces: dnorm's chains and the sums that wait for them, fp32
    Arena arena;
} WalkHead;

typedef struct Walk {
    Ops *ops;
    const Architecture *architecture; // of the model
    const Architecture *share;        // what this rank holds of it: mostly all
    Shards *shards;                   // of the share
    WalkOptions options;
    BlockShape shape; // of block 0, for the sizes
    Tensor cos_sin_PE;
    Arena arena;
    EmbeddingRows embedding;
    // The micro-batch under way.
    const TokenBatch *round, *batch; // of all ranks, and of this one
    RowShare rows;                   // of that
    int64_t page_count;              // of its keys and values
    BlockActivations *activations;   // [L]
    Tensor root;                     // gathered root unit, on one rank
    Tensor last_TD, dlast_TD;        // output of the last block and its gradient, in policy.output
    WalkHead head;
    Overflow overflow; // of float16, forward and backward, since walk_begin
} Walk;

// architecture may be a rank's share (model/tensor_share.h). Then all ranks of options.tensor make the same calls with the same
// micro-batches, and each has the whole of logits and of their gradients, and the whole, or its rows, of what passes between the blocks.
void walk_open(Walk *walk, Ops *ops, const Architecture *architecture, Shards *shards, WalkOptions options);
void walk_close(Walk *walk); // accepts a zero-initialised object

// Opens the gradients of a global batch whose token ids are ids[count].
void walk_begin(Walk *walk, const int32_t *ids, int64_t count);

// round: a micro-batch for each rank, of which the others' ids and counts alone are read. The own one (spans are whole sequences,
// pages distinct and 0..page_count-1) must live until walk_backward.
void walk_forward(Walk *walk, const TokenBatch *round, int64_t page_count);

// The final norm of the given rows (host, ascending; they must live until walk_head_close) of the micro-batch.
void walk_head_open(Walk *walk, const int32_t *rows, int64_t count);

// Fills logits_CV (fp32) of the rows first..first+C-1 of those, any number of times.
void walk_head_forward(Walk *walk, Tensor *logits_CV, int64_t first);

// From their gradient. All rows chunk by chunk, ascending, or none at all.
void walk_head_backward(Walk *walk, const Tensor *dlogits_CV, int64_t first);

// The same of this rank's share of the vocabulary alone: logits_CS of share->vocab_size columns, of which the first ones are ids
// (model/tensor_share.h), and those behind them take part with zeros.
void walk_head_share_forward(Walk *walk, Tensor *logits_CS, int64_t first);
void walk_head_share_backward(Walk *walk, const Tensor *dlogits_CS, int64_t first);

void walk_head_close(Walk *walk); // the final norm's backward, if there were gradients

void walk_backward(Walk *walk);
void walk_drop(Walk *walk); // releases the micro-batch without a backward

// Folds the embedding's gradient; the gradients then stay in the shards until shard_gradients_close.
void walk_end(Walk *walk);
