#include "text/detokenize.h"

#include "text/tokenizer_build.h"
#include "text/utf8.h"

#include <string.h>

// The end of the chain: bytes to characters.
static void put_text(DetokenizeState *state, StrBuf *out, const char *text, size_t size) {
    char joined[sizeof state->tail + 1024];
    while (size > 0) {
        size_t more = size < 1024 ? size : 1024, whole = state->held + more;
        memcpy(joined, state->tail, state->held);
        memcpy(joined + state->held, text, more);
        size_t taken = utf8_repair(out, joined, whole, false), rest = whole - taken;
        CHECK(rest <= sizeof state->tail, "%zu bytes held", rest);
        memcpy(state->tail, joined + taken, rest);
        state->held = (uint8_t)rest;
        text += more;
        size -= more;
    }
}

// ---- the steps

static void feed(DetokenizeState *state, StrBuf *out, int step, const char *text, size_t size);

static int byte_of(const char *text, size_t size) {
    static const char digits[] = "0123456789ABCDEF0123456789abcdef";
    if (size != 6 || memcmp(text, "<0x", 3) || text[5] != '>') return -1;
    const char *high = memchr(digits, text[3], 32), *low = memchr(digits, text[4], 32);
    return high && low ? (int)((high - digits) % 16 * 16 + (low - digits) % 16) : -1;
}

static bool is_text(const StrBuf *bytes) {
    for (size_t at = 0; at < bytes->length;) {
        Utf8Step step = utf8_step(bytes->text + at, bytes->length - at);
        if (step.kind != UTF8_GOOD) return false;
        at += step.size;
    }
    return true;
}

static void end_bytes(DetokenizeState *state, StrBuf *out, int step) {
    size_t count = state->bytes.length;
    if (!count) return;
    if (is_text(&state->bytes))
        feed(state, out, step + 1, state->bytes.text, count);
    else
        for (size_t i = 0; i < count; i++) feed(state, out, step + 1, "\xEF\xBF\xBD", 3);
    strbuf_clear(&state->bytes);
}

static void replace(StrBuf *out, const char *text, size_t size, const char *from, const char *to) {
    size_t length = strlen(from);
    strbuf_clear(out);
    for (size_t at = 0; at < size;) {
        const char *found = memmem(text + at, size - at, from, length);
        size_t end = found ? (size_t)(found - text) : size;
        strbuf_append(out, text + at, end - at);
        if (found) strbuf_puts(out, to);
        at = end + (found ? length : 0);
    }
}

// Off the start of each token, or behind a FUSE off the start of all.
static void strip(DetokenizeState *state, StrBuf *out, int number, bool fused, const char *text, size_t size) {
    const DetokenizeStep *step = state->tokenizer->decoders + number;
    size_t length = strlen(step->from), at = 0;
    int64_t *stripped = &state->stripped[number];
    if (!fused) *stripped = 0;
    while (*stripped >= 0 && *stripped < step->limit && size - at >= length && !memcmp(text + at, step->from, length)) {
        ++*stripped;
        at += length;
    }
    if (at < size) *stripped = -1;
    feed(state, out, number + 1, text + at, size - at);
}

// A token on its way into step number `step`.
static void feed(DetokenizeState *state, StrBuf *out, int number, const char *text, size_t size) {
    const Tokenizer *tokenizer = state->tokenizer;
    if (number == tokenizer->decoder_count) {
        put_text(state, out, text, size);
        return;
    }
    const DetokenizeStep *step = tokenizer->decoders + number;
    StrBuf *work = state->work + number;
    bool first = !state->begun[number];
    state->begun[number] = true;
    switch (step->kind) {
    case DETOKENIZE_JOIN:
        if (!first) feed(state, out, number + 1, " ", 1);
        break;
    case DETOKENIZE_BYTES: // the vocabulary has done it
    case DETOKENIZE_FUSE: break;
    case DETOKENIZE_REPLACE:
    case DETOKENIZE_METASPACE:
    case DETOKENIZE_METASPACE_ALL:
        replace(work, text, size, step->from, step->kind == DETOKENIZE_METASPACE && first ? "" : step->to);
        text = work->text;
        size = work->length;
        break;
    case DETOKENIZE_BYTE_FALLBACK: {
        int byte = byte_of(text, size);
        if (byte >= 0) {
            strbuf_putc(&state->bytes, (char)byte);
            return;
        }
        end_bytes(state, out, number);
        break;
    }
    case DETOKENIZE_STRIP: {
        bool fused = false;
        for (int i = 0; i < number; i++)
            fused = fused || tokenizer->decoders[i].kind == DETOKENIZE_FUSE ||
                    tokenizer->decoders[i].kind == DETOKENIZE_BYTES;
        strip(state, out, number, fused, text, size);
        return;
    }
    }
    feed(state, out, number + 1, text, size);
}

void detokenize_push(DetokenizeState *state, StrBuf *text, int32_t id) {
    const Vocabulary *vocabulary = &state->tokenizer->vocabulary;
    bool there = id >= 0 && id < vocabulary->size && vocabulary->tokens[id].text;
    if (!there || (state->skip_special && tokenizer_is_special(state->tokenizer, id))) return;
    feed(state, text, 0, vocabulary->tokens[id].bytes, vocabulary->tokens[id].byte_size);
}

void detokenize_flush(DetokenizeState *state, StrBuf *text) {
    for (int i = 0; i < state->tokenizer->decoder_count; i++)
        if (state->tokenizer->decoders[i].kind == DETOKENIZE_BYTE_FALLBACK) end_bytes(state, text, i);
    utf8_repair(text, state->tail, state->held, true);
    state->held = 0;
    memset(state->begun, 0, sizeof state->begun);
    memset(state->stripped, 0, sizeof state->stripped);
}

size_t detokenize_held(const DetokenizeState *state) {
    return state->held + state->bytes.length;
}

void detokenize_token(const Tokenizer *tokenizer, StrBuf *bytes, int32_t id) {
    const VocabularyToken *token = tokenizer->vocabulary.tokens + id;
    bool fallback = false;
    for (int i = 0; i < tokenizer->decoder_count; i++)
        fallback = fallback || tokenizer->decoders[i].kind == DETOKENIZE_BYTE_FALLBACK;
    int byte = fallback ? byte_of(token->bytes, token->byte_size) : -1;
    if (byte >= 0) {
        strbuf_putc(bytes, (char)byte);
        return;
    }
    DetokenizeState state = {.tokenizer = tokenizer};
    memset(state.begun, true, sizeof state.begun); // not the first token
    for (int i = 0; i < DETOKENIZE_STEPS; i++) state.stripped[i] = -1;
    feed(&state, bytes, 0, token->bytes, token->byte_size);
    detokenize_flush(&state, bytes);
    detokenize_close(&state);
}

void detokenize_close(DetokenizeState *state) {
    strbuf_close(&state->bytes);
    for (int i = 0; i < DETOKENIZE_STEPS; i++) strbuf_close(&state->work[i]);
}
