// Filters of jinja2 on single values, and the table of all filters.
#include "text/jinja_format.h"
#include "text/jinja_json.h"
#include "text/jinja_sequence.h"
#include "text/jinja_string.h"
#include "text/jinja_text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// markupsafe.soft_str: a string as it is, anything else through str().
static bool soft(JinjaRun *run, JinjaValue value, JinjaValue *text) {
    *text = value;
    return value.kind == JINJA_STRING || jinja_text_of(run, value, text);
}

static bool filter_abs(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    double real;
    if (!jinja_number_to_real(subject, &real))
        return jinja_run_fault(run, "TypeError", "bad operand type for abs(): '%s'", jinja_value_type(subject));
    *value = subject.kind == JINJA_BOOL ? jinja_value_int(subject.truth) : subject;
    return !signbit(real) || jinja_number_negate(run, subject, value);
}

static bool filter_attr(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    if (bound[0].kind != JINJA_STRING)
        return jinja_run_fault(run, "TypeError", "attribute name must be string, not '%s'", jinja_value_type(bound[0]));
    return jinja_method_own(run, subject, bound[0], value);
}

static bool filter_default(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)run;
    bool replaced = subject.kind == JINJA_UNDEFINED || (jinja_value_truth(bound[1]) && !jinja_value_truth(subject));
    *value = !replaced ? subject : bound[0].kind == JINJA_MISSING ? jinja_value_string("") : bound[0];
    return true;
}

static bool filter_escape(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    return jinja_string_escape(run, subject, value);
}

static bool filter_forceescape(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    return jinja_text_of(run, subject, &subject) && jinja_string_escape(run, subject, value);
}

static bool filter_safe(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    if (!jinja_text_of(run, subject, value)) return false;
    value->safe = true;
    return true;
}

static bool filter_string(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    return soft(run, subject, value);
}

static bool filter_upper(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    return soft(run, subject, &subject) && jinja_string_case(run, subject, JINJA_UPPER, value);
}

static bool filter_lower(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    return soft(run, subject, &subject) && jinja_string_case(run, subject, JINJA_LOWER, value);
}

static bool filter_capitalize(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    return soft(run, subject, &subject) && jinja_string_case(run, subject, JINJA_CAPITALIZE, value);
}

// Words begin behind blanks and any of - ( { [ <, unlike those of str.title.
static bool filter_title(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    JinjaBuffer buffer = {0};
    bool begins = true;
    if (!soft(run, subject, &subject)) return false;
    for (size_t at = 0, size; at < subject.size; at += size) {
        uint32_t c = jinja_text_codepoint(subject.text, at, &size);
        JinjaValue part;
        if (!jinja_run_step(run, 1) ||
            !jinja_string_case(run, jinja_text_part(subject, at, at + size), begins ? JINJA_UPPER : JINJA_LOWER, &part))
            return false;
        jinja_run_put(run, &buffer, part.text, part.size);
        begins = jinja_text_is_space(c) || (c && c < 0x80 && strchr("-({[<", (char)c));
    }
    *value = jinja_text_taken(&buffer);
    return true;
}

static bool filter_trim(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    return soft(run, subject, &subject) && jinja_string_strip(run, subject, bound[0], true, true, value);
}

static bool filter_center(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    JinjaValue fill = {.kind = JINJA_MISSING};
    int64_t width;
    return soft(run, subject, &subject) && jinja_call_integer(run, bound[0], 80, &width) &&
           jinja_string_pad(run, subject, JINJA_CENTER, width, fill, value);
}

static bool filter_replace(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    JinjaValue text, old, new;
    int64_t most;
    return jinja_text_of(run, subject, &text) && jinja_text_of(run, bound[0], &old) &&
           jinja_text_of(run, bound[1], &new) && jinja_call_integer(run, bound[2], -1, &most) &&
           jinja_string_replace(run, text, old, new, most, value);
}

