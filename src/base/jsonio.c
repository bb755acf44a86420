#include "base/jsonio.h"

#include "base/file.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static bool fits_integer(const char *digits, size_t count, bool negative) {
    const char *most = negative ? "9223372036854775808" : "9223372036854775807";
    return count < strlen(most) || (count == strlen(most) && memcmp(digits, most, count) <= 0);
}

// The text with a point behind integers of more than 64 bits, which jansson refuses. The caller frees what it is in.
static void widen_integers(StrBuf *wide, const char *text, size_t size) {
    bool quoted = false;
    size_t copied = 0;
    strbuf_clear(wide);
    for (size_t at = 0, next; at < size; at = next) {
        next = at + 1;
        if (text[at] == '"') quoted = !quoted;
        if (quoted && text[at] == '\\') next++;
        if (quoted || !isdigit((unsigned char)text[at])) continue;
        while (next < size && isdigit((unsigned char)text[next])) next++;
        size_t count = next - at;
        while (next < size &&
               (isalnum((unsigned char)text[next]) || text[next] == '.' || text[next] == '+' || text[next] == '-'))
            next++;
        if (count < next - at || fits_integer(text + at, count, at && text[at - 1] == '-')) continue;
        strbuf_append(wide, text + copied, next - copied);
        strbuf_puts(wide, ".0");
        copied = next;
    }
    strbuf_append(wide, text + copied, size - copied);
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
