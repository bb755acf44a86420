#include "text/jinja_string.h"

#include "text/jinja_text.h"

#include <string.h>
#include <utf8proc.h>

static bool absent(JinjaValue value) {
    return value.kind == JINJA_MISSING || value.kind == JINJA_NONE;
}

static bool strips(JinjaRun *run, JinjaValue chars, uint32_t codepoint) {
    if (absent(chars)) return jinja_text_is_space(codepoint);
    if (!jinja_run_step(run, 1 + chars.size / 64)) return false;
    for (size_t at = 0, size; at < chars.size; at += size)
        if (jinja_text_codepoint(chars.text, at, &size) == codepoint) return true;
    return false;
}

// The start of the code point that ends before byte `end`.
static size_t before(JinjaValue text, size_t end) {
    do end--;
    while (((uint8_t)text.text[end] & 0xc0) == 0x80);
    return end;
}

bool jinja_string_strip(JinjaRun *run, JinjaValue text, JinjaValue chars, bool left, bool right, JinjaValue *value) {
    if (!absent(chars) && chars.kind != JINJA_STRING)
        return jinja_run_fault(run, "TypeError", "strip arg must be None or str, not %s", jinja_value_type(chars));
    size_t from = 0, to = text.size, size;
    while (left && from < to && strips(run, chars, jinja_text_codepoint(text.text, from, &size))) from += size;
    while (right && to > from && strips(run, chars, jinja_text_codepoint(text.text, before(text, to), NULL)))
        to = before(text, to);
    *value = jinja_text_part(text, from, to);
    return jinja_run_step(run, (text.size - (to - from)) / 64);
}

// Words between runs of white space; what is left after the most cuts keeps its far end.
static bool split_words(JinjaRun *run, JinjaValue text, int64_t most, bool from_right, JinjaValue list) {
    JinjaValue space = {.kind = JINJA_MISSING}, rest = text;
    for (;; most--) {
        if (!jinja_string_strip(run, rest, space, !from_right, from_right, &rest)) return false;
        if (!rest.size) return true;
        if (!most) {
            jinja_value_push(run, list, rest);
            return true;
        }
        size_t at = from_right ? rest.size : 0, size;
        while (!from_right && at < rest.size && !strips(run, space, jinja_text_codepoint(rest.text, at, &size)))
            at += size;
        while (from_right && at && !strips(run, space, jinja_text_codepoint(rest.text, before(rest, at), NULL)))
            at = before(rest, at);
        jinja_value_push(run, list, from_right ? jinja_text_part(rest, at, rest.size) : jinja_text_part(rest, 0, at));
        rest = from_right ? jinja_text_part(rest, 0, at) : jinja_text_part(rest, at, rest.size);
    }
}

static void reverse(JinjaList *list) {
    for (size_t i = 0; i < list->count / 2; i++) {
        JinjaValue other = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = other;
    }
}

bool jinja_string_split(JinjaRun *run, JinjaValue text, JinjaValue separator, int64_t most, bool from_right,
                        JinjaValue *list) {
    *list = jinja_value_list(run, JINJA_LIST);
    if (!absent(separator) && separator.kind != JINJA_STRING)
        return jinja_run_fault(run, "TypeError", "must be str or None, not %s", jinja_value_type(separator));
    if (!absent(separator) && !separator.size) return jinja_run_fault(run, "ValueError", "empty separator");
    if (!jinja_run_step(run, text.size / 32)) return false;
    if (absent(separator)) {
        if (!split_words(run, text, most, from_right, *list)) return false;
    } else {
        JinjaValue rest = text;
        for (; most; most--) {
            size_t at = jinja_string_find(run, rest, separator, 0, from_right), end = at + separator.size;
            if (at == SIZE_MAX || !jinja_run_step(run, 1)) break;
            jinja_value_push(run, *list,
                             from_right ? jinja_text_part(rest, end, rest.size) : jinja_text_part(rest, 0, at));
            rest = from_right ? jinja_text_part(rest, 0, at) : jinja_text_part(rest, end, rest.size);
        }
        jinja_value_push(run, *list, rest);
    }
    if (from_right) reverse(list->list);
    return jinja_run_good(run);
}

