#include "text/pattern.h"

#include "text/charset.h"
#include "text/pattern_parse.h"
#include "text/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

enum { PAGE = 256, PAGES = CHARSET_NO_CHARACTER / PAGE, MOST_CLASSES = 256 };
enum { LEAST_STEPS = 1000 * 1000, STEPS_A_CHARACTER = 16 };

struct Pattern {
    Arena arena; // of this struct and its tables
    pcre2_code *code;
    uint16_t *page;         // [PAGES]: which block
    uint8_t (*block)[PAGE]; // class of each character
    uint8_t no_character;   // class of a byte that is not UTF-8
};

// All characters as ranges of one class each.
typedef struct Division {
    uint32_t *start; // [count], ascending; the first is 0, the last range ends with CHARSET_NO_CHARACTER
    uint16_t *class; // [count]
    size_t count;
    int classes;
} Division;

static int by_value(const void *a, const void *b) {
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

static void set_starts(Division *division, const PatternParse *parse, Arena *arena) {
    size_t count = 1, kept = 0;
    for (size_t i = 0; i < parse->set_count; i++) count += 2 * parse->sets[i].count;
    division->start = arena_array(arena, uint32_t, count);
    for (size_t i = 0, at = 1; i < parse->set_count; i++)
        for (size_t r = 0; r < parse->sets[i].count; r++) {
            division->start[at++] = parse->sets[i].ranges[r].first;
            division->start[at++] = parse->sets[i].ranges[r].last + 1;
        }
    qsort(division->start, count, sizeof *division->start, by_value);
    for (size_t i = 1; i < count; i++) {
        uint32_t start = division->start[i];
        if (start != division->start[kept] && start <= CHARSET_NO_CHARACTER) division->start[++kept] = start;
    }
    division->count = kept + 1;
    division->class = arena_array(arena, uint16_t, division->count);
}

// Splits every class into what lies in the set and what does not.
static bool divide_by(Division *division, const Charset *set) {
    int renamed[MOST_CLASSES][2], classes = 0;
    memset(renamed, 0xFF, sizeof renamed);
    for (size_t i = 0; i < division->count; i++) {
        int *name = &renamed[division->class[i]][charset_has(set, division->start[i])];
        if (*name < 0) *name = classes++;
        if (classes > MOST_CLASSES) return false;
        division->class[i] = (uint16_t)*name;
    }
    division->classes = classes;
    return true;
}

static bool divide(Division *division, const PatternParse *parse, Arena *arena, Error *error) {
    set_starts(division, parse, arena);
    for (size_t i = 0; i < parse->set_count; i++)
        if (!divide_by(division, parse->sets + i))
            return error_set(error, "the regex tells more than %d kinds of characters apart", MOST_CLASSES);
    return true;
}

static uint16_t find_block(Pattern *pattern, size_t *blocks, const uint8_t *block) {
    for (size_t i = 0; i < *blocks; i++)
        if (!memcmp(pattern->block[i], block, PAGE)) return (uint16_t)i;
    memcpy(pattern->block[*blocks], block, PAGE);
    return (uint16_t)(*blocks)++;
}

static void set_tables(Pattern *pattern, const Division *division) {
    // Blocks that differ hold a border between ranges, or are all of one class.
    size_t most = division->count + MOST_CLASSES, blocks = 0, at = 0;
    if (most > PAGES) most = PAGES;
    pattern->page = arena_array(&pattern->arena, uint16_t, PAGES);
    pattern->block = (uint8_t(*)[PAGE])arena_alloc_array(&pattern->arena, most, PAGE);
    for (uint32_t page = 0; page < PAGES; page++) {
        uint8_t block[PAGE];
        uint32_t first = page * PAGE;
        for (uint32_t i = 0, end; i < PAGE; i = end) { // range by range
            while (at + 1 < division->count && division->start[at + 1] <= first + i) at++;
            bool ends = at + 1 < division->count && division->start[at + 1] < first + PAGE;
            end = ends ? division->start[at + 1] - first : PAGE;
            memset(block + i, (uint8_t)division->class[at], end - i);
        }
        bool same = page && !memcmp(block, pattern->block[pattern->page[page - 1]], PAGE);
        pattern->page[page] = same ? pattern->page[page - 1] : find_block(pattern, &blocks, block);
    }
    pattern->no_character = (uint8_t)division->class[division->count - 1];
}

// Where the parser left the number of a set, the classes in it.
static void write_set(StrBuf *out, const Division *division, const Charset *set) {
    bool in[MOST_CLASSES] = {false}, any = false;
    for (size_t i = 0; i < division->count; i++) {
        if (!charset_has(set, division->start[i])) continue;
        in[division->class[i]] = any = true;
    }
    if (!any) {
        strbuf_puts(out, "(?!)");
        return;
    }
    strbuf_putc(out, '[');
    for (int class = 0; class < division->classes; class ++)
        if (in[class]) strbuf_format(out, "\\x%02X", (unsigned)class);
    strbuf_putc(out, ']');
}

static bool compile(Pattern *pattern, const PatternParse *parse, const Division *division, Error *error) {
    StrBuf text = {0};
    strbuf_clear(&text);
    for (size_t i = 0; i < parse->count; i++) {
        if (parse->items[i].set < 0)
            strbuf_puts(&text, parse->items[i].text);
        else
            write_set(&text, division, parse->sets + parse->items[i].set);
    }
    int code = 0;
    PCRE2_SIZE where;
    uint32_t empty = 0;
    pattern->code = pcre2_compile((PCRE2_SPTR)text.text, text.length, 0, &code, &where, NULL);
    strbuf_close(&text);
    if (!pattern->code) {
        char message[256];
        pcre2_get_error_message(code, (PCRE2_UCHAR *)message, sizeof message);
        return error_set(error, "the regex is not valid: %s", message);
    }
    pcre2_pattern_info(pattern->code, PCRE2_INFO_MATCHEMPTY, &empty);
    return !empty || error_set(error, "a regex that matches the empty text is not supported");
}

static bool build(Pattern **pattern, const PatternParse *parse, Error *error) {
    Arena arena = {0}, scratch = {0};
    Division division = {0};
    Pattern *built = arena_array(&arena, Pattern, 1);
    built->arena = arena;
    bool good = divide(&division, parse, &scratch, error);
    if (good) set_tables(built, &division);
    good = good && compile(built, parse, &division, error);
    arena_close(&scratch);
    if (good)
        *pattern = built;
    else
        pattern_close(built);
    return good;
}

bool pattern_open(Pattern **pattern, const char *regex, size_t size, PatternDialect dialect, Error *error) {
    PatternParse parse = {.regex = regex, .size = size, .rust = dialect == PATTERN_RUST};
    *pattern = NULL;
    bool good = pattern_parse(&parse, error) && build(pattern, &parse, error);
    arena_close(&parse.arena);
    return good;
}

bool pattern_open_literal(Pattern **pattern, const char *text, size_t size, Error *error) {
    PatternParse parse = {.regex = text, .size = size};
    *pattern = NULL;
    pattern_parse_literal(&parse);
    bool good = build(pattern, &parse, error);
    arena_close(&parse.arena);
    return good;
}

void pattern_close(Pattern *pattern) {
    if (!pattern) return;
    pcre2_code_free(pattern->code);
    Arena arena = pattern->arena;
    arena_close(&arena);
}

void pattern_prepare(const Pattern *pattern, PatternText *prepared, const char *text, size_t size) {
    strbuf_clear(&prepared->classes);
    strbuf_clear(&prepared->sizes);
    const uint8_t *ascii = pattern->block[pattern->page[0]];
    strbuf_reserve(&prepared->classes, size);
    strbuf_reserve(&prepared->sizes, size);
    uint8_t *class = (uint8_t *)prepared->classes.text, *length = (uint8_t *)prepared->sizes.text;
    size_t count = 0;
    for (size_t at = 0; at < size; count++) {
        uint8_t byte = (uint8_t)text[at];
        if (byte < 0x80) {
            class[count] = ascii[byte];
            length[count] = 1;
            at++;
            continue;
        }
        Utf8Step step = utf8_step(text + at, size - at);
        bool good = step.kind == UTF8_GOOD;
        class[count] = good ? pattern->block[pattern->page[step.code / PAGE]][step.code % PAGE] : pattern->no_character;
        length[count] = step.size;
        at += step.size;
    }
    prepared->classes.length = prepared->sizes.length = count;
}

void pattern_release(PatternText *prepared) {
    strbuf_close(&prepared->classes);
    strbuf_close(&prepared->sizes);
    pcre2_match_data_free(prepared->match);
    pcre2_match_context_free(prepared->limits);
    *prepared = (PatternText){0};
}

PatternResult pattern_find(const Pattern *pattern, PatternText *prepared, size_t from, size_t *start, size_t *end,
                           Error *error) {
    size_t count = prepared->classes.length;
    if (from >= count) return PATTERN_NONE;
    if (!prepared->match) {
        prepared->match = pcre2_match_data_create(1, NULL);
        prepared->limits = pcre2_match_context_create(NULL);
        OBTAINED(prepared->match && prepared->limits, "memory for matching a regex");
    }
    size_t most = LEAST_STEPS + STEPS_A_CHARACTER * count;
    pcre2_set_match_limit(prepared->limits, most < UINT32_MAX ? (uint32_t)most : UINT32_MAX);
    int result = pcre2_match(pattern->code, (PCRE2_SPTR)prepared->classes.text, count, from, 0, prepared->match,
                             prepared->limits);
    if (result == PCRE2_ERROR_NOMATCH) return PATTERN_NONE;
    if (result < 0) {
        char message[256];
        pcre2_get_error_message(result, (PCRE2_UCHAR *)message, sizeof message);
        error_set(error, "the split regex failed on a text of %zu characters: %s", count, message);
        return PATTERN_FAILED;
    }
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(prepared->match);
    *start = found[0];
    *end = found[1];
    return PATTERN_FOUND;
}
