#include "base/jsonio.h"

#include "base/file.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

// The text with a point behind integers of more than 64 bits, which jansson refuses. The caller frees what it is in.
static void widen_integers(StrBuf *wide, const char *text, size_t size) {
    static const char most[] = "9223372036854775807";
    enum { MOST_DIGITS = sizeof most - 1 };
    bool quoted = false;
    strbuf_clear(wide);
    for (size_t at = 0, next; at < size; at = next) {
        next = at + 1;
        if (text[at] == '"') {
            quoted = !quoted;
        } else if (quoted && text[at] == '\\' && next < size) {
            next++;
        } else if (!quoted && isdigit((unsigned char)text[at])) {
            while (next < size && isdigit((unsigned char)text[next])) next++;
            size_t digits = next - at;
            bool real = false;
            while (next < size && (isalnum((unsigned char)text[next]) || strchr(".+-", text[next])))
                next++, real = true;
            strbuf_append(wide, text + at, next - at);
            bool fits = digits < MOST_DIGITS || (digits == MOST_DIGITS && memcmp(text + at, most, digits) <= 0);
            if (!real && !fits) strbuf_puts(wide, ".0");
            continue;
        }
        strbuf_append(wide, text + at, next - at);
    }
}

static json_t *load(const char *text, size_t size, json_error_t *where) {
    json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES, where);
    if (value || json_error_code(where) != json_error_numeric_overflow) return value;
    StrBuf wide = {0};
    widen_integers(&wide, text, size);
    value = json_loadb(wide.text, wide.length, JSON_REJECT_DUPLICATES, where);
    strbuf_close(&wide);
    return value;
}

bool jsonio_read(json_t **value, const char *path, Error *error) {
    FileMap map;
    *value = NULL;
    if (!file_map(&map, path, error)) return false;
    if (!map.size) return error_set(error, "%s: empty, expected JSON", path);
    if (map.size > JSONIO_MAX_BYTES) {
        error_set(error, "%s: %zu bytes; a JSON file has at most %d", path, map.size, JSONIO_MAX_BYTES);
        file_unmap(&map);
        return false;
    }
    json_error_t where;
    *value = load((const char *)map.data, map.size, &where);
    file_unmap(&map);
    return *value || error_set(error, "%s:%d: not valid JSON: %s", path, where.line, where.text);
}

bool jsonio_read_object(json_t **object, const char *path, Error *error) {
    if (!jsonio_read(object, path, error)) return false;
    if (json_is_object(*object)) return true;
    json_decref(*object);
    *object = NULL;
    return error_set(error, "%s: a list, expected a JSON object", path);
}

bool jsonio_write(const json_t *value, const char *path, Error *error) {
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    CHECK(text, "%s: value cannot be printed", path);
    bool good = file_write(path, text, strlen(text), error);
    free(text);
    return good;
}

bool jsonio_append(const json_t *value, const char *path, Error *error) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17));
    CHECK(text, "%s: value cannot be printed", path);
    bool good = file_append_line(path, text, error);
    free(text);
    return good;
}

void jsonio_line(StrBuf *lines, const json_t *value) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(9));
    CHECK(text, "value cannot be printed");
    strbuf_puts(lines, text);
    strbuf_putc(lines, '\n');
    free(text);
}

json_t *jsonio_real(double value) {
    if (isnan(value)) return json_string("nan");
    if (isinf(value)) return json_string(value > 0 ? "inf" : "-inf");
    return json_real(value);
}
