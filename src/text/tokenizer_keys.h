// Reading the objects of a tokenizer.json: types, flags, and no key passed over. Used by the readers of tokenizers only.
#pragma once
#include "base/jsonio.h"

const char *tokenizer_keys_type(const json_t *part); // of its key "type"; "without a type" when there is none

// Every key that is not listed could change ids: better refused than passed over. Names the nearest.
bool tokenizer_keys_known(const json_t *part, const char *what, const char *const *keys, size_t count, Error *error);
#define TOKENIZER_KEYS(part, what, error, ...)                                                                         \
    tokenizer_keys_known((part), (what), (const char *const[]){__VA_ARGS__},                                           \
                         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), (error))

// A flag that may be missing or null; anything else but true and false is an error.
bool tokenizer_keys_flag(bool *flag, const json_t *part, const char *what, const char *key, bool missing, Error *error);

// A text that must be missing, null or empty.
bool tokenizer_keys_refuse_text(const json_t *part, const char *what, const char *key, Error *error);
