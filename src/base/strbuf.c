#include "base/strbuf.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void strbuf_reserve(StrBuf *buffer, size_t more) {
    CHECK(more < SIZE_MAX / 4 - buffer->length, "%zu bytes more", more);
    size_t need = buffer->length + more + 1;
    if (need <= buffer->capacity) return;
    size_t capacity = buffer->capacity ? buffer->capacity : 64;
    while (capacity < need) capacity *= 2;
    buffer->text = realloc(buffer->text, capacity);
    OBTAINED(buffer->text, "%zu bytes of host memory", capacity);
    buffer->capacity = capacity;
}

void strbuf_append(StrBuf *buffer, const void *data, size_t size) {
    strbuf_reserve(buffer, size);
    if (size) memcpy(buffer->text + buffer->length, data, size);
    buffer->length += size;
    buffer->text[buffer->length] = 0;
}

void strbuf_puts(StrBuf *buffer, const char *text) {
    strbuf_append(buffer, text, strlen(text));
}

void strbuf_putc(StrBuf *buffer, char byte) {
    strbuf_append(buffer, &byte, 1);
}

void strbuf_format(StrBuf *buffer, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    CHECK(length >= 0, "format %s", format);
    strbuf_reserve(buffer, (size_t)length);
    vsnprintf(buffer->text + buffer->length, (size_t)length + 1, format, again);
    va_end(again);
    buffer->length += (size_t)length;
}

void strbuf_clear(StrBuf *buffer) {
    strbuf_reserve(buffer, 0);
    buffer->length = 0;
    buffer->text[0] = 0;
}

void strbuf_close(StrBuf *buffer) {
    free(buffer->text);
    *buffer = (StrBuf){0};
}

enum { LONGEST_WORD = 128 };

// Levenshtein distance; words longer than LONGEST_WORD are as far as can be.
static size_t distance(const char *a, const char *b) {
    size_t m = strlen(a), n = strlen(b), row[LONGEST_WORD + 1];
    if (m > LONGEST_WORD || n > LONGEST_WORD) return SIZE_MAX;
    for (size_t j = 0; j <= n; j++) row[j] = j;
    for (size_t i = 1; i <= m; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            size_t best = row[j - 1] < row[j] ? row[j - 1] + 1 : row[j] + 1;
            row[j] = change < best ? change : best;
        }
    }
    return row[n];
}

enum { LEAST_BEGINNING = 4 }; // bytes: "--te", "temp"

const char *strbuf_nearest(const char *word, const char *const *names, size_t count) {
    const char *nearest = NULL, *longer = NULL;
    size_t length = strlen(word), best = length / 3 + 2;
    bool several = false;
    for (size_t i = 0; i < count; i++) {
        size_t d = distance(word, names[i]);
        if (d < best) {
            best = d;
            nearest = names[i];
        }
        if (length < LEAST_BEGINNING || strncmp(word, names[i], length)) continue;
        several |= longer && strcmp(longer, names[i]);
        longer = names[i];
    }
    return longer && !several && best > 1 ? longer : nearest; // a slip of one letter is likelier
}
