#include "run/report_json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LOADING = JSON_ALLOW_NUL, DUMPING = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(7) };

// "<" stands in strings only.
static int put(const char *text, size_t size, void *out) {
    for (const char *end = text + size, *bracket; text < end; text = bracket + 1) {
        bracket = memchr(text, '<', (size_t)(end - text));
        strbuf_append(out, text, (size_t)((bracket ? bracket : end) - text));
        if (!bracket) break;
        strbuf_puts(out, "\\u003c");
    }
    return 0;
}

void report_json_put(StrBuf *out, const json_t *value) {
    CHECK(json_dump_callback(value, put, out, DUMPING) == 0, "a value cannot be printed");
}

void report_json_note(json_t *notes, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    json_t *note = json_string(text); // NULL: cut within a character, or a name that is no UTF-8
    json_array_append_new(notes, note ? note : json_string("a name that is not UTF-8: see the warnings"));
}

int64_t report_json_intern(json_t *list, json_t *seen, json_t *value) {
    StrBuf key = {0};
    report_json_put(&key, value);
    json_t *number = json_object_get(seen, key.text);
    if (!number) {
        number = json_integer((json_int_t)json_array_size(list));
        json_object_set_new(seen, key.text, number);
        json_array_append(list, value);
    }
    strbuf_close(&key);
    return json_integer_value(number);
}

bool report_json_lines_open(ReportJsonLines *lines, const char *path, Error *error) {
    *lines = (ReportJsonLines){0};
    return file_map(&lines->map, path, error);
}

json_t *report_json_lines_next(ReportJsonLines *lines) {
    while (lines->at < lines->map.size) {
        const char *line = (const char *)lines->map.data + lines->at;
        size_t left = lines->map.size - lines->at;
        const char *end = memchr(line, '\n', left);
        size_t length = end ? (size_t)(end - line) : left;
        lines->at += length + 1;
        lines->number++;
        json_t *value = json_loadb(line, length, LOADING, NULL);
        if (json_is_object(value)) return value;
        json_decref(value);
        if (!lines->damaged++) lines->first_damaged = lines->number;
    }
    return NULL;
}

void report_json_lines_close(ReportJsonLines *lines, const char *name, json_t *notes) {
    if (lines->damaged == 1)
        report_json_note(notes, "%s: line %lld is damaged or cut short, and left out", name,
                         (long long)lines->first_damaged);
    else if (lines->damaged)
        report_json_note(notes, "%s: %lld damaged lines are left out, the first is line %lld", name,
                         (long long)lines->damaged, (long long)lines->first_damaged);
    file_unmap(&lines->map);
}
