// Decoding: the decoders of the Hugging Face tokenizers library, token by token, for text that is shown while it is
// generated. All pieces and the flush joined are what a decode of all ids at once gives: tokenizer_decode is made of these
// calls.
//
// Held back is only what may still change: the start of a character; a run of byte tokens <0xHH> until it ends, since one
// wrong byte turns all of them into U+FFFD.
#pragma once
#include "text/tokenizer.h"

typedef enum DetokenizeKind {
    DETOKENIZE_BYTES,         // byte characters (vocabulary.h); every run of bytes that is no character becomes U+FFFD
    DETOKENIZE_JOIN,          // no decoder: blanks between the tokens
    DETOKENIZE_REPLACE,       // every `from` by `to` within a token
    DETOKENIZE_BYTE_FALLBACK, // runs of <0xHH>: the text they are, or as many U+FFFD
    DETOKENIZE_FUSE,          // what follows sees one text
    DETOKENIZE_STRIP,         // at most `limit` times `from` off the start of each token
    DETOKENIZE_METASPACE,     // `from` is a blank; in the first token it vanishes
    DETOKENIZE_METASPACE_ALL, // `from` is a blank
} DetokenizeKind;

typedef struct DetokenizeStep {
    DetokenizeKind kind;
    const char *from, *to; // not owned
    int64_t limit;
} DetokenizeStep;

enum { DETOKENIZE_STEPS = 8 };

// Zero-initialise and set the first two fields. One stream, one owner; detokenize_close when done.
typedef struct DetokenizeState {
    const Tokenizer *tokenizer; // not owned
    bool skip_special;
    bool begun[DETOKENIZE_STEPS];       // a token has passed the step
    int64_t stripped[DETOKENIZE_STEPS]; // of a STRIP behind a FUSE: how often yet; -1: the start is over
    StrBuf bytes;                       // of byte tokens
    StrBuf work[DETOKENIZE_STEPS];
    uint8_t held; // bytes in tail
    char tail[3]; // the start of a character
} DetokenizeState;

// Appends what may be shown after this token; well-formed UTF-8, often empty. An id without a token gives nothing.
void detokenize_push(DetokenizeState *state, StrBuf *text, int32_t id);

// Appends what is still held. The state is then as at the start.
void detokenize_flush(DetokenizeState *state, StrBuf *text);

// Bytes of tokens that are held: they show neither as text nor as U+FFFD yet.
size_t detokenize_held(const DetokenizeState *state);

// Appends the bytes that a token adds behind others: what a decode makes of it there, but for byte tokens the byte itself.
void detokenize_token(const Tokenizer *tokenizer, StrBuf *bytes, int32_t id);

void detokenize_close(DetokenizeState *state);
