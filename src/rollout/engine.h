// The rollout engine: prompts in, samples out. Continuous batching over a paged KV cache; the samples of one prompt share
// the prompt's pages; every sampled token's log-prob is recorded. Scheduling never changes a bit: each token depends on its
// own sequence and on Philox numbers by coordinates (seed, purpose; step, prompt, sample, token).
#pragma once
#include "base/rng.h"
#include "model/resident.h"

// policy.generation.* of the recipe.
typedef struct GenerationOptions {
    int64_t max_new_tokens;
    double temperature; // 0: greedy
    double top_p;       // 1: off
    int64_t top_k;      // 0: off (null and -1 in recipes)
    int stop_count;
    int32_t stop_ids[16]; // stop_token_ids; without them the model's own
    bool ignore_eos;
    int64_t max_length;      // prompt + answer (vllm_cfg.max_model_len)
    int64_t max_sequences;   // decoded together (whet.max_sequences)
    int64_t kv_cache_tokens; // budget of the cache in tokens; 0: what max_sequences of max_length need
    int64_t prefill_chunk;   // tokens of prompts walked at once
} GenerationOptions;
