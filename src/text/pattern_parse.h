// Reading a regex into pieces of PCRE2's syntax and sets of characters. Used by pattern.c only.
#pragma once
#include "text/charset.h"

typedef struct PatternItem {
    const char *text; // syntax, when set is -1
    int set;          // number of a set that stands here
} PatternItem;

// Zero-initialise but for the first three. The caller closes the arena.
typedef struct PatternParse {
    const char *regex;
    size_t size;
    bool rust; // \w and \p{N} of Rust
    Arena arena;
    PatternItem *items;
    size_t count, capacity;
    Charset *sets; // each once, tidy
    size_t set_count, set_capacity;
    size_t at;
    bool any_case;
} PatternParse;

bool pattern_parse(PatternParse *parse, Error *error);
void pattern_parse_literal(PatternParse *parse); // every character stands for itself
