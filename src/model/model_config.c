#include "model/model_config.h"

#include <stdio.h>

const json_t *model_config_find(ModelConfig config, const char *key) {
    const json_t *value = json_object_get(config.object, key);
    return json_is_null(value) ? NULL : value;
}

// A JSON value as short text for messages.
static const char *show(char text[64], const json_t *value) {
    char *printed = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    snprintf(text, 64, "%.60s", printed ? printed : "?");
    free(printed);
    return text;
}

bool model_config_refuse(ModelConfig config, const char *key, const json_t *value, const char *expected, Error *error) {
    char text[64];
    return error_set(error, "%s: %s is %s, expected %s", config.source, key, show(text, value), expected);
}

bool model_config_integer(int64_t *out, ModelConfig config, const char *key, Error *error) {
    const json_t *value = model_config_find(config, key);
    if (!value) return error_set(error, "%s: key %s is missing", config.source, key);
    if (!json_is_integer(value)) return model_config_refuse(config, key, value, "an integer", error);
    *out = json_integer_value(value);
    return true;
}

bool model_config_integer_or(int64_t *out, ModelConfig config, const char *key, int64_t fallback, Error *error) {
    *out = fallback;
    return !model_config_find(config, key) || model_config_integer(out, config, key, error);
}

bool model_config_real_or(double *out, ModelConfig config, const char *key, double fallback, Error *error) {
    const json_t *value = model_config_find(config, key);
    *out = fallback;
    if (!value) return true;
    if (!json_is_number(value)) return model_config_refuse(config, key, value, "a number", error);
    *out = json_number_value(value);
    return true;
}

bool model_config_flag_or(bool *out, ModelConfig config, const char *key, bool fallback, Error *error) {
    const json_t *value = model_config_find(config, key);
    *out = fallback;
    if (!value) return true;
    if (!json_is_boolean(value)) return model_config_refuse(config, key, value, "true or false", error);
    *out = json_is_true(value);
    return true;
}

bool model_config_text_or(const char **out, ModelConfig config, const char *key, const char *fallback, Error *error) {
    const json_t *value = model_config_find(config, key);
    *out = fallback;
    if (!value) return true;
    if (!json_is_string(value)) return model_config_refuse(config, key, value, "a string", error);
    *out = json_string_value(value);
    return true;
}
