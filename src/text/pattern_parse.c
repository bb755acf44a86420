#include "text/pattern_parse.h"

#include "text/utf8.h"

#include <stdio.h>
#include <string.h>

enum { MOST_ITEMS = 1 << 14, MOST_DEPTH = 100 };

static bool refuse(const PatternParse *parse, size_t at, size_t size, const char *why, Error *error) {
    if (size > parse->size - at) size = parse->size - at;
    return error_set(error, "the regex has \"%.*s\" at byte %zu: %s", (int)size, parse->regex + at, at, why);
}

static bool is_at(const PatternParse *parse, const char *text) {
    size_t size = strlen(text);
    return parse->size - parse->at >= size && !memcmp(parse->regex + parse->at, text, size);
}

static bool take(PatternParse *parse, const char *text) {
    bool there = is_at(parse, text);
    if (there) parse->at += strlen(text);
    return there;
}

static void put_item(PatternParse *parse, PatternItem item) {
    if (parse->count == parse->capacity) {
        parse->capacity = parse->capacity ? parse->capacity * 2 : 64;
        PatternItem *grown = arena_array(&parse->arena, PatternItem, parse->capacity);
        if (parse->count) memcpy(grown, parse->items, parse->count * sizeof *grown);
        parse->items = grown;
    }
    parse->items[parse->count++] = item;
}

static void put_text(PatternParse *parse, const char *text) {
    put_item(parse, (PatternItem){.text = text, .set = -1});
}

static void put_set(PatternParse *parse, Charset set) {
    charset_tidy(&set);
    size_t number = 0;
    while (number < parse->set_count && !charset_same(&set, parse->sets + number)) number++;
    if (number == parse->set_count) {
        if (number == parse->set_capacity) {
            parse->set_capacity = number ? number * 2 : 32;
            Charset *grown = arena_array(&parse->arena, Charset, parse->set_capacity);
            if (number) memcpy(grown, parse->sets, number * sizeof *grown);
            parse->sets = grown;
        }
        parse->sets[parse->set_count++] = set;
    }
    put_item(parse, (PatternItem){.set = (int)number});
}

// The next character of the regex as it stands.
static uint32_t next_code(PatternParse *parse) {
    Utf8Step step = utf8_step(parse->regex + parse->at, parse->size - parse->at);
    parse->at += step.size;
    return step.kind == UTF8_GOOD ? step.code : CHARSET_NO_CHARACTER;
}

static bool is_ascii_letter(uint32_t code) {
    return (code | 0x20) >= 'a' && (code | 0x20) <= 'z' && code < 0x80;
}

// A character, without case where that is asked for.
static bool add_code(PatternParse *parse, Charset *set, uint32_t code, size_t start, Error *error) {
    charset_add(set, &parse->arena, code, code);
    if (!parse->any_case) return true;
    if (code >= 0x80) return refuse(parse, start, parse->at - start, "without case only ASCII is supported", error);
    if (!is_ascii_letter(code)) return true;
    charset_add(set, &parse->arena, code ^ 0x20, code ^ 0x20);
    if ((code | 0x20) == 's') charset_add(set, &parse->arena, 0x17F, 0x17F);
    if ((code | 0x20) == 'k') charset_add(set, &parse->arena, 0x212A, 0x212A);
    return true;
}

// ---- escapes

static bool read_hex(PatternParse *parse, size_t least, size_t most, uint32_t *code) {
    size_t count = 0;
    *code = 0;
    for (; count < most && parse->at < parse->size; count++, parse->at++) {
        char digit = parse->regex[parse->at];
        uint32_t value = digit >= '0' && digit <= '9'   ? (uint32_t)(digit - '0')
                         : digit >= 'a' && digit <= 'f' ? (uint32_t)(digit - 'a' + 10)
                         : digit >= 'A' && digit <= 'F' ? (uint32_t)(digit - 'A' + 10)
                                                        : 16;
        if (value == 16) break;
        *code = *code * 16 + value;
    }
    return count >= least && *code < CHARSET_NO_CHARACTER;
}

// The one character that an escape stands for; false when it is none. parse->at is behind the letter.
static bool escaped_code(PatternParse *parse, char letter, uint32_t *code) {
    static const char letters[] = "tnvfrae", codes[] = "\t\n\v\f\r\a\x1B";
    const char *place = strchr(letters, letter);
    if (letter && place) {
        *code = (uint8_t)codes[place - letters];
        return true;
    }
    if (letter == 'x' && take(parse, "{")) return read_hex(parse, 1, 6, code) && take(parse, "}");
    if (letter == 'x') return read_hex(parse, 1, 2, code) && *code < 0x80;
    if (letter == 'u') return read_hex(parse, 4, 4, code);
    bool punctuation = (uint8_t)letter > ' ' && (uint8_t)letter < 0x7F && !is_ascii_letter((uint8_t)letter) &&
                       !(letter >= '0' && letter <= '9');
    *code = (uint8_t)letter;
    return punctuation || letter == ' ';
}

