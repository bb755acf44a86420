#include "text/tokenizer.h"

#include "text/tokenizer_build.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <string.h>

// One call of tokenizer_encode.
typedef struct Encoder {
    const Tokenizer *tokenizer;
    TokenList *ids;
    BpeScratch scratch;
    StrBuf characters; // a piece in byte characters
} Encoder;

static void encode_piece(Encoder *encoder, const char *text, size_t size) {
    const Tokenizer *tokenizer = encoder->tokenizer;
    if (tokenizer->whole_pieces) {
        strbuf_clear(&encoder->characters);
        for (size_t i = 0; i < size; i++) {
            char character[4];
            strbuf_append(&encoder->characters, character, vocabulary_put_byte(character, (uint8_t)text[i]));
        }
        int32_t id = vocabulary_find(&tokenizer->vocabulary, encoder->characters.text, encoder->characters.length);
        if (id >= 0 && tokenizer->vocabulary.tokens[id].flags & VOCABULARY_MODEL) {
            bpe_list_append(encoder->ids, id);
            return;
        }
    }
    bpe_encode(&tokenizer->bpe, &encoder->scratch, encoder->ids, text, size);
}

// Splits by the steps from `step` on.
static void encode_split(Encoder *encoder, int step, const char *text, size_t size) {
    if (step == encoder->tokenizer->step_count) {
        encode_piece(encoder, text, size);
        return;
    }
    for (size_t at = 0; at < size;) {
        size_t length = pretokenize_next(encoder->tokenizer->steps[step], text + at, size - at);
        encode_split(encoder, step + 1, text + at, length);
        at += length;
    }
}

static void encode_normalized(Encoder *encoder, const char *text, size_t size) {
    size_t at, length;
    int32_t id;
    while ((id = added_find(&encoder->tokenizer->normalized, text, size, &at, &length)) >= 0) {
        encode_split(encoder, 0, text, at);
        bpe_list_append(encoder->ids, id);
        text += at + length;
        size -= at + length;
    }
    encode_split(encoder, 0, text, size);
}

static void encode_between(Encoder *encoder, const char *text, size_t size) {
    if (!size) return;
    if (!encoder->tokenizer->nfc) {
        encode_normalized(encoder, text, size);
        return;
    }
    StrBuf normal = {0};
    unicode_nfc(&normal, text, size);
    encode_normalized(encoder, normal.text, normal.length);
    strbuf_close(&normal);
}

static void encode_raw(Encoder *encoder, const char *text, size_t size) {
    size_t at, length;
    int32_t id;
    while ((id = added_find(&encoder->tokenizer->raw, text, size, &at, &length)) >= 0) {
        encode_between(encoder, text, at);
        bpe_list_append(encoder->ids, id);
        text += at + length;
        size -= at + length;
    }
    encode_between(encoder, text, size);
}

// A text that brings its own BOS keeps that one.
static void drop_second_bos(const Tokenizer *tokenizer, TokenList *ids, size_t first) {
    const TokenList *prefix = &tokenizer->prefix;
    size_t next = first + prefix->count;
    if (!prefix->count || next >= ids->count) return;
    int32_t bos = tokenizer->bos_id >= 0 ? tokenizer->bos_id : prefix->ids[0];
    if (prefix->ids[prefix->count - 1] != bos || ids->ids[next] != bos) return;
    memmove(ids->ids + next, ids->ids + next + 1, (ids->count - next - 1) * sizeof *ids->ids);
    bpe_list_cut(ids, ids->count - 1);
}

bool tokenizer_encode(const Tokenizer *tokenizer, TokenList *ids, const char *text, size_t size, bool add_special,
                      Error *error) {
    // NFC can make a text three times as long.
    if (size > BPE_LONGEST / 3)
        return error_set(error, "a text of %zu bytes cannot be tokenized, %d is the most", size, BPE_LONGEST / 3);
    size_t first = ids->count;
    for (size_t i = 0; add_special && i < tokenizer->prefix.count; i++) bpe_list_append(ids, tokenizer->prefix.ids[i]);
    Encoder encoder = {.tokenizer = tokenizer, .ids = ids};
    encode_raw(&encoder, text, size);
    arena_close(&encoder.scratch.arena);
    strbuf_close(&encoder.characters);
    if (add_special) drop_second_bos(tokenizer, ids, first);
    for (size_t i = 0; add_special && i < tokenizer->suffix.count; i++) bpe_list_append(ids, tokenizer->suffix.ids[i]);
    return true;
}

void tokenizer_decode(const Tokenizer *tokenizer, StrBuf *text, const int32_t *ids, size_t count, bool skip_special) {
    StrBuf bytes = {0};
    for (size_t i = 0; i < count; i++) {
        if (skip_special && tokenizer_is_special(tokenizer, ids[i])) continue;
        size_t size;
        const char *token = tokenizer_token_bytes(tokenizer, ids[i], &size);
        strbuf_append(&bytes, token, size);
    }
    utf8_repair(text, bytes.text, bytes.length, true);
    strbuf_close(&bytes);
}

int32_t tokenizer_id(const Tokenizer *tokenizer, const char *token) {
    return vocabulary_find(&tokenizer->vocabulary, token, strlen(token));
}

int32_t tokenizer_size(const Tokenizer *tokenizer) {
    return tokenizer->vocabulary.size;
}

int32_t tokenizer_bos(const Tokenizer *tokenizer) {
    return tokenizer->bos_id;
}

int32_t tokenizer_eos(const Tokenizer *tokenizer) {
    return tokenizer->eos_id;
}

int32_t tokenizer_pad(const Tokenizer *tokenizer) {
    return tokenizer->pad_id;
}

static const VocabularyToken *token_of(const Tokenizer *tokenizer, int32_t id) {
    bool there = id >= 0 && id < tokenizer->vocabulary.size && tokenizer->vocabulary.tokens[id].text;
    return there ? tokenizer->vocabulary.tokens + id : NULL;
}

const char *tokenizer_token_text(const Tokenizer *tokenizer, int32_t id) {
    const VocabularyToken *token = token_of(tokenizer, id);
    return token ? token->text : NULL;
}

const char *tokenizer_token_bytes(const Tokenizer *tokenizer, int32_t id, size_t *size) {
    const VocabularyToken *token = token_of(tokenizer, id);
    *size = token ? token->byte_size : 0;
    return token ? token->bytes : NULL;
}

bool tokenizer_is_special(const Tokenizer *tokenizer, int32_t id) {
    const VocabularyToken *token = token_of(tokenizer, id);
    return token && token->flags & VOCABULARY_SPECIAL;
}
