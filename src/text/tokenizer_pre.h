// GGUF's names for ways to split a text (tokenizer.ggml.pre), each with what the model's own tokenizer.json has.
#pragma once
#include "base/error.h"

typedef struct TokenizerPre {
    const char *name;
    bool nfc, digits, whole_pieces, add_bos; // digits: each alone; whole_pieces: ignore_merges
    const char *regex;
} TokenizerPre;

// Refuses NULL and an unknown name, listing the known ones.
const TokenizerPre *tokenizer_pre_find(const char *name, Error *error);
