// Decoding token by token, for text that is shown while it is generated.
//
// All pieces and the flush joined are tokenizer_decode of all ids. Held back is only a tail that can still become a
// character; a byte that makes this impossible turns the tail into U+FFFD at once.
#pragma once
#include "text/tokenizer.h"

// Zero-initialise and set the first two fields. One stream, one owner; nothing to close.
typedef struct DetokenizeState {
    const Tokenizer *tokenizer; // not owned
    bool skip_special;
    uint8_t held; // bytes in tail
    char tail[3];
} DetokenizeState;

// Appends what may be shown after this token; well-formed UTF-8, often empty. An id without a token gives nothing.
void detokenize_push(DetokenizeState *state, StrBuf *text, int32_t id);

// Appends what is still held, as U+FFFD. The state is then as at the start.
void detokenize_flush(DetokenizeState *state, StrBuf *text);
