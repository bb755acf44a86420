#include "rollout/generation_options.h"

static bool check_limit(const char *key, int64_t value, int64_t least, Error *error) {
    if (value >= least && value <= INT32_MAX) return true;
    return error_set(error, "%s: %lld is not in %lld..%d", key, (long long)value, (long long)least, INT32_MAX);
}

bool generation_options_check(const GenerationOptions *options, Error *error) {
    if (!check_limit("policy.generation.max_new_tokens", options->max_new_tokens, 1, error)) return false;
    if (!check_limit("policy.generation.vllm_cfg.max_model_len", options->max_length, 2, error)) return false;
    if (!check_limit("policy.generation.top_k", options->top_k, 0, error)) return false;
    if (!check_limit("whet.max_sequences", options->max_sequences, 1, error)) return false;
    if (!check_limit("whet.prefill_chunk", options->prefill_chunk, 1, error)) return false;
    if (options->kv_cache_tokens < 0)
        return error_set(error, "whet.kv_cache_tokens: %lld is negative (0: as many as needed)",
                         (long long)options->kv_cache_tokens);
    bool warm =
        options->temperature >= GENERATION_MIN_TEMPERATURE && options->temperature <= GENERATION_MAX_TEMPERATURE;
    if (!warm && options->temperature != 0)
        return error_set(error, "policy.generation.temperature: %g is neither 0 (greedy) nor in %g..%g",
                         options->temperature, GENERATION_MIN_TEMPERATURE, GENERATION_MAX_TEMPERATURE);
    if (!((float)options->top_p > 0 && options->top_p <= 1))
        return error_set(error, "policy.generation.top_p: %g is not above 0 and at most 1 (1: off)", options->top_p);
    if (!(options->min_p >= 0 && options->min_p <= 1) || (options->min_p > 0 && (float)options->min_p == 0))
        return error_set(error, "whet.min_p: %g is not in 0..1 (0: off)", options->min_p);
    if (options->stop_count < 0 || options->stop_count > GENERATION_MAX_STOP_IDS)
        return error_set(error, "policy.generation.stop_token_ids: %d ids, at most %d are possible",
                         options->stop_count, GENERATION_MAX_STOP_IDS);
    if (options->stop_string_count < 0 || options->stop_string_count > GENERATION_MAX_STOP_STRINGS)
        return error_set(error, "policy.generation.stop_strings: %d texts, at most %d are possible",
                         options->stop_string_count, GENERATION_MAX_STOP_STRINGS);
    return true;
}
