#include "text/tokenizer_keys.h"

#include <string.h>

const char *tokenizer_keys_type(const json_t *part) {
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "without a type";
}

bool tokenizer_keys_known(const json_t *part, const char *what, const char *const *keys, size_t count, Error *error) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)part, key, value) {
        size_t i = 0;
        while (i < count && strcmp(keys[i], key)) i++;
        if (i < count) continue;
        const char *nearest = strbuf_nearest(key, keys, count);
        return error_set(error, "%s: unknown key \"%.200s\"%s%s%s", what, key, nearest ? ", did you mean \"" : "",
                         nearest ? nearest : "", nearest ? "\"?" : "");
    }
    return true;
}

bool tokenizer_keys_flag(bool *flag, const json_t *part, const char *what, const char *key, bool missing,
                         Error *error) {
    const json_t *value = json_object_get(part, key);
    *flag = json_is_boolean(value) ? json_is_true(value) : missing;
    return !value || json_is_null(value) || json_is_boolean(value) ||
           error_set(error, "%s: %s must be true or false", what, key);
}

bool tokenizer_keys_refuse_text(const json_t *part, const char *what, const char *key, Error *error) {
    const json_t *value = json_object_get(part, key);
    if (!value || json_is_null(value) || (json_is_string(value) && !json_string_length(value))) return true;
    return error_set(error, "%s: %s is not supported", what, key);
}
