// One piece of work of the template interpreter, parsing or rendering: its memory, its limits and the fault that
// ends it. Templates come with downloaded models and are not trusted: work, memory and nesting are all counted.
//
// Functions that can fail return false and leave the fault here; the first fault stays. Buffers and lists keep quiet
// once a fault is set (appending does nothing), so a loop over bounded input may check jinja_run_good at its end.
#pragma once
#include "base/arena.h"
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum {
    JINJA_DEPTH = 1000,        // nesting of expressions, statements and macro calls, of values, of JSON
    JINJA_STEPS = 5 * 1000000, // nodes evaluated, plus work of filters counted in the same coin
    JINJA_BYTES = 256 << 20,   // memory handed out to one rendering
};

// What went wrong. kind is Python's class name ("UndefinedError", "TypeError", "TemplateSyntaxError", …), or
// "raise_exception" when the template asked for it (message is then exactly its text, cut at the size of the field),
// or "LimitError" for the limits above, which jinja2 does not have.
typedef struct JinjaFault {
    char kind[32]; // "" as long as all is well
    int line;      // of the template, from 1
    char message[1024];
} JinjaFault;

// Zero-initialise; jinja_run_close frees all memory that came from it.
typedef struct JinjaRun {
    struct JinjaRender *render; // jinja_eval.h; NULL while parsing
    Arena arena;
    char *chunk; // rest of the block that small pieces are cut from
    size_t chunk_left, bytes;
    int64_t steps;
    int depth, line;
    JinjaFault fault;
} JinjaRun;

void jinja_run_close(JinjaRun *run);

static inline bool jinja_run_good(const JinjaRun *run) {
    return !run->fault.kind[0];
}

// Sets the fault unless one is set. Always returns false.
bool jinja_run_fault(JinjaRun *run, const char *kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Counts work. False (LimitError) when the run has used up its steps or its memory.
bool jinja_run_step(JinjaRun *run, size_t count);

// Counts nesting; each successful enter is followed by one leave.
bool jinja_run_enter(JinjaRun *run);
void jinja_run_leave(JinjaRun *run);

// Zeroed memory, aligned to 16 bytes, never NULL. Sizes that grow with the template's own numbers (repetition, ranges)
// must be asked for first: jinja_run_room is false (LimitError) when so many bytes are not left.
void *jinja_run_alloc(JinjaRun *run, size_t bytes);
bool jinja_run_room(JinjaRun *run, size_t bytes);
#define jinja_run_new(run, type) ((type *)jinja_run_alloc((run), sizeof(type)))

// A growing byte string in the run's memory. Zero-initialise.
typedef struct JinjaBuffer {
    char *text;
    size_t length, capacity;
} JinjaBuffer;

void jinja_run_put(JinjaRun *run, JinjaBuffer *buffer, const void *text, size_t size);
void jinja_run_puts(JinjaRun *run, JinjaBuffer *buffer, const char *text);
void jinja_run_putc(JinjaRun *run, JinjaBuffer *buffer, uint32_t codepoint); // in UTF-8
