// Inside of a Tokenizer and the steps that its readers (tokenizer_build.c, tokenizer_json.c) share. Everybody else uses
// tokenizer.h.
#pragma once
#include "text/added.h"
#include "text/detokenize.h"
#include "text/normalize.h"
#include "text/pretokenize.h"
#include "text/tokenizer.h"

enum { TOKENIZER_STEPS = 8, TOKENIZER_WITH_ID = 3 }; // the first three of tokenizer_names are tokens of the vocabulary

struct Tokenizer {
    Arena arena; // holds all the rest but the patterns and the two lists
    Vocabulary vocabulary;
    Bpe bpe;
    bool whole_pieces; // a piece that is a token is not merged (ignore_merges)
    NormalizeStep normalizers[TOKENIZER_STEPS];
    int normalizer_count;
    PretokenizeStep steps[TOKENIZER_STEPS]; // in order, each splits the pieces of the one before
    int step_count;
    DetokenizeStep decoders[DETOKENIZE_STEPS];
    int decoder_count;
    VocabularyToken *
        plain; // by id, of which bytes and byte_size count: what a token adds to a text; NULL: as the vocabulary has it
    Added raw, normalized;    // added tokens, looked for before and after the normalizers
    Charset word;             // filled when an added token is a single word
    TokenList prefix, suffix; // what add_special puts around a text
    int32_t bos_id, eos_id, pad_id;
    const char *named[TOKENIZER_NAMES]; // texts of the special tokens that need not be in it, NULL: none
};

// Steps whose pattern, if any, becomes the tokenizer's own, also on failure.
bool tokenizer_build_normalizer(Tokenizer *tokenizer, NormalizeStep step, Error *error);
bool tokenizer_build_step(Tokenizer *tokenizer, PretokenizeStep step, Error *error);
bool tokenizer_build_decoder(Tokenizer *tokenizer, DetokenizeStep step, Error *error);

// Steps of their own: a split by a regex, and what ByteLevel splits by.
bool tokenizer_build_split(Tokenizer *tokenizer, const char *regex, PatternDialect dialect,
                           PretokenizeBehavior behavior, Error *error);
extern const char tokenizer_build_gpt2[];

// An empty tokenizer with room for `size` ids. Then: steps, vocabulary_add for every token, tokenizer_build_merges, a
// tokenizer_build_merge per merge, tokenizer_build_finish.
Tokenizer *tokenizer_build(int32_t size, bool byte_level);
void tokenizer_build_merges(Tokenizer *tokenizer, int32_t merge_count);

// One merge of two token texts. Fails when one of them or the merged token is not in the vocabulary.
bool tokenizer_build_merge(Tokenizer *tokenizer, int32_t rank, const char *left, size_t left_size, const char *right,
                           size_t right_size, Error *error);
bool tokenizer_build_merge_line(Tokenizer *tokenizer, int32_t rank, const char *line, Error *error); // "left right"

// Gathers the added tokens, and puts BOS in front (add_bos) and EOS behind (add_eos) unless something stands there already.
bool tokenizer_build_finish(Tokenizer *tokenizer, bool add_bos, bool add_eos, Error *error);
