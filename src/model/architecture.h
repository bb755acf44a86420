// What kind of transformer a model is: the sizes and options that every other part reads, from config.json or GGUF.
#pragma once
#include "model/layer_kinds.h"
#include "model/rotary.h"

// One table row each in architecture.c.
typedef enum ModelFamily { MODEL_LLAMA, MODEL_QWEN2, MODEL_QWEN3, MODEL_MISTRAL, MODEL_SMOLLM3 } ModelFamily;

enum { ARCHITECTURE_MAX_EOS = 8 };

typedef struct Architecture {
    ModelFamily family;
    int64_t vocab_size, hidden_size, intermediate_size, layer_count; // V, D, F, L
    int64_t query_heads, kv_heads, head_dim;                         // H, K, E
    int64_t max_positions;
    float rms_norm_eps;
    bool tied_head; // the head is the embedding
    bool qkv_bias;
    bool qk_norm; // each query and key head is normalised before it is rotated
    RopeOptions rope;
    LayerKinds layers;
    int32_t bos_id;                                   // -1: none
    int32_t eos_ids[ARCHITECTURE_MAX_EOS], eos_count; // of the config (and generation_config.json)
    int segments; // of the sums that ranks may share; 0: model/tensor_share.h chooses
    // A rank's share of a model (tensor_share_open): the sizes above are those of what it holds. NULL, 0, 0: all of it.
    const struct Architecture *whole;
    int rank, ranks;
} Architecture;

// From a Hugging Face config.json, old style (torch_dtype, rope_theta, rope_scaling) or new (dtype, rope_parameters).
// source names the file in messages. Refuses what whet does not compute (another family or activation, attention or mlp
// biases that the family has not, unknown rope types or layer types, sizes out of range), naming key and value. Defaults of
// absent keys, which layers have a window and which no rotary embeddings, are those of Transformers.
bool architecture_from_json(Architecture *architecture, const json_t *config, const char *source, Error *error);

// Adds the eos_token_id (one or a list) of a config.json or generation_config.json to eos_ids, each once.
bool architecture_read_eos(Architecture *architecture, const json_t *config, const char *source, Error *error);

// Sets family, and what follows from it: qkv_bias, qk_norm and the default of max_positions. key is where the name was found.
bool architecture_set_family(Architecture *architecture, const char *name, const char *source, const char *key,
                             Error *error);

// Checks sizes, divisibilities, ids, rope options and kinds of layers; also used for GGUF. What passes has no product of two sizes over
// 2^42.
bool architecture_check(const Architecture *architecture, const char *source, Error *error);

// A config.json in the old style, which every Transformers loads, for export and checkpoints; the writer of the weights adds
// their torch_dtype. New reference.
json_t *architecture_to_json(const Architecture *architecture);

const char *architecture_family_name(ModelFamily family); // "llama"
