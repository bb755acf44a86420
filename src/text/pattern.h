// Regular expressions of tokenizer.json, with the meaning that the Hugging Face tokenizers library gives them (Oniguruma in
// Ruby's syntax, Unicode 16), run by PCRE2.
//
// The two engines differ in their sets of characters, so PCRE2 never sees characters: the sets that a pattern names divide
// all characters into at most 256 classes, the text becomes one byte a character, its class, and the pattern is rewritten
// in sets of classes. So any version of PCRE2 gives the same matches, in time that does not depend on how large a set is.
//
// Understood: literals; \p{category} and \P, \s \S \d \D \w \W, \t \n \v \f \r \a \e, \xHH, \x{H…}, \uHHHH; sets with
// ranges, also nested and negated; . ^ $ \A \z; groups (…) (?:…) (?>…) (?=…) (?!…) (?<=…) (?<!…) (?i:…) (?-i:…), and (?i) at
// the start; | and the quantifiers * + ? {n} {n,} {,m} {n,m}, lazy (?) and possessive (+; after braces Ruby's + repeats).
// Without case: ASCII letters, the long s (U+017F) and the Kelvin sign (U+212A). All else is refused by name, and so is a
// pattern that matches the empty text.
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"

#include <stdint.h>

typedef enum PatternDialect {
    PATTERN_ONIGURUMA,
    PATTERN_RUST, // \w and \p{N} of Rust's own library (charset.h: word, numeric)
} PatternDialect;

typedef struct Pattern Pattern; // immutable: threads may share it

// The pattern is regex[size]. The error quotes what was not understood and where.
bool pattern_open(Pattern **pattern, const char *regex, size_t size, PatternDialect dialect, Error *error);
// The text itself, which must not be empty.
bool pattern_open_literal(Pattern **pattern, const char *text, size_t size, Error *error);
void pattern_close(Pattern *pattern); // accepts NULL

// A text as a pattern sees it, and room to match it. Zero-initialise; one owner; may be prepared again and again.
typedef struct PatternText {
    StrBuf classes, sizes; // a byte a character: its class, its bytes in the text
    void *match, *limits;  // PCRE2's
} PatternText;

void pattern_prepare(const Pattern *pattern, PatternText *prepared, const char *text, size_t size);
void pattern_release(PatternText *prepared);

typedef enum PatternResult { PATTERN_NONE, PATTERN_FOUND, PATTERN_FAILED } PatternResult;

// The first match that starts at character `from` or later: characters [*start, *end). FAILED, with the error set, when the
// pattern needs far more steps than the text has characters.
PatternResult pattern_find(const Pattern *pattern, PatternText *prepared, size_t from, size_t *start, size_t *end,
                           Error *error);