static bool filter_indent(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    JinjaValue indent = bound[0], lines, line_end = jinja_value_string("\n"), text;
    bool first = jinja_value_truth(bound[1]), blank = jinja_value_truth(bound[2]);
    int64_t width;
    if (indent.kind != JINJA_STRING) {
        if (!jinja_call_integer(run, indent, 4, &width)) return false;
        if (!jinja_string_repeat(run, jinja_value_string(" "), width < 0 ? 0 : (size_t)width, &indent)) return false;
    }
    line_end.safe = subject.safe;
    // The line break behind makes splitlines keep a last empty line.
    if (!jinja_operate(run, JINJA_ADD, subject, line_end, &text) || !jinja_string_splitlines(run, text, false, &lines))
        return false;
    JinjaBuffer buffer = {0};
    for (size_t i = 0; i < lines.list->count; i++) {
        JinjaValue line = lines.list->items[i];
        if (i) jinja_run_puts(run, &buffer, "\n");
        if (i ? blank || line.size : first) jinja_run_put(run, &buffer, indent.text, indent.size);
        jinja_run_put(run, &buffer, line.text, line.size);
    }
    *value = jinja_text_taken(&buffer);
    value->safe = subject.safe;
    return jinja_run_good(run);
}

static bool filter_truncate(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    int64_t length, leeway, end_length;
    size_t size;
    JinjaValue end = bound[2].kind == JINJA_MISSING ? jinja_value_string("...") : bound[2], words;
    if (!jinja_value_length(subject, &size) || end.kind != JINJA_STRING)
        return jinja_run_fault(run, "TypeError", "object of type '%s' has no len()", jinja_value_type(subject));
    if (!jinja_call_integer(run, bound[0], 255, &length) || !jinja_call_integer(run, bound[3], 5, &leeway))
        return false;
    end_length = (int64_t)jinja_text_length(end);
    if (length < end_length || leeway < 0)
        return jinja_run_fault(run, "AssertionError", "expected length >= %lld and leeway >= 0", (long long)end_length);
    *value = subject;
    if ((int64_t)size <= length || (int64_t)size - length <= leeway) return true;
    if (subject.kind != JINJA_STRING)
        return jinja_run_fault(run, "TypeError", "truncate wants a string, not '%s'", jinja_value_type(subject));
    JinjaValue kept = jinja_text_part(subject, 0, jinja_text_offset(subject, (size_t)(length - end_length)));
    if (!jinja_value_truth(bound[1])) {
        if (!jinja_string_split(run, kept, jinja_value_string(" "), 1, true, &words)) return false;
        kept = words.list->items[0];
    }
    return jinja_operate(run, JINJA_ADD, kept, end, value);
}

static bool filter_wordcount(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    JinjaInteger count = 0;
    bool inside = false;
    if (!soft(run, subject, &subject) || !jinja_run_step(run, subject.size / 16)) return false;
    for (size_t at = 0, size; at < subject.size; at += size) {
        bool word = jinja_string_is_word(jinja_text_codepoint(subject.text, at, &size));
        count += word && !inside;
        inside = word;
    }
    *value = jinja_value_int(count);
    return true;
}

static bool filter_int(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    int64_t base;
    double real;
    JinjaValue otherwise = bound[0].kind == JINJA_MISSING ? jinja_value_int(0) : bound[0];
    if (!jinja_call_integer(run, bound[1], 10, &base)) return false;
    if (subject.kind == JINJA_UNDEFINED) return jinja_value_fail(run, subject);
    if (subject.kind == JINJA_STRING) {
        if (!jinja_run_step(run, subject.size / 16) || !jinja_string_plain(run, subject, &subject)) return false;
        bool valid = base == 0 || (base >= 2 && base <= 36);
        if (valid && jinja_number_parse_int(run, subject.text, subject.size, (int)base, value)) return true;
        if (!jinja_run_good(run)) return false;
        *value = otherwise; // "42.23" is 42
        if (!jinja_number_parse_real(subject.text, subject.size, &real) || !isfinite(real)) return true;
        return jinja_number_truncate(run, jinja_value_real(real), value);
    }
    *value = otherwise;
    if (!jinja_number_to_real(subject, &real) || isnan(real)) return true;
    return jinja_number_truncate(run, subject, value);
}

