// Which sequences of a global batch make which micro-batch on which rank, by NeMo-RL's rules (reference/nemo_rl.md section 6):
// so many sequences each, so many tokens each among sequences of like length, or bins of so many tokens.
#pragma once
#include "train/packing.h"

typedef enum BatchingMode {
    BATCHING_STATIC,  // train_micro_batch_size sequences
    BATCHING_DYNAMIC, // policy.dynamic_batching
    BATCHING_PACKED   // policy.sequence_packing
} BatchingMode;

// policy.dynamic_batching.*
typedef struct DynamicBatchingOptions {
    bool enabled;
    int64_t train_mb_tokens, logprob_mb_tokens, sequence_length_round;
} DynamicBatchingOptions;

// policy.sequence_packing.*
typedef struct SequencePackingOptions {
    bool enabled;
    int64_t train_mb_tokens, logprob_mb_tokens;
    const char *algorithm, *microbatch_order;
} SequencePackingOptions;

typedef struct BatchingOptions {
    BatchingMode mode;
    int64_t micro_batch_size;   // static
    int64_t max_tokens;         // dynamic, packed: of a micro-batch (train_mb_tokens, logprob_mb_tokens)
    int64_t length_round;       // dynamic: lengths count rounded up to a multiple of this
    PackingAlgorithm algorithm; // packed
    bool largest_first;         // packed: microbatch_order
    int64_t pad_multiple;       // packed: likewise (make_sequence_length_divisible_by)
    uint64_t seed;              // first_fit_shuffle: its order is drawn by (seed, RNG_PACK, round)
    uint32_t round;
} BatchingOptions;

// The micro-batches of one rank: micro-batch m holds sequences[first[m]] … sequences[first[m + 1] - 1].
typedef struct MicroBatches {
    int64_t count;
    int64_t *first;     // [count + 1]
    int64_t *sequences; // indices into lengths
    int64_t *tokens;    // [count] as NeMo-RL counts them: the padded length of a sequence (dynamic), the bin's load
                        // (packed), the longest sequence (static)
} MicroBatches;

// Cuts one global batch for `ranks` ranks; out[ranks]. padded_width caps the rounded length (dynamic); 0: the longest
// sequence. All ranks have equally many micro-batches, but static ones where count is not a multiple. Arrays are the
// arena's. Refuses what packing_bins refuses, a sequence over the budget, and (static, dynamic) a batch that does not divide
// by ranks unless `uneven`.
bool micro_batches_cut(MicroBatches *out, const int64_t *lengths, int64_t count, int64_t padded_width, int ranks,
                       bool uneven, const BatchingOptions *options, Arena *arena, Error *error);

// "packer" or "largest_first" (policy.sequence_packing.microbatch_order).
bool micro_batches_parse_order(bool *largest_first, const char *key, const char *text, Error *error);

// What a recipe asks for: packing or dynamic batching where it is enabled, else micro_batch_size sequences. Refuses both
// together, budgets below max_length, the longest that a sequence may be, and unknown names, naming the key.
bool micro_batches_options(BatchingOptions *options, int64_t micro_batch_size, int64_t max_length,
                           const DynamicBatchingOptions *dynamic, const SequencePackingOptions *packing, Error *error);

// whet.reduction_block: sums over so many sequences do not know the micro-batch that they are walked in, for it is cut to them.
// 0: leaves it alone. Refuses what is not static, and a block that does not divide micro_batch_size.
bool micro_batches_reduce_by(BatchingOptions *options, int64_t reduction_block, Error *error);