static bool add_property(PatternParse *parse, Charset *set, bool inverted, size_t start, Error *error) {
    const char *end = memchr(parse->regex + parse->at, '}', parse->size - parse->at);
    if (!take(parse, "{") || !end) return refuse(parse, start, 8, "expected \\p{…}", error);
    if (take(parse, "^")) inverted = !inverted;
    const char *name = parse->regex + parse->at;
    size_t size = (size_t)(end - name);
    parse->at += size + 1;
    Charset property = {0};
    bool cased = size == 2 && name[0] == 'L' && strchr("ult", name[1]);
    if (parse->any_case && cased)
        return refuse(parse, start, parse->at - start, "a case asked for without case", error);
    if (parse->rust && size == 1 && name[0] == 'N')
        charset_add_numeric(&property, &parse->arena);
    else if (!charset_add_category(&property, &parse->arena, name, size))
        return refuse(parse, start, parse->at - start,
                      "only general categories are supported (L, Lu, M, N, Nd, P, S, Z, …)", error);
    charset_tidy(&property);
    if (inverted) charset_complement(&property, &parse->arena);
    charset_add_set(set, &parse->arena, &property);
    return true;
}

static void add_word(PatternParse *parse, Charset *set) {
    charset_add_word(set, &parse->arena);
    if (parse->rust) return;
    // Oniguruma takes digits and fractions of Latin-1 for parts of words, and the joiners not.
    charset_add(set, &parse->arena, 0xB2, 0xB3);
    charset_add(set, &parse->arena, 0xB9, 0xB9);
    charset_add(set, &parse->arena, 0xBC, 0xBE);
    charset_tidy(set);
    charset_complement(set, &parse->arena);
    charset_add(set, &parse->arena, 0x200C, 0x200D);
    charset_tidy(set);
    charset_complement(set, &parse->arena);
}

// Adds what the escape at parse->at, which is behind the backslash, stands for.
static bool add_escape(PatternParse *parse, Charset *set, uint32_t *single, Error *error) {
    size_t start = parse->at - 1;
    *single = CHARSET_NO_CHARACTER;
    if (parse->at == parse->size) return refuse(parse, start, 1, "nothing follows the backslash", error);
    char letter = parse->regex[parse->at];
    if ((uint8_t)letter >= 0x80) {
        *single = next_code(parse);
        return add_code(parse, set, *single, start, error);
    }
    parse->at++;
    if (letter == 'p' || letter == 'P') return add_property(parse, set, letter == 'P', start, error);
    Charset named = {0};
    switch (letter | 0x20) {
    case 's': charset_add_whitespace(&named, &parse->arena); break;
    case 'd': charset_add_category(&named, &parse->arena, "Nd", 2); break;
    case 'w': add_word(parse, &named); break;
    default:
        if (!escaped_code(parse, letter, single)) return refuse(parse, start, 2, "this escape is not supported", error);
        return add_code(parse, set, *single, start, error);
    }
    charset_tidy(&named);
    if (!(letter & 0x20)) charset_complement(&named, &parse->arena);
    charset_add_set(set, &parse->arena, &named);
    return true;
}

// ---- [sets]

static bool add_range(PatternParse *parse, Charset *set, uint32_t first, size_t start, Error *error) {
    uint32_t last;
    Charset ignored = {0};
    if (take(parse, "\\")) {
        if (!add_escape(parse, &ignored, &last, error)) return false;
    } else {
        last = next_code(parse);
    }
    if (last >= CHARSET_NO_CHARACTER || last < first)
        return refuse(parse, start, parse->at - start, "not a range of characters", error);
    if (!parse->any_case) {
        charset_add(set, &parse->arena, first, last);
        return true;
    }
    if (last >= 0x80) return refuse(parse, start, parse->at - start, "without case only ASCII is supported", error);
    for (uint32_t code = first; code <= last; code++)
        if (!add_code(parse, set, code, start, error)) return false;
    return true;
}

