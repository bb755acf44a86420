// Host memory that is freed all at once: one arena a lifetime (run, step, scratch). Device memory goes through the
// ledger (device/device.h) instead.
#pragma once
#include <stdarg.h>
#include <stddef.h>

typedef struct ArenaBlock ArenaBlock;

// Zero-initialise (`Arena arena = {0};`), then alloc. Not thread-safe: one owner.
typedef struct Arena {
    ArenaBlock *newest; // list of blocks, newest first
} Arena;

// Zeroed memory, aligned to 64 bytes, valid until reset or close. Never NULL: a machine out of memory ends the program (OBTAINED).
void *arena_alloc(Arena *arena, size_t bytes);
// As much for count elements; a product that overflows (so also a negative count) ends the program.
void *arena_alloc_array(Arena *arena, size_t count, size_t element);
#define arena_array(arena, type, count) ((type *)arena_alloc_array((arena), (size_t)(count), sizeof(type)))

char *arena_string(Arena *arena, const char *text);             // a copy
char *arena_bytes(Arena *arena, const void *data, size_t size); // a copy with a 0 byte behind it
char *arena_format(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

void arena_reset(Arena *arena); // forgets everything, keeps the newest block for reuse
void arena_close(Arena *arena); // frees everything; accepts a zero-initialised or closed arena
