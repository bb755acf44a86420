#include "text/tokenizer.h"

#include "text/tokenizer_build.h"

#include <string.h>

// One call of tokenizer_encode.
typedef struct Encoder {
    const Tokenizer *tokenizer;
    TokenList *ids;
    BpeScratch scratch;
    PretokenizeScratch steps[TOKENIZER_STEPS];
    StrBuf characters; // a piece in byte characters
} Encoder;

// The token that is the whole piece, or -1.
static int32_t whole_token(Encoder *encoder, const char *text, size_t size) {
    const Vocabulary *vocabulary = &encoder->tokenizer->vocabulary;
    if (vocabulary->byte_level) {
        strbuf_clear(&encoder->characters);
        for (size_t i = 0; i < size; i++) {
            char character[4];
            strbuf_append(&encoder->characters, character, vocabulary_put_byte(character, (uint8_t)text[i]));
        }
        text = encoder->characters.text;
        size = encoder->characters.length;
    }
    int32_t id = vocabulary_find(vocabulary, text, size);
    return id >= 0 && vocabulary->tokens[id].flags & VOCABULARY_MODEL ? id : -1;
}

static bool encode_piece(Encoder *encoder, const char *text, size_t size, Error *error) {
    if (size > BPE_LONGEST)
        return error_set(error, "a piece of %zu bytes cannot be tokenized, %d is the most", size, BPE_LONGEST);
    int32_t id = encoder->tokenizer->whole_pieces ? whole_token(encoder, text, size) : -1;
    if (id >= 0)
        bpe_list_append(encoder->ids, id);
    else
        bpe_encode(&encoder->tokenizer->bpe, &encoder->scratch, encoder->ids, text, size);
    return true;
}

// Splits by the steps from `number` on. first: the whole text begins here.
static bool encode_split(Encoder *encoder, int number, const char *text, size_t size, bool first, Error *error) {
    if (!size) return true;
    if (number == encoder->tokenizer->step_count) return encode_piece(encoder, text, size, error);
    PretokenizeCursor cursor;
    pretokenize_begin(&cursor, encoder->tokenizer->steps + number, encoder->steps + number, text, size, first);
    for (;; first = false) {
        const char *piece;
        size_t length;
        if (!pretokenize_next(&cursor, &piece, &length, error)) return false;
        if (!length) return true;
        if (!encode_split(encoder, number + 1, piece, length, first && piece == cursor.text, error)) return false;
    }
}

static bool encode_normalized(Encoder *encoder, const char *text, size_t size, bool first, Error *error) {
    AddedCursor cursor = {.text = text, .size = size};
    for (;;) {
        AddedPart part = added_next(&encoder->tokenizer->normalized, &cursor);
        if (!encode_split(encoder, 0, text + part.at, part.size, first && !part.at, error)) return false;
        if (part.id < 0) return true;
        bpe_list_append(encoder->ids, part.id);
    }
}

static bool encode_between(Encoder *encoder, const char *text, size_t size, bool first, Error *error) {
    const Tokenizer *tokenizer = encoder->tokenizer;
    if (!size) return true;
    if (!tokenizer->normalizer_count) return encode_normalized(encoder, text, size, first, error);
    StrBuf normal = {0};
    bool good =
        normalize_text(tokenizer->normalizers, tokenizer->normalizer_count, &normal, text, size, BPE_LONGEST, error) &&
        encode_normalized(encoder, normal.text, normal.length, first, error);
    strbuf_close(&normal);
    return good;
}

static bool encode_raw(Encoder *encoder, const char *text, size_t size, Error *error) {
    AddedCursor cursor = {.text = text, .size = size};
    for (;;) {
        AddedPart part = added_next(&encoder->tokenizer->raw, &cursor);
        if (!encode_between(encoder, text + part.at, part.size, !part.at, error)) return false;
        if (part.id < 0) return true;
        bpe_list_append(encoder->ids, part.id);
    }
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
    if (size > BPE_LONGEST)
        return error_set(error, "a text of %zu bytes cannot be tokenized, %d is the most", size, BPE_LONGEST);
    size_t first = ids->count;
    for (size_t i = 0; add_special && i < tokenizer->prefix.count; i++) bpe_list_append(ids, tokenizer->prefix.ids[i]);
    Encoder encoder = {.tokenizer = tokenizer, .ids = ids};
    bool good = encode_raw(&encoder, text, size, error);
    arena_close(&encoder.scratch.arena);
    strbuf_close(&encoder.characters);
    for (int i = 0; i < tokenizer->step_count; i++) pretokenize_release(&encoder.steps[i]);
    if (!good) {
        bpe_list_cut(ids, first);
        return false;
    }
    if (add_special) drop_second_bos(tokenizer, ids, first);
    for (size_t i = 0; add_special && i < tokenizer->suffix.count; i++) bpe_list_append(ids, tokenizer->suffix.ids[i]);
    return true;
}

void tokenizer_decode(const Tokenizer *tokenizer, StrBuf *text, const int32_t *ids, size_t count, bool skip_special) {
    DetokenizeState state = {.tokenizer = tokenizer, .skip_special = skip_special};
    for (size_t i = 0; i < count; i++) detokenize_push(&state, text, ids[i]);
    detokenize_flush(&state, text);
    detokenize_close(&state);
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

const char *const tokenizer_names[] = {"bos_token", "eos_token", "pad_token", "unk_token",
                                       "sep_token", "cls_token", "mask_token"};

const char *tokenizer_named(const Tokenizer *tokenizer, const char *name) {
    const int32_t ids[TOKENIZER_WITH_ID] = {tokenizer->bos_id, tokenizer->eos_id, tokenizer->pad_id};
    for (int i = 0; i < TOKENIZER_NAMES; i++)
        if (!strcmp(name, tokenizer_names[i]))
            return i < TOKENIZER_WITH_ID ? tokenizer_token_text(tokenizer, ids[i]) : tokenizer->named[i];
    return NULL;
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
    if (token && tokenizer->plain) token = tokenizer->plain + id;
    *size = token ? token->byte_size : 0;
    return token ? token->bytes : NULL;
}

size_t tokenizer_first_cut(const Tokenizer *tokenizer, int32_t id) {
    size_t size, shown;
    if (!tokenizer->plain || !tokenizer_token_bytes(tokenizer, id, &size)) return 0;
    StrBuf text = {0};
    tokenizer_decode(tokenizer, &text, &id, 1, false);
    shown = text.length;
    strbuf_close(&text);
    return shown < size ? size - shown : 0;
}

bool tokenizer_is_special(const Tokenizer *tokenizer, int32_t id) {
    const VocabularyToken *token = token_of(tokenizer, id);
    return token && token->flags & VOCABULARY_SPECIAL;
}