// parse->at is behind the bracket.
static bool read_brackets(PatternParse *parse, Charset *set, int depth, Error *error) {
    size_t start = parse->at - 1;
    bool inverted = take(parse, "^");
    if (depth > MOST_DEPTH) return refuse(parse, start, 8, "nested too deeply", error);
    for (bool first = true;; first = false) {
        size_t here = parse->at;
        uint32_t code;
        if (here >= parse->size) return refuse(parse, start, 8, "the set is not closed", error);
        if (!first && take(parse, "]")) break;
        if (first && is_at(parse, "]")) return refuse(parse, start, 3, "an empty set is not supported", error);
        if (is_at(parse, "&&")) return refuse(parse, here, 2, "intersections are not supported", error);
        if (is_at(parse, "[:")) return refuse(parse, here, 8, "POSIX classes are not supported", error);
        if (take(parse, "[")) {
            Charset inner = {0};
            if (!read_brackets(parse, &inner, depth + 1, error)) return false;
            charset_add_set(set, &parse->arena, &inner);
            continue;
        }
        Charset one = {0};
        if (take(parse, "\\")) {
            if (!add_escape(parse, &one, &code, error)) return false;
        } else {
            code = next_code(parse);
            if (!add_code(parse, &one, code, here, error)) return false;
        }
        bool range = is_at(parse, "-") && parse->at + 1 < parse->size && parse->regex[parse->at + 1] != ']';
        if (range && code == CHARSET_NO_CHARACTER)
            return refuse(parse, here, parse->at + 2 - here, "not a range of characters", error);
        if (range) {
            parse->at++;
            if (!add_range(parse, set, code, here, error)) return false;
        } else {
            charset_add_set(set, &parse->arena, &one);
        }
    }
    charset_tidy(set);
    if (inverted) charset_complement(set, &parse->arena);
    return true;
}

// ---- groups and quantifiers

typedef struct Group {
    size_t item; // where it starts
    bool any_case;
} Group;

static bool open_group(PatternParse *parse, Error *error) {
    static const char *const kinds[] = {"(?:", "(?>", "(?=", "(?!", "(?<=", "(?<!"};
    size_t start = parse->at;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (take(parse, kinds[i])) {
            put_text(parse, kinds[i]);
            return true;
        }
    if (take(parse, "(?i:"))
        parse->any_case = true;
    else if (take(parse, "(?-i:"))
        parse->any_case = false;
    else if (!take(parse, "(") || is_at(parse, "?") || is_at(parse, "*"))
        return refuse(parse, start, 4, "this kind of group is not supported", error);
    put_text(parse, "(?:");
    return true;
}

static void insert_text(PatternParse *parse, size_t item, const char *text) {
    put_text(parse, "");
    memmove(parse->items + item + 1, parse->items + item, (parse->count - 1 - item) * sizeof *parse->items);
    parse->items[item] = (PatternItem){.text = text, .set = -1};
}

// {n}, {n,}, {,m} and {n,m} as PCRE2 writes them; NULL when the brace is a plain character.
static const char *read_braces(PatternParse *parse) {
    int used = 0;
    unsigned least = 0, most = 0;
    char text[32] = {0};
    size_t size = parse->size - parse->at;
    memcpy(text, parse->regex + parse->at, size < sizeof text - 1 ? size : sizeof text - 1);
    const char *written = NULL;
    if (sscanf(text, "{%9u,%9u}%n", &least, &most, &used) == 2 && used)
        written = arena_format(&parse->arena, "{%u,%u}", least, most);
    else if (sscanf(text, "{,%9u}%n", &most, &used) == 1 && used)
        written = arena_format(&parse->arena, "{0,%u}", most);
    else if ((sscanf(text, "{%9u,}%n", &least, &used) == 1 && used))
        written = arena_format(&parse->arena, "{%u,}", least);
    else if ((sscanf(text, "{%9u}%n", &least, &used) == 1 && used))
        written = arena_format(&parse->arena, "{%u}", least);
    if (written) parse->at += (size_t)used;
    return written;
}

// A quantifier for the atom that starts at `item`, if one stands here.
static bool read_quantifier(PatternParse *parse, size_t item, Error *error) {
    size_t start = parse->at;
    const char *braces = NULL;
    if (take(parse, "*"))
        put_text(parse, "*");
    else if (take(parse, "+"))
        put_text(parse, "+");
    else if (take(parse, "?"))
        put_text(parse, "?");
    else if ((braces = is_at(parse, "{") ? read_braces(parse) : NULL))
        put_text(parse, braces);
    else
        return true;
    if (braces && !strchr(braces, ',') && is_at(parse, "?"))
        return refuse(parse, start, parse->at + 1 - start, "? after a fixed number is not supported", error);
    if (take(parse, "?")) {
        put_text(parse, "?");
    } else if (is_at(parse, "+") && braces) {
        insert_text(parse, item, "(?:");
        put_text(parse, ")");
        return read_quantifier(parse, item, error); // the + repeats the whole
    } else if (take(parse, "+")) {
        put_text(parse, "+");
    }
    if (is_at(parse, "*") || is_at(parse, "+") || is_at(parse, "?"))
        return refuse(parse, start, parse->at + 1 - start, "a quantifier of a quantifier is not supported", error);
    return true;
}

