// Cutting a global batch into micro-batches of whole sequences, packed without padding.
#pragma once
#include "base/arena.h"
#include "model/block.h"
#include "train/loss.h"

// What training reads of B sequences. Host columns, not owned; column t of a token array belongs to token t, offsets as in
// text/samples.h. Loss falls on the tokens with mask ≠ 0 (token_mask · sample_mask); the first token of a sequence never
// counts, having no logits.
typedef struct TrainBatch {
    int64_t count;         // B
    const int64_t *offset; // [B + 1], offset[0] may be any start: tokens are ids[offset[b]]…
    const int32_t *ids;
    const float *mask;
    const float *sample_mask; // [B]
    const float *generation;  // log-probs as sampled; NULL: none (SFT)
    const float *previous;    // log-probs before the update; NULL: generation
    const float *reference;   // NULL: no KL term
    const float *advantage;
    const float *reward; // [B] of samples; read for positive_example_nll_weight only, else may be NULL
} TrainBatch;

// A slice of sequences first..first+count-1.
TrainBatch batch_slice(const TrainBatch *batch, int64_t first, int64_t count);

// Sums that normalise the loss: Σ mask over counted tokens, Σ sample_mask, Σ mask of samples with a reward above 0.
LossCounts batch_counts(const TrainBatch *batch);

// A micro-batch: the rows of its sequences one after the other, and the rows whose next token carries loss.
typedef struct MicroBatch {
    TokenBatch tokens;
    int64_t page_count; // pages of keys and values, numbered 0..page_count-1
    int64_t *sequences; // [tokens.span_count] their indices in the TrainBatch
    int64_t loss_count;
    int64_t *loss_offset;  // [sequences + 1] where the loss rows of each sequence begin
    int32_t *loss_rows;    // [loss_count] ascending: row t whose logits predict row t + 1
    int32_t *loss_targets; // [loss_count] that next token
    int64_t *loss_columns; // [loss_count] index of the predicted token in the TrainBatch's columns
} MicroBatch;

// Of the sequences sequences[count], in that order. All arrays are allocated in the arena.
MicroBatch batch_micro_of(const TrainBatch *batch, const int64_t *sequences, int64_t count, Arena *arena);
// Of the sequences first..first+count-1.
MicroBatch batch_micro(const TrainBatch *batch, int64_t first, int64_t count, Arena *arena);
