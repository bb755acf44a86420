// The tables behind unicode.c, all sorted by their first field. Generated: see scripts/unicode_tables.py.
#pragma once
#include <stddef.h>
#include <stdint.h>

typedef struct UnicodeRange {
    uint32_t first, last; // inclusive
} UnicodeRange;

typedef struct UnicodeClass {
    uint32_t first, last; // inclusive
    uint32_t combining;   // canonical combining class, never 0
} UnicodeClass;

typedef struct UnicodeTriple {
    uint32_t a, b, c;
} UnicodeTriple;

extern const UnicodeRange unicode_tables_letters[], unicode_tables_numbers[], unicode_tables_whitespace[],
    unicode_tables_numeric[];
extern const size_t unicode_tables_letters_count, unicode_tables_numbers_count, unicode_tables_whitespace_count,
    unicode_tables_numeric_count;

extern const UnicodeClass unicode_tables_classes[];
extern const size_t unicode_tables_classes_count;

// Decomposition: a becomes b, c (c 0: b alone), one level. Composition: a, b become c, exclusions left out already.
extern const UnicodeTriple unicode_tables_decompositions[], unicode_tables_compositions[];
extern const size_t unicode_tables_decompositions_count, unicode_tables_compositions_count;
