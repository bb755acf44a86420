#include "text/jinja_text.h"

#include "text/jinja_eval.h"
#include "text/jinja_number.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

bool jinja_text_valid(const char *text, size_t size) {
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text;
    for (size_t at = 0; at < size;) {
        if (bytes[at] < 0x80) {
            at++;
            continue;
        }
        size_t left = size - at < 4 ? size - at : 4;
        utf8proc_int32_t codepoint;
        utf8proc_ssize_t length = utf8proc_iterate(bytes + at, (utf8proc_ssize_t)left, &codepoint);
        if (length <= 0) return false;
        at += (size_t)length;
    }
    return true;
}

uint32_t jinja_text_codepoint(const char *text, size_t at, size_t *size) {
    const uint8_t *bytes = (const uint8_t *)text + at;
    size_t length = bytes[0] < 0x80 ? 1 : bytes[0] < 0xe0 ? 2 : bytes[0] < 0xf0 ? 3 : 4;
    uint32_t codepoint = length == 1 ? bytes[0] : bytes[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++) codepoint = codepoint << 6 | (bytes[i] & 0x3fu);
    if (size) *size = length;
    return codepoint;
}

size_t jinja_text_size_at(JinjaValue string, size_t at) {
    size_t size;
    jinja_text_codepoint(string.text, at, &size);
    return size;
}

size_t jinja_text_length(JinjaValue string) {
    size_t length = 0;
    for (size_t i = 0; i < string.size; i++) length += ((uint8_t)string.text[i] & 0xc0) != 0x80;
    return length;
}

size_t jinja_text_offset(JinjaValue string, size_t index) {
    size_t at = 0;
    while (index && at < string.size) {
        at++;
        while (at < string.size && ((uint8_t)string.text[at] & 0xc0) == 0x80) at++;
        index--;
    }
    return at;
}

JinjaValue jinja_text_part(JinjaValue string, size_t from, size_t to) {
    JinjaValue part = jinja_value_text(string.text + from, to - from);
    part.safe = string.safe;
    return part;
}

bool jinja_text_is_space(uint32_t c) {
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
           c == 0x202f || c == 0x205f || c == 0x3000;
}

bool jinja_text_is_name(uint32_t c, bool first) {
    utf8proc_category_t category = utf8proc_category((utf8proc_int32_t)c);
    bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
    if (c == '_' || letter || category == UTF8PROC_CATEGORY_NL) return true;
    return !first && (category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
                      category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_PC);
}

