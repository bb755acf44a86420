// What the rollout engine may be told: policy.generation.* and the whet.* keys of the engine, filled by the settings table
// (config/settings.h) and obeyed by rollout/engine.h.
#pragma once
#include "base/error.h"

enum { GENERATION_MAX_STOP_IDS = 16, GENERATION_MAX_STOP_STRINGS = 16, GENERATION_LONGEST_STOP_STRING = 4096 };
// Colder, logits / temperature could overflow in fp32; hotter, nothing of the logits is left.
#define GENERATION_MIN_TEMPERATURE 1e-3
#define GENERATION_MAX_TEMPERATURE 1e6

typedef struct GenerationOptions {
    int64_t max_new_tokens;
    double temperature; // 0: greedy
    double top_p;       // 1: off
    int64_t top_k;      // 0: off (null and -1 in recipes)
    double min_p;       // 0: off
    int stop_count;
    int32_t stop_ids[GENERATION_MAX_STOP_IDS]; // stop_token_ids, besides the model's own
    int stop_string_count;
    const char *stop_strings[GENERATION_MAX_STOP_STRINGS]; // not owned
    bool ignore_eos;                                       // the model's own stop ids do not stop
    bool enable_prefix_caching;                            // pages of earlier sequences are found by what they hold
    int64_t max_length;                                    // prompt + answer (vllm_cfg.max_model_len)
    int64_t max_sequences;                                 // decoded together (whet.max_sequences)
    int64_t kv_cache_tokens; // budget of the cache in tokens; 0: what max_sequences of max_length need
    int64_t prefill_chunk;   // tokens of prompts walked at once, at most
    int64_t
        tensor_parallel_size; // ranks that share the weights (vllm_cfg.tensor_parallel_size): obeyed by who opens the model
} GenerationOptions;

// Refuses values out of range, naming the key.
bool generation_options_check(const GenerationOptions *options, Error *error);
