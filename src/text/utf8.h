// UTF-8 read one character at a time, ill-formed bytes included, and repaired with U+FFFD.
#pragma once
#include "base/strbuf.h"

#include <stdint.h>

typedef enum Utf8Kind {
    UTF8_GOOD, // a well-formed character
    UTF8_BAD,  // a maximal ill-formed part (Unicode 16, section 3.9, "substitution of maximal subparts")
    UTF8_CUT,  // ill-formed only because the text ends: more bytes could still complete it
} Utf8Kind;

typedef struct Utf8Step {
    uint32_t code; // the character; U+FFFD where kind is not UTF8_GOOD
    uint8_t size;  // bytes taken, 1 to 4
    Utf8Kind kind;
} Utf8Step;

// The first step of text[size]; size must not be 0.
Utf8Step utf8_step(const char *text, size_t size);

// Writes the character and returns its length. Surrogates and codes above U+10FFFF are written as U+FFFD.
size_t utf8_put(char out[4], uint32_t code);

// Appends text[size] to out with every maximal ill-formed part replaced by one U+FFFD. A tail that is only cut is
// replaced too when last is true, and otherwise left out. Returns the bytes taken: size, or less when a tail was left.
size_t utf8_repair(StrBuf *out, const char *text, size_t size, bool last);