// Letters that without case are one character in Unicode as well: ß, ﬀ, ﬁ, ﬂ, ﬆ and others.
static bool folds_together(uint32_t before, uint32_t code) {
    static const char *const pairs[] = {"ss", "ff", "fi", "fl", "st"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if ((before | 0x20) == (uint8_t)pairs[i][0] && (code | 0x20) == (uint8_t)pairs[i][1]) return true;
    return false;
}

static void put_newline(PatternParse *parse) {
    Charset newline = {0};
    charset_add(&newline, &parse->arena, '\n', '\n');
    put_set(parse, newline);
}

// A place between characters; false when none stands here.
static bool read_place(PatternParse *parse) {
    if (take(parse, "\\A") || take(parse, "^")) {
        // Ruby's ^ is also behind a newline that is not the last character.
        bool line = parse->regex[parse->at - 1] == '^';
        put_text(parse, line ? "(?:\\A|(?<=" : "\\A");
        if (!line) return true;
        put_newline(parse);
        put_text(parse, ")(?!\\z))");
    } else if (take(parse, "\\z")) {
        put_text(parse, "\\z");
    } else if (take(parse, "$")) {
        put_text(parse, "(?=\\z|");
        put_newline(parse);
        put_text(parse, ")");
    } else {
        return false;
    }
    return true;
}

// A character, an escape, a set or the dot.
static bool read_atom(PatternParse *parse, uint32_t before, uint32_t *code, Error *error) {
    size_t start = parse->at;
    Charset set = {0};
    *code = CHARSET_NO_CHARACTER;
    if (take(parse, "[")) {
        if (!read_brackets(parse, &set, 0, error)) return false;
    } else if (take(parse, ".")) {
        charset_add(&set, &parse->arena, '\n', '\n');
        charset_complement(&set, &parse->arena);
    } else if (take(parse, "\\")) {
        if (!add_escape(parse, &set, code, error)) return false;
    } else {
        *code = next_code(parse);
        if (!add_code(parse, &set, *code, start, error)) return false;
    }
    if (parse->any_case && before < 0x80 && *code < 0x80 && folds_together(before, *code))
        return refuse(parse, start - 1, 2, "without case this pair is also one character; not supported", error);
    put_set(parse, set);
    return true;
}

bool pattern_parse(PatternParse *parse, Error *error) {
    Group groups[MOST_DEPTH];
    size_t depth = 0;
    uint32_t before = CHARSET_NO_CHARACTER; // the character literally there before
    parse->any_case = take(parse, "(?i)");
    while (parse->at < parse->size) {
        size_t start = parse->at, item = parse->count;
        uint32_t code = CHARSET_NO_CHARACTER;
        if (item > MOST_ITEMS) return error_set(error, "the regex is too long (%zu bytes)", parse->size);
        if (take(parse, "|")) {
            put_text(parse, "|");
        } else if (is_at(parse, "(")) {
            if (depth == MOST_DEPTH) return refuse(parse, start, 4, "nested too deeply", error);
            groups[depth++] = (Group){item, parse->any_case};
            if (!open_group(parse, error)) return false;
        } else if (take(parse, ")")) {
            if (!depth) return refuse(parse, start, 1, "nothing is open here", error);
            put_text(parse, ")");
            parse->any_case = groups[--depth].any_case;
            if (!read_quantifier(parse, groups[depth].item, error)) return false;
        } else if (is_at(parse, "*") || is_at(parse, "+") || is_at(parse, "?")) {
            return refuse(parse, start, 1, "nothing to repeat", error);
        } else if (!read_place(parse)) {
            if (!read_atom(parse, before, &code, error) || !read_quantifier(parse, item, error)) return false;
        }
        before = code;
    }
    return !depth || refuse(parse, 0, parse->size, "a group is not closed", error);
}

void pattern_parse_literal(PatternParse *parse) {
    while (parse->at < parse->size) {
        Charset set = {0};
        uint32_t code = next_code(parse);
        charset_add(&set, &parse->arena, code, code);
        put_set(parse, set);
    }
}