static bool ends_line(uint32_t c) {
    return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool jinja_string_splitlines(JinjaRun *run, JinjaValue text, bool keep_ends, JinjaValue *list) {
    *list = jinja_value_list(run, JINJA_LIST);
    if (!jinja_run_step(run, text.size / 32)) return false;
    size_t start = 0, size;
    for (size_t at = 0; at < text.size;) {
        uint32_t c = jinja_text_codepoint(text.text, at, &size);
        if (!ends_line(c)) {
            at += size;
            continue;
        }
        size_t end = at + size + (c == '\r' && at + 1 < text.size && text.text[at + 1] == '\n');
        jinja_value_push(run, *list, jinja_text_part(text, start, keep_ends ? end : at));
        start = at = end;
    }
    if (start < text.size) jinja_value_push(run, *list, jinja_text_part(text, start, text.size));
    return jinja_run_good(run);
}

bool jinja_string_partition(JinjaRun *run, JinjaValue text, JinjaValue separator, bool from_right, JinjaValue *tuple) {
    if (separator.kind != JINJA_STRING)
        return jinja_run_fault(run, "TypeError", "must be str, not %s", jinja_value_type(separator));
    if (!separator.size) return jinja_run_fault(run, "ValueError", "empty separator");
    *tuple = jinja_value_list(run, JINJA_TUPLE);
    size_t at = jinja_string_find(run, text, separator, 0, from_right), end = at + separator.size;
    JinjaValue empty = jinja_text_part(text, 0, 0);
    bool found = at != SIZE_MAX;
    jinja_value_push(run, *tuple, found ? jinja_text_part(text, 0, at) : from_right ? empty : text);
    jinja_value_push(run, *tuple, found ? separator : empty);
    jinja_value_push(run, *tuple, found ? jinja_text_part(text, end, text.size) : from_right ? text : empty);
    return jinja_run_step(run, text.size / 64);
}

size_t jinja_string_find(JinjaRun *run, JinjaValue text, JinjaValue part, size_t from, bool last) {
    if (from > text.size || part.size > text.size - from) return SIZE_MAX;
    if (!last) {
        const char *found =
            part.size ? memmem(text.text + from, text.size - from, part.text, part.size) : text.text + from;
        return found ? (size_t)(found - text.text) : SIZE_MAX;
    }
    for (size_t at = text.size - part.size;; at--) {
        bool likely = !part.size || text.text[at] == part.text[0];
        if (likely && !jinja_run_step(run, part.size / 64)) return SIZE_MAX;
        if (likely && !memcmp(text.text + at, part.text, part.size)) return at;
        if (at == from) return SIZE_MAX;
    }
}

bool jinja_string_replace(JinjaRun *run, JinjaValue text, JinjaValue old, JinjaValue new, int64_t most,
                          JinjaValue *value) {
    if (old.kind != JINJA_STRING || new.kind != JINJA_STRING)
        return jinja_run_fault(run, "TypeError", "replace() argument must be str, not %s",
                               jinja_value_type(old.kind != JINJA_STRING ? old : new));
    if (text.safe && !jinja_string_escape(run, new, &new)) return false;
    JinjaBuffer buffer = {0};
    size_t at = 0;
    if (!jinja_run_step(run, text.size / 32)) return false;
    for (; most && at <= text.size; most--) {
        size_t found = jinja_string_find(run, text, old, at, false);
        if (found == SIZE_MAX || !jinja_run_step(run, 1)) break;
        jinja_run_put(run, &buffer, text.text + at, found - at);
        jinja_run_put(run, &buffer, new.text, new.size);
        at = found + old.size;
        if (old.size) continue;
        if (at == text.size) { // an empty part is found between all code points
            at = SIZE_MAX;
            break;
        }
        size_t size = jinja_text_size_at(text, at);
        jinja_run_put(run, &buffer, text.text + at, size);
        at += size;
    }
    if (at <= text.size) jinja_run_put(run, &buffer, text.text + at, text.size - at);
    *value = jinja_text_taken(&buffer);
    value->safe = text.safe;
    return jinja_run_good(run);
}

bool jinja_string_repeat(JinjaRun *run, JinjaValue text, size_t times, JinjaValue *value) {
    if (!text.size) times = 0;
    if (times > JINJA_BYTES || !jinja_run_room(run, times * text.size))
        return jinja_run_fault(run, "LimitError", "a text repeated %zu times is too long", times);
    if (!jinja_run_step(run, times / 8)) return false;
    size_t all = times * text.size, done = times ? text.size : 0;
    char *copy = jinja_run_alloc(run, all + 1);
    if (done) memcpy(copy, text.text, done);
    for (size_t more; done < all; done += more) { // what is there once more
        more = all - done < done ? all - done : done;
        memcpy(copy + done, copy, more);
    }
    *value = jinja_value_text(copy, all);
    value->safe = text.safe;
    return true;
}

bool jinja_string_pad(JinjaRun *run, JinjaValue text, JinjaPad pad, int64_t width, JinjaValue fill, JinjaValue *value) {
    if (fill.kind == JINJA_MISSING) fill = jinja_value_string(" ");
    if (fill.kind != JINJA_STRING || jinja_text_length(fill) != 1)
        return jinja_run_fault(run, "TypeError", "The fill character must be exactly one character long");
    int64_t length = (int64_t)jinja_text_length(text), missing = width - length;
    *value = text;
    if (missing <= 0) return true;
    // CPython puts the odd one to the left when both the padding and the width are odd.
    int64_t before_text = pad == JINJA_LEFT ? 0 : pad == JINJA_RIGHT ? missing : missing / 2 + (missing & width & 1);
    JinjaValue left, right;
    if (!jinja_string_repeat(run, fill, (size_t)before_text, &left) ||
        !jinja_string_repeat(run, fill, (size_t)(missing - before_text), &right))
        return false;
    JinjaBuffer buffer = {0};
    jinja_run_put(run, &buffer, left.text, left.size);
    jinja_run_put(run, &buffer, text.text, text.size);
    jinja_run_put(run, &buffer, right.text, right.size);
    *value = jinja_text_taken(&buffer);
    value->safe = text.safe;
    return jinja_run_good(run);
}

static utf8proc_category_t category_of(uint32_t c) {
    return utf8proc_category((utf8proc_int32_t)c);
}

static bool is_lower(uint32_t c) { // ª and º and letters in circles have no case mapping or are no letters
    return category_of(c) == UTF8PROC_CATEGORY_LL || c == 0xaa || c == 0xba || (c >= 0x24d0 && c <= 0x24e9) ||
           (c >= 0x2170 && c <= 0x217f);
}

static bool is_upper(uint32_t c) {
    return category_of(c) == UTF8PROC_CATEGORY_LU || (c >= 0x24b6 && c <= 0x24cf) || (c >= 0x2160 && c <= 0x216f);
}

static bool is_cased(uint32_t c) {
    return is_lower(c) || is_upper(c) || category_of(c) == UTF8PROC_CATEGORY_LT;
}

static bool is_alpha(uint32_t c) {
    utf8proc_category_t category = category_of(c);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

static bool is_decimal(uint32_t c) {
    return category_of(c) == UTF8PROC_CATEGORY_ND;
}

// Decimal digits of a script stand in runs of ten or a multiple of it, from 0 on.
bool jinja_string_plain(JinjaRun *run, JinjaValue text, JinjaValue *plain) {
    JinjaBuffer buffer = {0};
    *plain = text;
    if (jinja_string_is(text, JINJA_IS_ASCII)) return true;
    for (size_t at = 0, size; at < text.size; at += size) {
        uint32_t c = jinja_text_codepoint(text.text, at, &size), zero = c;
        while (is_decimal(zero)) zero--;
        if (c >= 0x80 && jinja_text_is_space(c))
            jinja_run_puts(run, &buffer, " ");
        else if (zero == c)
            jinja_run_put(run, &buffer, text.text + at, size);
        else
            jinja_run_putc(run, &buffer, '0' + (c - zero - 1) % 10);
    }
    *plain = jinja_text_taken(&buffer);
    return jinja_run_step(run, text.size);
}

static bool is_digit(uint32_t c) { // with superscripts, subscripts and digits in circles
    return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 || (c >= 0x2074 && c <= 0x2079) ||
           (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468) || (c >= 0x2474 && c <= 0x247c) ||
           (c >= 0x2488 && c <= 0x2490) || (c >= 0x2776 && c <= 0x277e);
}

static bool is_numeric(uint32_t c) {
    utf8proc_category_t category = category_of(c);
    return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

bool jinja_string_is_word(uint32_t c) {
    return is_alpha(c) || is_numeric(c) || c == '_';
}

// Capital letters whose mapping is several code points: the common ones of SpecialCasing.txt.
static bool put_special_upper(JinjaRun *run, JinjaBuffer *buffer, uint32_t c, bool title) {
    static const struct {
        uint32_t from;
        const char *upper, *title;
    } specials[] = {
        {0xdf, "SS", "Ss"},
        {0x149, "\u02bcN", "\u02bcN"},
        {0x1f0, "J\u030c", "J\u030c"},
        {0x587, "\u0535\u0552", "\u0535\u0582"},
        {0x1e96, "H\u0331", "H\u0331"},
        {0x1e97, "T\u0308", "T\u0308"},
        {0x1e98, "W\u030a", "W\u030a"},
        {0x1e99, "Y\u030a", "Y\u030a"},
        {0x1e9a, "A\u02be", "A\u02be"},
        {0xfb00, "FF", "Ff"},
        {0xfb01, "FI", "Fi"},
        {0xfb02, "FL", "Fl"},
        {0xfb03, "FFI", "Ffi"},
        {0xfb04, "FFL", "Ffl"},
        {0xfb05, "ST", "St"},
        {0xfb06, "ST", "St"},
    };
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        if (specials[i].from != c) continue;
        jinja_run_puts(run, buffer, title ? specials[i].title : specials[i].upper);
        return true;
    }
    return false;
}

static void put_upper(JinjaRun *run, JinjaBuffer *buffer, uint32_t c, bool title) {
    if (c >= 0x80 && put_special_upper(run, buffer, c, title)) return;
    utf8proc_int32_t mapped = title ? utf8proc_totitle((utf8proc_int32_t)c) : utf8proc_toupper((utf8proc_int32_t)c);
    jinja_run_putc(run, buffer, (uint32_t)mapped);
}

// A capital sigma that ends a word.
static bool is_final_sigma(JinjaValue text, size_t at, size_t end) {
    bool letter_before = false, letter_behind = false;
    for (size_t i = at; i;) {
        i = before(text, i);
        uint32_t c = jinja_text_codepoint(text.text, i, NULL);
        utf8proc_category_t category = category_of(c);
        if (category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_LM || c == '\'' || c == '.') continue;
        letter_before = is_cased(c);
        break;
    }
    for (size_t i = end, size; i < text.size; i += size) {
        uint32_t c = jinja_text_codepoint(text.text, i, &size);
        utf8proc_category_t category = category_of(c);
        if (category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_LM || c == '\'' || c == '.') continue;
        letter_behind = is_cased(c);
        break;
    }
    return letter_before && !letter_behind;
}

static void put_lower(JinjaRun *run, JinjaBuffer *buffer, JinjaValue text, size_t at, uint32_t c, size_t size) {
    if (c == 0x3a3) {
        jinja_run_putc(run, buffer, is_final_sigma(text, at, at + size) ? 0x3c2 : 0x3c3);
    } else if (c == 0x130) {
        jinja_run_puts(run, buffer, "i\u0307");
    } else {
        jinja_run_putc(run, buffer, (uint32_t)utf8proc_tolower((utf8proc_int32_t)c));
    }
}

static void put_folded(JinjaRun *run, JinjaBuffer *buffer, uint32_t c) {
    utf8proc_int32_t folded[8];
    int last = 0;
    utf8proc_ssize_t count = utf8proc_decompose_char((utf8proc_int32_t)c, folded, 8, UTF8PROC_CASEFOLD, &last);
    for (utf8proc_ssize_t i = 0; i < count && i < 8; i++) jinja_run_putc(run, buffer, (uint32_t)folded[i]);
}

bool jinja_string_case(JinjaRun *run, JinjaValue text, JinjaCase to, JinjaValue *value) {
    JinjaBuffer buffer = {0};
    bool in_word = false;
    if (!jinja_run_step(run, text.size / 8)) return false;
    for (size_t at = 0, size; at < text.size && jinja_run_good(run); at += size) {
        uint32_t c = jinja_text_codepoint(text.text, at, &size);
        bool up = to == JINJA_UPPER || (to == JINJA_SWAPCASE && is_lower(c)) || (to == JINJA_CAPITALIZE && !at) ||
                  (to == JINJA_TITLE && !in_word);
        if (up)
            put_upper(run, &buffer, c, to == JINJA_TITLE || to == JINJA_CAPITALIZE);
        else if (to == JINJA_SWAPCASE && !is_upper(c))
            jinja_run_put(run, &buffer, text.text + at, size);
        else if (to == JINJA_CASEFOLD)
            put_folded(run, &buffer, c);
        else
            put_lower(run, &buffer, text, at, c, size);
        in_word = is_cased(c);
    }
    *value = jinja_text_taken(&buffer);
    value->safe = text.safe;
    return jinja_run_good(run);
}

// isupper, islower and istitle: some letter has case, and none has the wrong one.
static bool is_case(JinjaValue text, JinjaClass class) {
    bool found = false, in_word = false;
    for (size_t at = 0, size; at < text.size; at += size) {
        uint32_t c = jinja_text_codepoint(text.text, at, &size);
        bool lower = is_lower(c), upper = is_upper(c) || category_of(c) == UTF8PROC_CATEGORY_LT;
        if ((class == JINJA_IS_LOWER && upper) || (class == JINJA_IS_UPPER && lower)) return false;
        if (class == JINJA_IS_TITLE && ((upper && in_word) || (lower && !in_word))) return false;
        in_word = lower || upper;
        found |= class == JINJA_IS_LOWER ? lower : class == JINJA_IS_UPPER ? upper : in_word;
    }
    return found;
}

static bool is_in(uint32_t c, JinjaClass class, bool first) {
    switch (class) {
    case JINJA_IS_ALNUM: return is_alpha(c) || is_numeric(c);
    case JINJA_IS_ALPHA: return is_alpha(c);
    case JINJA_IS_ASCII: return c < 0x80;
    case JINJA_IS_DECIMAL: return is_decimal(c);
    case JINJA_IS_DIGIT: return is_digit(c);
    case JINJA_IS_IDENTIFIER: return jinja_text_is_name(c, first);
    case JINJA_IS_NUMERIC: return is_numeric(c);
    case JINJA_IS_PRINTABLE: return jinja_text_is_printable(c);
    default: return jinja_text_is_space(c);
    }
}

bool jinja_string_is(JinjaValue text, JinjaClass class) {
    if (class == JINJA_IS_LOWER || class == JINJA_IS_UPPER || class == JINJA_IS_TITLE) return is_case(text, class);
    for (size_t at = 0, size; at < text.size; at += size)
        if (!is_in(jinja_text_codepoint(text.text, at, &size), class, !at)) return false;
    return text.size || class == JINJA_IS_ASCII || class == JINJA_IS_PRINTABLE;
}

bool jinja_string_escape(JinjaRun *run, JinjaValue value, JinjaValue *escaped) {
    JinjaValue text;
    *escaped = value;
    if (value.kind == JINJA_STRING && value.safe) return true;
    if (!jinja_text_of(run, value, &text) || !jinja_run_step(run, text.size / 32)) return false;
    JinjaBuffer buffer = {0};
    for (size_t at = 0; at < text.size; at++) {
        static const char specials[] = "&<>'\"";
        const char *known = text.text[at] ? strchr(specials, text.text[at]) : NULL;
        static const char *const replacements[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
        if (known)
            jinja_run_puts(run, &buffer, replacements[known - specials]);
        else
            jinja_run_put(run, &buffer, text.text + at, 1);
    }
    *escaped = jinja_text_taken(&buffer);
    escaped->safe = true;
    return jinja_run_good(run);
}
