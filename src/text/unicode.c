#include "text/unicode.h"

#include "base/arena.h"
#include "text/unicode_tables.h"
#include "text/utf8.h"

#include <string.h>

// Unicode 9, section 3.11 (canonical ordering, composition) and 3.12 (Hangul).

enum { NOTHING_BELOW = 0x300 }; // no character below takes part in anything but being composed with a later one
enum { RAW_BYTE = 0x40000000 }; // a byte that is not UTF-8, kept as a starter
enum { HANGUL_S = 0xAC00, HANGUL_L = 0x1100, HANGUL_V = 0x1161, HANGUL_T = 0x11A7 };
enum { HANGUL_L_COUNT = 19, HANGUL_V_COUNT = 21, HANGUL_T_COUNT = 28 };
enum { HANGUL_S_COUNT = HANGUL_L_COUNT * HANGUL_V_COUNT * HANGUL_T_COUNT };

typedef struct Mark {
    uint32_t code;
    uint8_t combining;
} Mark;

typedef struct Marks {
    Arena arena;
    Mark *marks;
    size_t count, capacity;
} Marks;

static uint8_t combining_class(uint32_t code) {
    if (code < NOTHING_BELOW) return 0;
    size_t low = 0, high = unicode_tables_classes_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (unicode_tables_classes[middle].last < code)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < unicode_tables_classes_count && unicode_tables_classes[low].first <= code;
    return found ? (uint8_t)unicode_tables_classes[low].combining : 0;
}

// The row whose a (and b, unless any_b) match, or NULL.
static const UnicodeTriple *find_triple(const UnicodeTriple *rows, size_t count, uint32_t a, uint32_t b, bool any_b) {
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const UnicodeTriple *row = rows + middle;
        if (row->a < a || (row->a == a && !any_b && row->b < b))
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && rows[low].a == a && (any_b || rows[low].b == b) ? rows + low : NULL;
}

static void push(Marks *list, uint32_t code) {
    if (list->count == list->capacity) {
        list->capacity = list->capacity ? list->capacity * 2 : 256;
        Mark *grown = arena_array(&list->arena, Mark, list->capacity);
        if (list->count) memcpy(grown, list->marks, list->count * sizeof *grown);
        list->marks = grown;
    }
    list->marks[list->count++] = (Mark){.code = code, .combining = combining_class(code)};
}

// Canonical decompositions nest four deep at most; only the first half is ever decomposed further.
static void decompose(Marks *list, uint32_t code) {
    if (code >= HANGUL_S && code < HANGUL_S + HANGUL_S_COUNT) {
        uint32_t index = code - HANGUL_S, tail = index % HANGUL_T_COUNT;
        push(list, HANGUL_L + index / (HANGUL_V_COUNT * HANGUL_T_COUNT));
        push(list, HANGUL_V + index / HANGUL_T_COUNT % HANGUL_V_COUNT);
        if (tail) push(list, HANGUL_T + tail);
        return;
    }
    const UnicodeTriple *row =
        code < 0xC0 ? NULL
                    : find_triple(unicode_tables_decompositions, unicode_tables_decompositions_count, code, 0, true);
    if (!row) {
        push(list, code);
        return;
    }
    decompose(list, row->b);
    if (row->c) decompose(list, row->c);
}

// Sorts a run of marks by class, stably. Counting sort: a hostile run of a million marks stays linear.
static void sort_marks(Mark *marks, size_t count, Marks *spare) {
    bool sorted = true;
    for (size_t i = 1; i < count && sorted; i++) sorted = marks[i - 1].combining <= marks[i].combining;
    if (sorted) return;
    size_t start[257] = {0};
    for (size_t i = 0; i < count; i++) start[marks[i].combining + 1]++;
    for (int c = 0; c < 256; c++) start[c + 1] += start[c];
    spare->count = 0;
    for (size_t i = 0; i < count; i++) push(spare, marks[i].code);
    for (size_t i = 0; i < count; i++) {
        Mark mark = spare->marks[i];
        marks[start[mark.combining]++] = mark;
    }
}

static void order(Marks *list) {
    Marks spare = {0};
    for (size_t i = 0; i < list->count;) {
        size_t end = i;
        while (end < list->count && list->marks[end].combining) end++;
        sort_marks(list->marks + i, end - i, &spare);
        i = end + 1;
    }
    arena_close(&spare.arena);
}

// The character that a and b compose to, or 0.
static uint32_t composed(uint32_t a, uint32_t b) {
    if (b < NOTHING_BELOW) return 0;
    if (a - HANGUL_L < HANGUL_L_COUNT && b - HANGUL_V < HANGUL_V_COUNT)
        return HANGUL_S + ((a - HANGUL_L) * HANGUL_V_COUNT + (b - HANGUL_V)) * HANGUL_T_COUNT;
    if (a - HANGUL_S < HANGUL_S_COUNT && (a - HANGUL_S) % HANGUL_T_COUNT == 0 && b > HANGUL_T &&
        b < HANGUL_T + HANGUL_T_COUNT)
        return a + (b - HANGUL_T);
    const UnicodeTriple *row = find_triple(unicode_tables_compositions, unicode_tables_compositions_count, a, b, false);
    return row ? row->c : 0;
}

static void compose(Marks *list) {
    size_t kept = 0, starter = SIZE_MAX;
    for (size_t i = 0; i < list->count; i++) {
        Mark mark = list->marks[i];
        if (starter != SIZE_MAX) {
            // A mark is blocked by one of its own or a higher class between it and the starter.
            bool adjacent = kept == starter + 1;
            uint8_t before = list->marks[kept - 1].combining;
            uint32_t whole = adjacent || before < mark.combining ? composed(list->marks[starter].code, mark.code) : 0;
            if (whole) {
                list->marks[starter].code = whole;
                continue;
            }
        }
        if (!mark.combining) starter = kept;
        list->marks[kept++] = mark;
    }
    list->count = kept;
}

// Bytes at the start that no form changes: NFC leaves what lies below U+0300 (CC 80), NFD what lies below U+00C0 (C3 80).
static size_t plain_length(const char *text, size_t size, UnicodeForm form) {
    uint8_t bound = form == UNICODE_NFC ? 0xCC : 0xC3;
    size_t at = 0;
    while (at < size && (uint8_t)text[at] < bound) at++;
    return at;
}

void unicode_normalize(StrBuf *out, const char *text, size_t size, UnicodeForm form) {
    if (plain_length(text, size, form) == size) {
        strbuf_append(out, text, size);
        return;
    }
    Marks list = {0};
    for (size_t at = 0; at < size;) {
        Utf8Step step = utf8_step(text + at, size - at);
        if (step.kind == UTF8_GOOD)
            decompose(&list, step.code);
        else
            for (size_t i = 0; i < step.size; i++) push(&list, RAW_BYTE | (uint8_t)text[at + i]);
        at += step.size;
    }
    order(&list);
    if (form == UNICODE_NFC) compose(&list);
    for (size_t i = 0; i < list.count; i++) {
        uint32_t code = list.marks[i].code;
        char bytes[4] = {(char)(code & 0xFF)};
        strbuf_append(out, bytes, code & RAW_BYTE ? 1 : utf8_put(bytes, code));
    }
    arena_close(&list.arena);
}
