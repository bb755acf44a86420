#include "base/jsonio.h"

#include "base/file.h"

#include <math.h>
#include <string.h>

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
    *value = json_loadb((const char *)map.data, map.size, JSON_REJECT_DUPLICATES, &where);
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
