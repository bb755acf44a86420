#include "config/settings_key.h"

#include <stdio.h>
#include <string.h>

bool settings_key_holds_datasets(const char *key) {
    return !strcmp(key, "data.train") || !strcmp(key, "data.validation");
}

// What follows the prefix, when it is that or stands below it, else NULL.
static const char *below(const char *key, const char *prefix) {
    size_t length = strlen(prefix);
    return !strncmp(key, prefix, length) && (!key[length] || key[length] == '.') ? key + length : NULL;
}

const char *settings_key_row(char row[SETTINGS_KEY_SIZE], const char *key) {
    static const char *const groups[] = {"data.train", "data.validation", "data.default"};
    const char *rest = NULL;
    for (int i = 0; i < 3 && !rest; i++) rest = below(key, groups[i]);
    if (rest) {
        size_t digits = *rest == '.' ? strspn(rest + 1, "0123456789") : 0;
        if (digits && (!rest[digits + 1] || rest[digits + 1] == '.')) rest += digits + 1;
        snprintf(row, SETTINGS_KEY_SIZE, "data.train%s", rest);
        return row;
    }
    rest = below(key, "env");
    if (!rest || !*rest) return key;
    snprintf(row, SETTINGS_KEY_SIZE, "env.<name>%s", rest + 1 + strcspn(rest + 1, "."));
    return row;
}

bool settings_key_at_or_below(const char *path, const char *key) {
    size_t length = strlen(key);
    return !strncmp(path, key, length) && (!path[length] || path[length] == '.');
}

const char *settings_key_section(Algorithm algorithm) {
    return algorithm == ALGORITHM_SFT ? "sft" : "grpo";
}

bool settings_key_serves(const char *key, Algorithm algorithm) {
    static const char *const own[ALGORITHM_COUNT][16] = {
        // What samples answers, rewards them and learns from rewards.
        [ALGORITHM_GRPO] = {"grpo", "loss_fn", "reward_penalties", "env", "policy.generation",
                            "policy.logprob_batch_size", "policy.dynamic_batching.logprob_mb_tokens",
                            "policy.sequence_packing.logprob_mb_tokens", "data.train.env_name", "data.default.env_name",
                            "logger.num_val_samples_to_print", "whet.min_p", "whet.val_min_p", "whet.max_sequences",
                            "whet.kv_cache_tokens"},
        [ALGORITHM_SFT] = {"sft", "data.add_bos", "data.add_eos", "data.add_generation_prompt", "data.train.tool_key"}};
    for (int other = 0; other < ALGORITHM_COUNT; other++)
        for (int i = 0; other != (int)algorithm && own[other][i]; i++)
            if (settings_key_at_or_below(key, own[other][i])) return false;
    return true;
}

const char *settings_key_foreign(const char *key, Algorithm algorithm) {
    if (settings_key_serves(key, algorithm)) return NULL;
    return algorithm == ALGORITHM_SFT ? "with sft no answers are sampled and rewarded" : "has a meaning with sft only";
}

const char *settings_key_unused(const char *key, bool megatron) {
    static const char *const replaced[] = {"policy.automodel_cfg", "policy.optimizer", "policy.scheduler"};
    if (!megatron)
        return settings_key_at_or_below(key, "policy.megatron_cfg")
                   ? "counts with policy.megatron_cfg.enabled: true only"
                   : NULL;
    // One engine trains whatever the recipe names, and its blocks hand on an output.
    if (!strcmp(key, "policy.automodel_cfg") || !strcmp(key, "policy.automodel_cfg.fsdp_output_dtype")) return NULL;
    for (int i = 0; i < 3; i++)
        if (settings_key_at_or_below(key, replaced[i])) return "policy.megatron_cfg, which is enabled, takes its place";
    return NULL;
}
