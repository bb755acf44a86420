#include "text/jinja_json.h"

#include "text/jinja_number.h"
#include "text/jinja_text.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Reader {
    JinjaRun *run;
    const char *text;
    size_t size, at;
} Reader;

static bool refuse(Reader *reader, const char *what) {
    return jinja_run_fault(reader->run, "JSONDecodeError", "%s at byte %zu", what, reader->at);
}

static void skip_blanks(Reader *reader) {
    while (reader->at < reader->size && strchr(" \t\r\n", reader->text[reader->at]) && reader->text[reader->at])
        reader->at++;
}

static bool skip_byte(Reader *reader, char byte) {
    skip_blanks(reader);
    if (reader->at >= reader->size || reader->text[reader->at] != byte) return false;
    reader->at++;
    return true;
}

static bool skip_word(Reader *reader, const char *word) {
    size_t length = strlen(word);
    if (reader->size - reader->at < length || memcmp(reader->text + reader->at, word, length)) return false;
    reader->at += length;
    return true;
}

static bool read_hex(Reader *reader, uint32_t *unit) {
    *unit = 0;
    for (int i = 0; i < 4; i++, reader->at++) {
        if (reader->at >= reader->size || !isxdigit((unsigned char)reader->text[reader->at]))
            return refuse(reader, "invalid \\uXXXX escape");
        char c = reader->text[reader->at];
        *unit = *unit * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return true;
}

static bool read_escape(Reader *reader, JinjaBuffer *buffer) {
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    if (reader->at >= reader->size) return refuse(reader, "unterminated string");
    char c = reader->text[reader->at++];
    const char *known = c ? strchr(letters, c) : NULL;
    uint32_t unit, low;
    if (known) {
        jinja_run_put(reader->run, buffer, &meanings[known - letters], 1);
        return true;
    }
    if (c != 'u') return refuse(reader, "invalid \\escape");
    if (!read_hex(reader, &unit)) return false;
    if (unit >= 0xd800 && unit < 0xdc00) {
        if (!skip_word(reader, "\\u") || !read_hex(reader, &low) || low < 0xdc00 || low > 0xdfff)
            return refuse(reader, "lone surrogate");
        unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    } else if (unit >= 0xdc00 && unit < 0xe000) {
        return refuse(reader, "lone surrogate");
    }
    jinja_run_putc(reader->run, buffer, unit);
    return true;
}

static bool read_string(Reader *reader, JinjaValue *value) {
    JinjaBuffer buffer = {0};
    if (!skip_byte(reader, '"')) return refuse(reader, "expecting a string");
    for (;;) {
        size_t from = reader->at;
        while (reader->at < reader->size && (uint8_t)reader->text[reader->at] >= 0x20 &&
               reader->text[reader->at] != '"' && reader->text[reader->at] != '\\')
            reader->at++;
        jinja_run_put(reader->run, &buffer, reader->text + from, reader->at - from);
        if (reader->at >= reader->size) return refuse(reader, "unterminated string");
        char c = reader->text[reader->at++];
        if (c == '"') break;
        if (c != '\\') return refuse(reader, "invalid control character");
        if (!read_escape(reader, &buffer)) return false;
    }
    if (!jinja_text_valid(jinja_text_taken(&buffer).text, buffer.length)) return refuse(reader, "invalid UTF-8");
    *value = jinja_text_taken(&buffer);
    return jinja_run_good(reader->run);
}

static size_t count_digits(const Reader *reader, size_t at) {
    size_t from = at;
    while (at < reader->size && isdigit((unsigned char)reader->text[at])) at++;
    return at - from;
}

static bool read_number(Reader *reader, JinjaValue *value) {
    size_t from = reader->at, at = from + (reader->text[from] == '-');
    size_t whole = count_digits(reader, at), digits;
    bool real = false;
    if (!whole) return refuse(reader, "expecting a value");
    if (whole > 1 && reader->text[at] == '0') whole = 1;
    at += whole;
    if (at < reader->size && reader->text[at] == '.' && (digits = count_digits(reader, at + 1))) {
        at += 1 + digits;
        real = true;
    }
    if (at < reader->size && (reader->text[at] | 0x20) == 'e') {
        bool sign = at + 1 < reader->size && (reader->text[at + 1] == '-' || reader->text[at + 1] == '+');
        if ((digits = count_digits(reader, at + 1 + sign))) at += 1 + sign + digits, real = true;
    }
    reader->at = at;
    if (real) {
        *value = jinja_value_real(0);
        if (jinja_number_parse_real(reader->text + from, at - from, &value->real)) return true;
    } else if (jinja_number_parse_int(reader->run, reader->text + from, at - from, 10, value)) {
        return true;
    }
    return refuse(reader, "number too long");
}

static bool read_value(Reader *reader, JinjaValue *value);

static bool read_array(Reader *reader, JinjaValue *value) {
    *value = jinja_value_list(reader->run, JINJA_LIST);
    reader->at++;
    if (skip_byte(reader, ']')) return true;
    do {
        JinjaValue item;
        if (!read_value(reader, &item)) return false;
        jinja_value_push(reader->run, *value, item);
    } while (skip_byte(reader, ','));
    return skip_byte(reader, ']') || refuse(reader, "expecting ',' or ']'");
}

static bool read_object(Reader *reader, JinjaValue *value) {
    *value = jinja_value_dict(reader->run);
    reader->at++;
    if (skip_byte(reader, '}')) return true;
    do {
        JinjaValue key, item;
        if (!read_string(reader, &key)) return false;
        if (!skip_byte(reader, ':')) return refuse(reader, "expecting ':'");
        if (!read_value(reader, &item) || !jinja_value_put(reader->run, *value, key, item)) return false;
    } while (skip_byte(reader, ','));
    return skip_byte(reader, '}') || refuse(reader, "expecting ',' or '}'");
}

static bool read_plain(Reader *reader, JinjaValue *value) {
    *value = jinja_value_none();
    if (skip_word(reader, "null")) return true;
    *value = jinja_value_bool(true);
    if (skip_word(reader, "true")) return true;
    *value = jinja_value_bool(false);
    if (skip_word(reader, "false")) return true;
    *value = jinja_value_real(NAN);
    if (skip_word(reader, "NaN")) return true;
    *value = jinja_value_real(INFINITY);
    if (skip_word(reader, "Infinity")) return true;
    *value = jinja_value_real(-INFINITY);
    if (skip_word(reader, "-Infinity")) return true;
    return read_number(reader, value);
}

static bool read_value(Reader *reader, JinjaValue *value) {
    skip_blanks(reader);
    if (reader->at >= reader->size) return refuse(reader, "expecting a value");
    char c = reader->text[reader->at];
    if (c == '"') return read_string(reader, value);
    if (c != '[' && c != '{') return read_plain(reader, value);
    if (!jinja_run_enter(reader->run)) return false;
    bool good = c == '[' ? read_array(reader, value) : read_object(reader, value);
    jinja_run_leave(reader->run);
    return good && jinja_run_good(reader->run);
}

bool jinja_json_read(JinjaRun *run, JinjaValue *value, const char *text, size_t size) {
    Reader reader = {run, text, size, 0};
    if (!read_value(&reader, value)) return false;
    skip_blanks(&reader);
    return reader.at == size || refuse(&reader, "extra data");
}

bool jinja_json_from(JinjaRun *run, JinjaValue *value, const json_t *tree) {
    json_t *item;
    const char *key;
    size_t i, size;
    if (!jinja_run_enter(run)) return false;
    switch (json_typeof(tree)) {
    case JSON_NULL: *value = jinja_value_none(); break;
    case JSON_TRUE:
    case JSON_FALSE: *value = jinja_value_bool(json_is_true(tree)); break;
    case JSON_INTEGER: *value = jinja_value_int(json_integer_value(tree)); break;
    case JSON_REAL: *value = jinja_value_real(json_real_value(tree)); break;
    case JSON_STRING: *value = jinja_value_text(json_string_value(tree), json_string_length(tree)); break;
    case JSON_ARRAY:
        *value = jinja_value_list(run, JINJA_LIST);
        json_array_foreach(tree, i, item) {
            JinjaValue part;
            if (!jinja_json_from(run, &part, item)) return false;
            jinja_value_push(run, *value, part);
        }
        break;
    case JSON_OBJECT:
        *value = jinja_value_dict(run);
        json_object_keylen_foreach((json_t *)tree, key, size, item) {
            JinjaValue part;
            if (!jinja_json_from(run, &part, item)) return false;
            if (!jinja_value_put(run, *value, jinja_value_text(key, size), part)) return false;
        }
        break;
    }
    jinja_run_leave(run);
    return jinja_run_good(run);
}

static void write_string(JinjaRun *run, JinjaBuffer *buffer, JinjaValue string, bool ascii) {
    jinja_run_puts(run, buffer, "\"");
    size_t kept = 0; // everything before is written
    for (size_t at = 0, size; at < string.size; at += size) {
        static const char special[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
        uint32_t c = jinja_text_codepoint(string.text, at, &size);
        if (c >= 0x20 && c != '"' && c != '\\' && !(ascii && c > 0x7e)) continue;
        jinja_run_put(run, buffer, string.text + kept, at - kept);
        kept = at + size;
        char escape[16];
        const char *known = c && c < 0x80 ? strchr(special, (char)c) : NULL;
        if (known)
            snprintf(escape, sizeof escape, "\\%c", letters[known - special]);
        else if (c < 0x10000)
            snprintf(escape, sizeof escape, "\\u%04x", c);
        else
            snprintf(escape, sizeof escape, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                     0xdc00 + ((c - 0x10000) & 0x3ff));
        jinja_run_puts(run, buffer, escape);
    }
    jinja_run_put(run, buffer, string.text + kept, string.size - kept);
    jinja_run_puts(run, buffer, "\"");
}

static void write_real(JinjaRun *run, JinjaBuffer *buffer, double real) {
    char text[32];
    jinja_number_real(text, real);
    jinja_run_puts(run, buffer, isnan(real) ? "NaN" : isinf(real) ? (real < 0 ? "-Infinity" : "Infinity") : text);
}

// A line break and the indent, when there is one.
static void write_break(JinjaRun *run, JinjaBuffer *buffer, const JinjaJsonStyle *style, int level) {
    if (style->indent.kind == JINJA_MISSING) return;
    jinja_run_puts(run, buffer, "\n");
    for (int i = 0; i < level; i++) jinja_run_put(run, buffer, style->indent.text, style->indent.size);
}

static bool write_value(JinjaRun *run, JinjaBuffer *buffer, JinjaValue value, const JinjaJsonStyle *style, int level);

static bool write_list(JinjaRun *run, JinjaBuffer *buffer, const JinjaList *list, const JinjaJsonStyle *style,
                       int level) {
    jinja_run_puts(run, buffer, "[");
    for (size_t i = 0; i < list->count; i++) {
        if (i) jinja_run_put(run, buffer, style->item_separator.text, style->item_separator.size);
        write_break(run, buffer, style, level + 1);
        if (!write_value(run, buffer, list->items[i], style, level + 1)) return false;
    }
    if (list->count) write_break(run, buffer, style, level);
    jinja_run_puts(run, buffer, "]");
    return true;
}

static bool write_key(JinjaRun *run, JinjaBuffer *buffer, JinjaValue key, const JinjaJsonStyle *style) {
    JinjaBuffer text = {0};
    switch (key.kind) {
    case JINJA_STRING: write_string(run, buffer, key, style->ascii); return true;
    case JINJA_NONE: jinja_run_puts(run, &text, "null"); break;
    case JINJA_BOOL: jinja_run_puts(run, &text, key.truth ? "true" : "false"); break;
    case JINJA_FLOAT: write_real(run, &text, key.real); break;
    case JINJA_INT:
    case JINJA_BIG: jinja_number_put(run, &text, key); break;
    default:
        return jinja_run_fault(run, "TypeError", "keys must be str, int, float, bool or None, not %s",
                               jinja_value_type(key));
    }
    write_string(run, buffer, jinja_text_taken(&text), style->ascii);
    return true;
}

static bool write_dict(JinjaRun *run, JinjaBuffer *buffer, const JinjaDict *dict, const JinjaJsonStyle *style,
                       int level) {
    JinjaValue keys = jinja_value_list(run, JINJA_LIST), items = jinja_value_list(run, JINJA_LIST);
    for (size_t i = 0; i < dict->count; i++) {
        jinja_value_push(run, keys, dict->entries[i].key);
        jinja_value_push(run, items, jinja_value_int((JinjaInteger)i));
    }
    if (!jinja_run_good(run) || (style->sorted && !jinja_value_sort(run, items, keys, false))) return false;
    jinja_run_puts(run, buffer, "{");
    for (size_t i = 0; i < dict->count; i++) {
        const JinjaEntry *entry = &dict->entries[items.list->items[i].integer];
        if (i) jinja_run_put(run, buffer, style->item_separator.text, style->item_separator.size);
        write_break(run, buffer, style, level + 1);
        if (!write_key(run, buffer, entry->key, style)) return false;
        jinja_run_put(run, buffer, style->key_separator.text, style->key_separator.size);
        if (!write_value(run, buffer, entry->value, style, level + 1)) return false;
    }
    if (dict->count) write_break(run, buffer, style, level);
    jinja_run_puts(run, buffer, "}");
    return true;
}

static bool write_value(JinjaRun *run, JinjaBuffer *buffer, JinjaValue value, const JinjaJsonStyle *style, int level) {
    if (!jinja_run_step(run, 1) || !jinja_run_enter(run)) return false;
    bool good = true;
    switch (value.kind) {
    case JINJA_NONE: jinja_run_puts(run, buffer, "null"); break;
    case JINJA_BOOL: jinja_run_puts(run, buffer, value.truth ? "true" : "false"); break;
    case JINJA_INT:
    case JINJA_BIG: jinja_number_put(run, buffer, value); break;
    case JINJA_FLOAT: write_real(run, buffer, value.real); break;
    case JINJA_STRING: write_string(run, buffer, value, style->ascii); break;
    case JINJA_LIST:
    case JINJA_TUPLE: good = write_list(run, buffer, value.list, style, level); break;
    case JINJA_DICT: good = write_dict(run, buffer, value.dict, style, level); break;
    default:
        good = jinja_run_fault(run, "TypeError", "Object of type %s is not JSON serializable", jinja_value_type(value));
    }
    jinja_run_leave(run);
    return good && jinja_run_good(run);
}

bool jinja_json_write(JinjaRun *run, JinjaBuffer *buffer, JinjaValue value, const JinjaJsonStyle *style) {
    return write_value(run, buffer, value, style, 0);
}