static bool filter_float(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    double real;
    if (subject.kind == JINJA_UNDEFINED) return jinja_value_fail(run, subject);
    *value = bound[0].kind == JINJA_MISSING ? jinja_value_real(0) : bound[0];
    if (subject.kind == JINJA_STRING &&
        (!jinja_run_step(run, subject.size / 16) || !jinja_string_plain(run, subject, &subject)))
        return false;
    bool good = subject.kind == JINJA_STRING ? jinja_number_parse_real(subject.text, subject.size, &real)
                                             : jinja_number_to_real(subject, &real);
    if (good) *value = jinja_value_real(real);
    return true;
}

static bool filter_round(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    int64_t digits;
    double real;
    bool ceil_up = jinja_value_is(bound[1], "ceil"), floor_down = jinja_value_is(bound[1], "floor");
    if (bound[1].kind != JINJA_MISSING && !ceil_up && !floor_down && !jinja_value_is(bound[1], "common"))
        return jinja_run_fault(run, "FilterArgumentError", "method must be common, ceil or floor");
    if (!jinja_call_integer(run, bound[0], 0, &digits)) return false;
    if (!jinja_number_to_real(subject, &real))
        return jinja_run_fault(run, "TypeError", "type %s doesn't define __round__ method", jinja_value_type(subject));
    if (!ceil_up && !floor_down) return jinja_number_round(run, subject, digits, value);
    double unit = pow(10, (double)digits), scaled = real * unit;
    if (!isfinite(scaled) || unit == 0)
        return jinja_run_fault(run, "OverflowError", "cannot convert float infinity to integer");
    *value = jinja_value_real((ceil_up ? ceil(scaled) : floor(scaled)) / unit);
    return true;
}

static bool filter_format(JinjaRun *run, JinjaValue subject, const JinjaArguments *arguments, JinjaValue *value) {
    bool keywords = arguments->keywords.dict->count, positional = arguments->positional.list->count;
    if (keywords && positional)
        return jinja_run_fault(run, "FilterArgumentError",
                               "can't handle positional and keyword arguments at the same time");
    return soft(run, subject, &subject) &&
           jinja_format_percent(run, subject, keywords ? arguments->keywords : arguments->positional, value);
}

static bool filter_filesizeformat(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    static const char *const units[] = {"kB",  "MB",  "GB",  "TB",  "PB",  "EB",  "ZB",  "YB",
                                        "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    double bytes, base = jinja_value_truth(bound[0]) ? 1024 : 1000, unit = base;
    char text[64];
    if (subject.kind == JINJA_STRING && !jinja_string_plain(run, subject, &subject)) return false;
    bool good = subject.kind == JINJA_STRING ? jinja_number_parse_real(subject.text, subject.size, &bytes)
                                             : jinja_number_to_real(subject, &bytes);
    if (!good || !isfinite(bytes)) return jinja_run_fault(run, "ValueError", "could not convert to a file size");
    int i = -1;
    if (bytes == 1)
        snprintf(text, sizeof text, "1 Byte");
    else if (bytes < base)
        snprintf(text, sizeof text, "%.0f Bytes", trunc(bytes));
    else {
        for (i = 0, unit = base * base; i < 7 && bytes >= unit; i++) unit *= base;
        snprintf(text, sizeof text, "%.1f %s", fmin(base * bytes / unit, 1e30), units[i + (base > 1000 ? 8 : 0)]);
    }
    *value = jinja_value_copy(run, text, strlen(text));
    return true;
}

static bool quote_url(JinjaRun *run, JinjaBuffer *buffer, JinjaValue value, bool query) {
    JinjaValue text;
    if (!jinja_text_of(run, value, &text) || !jinja_run_step(run, text.size / 16)) return false;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = (uint8_t)text.text[i];
        char escape[8];
        bool plain = c < 0x80 && c && (jinja_string_is_word(c) || strchr("-.~", c) || (c == '/' && !query));
        snprintf(escape, sizeof escape, plain ? "%c" : "%%%02X", c);
        jinja_run_puts(run, buffer, c == ' ' && query ? "+" : escape);
    }
    return true;
}

