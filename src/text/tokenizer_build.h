// Inside of a Tokenizer and the steps that its readers (tokenizer_build.c, tokenizer_json.c) share. Everybody else uses
// tokenizer.h.
#pragma once
#include "text/added.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"

enum { TOKENIZER_STEPS = 8 };

struct Tokenizer {
    Arena arena; // holds all the rest but the two lists
    Vocabulary vocabulary;
    Bpe bpe;
    bool whole_pieces;                      // a piece that is a token is not merged (ignore_merges)
    bool nfc;                               // else no normalizer
    PretokenizeStep steps[TOKENIZER_STEPS]; // in order, each splits the pieces of the one before
    int step_count;
    Added raw, normalized;    // added tokens, looked for before and after the normalizer
    TokenList prefix, suffix; // what add_special puts around a text
    int32_t bos_id, eos_id, pad_id;
};

// An empty tokenizer with room for `size` ids. Then: vocabulary_add for every token, tokenizer_build_merges, a
// tokenizer_build_merge per merge, tokenizer_build_finish.
Tokenizer *tokenizer_build(int32_t size);
void tokenizer_build_merges(Tokenizer *tokenizer, int32_t merge_count);

// One merge of two token texts. Fails when one of them or the merged token is not in the vocabulary.
bool tokenizer_build_merge(Tokenizer *tokenizer, int32_t rank, const char *left, size_t left_size, const char *right,
                           size_t right_size, Error *error);
bool tokenizer_build_merge_line(Tokenizer *tokenizer, int32_t rank, const char *line, Error *error); // "left right"

// Gathers the added tokens and puts BOS in front (add_bos) unless something stands there already.
bool tokenizer_build_finish(Tokenizer *tokenizer, bool add_bos, Error *error);