bool jinja_text_is_printable(uint32_t c) {
    if (c < 0x7f) return c >= ' ';
    switch (utf8proc_category((utf8proc_int32_t)c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

static void repr_string(JinjaRun *run, JinjaBuffer *buffer, JinjaValue string) {
    char quote = memchr(string.text, '\'', string.size) && !memchr(string.text, '"', string.size) ? '"' : '\'';
    jinja_run_put(run, buffer, &quote, 1);
    for (size_t at = 0, size; at < string.size; at += size) {
        uint32_t c = jinja_text_codepoint(string.text, at, &size);
        char escape[16] = "";
        if (c == (uint32_t)quote || c == '\\')
            snprintf(escape, sizeof escape, "\\%c", (char)c);
        else if (c == '\n')
            snprintf(escape, sizeof escape, "%s", "\\n");
        else if (c == '\r')
            snprintf(escape, sizeof escape, "%s", "\\r");
        else if (c == '\t')
            snprintf(escape, sizeof escape, "%s", "\\t");
        else if (!jinja_text_is_printable(c))
            snprintf(escape, sizeof escape, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
        if (escape[0])
            jinja_run_puts(run, buffer, escape);
        else
            jinja_run_put(run, buffer, string.text + at, size);
    }
    jinja_run_put(run, buffer, &quote, 1);
}

static void repr_items(JinjaRun *run, JinjaBuffer *buffer, JinjaValue list) {
    for (size_t i = 0; i < list.list->count && jinja_run_good(run); i++) {
        if (i) jinja_run_puts(run, buffer, ", ");
        jinja_text_repr(run, buffer, list.list->items[i]);
    }
}

static void repr_dict(JinjaRun *run, JinjaBuffer *buffer, const JinjaDict *dict) {
    jinja_run_puts(run, buffer, "{");
    for (size_t i = 0; i < dict->count && jinja_run_good(run); i++) {
        if (i) jinja_run_puts(run, buffer, ", ");
        jinja_text_repr(run, buffer, dict->entries[i].key);
        jinja_run_puts(run, buffer, ": ");
        jinja_text_repr(run, buffer, dict->entries[i].value);
    }
    jinja_run_puts(run, buffer, "}");
}

static void repr_view(JinjaRun *run, JinjaBuffer *buffer, JinjaValue view) {
    JinjaValue items;
    if (!jinja_value_collect(run, view, &items)) return;
    jinja_run_puts(run, buffer, jinja_value_type(view));
    jinja_run_puts(run, buffer, "([");
    repr_items(run, buffer, items);
    jinja_run_puts(run, buffer, "])");
}

static void repr_range(JinjaRun *run, JinjaBuffer *buffer, const JinjaRange *range) {
    jinja_run_puts(run, buffer, "range(");
    jinja_number_put(run, buffer, jinja_value_int(range->start));
    jinja_run_puts(run, buffer, ", ");
    jinja_number_put(run, buffer, jinja_value_int(range->stop));
    if (range->step != 1) {
        jinja_run_puts(run, buffer, ", ");
        jinja_number_put(run, buffer, jinja_value_int(range->step));
    }
    jinja_run_puts(run, buffer, ")");
}

static void repr_object(JinjaRun *run, JinjaBuffer *buffer, JinjaValue value) {
    jinja_run_puts(run, buffer, "<");
    jinja_run_puts(run, buffer, jinja_value_type(value));
    if (value.kind == JINJA_NAMESPACE) {
        jinja_run_puts(run, buffer, " ");
        repr_dict(run, buffer, value.dict);
    } else {
        jinja_call_describe(run, buffer, value);
    }
    jinja_run_puts(run, buffer, ">");
}

static void repr_value(JinjaRun *run, JinjaBuffer *buffer, JinjaValue value) {
    switch (value.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED: jinja_run_puts(run, buffer, "Undefined"); break;
    case JINJA_NONE: jinja_run_puts(run, buffer, "None"); break;
    case JINJA_BOOL: jinja_run_puts(run, buffer, value.truth ? "True" : "False"); break;
    case JINJA_INT:
    case JINJA_BIG:
    case JINJA_FLOAT: jinja_number_put(run, buffer, value); break;
    case JINJA_STRING:
        if (value.safe) jinja_run_puts(run, buffer, "Markup(");
        repr_string(run, buffer, value);
        if (value.safe) jinja_run_puts(run, buffer, ")");
        break;
    case JINJA_LIST:
        jinja_run_puts(run, buffer, "[");
        repr_items(run, buffer, value);
        jinja_run_puts(run, buffer, "]");
        break;
    case JINJA_TUPLE:
        jinja_run_puts(run, buffer, "(");
        repr_items(run, buffer, value);
        jinja_run_puts(run, buffer, value.list->count == 1 ? ",)" : ")");
        break;
    case JINJA_DICT: repr_dict(run, buffer, value.dict); break;
    case JINJA_VIEW: repr_view(run, buffer, value); break;
    case JINJA_RANGE: repr_range(run, buffer, value.range); break;
    default: repr_object(run, buffer, value);
    }
}

void jinja_text_repr(JinjaRun *run, JinjaBuffer *buffer, JinjaValue value) {
    if (!jinja_run_step(run, 1) || !jinja_run_enter(run)) return;
    repr_value(run, buffer, value);
    jinja_run_leave(run);
}

void jinja_text_str(JinjaRun *run, JinjaBuffer *buffer, JinjaValue value) {
    if (value.kind == JINJA_STRING)
        jinja_run_put(run, buffer, value.text, value.size);
    else if (value.kind != JINJA_UNDEFINED)
        jinja_text_repr(run, buffer, value);
}

JinjaValue jinja_text_taken(const JinjaBuffer *buffer) {
    return jinja_value_text(buffer->text ? buffer->text : "", buffer->length);
}

bool jinja_text_of(JinjaRun *run, JinjaValue value, JinjaValue *string) {
    if (value.kind == JINJA_STRING) {
        *string = value;
        string->safe = false;
        return true;
    }
    JinjaBuffer buffer = {0};
    jinja_text_str(run, &buffer, value);
    *string = jinja_text_taken(&buffer);
    return jinja_run_good(run);
}