static bool filter_urlencode(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    JinjaBuffer buffer = {0};
    JinjaValue items = subject, pair;
    if (subject.kind == JINJA_STRING || !jinja_value_iterable(subject)) {
        if (!quote_url(run, &buffer, subject, false)) return false;
    } else {
        if (subject.kind == JINJA_DICT)
            items = (JinjaValue){.kind = JINJA_VIEW, .viewed = subject.dict, .view = JINJA_ITEMS};
        if (!jinja_value_collect(run, items, &items)) return false;
        for (size_t i = 0; i < items.list->count; i++) {
            if (!jinja_value_collect(run, items.list->items[i], &pair)) return false;
            if (pair.list->count != 2) return jinja_run_fault(run, "ValueError", "urlencode wants pairs");
            if (i) jinja_run_puts(run, &buffer, "&");
            if (!quote_url(run, &buffer, pair.list->items[0], true)) return false;
            jinja_run_puts(run, &buffer, "=");
            if (!quote_url(run, &buffer, pair.list->items[1], true)) return false;
        }
    }
    *value = jinja_text_taken(&buffer);
    return jinja_run_good(run);
}

// transformers' own: no HTML escapes, text outside ASCII as it is.
static bool filter_tojson(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    JinjaJsonStyle style = {.ascii = jinja_value_truth(bound[0]), .sorted = jinja_value_truth(bound[3])};
    JinjaBuffer buffer = {0};
    JinjaValue separators;
    int64_t width;
    if (bound[1].kind == JINJA_STRING) {
        style.indent = bound[1];
    } else if (bound[1].kind != JINJA_MISSING && bound[1].kind != JINJA_NONE) {
        if (!jinja_call_integer(run, bound[1], 0, &width)) return false;
        if (!jinja_string_repeat(run, jinja_value_string(" "), width < 0 ? 0 : (size_t)width, &style.indent))
            return false;
    }
    style.item_separator = jinja_value_string(style.indent.kind == JINJA_MISSING ? ", " : ",");
    style.key_separator = jinja_value_string(": ");
    if (bound[2].kind != JINJA_MISSING && bound[2].kind != JINJA_NONE) {
        if (!jinja_value_collect(run, bound[2], &separators)) return false;
        const JinjaList *list = separators.list;
        if (list->count != 2 || list->items[0].kind != JINJA_STRING || list->items[1].kind != JINJA_STRING)
            return jinja_run_fault(run, "ValueError", "separators must be two strings");
        style.item_separator = list->items[0];
        style.key_separator = list->items[1];
    }
    if (!jinja_json_write(run, &buffer, subject, &style)) return false;
    *value = jinja_text_taken(&buffer);
    return true;
}

