// Normalizers of the Hugging Face tokenizers library, as a chain of steps over a text: normal forms, Prepend, Replace, Strip.
#pragma once
#include "text/pattern.h"
#include "text/unicode.h"

typedef enum NormalizeKind {
    NORMALIZE_NFC,
    NORMALIZE_NFD,
    NORMALIZE_PREPEND,       // `to` in front, unless the text is empty
    NORMALIZE_REPLACE,       // every `from`, leftmost first, by `to`
    NORMALIZE_REPLACE_REGEX, // every match of the pattern by `to`
    NORMALIZE_STRIP,         // whitespace off the left and right ends
} NormalizeKind;

typedef struct NormalizeStep {
    NormalizeKind kind;
    const char *from, *to; // not owned
    size_t from_size, to_size;
    Pattern *pattern;
    bool left, right;
} NormalizeStep;

// Appends the text as the steps leave it. Bytes that are not UTF-8 are kept. Fails when it grows beyond `most` bytes or a
// pattern fails.
bool normalize_text(const NormalizeStep *steps, int count, StrBuf *out, const char *text, size_t size, size_t most,
                    Error *error);

// Bytes of White_Space at the start or at the end of a text.
size_t normalize_spaces_at_start(const char *text, size_t size);
size_t normalize_spaces_at_end(const char *text, size_t size);
