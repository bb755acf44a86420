#include "text/charset.h"

#include "text/unicode_tables.h"

#include <string.h>

void charset_add(Charset *set, Arena *arena, uint32_t first, uint32_t last) {
    if (set->count == set->capacity) {
        set->capacity = set->capacity ? set->capacity * 2 : 8;
        CharsetRange *grown = arena_array(arena, CharsetRange, set->capacity);
        if (set->count) memcpy(grown, set->ranges, set->count * sizeof *grown);
        set->ranges = grown;
    }
    set->ranges[set->count++] = (CharsetRange){first, last};
}

void charset_add_set(Charset *set, Arena *arena, const Charset *other) {
    for (size_t i = 0; i < other->count; i++) charset_add(set, arena, other->ranges[i].first, other->ranges[i].last);
}

static int by_first(const void *a, const void *b) {
    uint32_t one = ((const CharsetRange *)a)->first, other = ((const CharsetRange *)b)->first;
    return (one > other) - (one < other);
}

void charset_tidy(Charset *set) {
    if (!set->count) return;
    qsort(set->ranges, set->count, sizeof *set->ranges, by_first);
    size_t kept = 0;
    for (size_t i = 1; i < set->count; i++) {
        CharsetRange *last = set->ranges + kept, next = set->ranges[i];
        if (next.first > last->last + 1)
            set->ranges[++kept] = next;
        else if (next.last > last->last)
            last->last = next.last;
    }
    set->count = kept + 1;
}

void charset_complement(Charset *set, Arena *arena) {
    Charset result = {0};
    uint32_t next = 0;
    for (size_t i = 0; i < set->count; i++) {
        if (set->ranges[i].first > next) charset_add(&result, arena, next, set->ranges[i].first - 1);
        next = set->ranges[i].last + 1;
    }
    if (next <= CHARSET_NO_CHARACTER) charset_add(&result, arena, next, CHARSET_NO_CHARACTER);
    *set = result;
}

bool charset_same(const Charset *one, const Charset *other) {
    return one->count == other->count &&
           (!one->count || !memcmp(one->ranges, other->ranges, one->count * sizeof *one->ranges));
}

bool charset_has(const Charset *set, uint32_t code) {
    size_t low = 0, high = set->count; // the first range that ends at code or later lies in [low, high]
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->ranges[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->ranges[low].first <= code;
}

// In the order of UnicodeCategory.
static const char names[UNICODE_CN][3] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                          "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                          "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};

bool charset_add_category(Charset *set, Arena *arena, const char *name, size_t size) {
    bool found = false, wanted[UNICODE_CN];
    if (size != 1 && size != 2) return false;
    // C takes in the unassigned characters, which no row names.
    if (name[0] == 'C' && size == 1) return false;
    for (int category = 0; category < UNICODE_CN; category++) {
        wanted[category] = !strncmp(names[category], name, size);
        found = found || wanted[category];
    }
    for (size_t i = 0; found && i < unicode_tables_categories_count; i++) {
        const UnicodeCategoryRange *row = unicode_tables_categories + i;
        if (wanted[row->category]) charset_add(set, arena, row->first, row->last);
    }
    return found;
}

static void add_categories(Charset *set, Arena *arena, const char *list) {
    for (const char *at = list; *at; at += strcspn(at, " "), at += *at == ' ')
        CHECK(charset_add_category(set, arena, at, strcspn(at, " ")), "%s", at);
}

static void add_ranges(Charset *set, Arena *arena, const CharsetRange *ranges, size_t count) {
    for (size_t i = 0; i < count; i++) charset_add(set, arena, ranges[i].first, ranges[i].last);
}

void charset_add_whitespace(Charset *set, Arena *arena) {
    static const CharsetRange controls[] = {{'\t', '\r'}, {0x85, 0x85}};
    add_categories(set, arena, "Zs Zl Zp");
    add_ranges(set, arena, controls, sizeof controls / sizeof *controls);
}

void charset_add_word(Charset *set, Arena *arena) {
    // Joiners, and letters in circles and squares, which are alphabetic symbols (So).
    static const CharsetRange others[] = {{0x200C, 0x200D},
                                          {0x24B6, 0x24E9},
                                          {0x1F130, 0x1F149},
                                          {0x1F150, 0x1F169},
                                          {0x1F170, 0x1F189}};
    add_categories(set, arena, "L M Nl Nd Pc");
    add_ranges(set, arena, others, sizeof others / sizeof *others);
}

void charset_add_numeric(Charset *set, Arena *arena) {
    static const CharsetRange newer[] = {{0x11DE0, 0x11DE9}, {0x16FF4, 0x16FF6}};
    add_categories(set, arena, "N");
    add_ranges(set, arena, newer, sizeof newer / sizeof *newer);
}
