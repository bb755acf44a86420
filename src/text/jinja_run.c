#include "text/jinja_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK = 1 << 14, LARGE = 1 << 10 };

void jinja_run_close(JinjaRun *run) {
    arena_close(&run->arena);
    run->chunk = NULL;
    run->chunk_left = 0;
}

bool jinja_run_fault(JinjaRun *run, const char *kind, const char *format, ...) {
    if (!jinja_run_good(run)) return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->fault.message, sizeof run->fault.message, format, arguments);
    va_end(arguments);
    snprintf(run->fault.kind, sizeof run->fault.kind, "%s", kind);
    run->fault.line = run->line;
    return false;
}

bool jinja_run_step(JinjaRun *run, size_t count) {
    if (!jinja_run_good(run)) return false;
    if (count > JINJA_STEPS || (run->steps += (int64_t)count) > JINJA_STEPS)
        return jinja_run_fault(run, "LimitError", "the template does too much work (over %d steps)", JINJA_STEPS);
    return jinja_run_room(run, 0);
}

bool jinja_run_enter(JinjaRun *run) {
    if (run->depth >= JINJA_DEPTH)
        return jinja_run_fault(run, "LimitError", "nested more than %d levels deep", JINJA_DEPTH);
    run->depth++;
    return true;
}

void jinja_run_leave(JinjaRun *run) {
    run->depth--;
}

bool jinja_run_room(JinjaRun *run, size_t bytes) {
    if (!jinja_run_good(run)) return false;
    if (run->bytes > JINJA_BYTES || bytes > JINJA_BYTES - run->bytes)
        return jinja_run_fault(run, "LimitError", "the template needs more than %d MiB of memory", JINJA_BYTES >> 20);
    return true;
}

void *jinja_run_alloc(JinjaRun *run, size_t bytes) {
    CHECK(bytes <= SIZE_MAX / 4, "%zu bytes", bytes);
    bytes = (bytes + 15) / 16 * 16;
    run->bytes += bytes;
    if (bytes > LARGE) return arena_alloc(&run->arena, bytes);
    if (bytes > run->chunk_left) {
        run->chunk = arena_alloc(&run->arena, CHUNK);
        run->chunk_left = CHUNK;
    }
    void *memory = run->chunk;
    run->chunk += bytes;
    run->chunk_left -= bytes;
    return memory;
}

void jinja_run_put(JinjaRun *run, JinjaBuffer *buffer, const void *text, size_t size) {
    if (!size || !jinja_run_good(run)) return;
    if (size > buffer->capacity - buffer->length) {
        size_t capacity = buffer->capacity ? buffer->capacity * 2 : 64;
        if (!jinja_run_room(run, size)) return; // size is at most the limit from here on: no overflow below
        while (capacity - buffer->length < size) capacity *= 2;
        if (!jinja_run_room(run, capacity)) return;
        char *grown = jinja_run_alloc(run, capacity);
        if (buffer->length) memcpy(grown, buffer->text, buffer->length);
        buffer->text = grown;
        buffer->capacity = capacity;
    }
    memcpy(buffer->text + buffer->length, text, size);
    buffer->length += size;
}

void jinja_run_puts(JinjaRun *run, JinjaBuffer *buffer, const char *text) {
    jinja_run_put(run, buffer, text, strlen(text));
}

void jinja_run_putc(JinjaRun *run, JinjaBuffer *buffer, uint32_t codepoint) {
    char bytes[4];
    size_t size = 1;
    if (codepoint < 0x80) {
        bytes[0] = (char)codepoint;
    } else if (codepoint < 0x800) {
        bytes[0] = (char)(0xc0 | codepoint >> 6);
        size = 2;
    } else if (codepoint < 0x10000) {
        bytes[0] = (char)(0xe0 | codepoint >> 12);
        size = 3;
    } else {
        bytes[0] = (char)(0xf0 | codepoint >> 18);
        size = 4;
    }
    for (size_t i = 1; i < size; i++) bytes[i] = (char)(0x80 | (codepoint >> 6 * (size - 1 - i) & 0x3f));
    jinja_run_put(run, buffer, bytes, size);
}