// A row without a function is a filter of jinja2 that is not built: using it is refused.
static const struct Row {
    const char *name, *parameters;
    size_t required;
    JinjaFilter *filter;
    JinjaOpenFilter *open;
} rows[] = {
    {"abs", "", 0, filter_abs, NULL},
    {"attr", "name", 1, filter_attr, NULL},
    {"batch", "linecount fill_with", 1, jinja_sequence_batch, NULL},
    {"capitalize", "", 0, filter_capitalize, NULL},
    {"center", "width", 0, filter_center, NULL},
    {"count", "", 0, jinja_sequence_length, NULL},
    {"d", "default_value boolean", 0, filter_default, NULL},
    {"default", "default_value boolean", 0, filter_default, NULL},
    {"dictsort", "case_sensitive by reverse", 0, jinja_sequence_dictsort, NULL},
    {"e", "", 0, filter_escape, NULL},
    {"escape", "", 0, filter_escape, NULL},
    {"filesizeformat", "binary", 0, filter_filesizeformat, NULL},
    {"first", "", 0, jinja_sequence_first, NULL},
    {"float", "default", 0, filter_float, NULL},
    {"forceescape", "", 0, filter_forceescape, NULL},
    {"format", "", 0, NULL, filter_format},
    {"groupby", "attribute default case_sensitive", 1, jinja_sequence_groupby, NULL},
    {"indent", "width first blank", 0, filter_indent, NULL},
    {"int", "default base", 0, filter_int, NULL},
    {"items", "", 0, jinja_sequence_items, NULL},
    {"join", "d attribute", 0, jinja_sequence_join, NULL},
    {"last", "", 0, jinja_sequence_last, NULL},
    {"length", "", 0, jinja_sequence_length, NULL},
    {"list", "", 0, jinja_sequence_list, NULL},
    {"lower", "", 0, filter_lower, NULL},
    {"map", "", 0, NULL, jinja_sequence_map},
    {"max", "case_sensitive attribute", 0, jinja_sequence_max, NULL},
    {"min", "case_sensitive attribute", 0, jinja_sequence_min, NULL},
    {"pprint", "", 0, NULL, NULL},
    {"random", "", 0, NULL, NULL},
    {"reject", "", 0, NULL, jinja_sequence_reject},
    {"rejectattr", "", 0, NULL, jinja_sequence_rejectattr},
    {"replace", "old new count", 2, filter_replace, NULL},
    {"reverse", "", 0, jinja_sequence_reverse, NULL},
    {"round", "precision method", 0, filter_round, NULL},
    {"safe", "", 0, filter_safe, NULL},
    {"select", "", 0, NULL, jinja_sequence_select},
    {"selectattr", "", 0, NULL, jinja_sequence_selectattr},
    {"slice", "slices fill_with", 1, jinja_sequence_slice, NULL},
    {"sort", "reverse case_sensitive attribute", 0, jinja_sequence_sort, NULL},
    {"string", "", 0, filter_string, NULL},
    {"striptags", "", 0, NULL, NULL},
    {"sum", "attribute start", 0, jinja_sequence_sum, NULL},
    {"title", "", 0, filter_title, NULL},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, filter_tojson, NULL},
    {"trim", "chars", 0, filter_trim, NULL},
    {"truncate", "length killwords end leeway", 0, filter_truncate, NULL},
    {"unique", "case_sensitive attribute", 0, jinja_sequence_unique, NULL},
    {"upper", "", 0, filter_upper, NULL},
    {"urlencode", "", 0, filter_urlencode, NULL},
    {"urlize", "", 0, NULL, NULL},
    {"wordcount", "", 0, filter_wordcount, NULL},
    {"wordwrap", "", 0, NULL, NULL},
    {"xmlattr", "", 0, NULL, NULL},
};

int jinja_filter_find(JinjaValue name) {
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++)
        if (jinja_value_is(name, rows[i].name)) return i;
    return -1;
}

bool jinja_filter_apply(JinjaRun *run, int filter, JinjaValue subject, const JinjaArguments *arguments,
                        JinjaValue *value) {
    const struct Row *row = &rows[filter];
    JinjaValue bound[JINJA_MOST_BOUND];
    if (row->open) return row->open(run, subject, arguments, value);
    if (!row->filter) return jinja_run_fault(run, "LimitError", "the filter '%s' is not supported", row->name);
    return jinja_call_bind(run, row->name, row->parameters, row->required, arguments, bound) &&
           row->filter(run, subject, bound, value);
}
