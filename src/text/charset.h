// Sets of characters, as the regexes and steps of the Hugging Face tokenizers library 0.23 see them. It mixes versions of
// Unicode (its regex engine and its words: 16.0; its Digits step: 17.0), so neither PCRE2 nor utf8proc can stand in.
#pragma once
#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

typedef struct CharsetRange {
    uint32_t first, last; // inclusive
} CharsetRange;

// CHARSET_NO_CHARACTER stands for any byte that is not UTF-8: a member of complements, of nothing else.
enum { CHARSET_NO_CHARACTER = 0x110000 };

// Ranges in ascending order, disjoint and not adjacent once charset_tidy was called. Zero-initialise.
typedef struct Charset {
    CharsetRange *ranges;
    size_t count, capacity;
} Charset;

void charset_add(Charset *set, Arena *arena, uint32_t first, uint32_t last);
void charset_add_set(Charset *set, Arena *arena, const Charset *other);
void charset_tidy(Charset *set);
void charset_complement(Charset *set, Arena *arena); // of a tidy set; the result is tidy
bool charset_same(const Charset *one, const Charset *other);
bool charset_has(const Charset *set, uint32_t code); // of a tidy set

// Adds a general category by Unicode's name: "L", "Lu", … False for other names.
bool charset_add_category(Charset *set, Arena *arena, const char *name, size_t size);

void charset_add_whitespace(Charset *set, Arena *arena); // White_Space: with U+0085, without U+001C..U+001F, U+180E
void charset_add_word(Charset *set, Arena *arena);    // alphabetic, marks, Nd, Pc, both joiners: \w of Rust's regexes
void charset_add_numeric(Charset *set, Arena *arena); // Nd, Nl, No of Unicode 17: what the Digits step isolates
