// Attributes, items and methods as jinja2's immutable sandbox shows them: a method is found before a key of the same
// name, methods that would change a list or dict and names with an underscore are undefined.
#include "text/jinja_eval.h"
#include "text/jinja_format.h"
#include "text/jinja_string.h"
#include "text/jinja_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef bool Method(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value);

// ---- str ----

#define STRIP(name, left, right)                                                                                       \
    static bool name(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {                     \
        return jinja_string_strip(run, self, bound[0], left, right, value);                                            \
    }
STRIP(str_strip, true, true)
STRIP(str_lstrip, true, false)
STRIP(str_rstrip, false, true)

#define CASE(name, to)                                                                                                 \
    static bool name(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {                     \
        (void)bound;                                                                                                   \
        return jinja_string_case(run, self, to, value);                                                                \
    }
CASE(str_upper, JINJA_UPPER)
CASE(str_lower, JINJA_LOWER)
CASE(str_title, JINJA_TITLE)
CASE(str_capitalize, JINJA_CAPITALIZE)
CASE(str_swapcase, JINJA_SWAPCASE)
CASE(str_casefold, JINJA_CASEFOLD)

#define IS(name, class)                                                                                                \
    static bool name(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {                     \
        (void)bound;                                                                                                   \
        *value = jinja_value_bool(jinja_string_is(self, class));                                                       \
        return jinja_run_step(run, self.size / 32);                                                                    \
    }
IS(str_isalnum, JINJA_IS_ALNUM)
IS(str_isalpha, JINJA_IS_ALPHA)
IS(str_isascii, JINJA_IS_ASCII)
IS(str_isdecimal, JINJA_IS_DECIMAL)
IS(str_isdigit, JINJA_IS_DIGIT)
IS(str_isidentifier, JINJA_IS_IDENTIFIER)
IS(str_islower, JINJA_IS_LOWER)
IS(str_isnumeric, JINJA_IS_NUMERIC)
IS(str_isprintable, JINJA_IS_PRINTABLE)
IS(str_isspace, JINJA_IS_SPACE)
IS(str_istitle, JINJA_IS_TITLE)
IS(str_isupper, JINJA_IS_UPPER)

#define PAD(name, pad)                                                                                                 \
    static bool name(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {                     \
        int64_t width;                                                                                                 \
        return jinja_call_integer(run, bound[0], 0, &width) &&                                                         \
               jinja_string_pad(run, self, pad, width, bound[1], value);                                               \
    }
PAD(str_center, JINJA_CENTER)
PAD(str_ljust, JINJA_LEFT)
PAD(str_rjust, JINJA_RIGHT)

static bool str_zfill(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    int64_t width, sign = self.size && (self.text[0] == '-' || self.text[0] == '+');
    JinjaValue digits = jinja_text_part(self, (size_t)sign, self.size), padded;
    if (!jinja_call_integer(run, bound[0], 0, &width)) return false;
    if (width < 0) width = 0;
    if (!jinja_string_pad(run, digits, JINJA_RIGHT, width - sign, jinja_value_string("0"), &padded)) return false;
    JinjaBuffer buffer = {0};
    jinja_run_put(run, &buffer, self.text, (size_t)sign);
    jinja_run_put(run, &buffer, padded.text, padded.size);
    *value = jinja_text_taken(&buffer);
    return true;
}

static bool split(JinjaRun *run, JinjaValue self, const JinjaValue *bound, bool from_right, JinjaValue *value) {
    int64_t most;
    return jinja_call_integer(run, bound[1], -1, &most) &&
           jinja_string_split(run, self, bound[0], most, from_right, value);
}

static bool str_split(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    return split(run, self, bound, false, value);
}

static bool str_rsplit(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    return split(run, self, bound, true, value);
}

static bool str_splitlines(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    return jinja_string_splitlines(run, self, jinja_value_truth(bound[0]), value);
}

static bool str_partition(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    return jinja_string_partition(run, self, bound[0], false, value);
}

static bool str_rpartition(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    return jinja_string_partition(run, self, bound[0], true, value);
}

// The part of self between the optional code points bound[0] and bound[1]; *start is its first byte. False in *found
// when start lies behind the end: then nothing is found there, not even the empty string.
static bool window(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *part, size_t *start,
                   bool *found) {
    int64_t length = (int64_t)jinja_text_length(self), from, to;
    if (!jinja_run_step(run, self.size / 64)) return false;
    if (!jinja_call_integer(run, bound[0], 0, &from) || !jinja_call_integer(run, bound[1], length, &to)) return false;
    if (from < 0) from = from + length < 0 ? 0 : from + length;
    if (to < 0) to = to + length < 0 ? 0 : to + length;
    if (to > length) to = length;
    *found = from <= to;
    *start = jinja_text_offset(self, (size_t)from);
    *part = jinja_text_part(self, *start, *found ? jinja_text_offset(self, (size_t)to) : *start);
    return true;
}

static bool find(JinjaRun *run, JinjaValue self, const JinjaValue *bound, bool last, bool must, JinjaValue *value) {
    JinjaValue part;
    size_t start, at = SIZE_MAX;
    bool found;
    if (bound[0].kind != JINJA_STRING)
        return jinja_run_fault(run, "TypeError", "must be str, not %s", jinja_value_type(bound[0]));
    if (!window(run, self, bound + 1, &part, &start, &found)) return false;
    if (found) at = jinja_string_find(run, part, bound[0], 0, last);
    if (at == SIZE_MAX && must) return jinja_run_fault(run, "ValueError", "substring not found");
    *value = jinja_value_int(-1);
    if (at != SIZE_MAX) *value = jinja_value_int((JinjaInteger)jinja_text_length(jinja_text_part(self, 0, start + at)));
    return true;
}

static bool str_find(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    return find(run, self, bound, false, false, value);
}

static bool str_rfind(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    return find(run, self, bound, true, false, value);
}

static bool str_index(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    return find(run, self, bound, false, true, value);
}

static bool str_rindex(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    return find(run, self, bound, true, true, value);
}

static bool str_count(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    JinjaValue part;
    size_t start, count = 0;
    bool found;
    if (bound[0].kind != JINJA_STRING)
        return jinja_run_fault(run, "TypeError", "must be str, not %s", jinja_value_type(bound[0]));
    if (!window(run, self, bound + 1, &part, &start, &found)) return false;
    if (found && !bound[0].size) count = jinja_text_length(part) + 1;
    for (size_t at = 0; found && bound[0].size; at += bound[0].size, count++)
        if (!jinja_run_step(run, 1) || (at = jinja_string_find(run, part, bound[0], at, false)) == SIZE_MAX) break;
    *value = jinja_value_int((JinjaInteger)count);
    return jinja_run_good(run);
}

static bool str_replace(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    int64_t most;
    return jinja_call_integer(run, bound[2], -1, &most) &&
           jinja_string_replace(run, self, bound[0], bound[1], most, value);
}

static bool affix(JinjaRun *run, JinjaValue part, JinjaValue affix, bool end, bool *truth) {
    if (affix.kind != JINJA_STRING)
        return jinja_run_fault(run, "TypeError", "%s first arg must be str or a tuple of str, not %s",
                               end ? "endswith" : "startswith", jinja_value_type(affix));
    *truth = affix.size <= part.size &&
             !memcmp(end ? part.text + part.size - affix.size : part.text, affix.text, affix.size);
    return true;
}

static bool has_affix(JinjaRun *run, JinjaValue self, const JinjaValue *bound, bool end, JinjaValue *value) {
    JinjaValue part;
    size_t start;
    bool found, truth = false;
    if (!window(run, self, bound + 1, &part, &start, &found)) return false;
    bool several = bound[0].kind == JINJA_TUPLE;
    for (size_t i = 0; found && !truth && i < (several ? bound[0].list->count : 1); i++)
        if (!jinja_run_step(run, 1) || !affix(run, part, several ? bound[0].list->items[i] : bound[0], end, &truth))
            return false;
    *value = jinja_value_bool(truth);
    return true;
}

static bool str_startswith(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    return has_affix(run, self, bound, false, value);
}

static bool str_endswith(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    return has_affix(run, self, bound, true, value);
}

static bool str_removeprefix(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    bool has = false;
    if (!affix(run, self, bound[0], false, &has)) return false;
    *value = jinja_text_part(self, has ? bound[0].size : 0, self.size);
    return true;
}

static bool str_removesuffix(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    bool has = false;
    if (!affix(run, self, bound[0], true, &has)) return false;
    *value = jinja_text_part(self, 0, self.size - (has ? bound[0].size : 0));
    return true;
}

static bool str_join(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    JinjaValue items;
    JinjaBuffer buffer = {0};
    if (!jinja_value_collect(run, bound[0], &items)) return false;
    for (size_t i = 0; i < items.list->count; i++) {
        JinjaValue item = items.list->items[i];
        if (item.kind != JINJA_STRING)
            return jinja_run_fault(run, "TypeError", "sequence item %zu: expected str instance, %s found", i,
                                   jinja_value_type(item));
        if (self.safe && !jinja_string_escape(run, item, &item)) return false;
        if (i) jinja_run_put(run, &buffer, self.text, self.size);
        jinja_run_put(run, &buffer, item.text, item.size);
    }
    *value = jinja_text_taken(&buffer);
    value->safe = self.safe;
    return true;
}

static bool str_expandtabs(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    int64_t width, column = 0;
    JinjaBuffer buffer = {0};
    if (!jinja_call_integer(run, bound[0], 8, &width)) return false;
    for (size_t at = 0, size; at < self.size && jinja_run_step(run, 1); at += size) {
        uint32_t c = jinja_text_codepoint(self.text, at, &size);
        JinjaValue blanks = jinja_value_string("");
        if (c == '\t' && width > 0 &&
            !jinja_string_repeat(run, jinja_value_string(" "), (size_t)(width - column % width), &blanks))
            return false;
        if (c == '\t')
            jinja_run_put(run, &buffer, blanks.text, blanks.size);
        else
            jinja_run_put(run, &buffer, self.text + at, size);
        column = c == '\n' || c == '\r' ? 0 : column + (c == '\t' ? (int64_t)blanks.size : 1);
    }
    *value = jinja_text_taken(&buffer);
    return true;
}

static bool str_format_map(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    JinjaArguments arguments = {jinja_value_list(run, JINJA_TUPLE), bound[0]};
    if (bound[0].kind != JINJA_DICT) return jinja_run_fault(run, "TypeError", "format_map() takes a mapping");
    return jinja_format_braces(run, self, &arguments, value);
}

// ---- list, tuple, dict ----

static bool list_index(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    int64_t count = (int64_t)self.list->count, from, to;
    if (!jinja_call_integer(run, bound[1], 0, &from) || !jinja_call_integer(run, bound[2], count, &to)) return false;
    if (from < 0) from = from + count < 0 ? 0 : from + count;
    if (to < 0) to += count;
    for (int64_t i = from; i < to && i < count; i++) {
        bool equal;
        if (!jinja_value_equal(run, self.list->items[i], bound[0], &equal)) return false;
        *value = jinja_value_int(i);
        if (equal) return true;
    }
    return jinja_run_fault(run, "ValueError", "the value is not in the %s", jinja_value_type(self));
}

static bool list_count(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    JinjaInteger count = 0;
    for (size_t i = 0; i < self.list->count; i++) {
        bool equal;
        if (!jinja_value_equal(run, self.list->items[i], bound[0], &equal)) return false;
        count += equal;
    }
    *value = jinja_value_int(count);
    return true;
}

static bool copy(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    (void)run, (void)bound; // nothing can change the original
    *value = self;
    return true;
}

#define VIEW(name, which)                                                                                              \
    static bool name(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {                     \
        (void)run, (void)bound;                                                                                        \
        *value = (JinjaValue){.kind = JINJA_VIEW, .viewed = self.dict, .view = which};                                 \
        return true;                                                                                                   \
    }
VIEW(dict_keys, JINJA_KEYS)
VIEW(dict_values, JINJA_VALUES)
VIEW(dict_items, JINJA_ITEMS)

static bool dict_get(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    if (!jinja_value_get(run, self, bound[0], value)) return false;
    if (value->kind == JINJA_MISSING) *value = bound[1].kind == JINJA_MISSING ? jinja_value_none() : bound[1];
    return true;
}

static bool cycler_next(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    (void)run, (void)bound;
    *value = self.cycler->items.list->items[self.cycler->at];
    self.cycler->at = (self.cycler->at + 1) % self.cycler->items.list->count;
    return true;
}

static bool cycler_reset(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    (void)run, (void)bound;
    self.cycler->at = 0;
    *value = jinja_value_none();
    return true;
}

static bool number_is_integer(JinjaRun *run, JinjaValue self, const JinjaValue *bound, JinjaValue *value) {
    (void)run, (void)bound;
    *value = jinja_value_bool(isfinite(self.real) && self.real == floor(self.real));
    return true;
}

// A row without a function is known to exist, so that it hides a key and is defined; calling it is refused.
static const struct Row {
    JinjaKind kind;
    const char *name, *parameters;
    size_t required;
    Method *method;
    bool unsafe;
} rows[] = {
    {JINJA_STRING, "strip", "chars", 0, str_strip, false},
    {JINJA_STRING, "lstrip", "chars", 0, str_lstrip, false},
    {JINJA_STRING, "rstrip", "chars", 0, str_rstrip, false},
    {JINJA_STRING, "upper", "", 0, str_upper, false},
    {JINJA_STRING, "lower", "", 0, str_lower, false},
    {JINJA_STRING, "title", "", 0, str_title, false},
    {JINJA_STRING, "capitalize", "", 0, str_capitalize, false},
    {JINJA_STRING, "swapcase", "", 0, str_swapcase, false},
    {JINJA_STRING, "casefold", "", 0, str_casefold, false},
    {JINJA_STRING, "isalnum", "", 0, str_isalnum, false},
    {JINJA_STRING, "isalpha", "", 0, str_isalpha, false},
    {JINJA_STRING, "isascii", "", 0, str_isascii, false},
    {JINJA_STRING, "isdecimal", "", 0, str_isdecimal, false},
    {JINJA_STRING, "isdigit", "", 0, str_isdigit, false},
    {JINJA_STRING, "isidentifier", "", 0, str_isidentifier, false},
    {JINJA_STRING, "islower", "", 0, str_islower, false},
    {JINJA_STRING, "isnumeric", "", 0, str_isnumeric, false},
    {JINJA_STRING, "isprintable", "", 0, str_isprintable, false},
    {JINJA_STRING, "isspace", "", 0, str_isspace, false},
    {JINJA_STRING, "istitle", "", 0, str_istitle, false},
    {JINJA_STRING, "isupper", "", 0, str_isupper, false},
    {JINJA_STRING, "center", "width fillchar", 1, str_center, false},
    {JINJA_STRING, "ljust", "width fillchar", 1, str_ljust, false},
    {JINJA_STRING, "rjust", "width fillchar", 1, str_rjust, false},
    {JINJA_STRING, "zfill", "width", 1, str_zfill, false},
    {JINJA_STRING, "split", "sep maxsplit", 0, str_split, false},
    {JINJA_STRING, "rsplit", "sep maxsplit", 0, str_rsplit, false},
    {JINJA_STRING, "splitlines", "keepends", 0, str_splitlines, false},
    {JINJA_STRING, "partition", "sep", 1, str_partition, false},
    {JINJA_STRING, "rpartition", "sep", 1, str_rpartition, false},
    {JINJA_STRING, "find", "sub start end", 1, str_find, false},
    {JINJA_STRING, "rfind", "sub start end", 1, str_rfind, false},
    {JINJA_STRING, "index", "sub start end", 1, str_index, false},
    {JINJA_STRING, "rindex", "sub start end", 1, str_rindex, false},
    {JINJA_STRING, "count", "sub start end", 1, str_count, false},
    {JINJA_STRING, "replace", "old new count", 2, str_replace, false},
    {JINJA_STRING, "startswith", "prefix start end", 1, str_startswith, false},
    {JINJA_STRING, "endswith", "suffix start end", 1, str_endswith, false},
    {JINJA_STRING, "removeprefix", "prefix", 1, str_removeprefix, false},
    {JINJA_STRING, "removesuffix", "suffix", 1, str_removesuffix, false},
    {JINJA_STRING, "join", "iterable", 1, str_join, false},
    {JINJA_STRING, "expandtabs", "tabsize", 0, str_expandtabs, false},
    {JINJA_STRING, "format", NULL, 0, NULL, false}, // any arguments: see jinja_method_call
    {JINJA_STRING, "format_map", "mapping", 1, str_format_map, false},
    {JINJA_STRING, "encode", "", 0, NULL, false},
    {JINJA_STRING, "maketrans", "", 0, NULL, false},
    {JINJA_STRING, "translate", "", 0, NULL, false},
    {JINJA_LIST, "index", "value start stop", 1, list_index, false},
    {JINJA_LIST, "count", "value", 1, list_count, false},
    {JINJA_LIST, "copy", "", 0, copy, false},
    {JINJA_LIST, "append", "", 0, NULL, true},
    {JINJA_LIST, "clear", "", 0, NULL, true},
    {JINJA_LIST, "pop", "", 0, NULL, true},
    {JINJA_LIST, "reverse", "", 0, NULL, true},
    {JINJA_LIST, "insert", "", 0, NULL, true},
    {JINJA_LIST, "sort", "", 0, NULL, true},
    {JINJA_LIST, "extend", "", 0, NULL, true},
    {JINJA_LIST, "remove", "", 0, NULL, true},
    {JINJA_TUPLE, "index", "value start stop", 1, list_index, false},
    {JINJA_TUPLE, "count", "value", 1, list_count, false},
    {JINJA_DICT, "keys", "", 0, dict_keys, false},
    {JINJA_DICT, "values", "", 0, dict_values, false},
    {JINJA_DICT, "items", "", 0, dict_items, false},
    {JINJA_DICT, "get", "key default", 1, dict_get, false},
    {JINJA_DICT, "copy", "", 0, copy, false},
    {JINJA_DICT, "fromkeys", "", 0, NULL, false},
    {JINJA_DICT, "clear", "", 0, NULL, true},
    {JINJA_DICT, "pop", "", 0, NULL, true},
    {JINJA_DICT, "popitem", "", 0, NULL, true},
    {JINJA_DICT, "setdefault", "", 0, NULL, true},
    {JINJA_DICT, "update", "", 0, NULL, true},
    {JINJA_LOOP, "cycle", NULL, 0, NULL, false},
    {JINJA_LOOP, "changed", NULL, 0, NULL, false},
    {JINJA_CYCLER, "next", "", 0, cycler_next, false},
    {JINJA_CYCLER, "reset", "", 0, cycler_reset, false},
    {JINJA_FLOAT, "is_integer", "", 0, number_is_integer, false},
};

const char *jinja_method_name(const JinjaMethod *method) {
    return rows[method->index].name;
}

static const char *object_type(JinjaValue object, char text[64]) {
    static const char *const paths[] = {[JINJA_NAMESPACE] = "jinja2.utils.",
                                        [JINJA_LOOP] = "jinja2.runtime.",
                                        [JINJA_MACRO] = "jinja2.runtime.",
                                        [JINJA_CYCLER] = "jinja2.utils.",
                                        [JINJA_JOINER] = "jinja2.utils."};
    if (object.kind == JINJA_NONE) return "None";
    bool known = object.kind < sizeof paths / sizeof *paths && paths[object.kind];
    snprintf(text, 64, "%s%s object",
             known         ? paths[object.kind]
             : object.safe ? "markupsafe."
                           : "",
             jinja_value_type(object));
    return text;
}

static JinjaValue no_attribute(JinjaRun *run, JinjaValue object, JinjaValue name) {
    JinjaBuffer buffer = {0};
    char type[64];
    jinja_text_repr(run, &buffer, name);
    int size = (int)(buffer.length < 300 ? buffer.length : 300);
    if (name.kind != JINJA_STRING)
        return jinja_value_undefined(run, "%s has no element %.*s", object_type(object, type), size, buffer.text);
    return jinja_value_undefined(run, "'%s' has no attribute %.*s", object_type(object, type), size, buffer.text);
}

static JinjaValue unsafe(JinjaRun *run, JinjaValue object, JinjaValue name) {
    JinjaValue value =
        jinja_value_undefined(run, "access to attribute '%.*s' of '%s' object is unsafe.",
                              (int)(name.size < 200 ? name.size : 200), name.text, jinja_value_type(object));
    JinjaUndefined *undefined = jinja_run_new(run, JinjaUndefined);
    *undefined = (JinjaUndefined){value.undefined->message, true};
    value.undefined = undefined;
    return value;
}

// Python's getattr: MISSING when there is none.
static bool attribute(JinjaRun *run, JinjaValue object, JinjaValue name, JinjaValue *value) {
    *value = (JinjaValue){.kind = JINJA_MISSING};
    bool hidden = name.size && name.text[0] == '_';
    bool dunder = name.size > 4 && hidden && name.text[1] == '_' && !memcmp(name.text + name.size - 2, "__", 2);
    if (object.kind == JINJA_NAMESPACE &&
        !jinja_value_get(run, (JinjaValue){.kind = JINJA_DICT, .dict = object.dict}, name, value))
        return false;
    if (object.kind == JINJA_LOOP && !jinja_loop_attribute(run, object, name, value)) return false;
    if (object.kind == JINJA_TUPLE && object.safe) { // a group of groupby
        if (jinja_value_is(name, "grouper")) *value = object.list->items[0];
        if (jinja_value_is(name, "list")) *value = object.list->items[1];
    } else if (object.kind == JINJA_CYCLER && jinja_value_is(name, "current")) {
        *value = object.cycler->items.list->items[object.cycler->at];
    } else if (object.kind == JINJA_MACRO && jinja_value_is(name, "name")) {
        *value = object.macro->node->type == JINJA_N_MACRO ? object.macro->node->name : jinja_value_none();
    }
    if (value->kind == JINJA_MISSING && dunder && jinja_value_is(name, "__class__")) *value = jinja_value_none();
    if (value->kind != JINJA_MISSING) {
        if (hidden) *value = unsafe(run, object, name);
        return true;
    }
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        if (rows[i].kind != object.kind || !jinja_value_is(name, rows[i].name)) continue;
        JinjaMethod *method = jinja_run_new(run, JinjaMethod);
        *method = (JinjaMethod){object, i};
        *value = rows[i].unsafe ? unsafe(run, object, name) : (JinjaValue){.kind = JINJA_METHOD, .method = method};
        return true;
    }
    return true;
}

// Python's object[key]: MISSING for an unknown key, an index out of range or an object without items.
static bool item(JinjaRun *run, JinjaValue object, JinjaValue key, JinjaValue *value) {
    *value = (JinjaValue){.kind = JINJA_MISSING};
    size_t length;
    if (object.kind == JINJA_DICT) {
        bool hashable;
        return jinja_value_hashable(run, key, &hashable) && (!hashable || jinja_value_get(run, object, key, value));
    }
    bool sequence = object.kind == JINJA_STRING || object.kind == JINJA_LIST || object.kind == JINJA_TUPLE ||
                    object.kind == JINJA_RANGE;
    if (!sequence || (key.kind != JINJA_INT && key.kind != JINJA_BOOL)) return true;
    int64_t index;
    if (!jinja_call_integer(run, key, 0, &index)) return false;
    jinja_value_length(object, &length);
    if (object.kind == JINJA_STRING && !jinja_run_step(run, object.size / 32)) return false;
    if (index < 0) index += (int64_t)length;
    if (index < 0 || index >= (int64_t)length) return true;
    if (object.kind != JINJA_STRING) {
        *value = jinja_value_at(object, (size_t)index);
        return true;
    }
    size_t at = jinja_text_offset(object, (size_t)index);
    *value = jinja_text_part(object, at, at + jinja_text_size_at(object, at));
    return true;
}

bool jinja_method_attribute(JinjaRun *run, JinjaValue object, JinjaValue name, JinjaValue *value) {
    if (object.kind == JINJA_UNDEFINED && !jinja_value_is(name, "__class__")) return jinja_value_fail(run, object);
    if (!attribute(run, object, name, value)) return false;
    if (value->kind == JINJA_MISSING && !item(run, object, name, value)) return false;
    if (value->kind == JINJA_MISSING) *value = no_attribute(run, object, name);
    return true;
}

bool jinja_method_own(JinjaRun *run, JinjaValue object, JinjaValue name, JinjaValue *value) {
    if (object.kind == JINJA_UNDEFINED) return jinja_value_fail(run, object);
    if (!attribute(run, object, name, value)) return false;
    if (value->kind == JINJA_MISSING) *value = no_attribute(run, object, name);
    return true;
}

bool jinja_method_item(JinjaRun *run, JinjaValue object, JinjaValue key, JinjaValue *value) {
    if (object.kind == JINJA_UNDEFINED) return jinja_value_fail(run, object);
    if (!item(run, object, key, value)) return false;
    if (value->kind == JINJA_MISSING && key.kind == JINJA_STRING && !attribute(run, object, key, value)) return false;
    if (value->kind == JINJA_MISSING) *value = no_attribute(run, object, key);
    return true;
}

bool jinja_method_call(JinjaRun *run, const JinjaMethod *method, const JinjaArguments *arguments, JinjaValue *value) {
    const struct Row *row = &rows[method->index];
    JinjaValue bound[JINJA_MOST_BOUND];
    if (!row->method && row->kind == JINJA_STRING && !strcmp(row->name, "format"))
        return jinja_format_braces(run, method->self, arguments, value);
    if (row->kind == JINJA_LOOP && !strcmp(row->name, "cycle"))
        return jinja_loop_cycle(run, method->self.loop, arguments, value);
    if (row->kind == JINJA_LOOP) return jinja_loop_changed(run, method->self.loop, arguments, value);
    if (!row->method) return jinja_run_fault(run, "LimitError", "the method %s() is not supported", row->name);
    return jinja_call_bind(run, row->name, row->parameters, row->required, arguments, bound) &&
           row->method(run, method->self, bound, value);
}
