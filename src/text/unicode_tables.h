// The tables behind unicode.c, all sorted by their first field. Generated: see scripts/unicode_tables.py.
#pragma once
#include <stddef.h>
#include <stdint.h>

// General categories, by Unicode's own two letters. Characters in no row are unassigned (Cn).
typedef enum UnicodeCategory {
    UNICODE_LU,
    UNICODE_LL,
    UNICODE_LT,
    UNICODE_LM,
    UNICODE_LO,
    UNICODE_MN,
    UNICODE_MC,
    UNICODE_ME,
    UNICODE_ND,
    UNICODE_NL,
    UNICODE_NO,
    UNICODE_PC,
    UNICODE_PD,
    UNICODE_PS,
    UNICODE_PE,
    UNICODE_PI,
    UNICODE_PF,
    UNICODE_PO,
    UNICODE_SM,
    UNICODE_SC,
    UNICODE_SK,
    UNICODE_SO,
    UNICODE_ZS,
    UNICODE_ZL,
    UNICODE_ZP,
    UNICODE_CC,
    UNICODE_CF,
    UNICODE_CO,
    UNICODE_CN,
} UnicodeCategory;

typedef struct UnicodeCategoryRange {
    uint32_t first, last; // inclusive
    UnicodeCategory category;
} UnicodeCategoryRange;

typedef struct UnicodeClass {
    uint32_t first, last; // inclusive
    uint32_t combining;   // canonical combining class, never 0
} UnicodeClass;

typedef struct UnicodeTriple {
    uint32_t a, b, c;
} UnicodeTriple;

extern const UnicodeCategoryRange unicode_tables_categories[];
extern const size_t unicode_tables_categories_count;

extern const UnicodeClass unicode_tables_classes[];
extern const size_t unicode_tables_classes_count;

// Decomposition: a becomes b, c (c 0: b alone), one level. Composition: a, b become c, exclusions left out already.
extern const UnicodeTriple unicode_tables_decompositions[], unicode_tables_compositions[];
extern const size_t unicode_tables_decompositions_count, unicode_tables_compositions_count;
