// Typed reading of a model's config.json, with messages that name file, key, value found and value expected. A key that is null
// counts as absent, as in Transformers.
#pragma once
#include "base/error.h"

#include <jansson.h>

typedef struct ModelConfig {
    const json_t *object; // NULL: an empty one
    const char *source;   // names the file in messages
} ModelConfig;

const json_t *model_config_find(ModelConfig config, const char *key); // NULL: absent or null

// "FILE: KEY is VALUE, expected EXPECTED"; false.
bool model_config_refuse(ModelConfig config, const char *key, const json_t *value, const char *expected, Error *error);

bool model_config_integer(int64_t *out, ModelConfig config, const char *key, Error *error); // required
bool model_config_integer_or(int64_t *out, ModelConfig config, const char *key, int64_t fallback, Error *error);
bool model_config_real_or(double *out, ModelConfig config, const char *key, double fallback, Error *error);
bool model_config_flag_or(bool *out, ModelConfig config, const char *key, bool fallback, Error *error);
bool model_config_text_or(const char **out, ModelConfig config, const char *key, const char *fallback, Error *error);
