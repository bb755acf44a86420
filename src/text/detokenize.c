#include "text/detokenize.h"

#include "text/utf8.h"

#include <string.h>

void detokenize_push(DetokenizeState *state, StrBuf *text, int32_t id) {
    size_t size;
    const char *token = tokenizer_token_bytes(state->tokenizer, id, &size);
    if (!token || (state->skip_special && tokenizer_is_special(state->tokenizer, id))) return;
    StrBuf bytes = {0};
    strbuf_append(&bytes, state->tail, state->held);
    strbuf_append(&bytes, token, size);
    size_t taken = utf8_repair(text, bytes.text, bytes.length, false), rest = bytes.length - taken;
    CHECK(rest <= sizeof state->tail, "%zu bytes held", rest);
    memcpy(state->tail, bytes.text + taken, rest);
    state->held = (uint8_t)rest;
    strbuf_close(&bytes);
}

void detokenize_flush(DetokenizeState *state, StrBuf *text) {
    utf8_repair(text, state->tail, state->held, true);
    state->held = 0;
}
