// A growing byte string on the heap, always followed by a 0 byte.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Zero-initialise. text is NULL until the first append.
typedef struct StrBuf {
    char *text;
    size_t length, capacity;
} StrBuf;

void strbuf_reserve(StrBuf *buffer, size_t more); // room for so many bytes more and the 0 byte, length stays
void strbuf_append(StrBuf *buffer, const void *data, size_t size);
void strbuf_puts(StrBuf *buffer, const char *text);
void strbuf_putc(StrBuf *buffer, char byte);
void strbuf_format(StrBuf *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void strbuf_clear(StrBuf *buffer); // length 0, capacity stays, text readable as ""
void strbuf_close(StrBuf *buffer);

// The entry of names[count] that is one letter away from the word, or the only one that begins with it (four bytes or more), or
// the nearest by edit distance; NULL when none is near enough to be a typing error (distance over a third of the word's length
// plus one). For "unknown key X, did you mean Y".
const char *strbuf_nearest(const char *word, const char *const *names, size_t count);
