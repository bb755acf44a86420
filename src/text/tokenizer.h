// BPE tokenizers, with the ids of the Hugging Face tokenizers library (0.23) reading the same tokenizer.json.
//
// Encoding: added tokens are cut out of the raw text (added.h); what lies between is normalized (normalize.h), normalized
// added tokens are cut out, the rest is split into pieces (pretokenize.h), and each piece's symbols are merged (bpe.h). Text
// is bytes: it may contain 0, and bytes that are not UTF-8 are encoded as they are, as characters that are neither letters,
// numbers nor blanks. Decoding: detokenize.h.
#pragma once
#include "base/strbuf.h"
#include "text/bpe.h"

// Immutable after open: any number of threads may use one.
typedef struct Tokenizer Tokenizer;

// What a GGUF file holds under tokenizer.ggml.*. Everything is copied. The arrays may be NULL where their count is 0; types
// may be NULL: all normal.
//
// model gpt2: a byte-level vocabulary, texts in byte characters (vocabulary.h), with merges and one of the known ways to
// split (pre). model llama (sentencepiece): texts with U+2581 for blanks, tokens made in order of their scores; every text
// between added tokens gets a blank in front (add_space_prefix), which a decode takes off; characters without a token become
// the tokens <0xHH> of their bytes.
typedef struct TokenizerTables {
    bool sentencepiece; // model
    int32_t token_count;
    const char *const *tokens; // tokens, by id
    const float *scores;       // scores, by id
    const int32_t *types; // token_type: 2 unknown and 3 control (added, special), 4 user-defined (added), 5 unused (no
                          // text), 6 byte
    int32_t merge_count;
    const char *const *merges; // merges: "left right", by rank
    const char *
        pre; // pre: smollm, qwen2, deepseek-r1-qwen, gpt-2 or default, llama-bpe, llama3 or llama-v3, smaug-bpe, tekken
    int32_t bos_id, eos_id, pad_id, unknown_id; // -1: none
    int add_bos, add_eos;  // add_bos_token, add_eos_token; -1: not said, BOS is added to llama, llama-bpe and tekken
    bool add_space_prefix; // add_space_prefix
} TokenizerTables;

// Fails on an unknown pre (naming the known ones), ids out of range, duplicate tokens, and merges of or into tokens that
// are not there. The line starts with source_name.
bool tokenizer_open_tables(Tokenizer **tokenizer, const TokenizerTables *tables, const char *source_name, Error *error);

// Reads folder/tokenizer.json, and from tokenizer_config.json beside it, when it is there, bos_token, eos_token and
// pad_token. Whatever part of tokenizer.json would change ids or texts and is not known here is refused
// by name: the model must be BPE without dropout, prefixes and suffixes; for the other parts see tokenizer_parts.c.
// truncation, padding, clean_up_tokenization_spaces, add_bos_token and add_eos_token are not applied, as in transformers 5.24
// (verbose logs say so): what is added to a text is what the post-processor says.
bool tokenizer_open_folder(Tokenizer **tokenizer, const char *folder, Error *error);
bool tokenizer_open_file(Tokenizer **tokenizer, const char *path, Error *error); // a tokenizer.json

void tokenizer_close(Tokenizer *tokenizer); // accepts NULL

// Appends the ids of text[size]; the caller closes the list (bpe_list_close). With add_special, the tokens that the
// post-processor or add_bos put before and after a text are added; a text that begins with the BOS token gets no second
// one. Fails, leaving the list as it was, for a text of more than BPE_LONGEST bytes and where a split needs too many steps.
bool tokenizer_encode(const Tokenizer *tokenizer, TokenList *ids, const char *text, size_t size, bool add_special,
                      Error *error);

// Appends the text of ids[count], always well-formed UTF-8. Ids without a token give nothing; with skip_special neither
// do added tokens marked special.
void tokenizer_decode(const Tokenizer *tokenizer, StrBuf *text, const int32_t *ids, size_t count, bool skip_special);

int32_t tokenizer_id(const Tokenizer *tokenizer, const char *token); // by its text as in the file; -1: none
int32_t tokenizer_size(const Tokenizer *tokenizer);                  // highest id + 1, added tokens included
int32_t tokenizer_bos(const Tokenizer *tokenizer);                   // -1: none
int32_t tokenizer_eos(const Tokenizer *tokenizer);                   // -1: none
int32_t tokenizer_pad(const Tokenizer *tokenizer);                   // -1: none

// "bos_token", "eos_token", "pad_token", "unk_token", "sep_token", "cls_token", "mask_token".
enum { TOKENIZER_NAMES = 7 };
extern const char *const tokenizer_names[TOKENIZER_NAMES];

// The text of the special token of one of these names, as chat templates see it; NULL: none. Owned by the tokenizer.
const char *tokenizer_named(const Tokenizer *tokenizer, const char *name);

// A token's text as in the file (byte characters), 0-terminated; NULL for an id without a token. Owned by the tokenizer.
const char *tokenizer_token_text(const Tokenizer *tokenizer, int32_t id);

// The bytes that a token adds to a text behind others, which need not be whole characters; NULL and *size 0 for an id without
// a token.
const char *tokenizer_token_bytes(const Tokenizer *tokenizer, int32_t id, size_t *size);

// How many of these bytes, at their start, a decode leaves out where the token is a text's first: SentencePiece's blank.
size_t tokenizer_first_cut(const Tokenizer *tokenizer, int32_t id);

bool tokenizer_is_special(const Tokenizer *tokenizer, int32_t id); // an added token marked special
