// A model whose weights stay in memory in the compute dtype, packed for decoding: the walk of the rollout engine, of the
// reference policy and of scoring. No gradients. Its numbers equal the training walk's, bit by bit.
#pragma once
#include "base/arena.h"
#include "model/block.h"
#include "model/model_file.h"
#include "model/overflow.h"
#include "model/precision.h"
#include "ops/softmax.h"

// Keys and values of all layers, in pages of KV_PAGE_TOKENS positions; page numbers are the same in every layer.
typedef struct KvCache {
    int64_t pages;
    int layer_count;
    KvPages *layers;
    Arena arena; // of layers
} KvCache;

size_t kv_cache_token_bytes(const Architecture *share, DType dtype); // keys and values of one token in all layers
KvCache kv_cache_open(Ops *ops, MemoryTag tag, const Architecture *share, DType dtype, int64_t pages);
void kv_cache_close(Ops *ops, KvCache *cache);
void kv_cache_copy_page(Ops *ops, KvCache *cache, int32_t to, int32_t from);

typedef struct Resident {
    Ops *ops;
    const Architecture *architecture; // of the model; not owned
    const Architecture *share;        // what this rank holds of it (model/tensor_share.h): mostly all
    Comm *tensor;                     // the ranks that share it, NULL: none; not owned
    const ParameterTable *parameters; // of the share; not owned
    PrecisionPolicy policy;
    BlockShape shape; // of block 0, for the sizes
    MemoryTag tag;
    uint64_t loads;        // grows whenever weights are loaded: what was computed before is void
    BlockWeights *blocks;  // [L] panels, norms and biases owned
    Tensor *block_vectors; // [L] the flat array behind each block's norms and biases
    Tensor embedding_VD;   // data NULL with a tied head, whose panels hold the same numbers
    Tensor final_norm_D;
    LinearWeight head; // panels
    Tensor cos_sin_PE; // rotary table for all positions that may occur
    // Scratch for up to max_rows rows, used by every layer in turn.
    int64_t max_rows;
    BlockActivations activations;
    BlockScratch scratch;
    Tensor out_TD;     // last block's output, in policy.output
    Tensor last_ND;    // the rows of it that the head reads
    Overflow overflow; // since resident_open; the first is said in a warning
    Arena arena;       // of the arrays above
} Resident;

// For weights under tag MEMORY_ROLLOUT_WEIGHTS or MEMORY_REFERENCE, with a rotary table of max_positions. The first walk takes
// scratch for max_rows rows. Weights are undefined until every unit was loaded.
void resident_open(Resident *resident, Ops *ops, const Architecture *architecture, const ParameterTable *parameters,
                   Comm *tensor, PrecisionPolicy policy, MemoryTag tag, int64_t max_rows, int64_t max_positions);
void resident_close(Resident *resident);

// Takes over one unit's weights from its flat array (F32 or the compute dtype; model/parameters.h): casts and packs. What is
// rounded on the way lives a moment, as MEMORY_GATHERED_UNIT.
void resident_load_unit(Resident *resident, int unit, const Tensor *flat);

// The same of the root, in parts, where nobody has it whole: rows first..first+R-1 of embedding or head, in the compute dtype, each
// matrix in order from 0 on (a multiple of LINEAR_PACKED_ROWS, and R too unless it ends the matrix); the final norm alone.
void resident_load_rows(Resident *resident, const Parameter *parameter, int64_t first, const Tensor *rows_RK);
void resident_load_norm(Resident *resident, const Tensor *norm_D);

// Gives the weights' memory back, until every unit is loaded again; that of the scratch, until the next walk.
void resident_drop_weights(Resident *resident);
void resident_drop_scratch(Resident *resident);

// Loads every unit from a model file.
bool resident_load_file(Resident *resident, const ModelFile *file, Error *error);

// Pushes the batch (at most max_rows rows) through all blocks, writing keys and values into the cache's pages. The hidden
// states stay in resident->out_TD until the next call.
void resident_forward(Resident *resident, KvCache *cache, const TokenBatch *batch);

// logits_NV (fp32) of the rows (host indices into the last batch): final norm, head. N is logits_NV's first size.
void resident_logits(Resident *resident, Tensor *logits_NV, const int32_t *rows);
