#include "base/arena.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

// The address sanitizer sees what was not asked for: what is left of a block, and GUARD bytes behind every piece.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WHET_CLANG_ASAN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(WHET_CLANG_ASAN)
#include <sanitizer/asan_interface.h>
enum { GUARD = 64 };
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) ((void)0)
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)0)
enum { GUARD = 0 };
#endif

// Blocks double up to LARGEST_BLOCK, and what is large has its own: an arena never holds much more than it was asked for.
enum { ALIGNMENT = 64, FIRST_BLOCK = 1 << 16, LARGEST_BLOCK = 1 << 24 };

struct ArenaBlock {
    ArenaBlock *older;
    size_t capacity, used; // bytes of the payload, which starts ALIGNMENT bytes behind the header
};

static char *payload(ArenaBlock *block) {
    return (char *)block + ALIGNMENT;
}

static ArenaBlock *block_open(size_t capacity, ArenaBlock *older) {
    CHECK(capacity <= SIZE_MAX - 2 * ALIGNMENT, "%zu bytes", capacity);
    capacity = (capacity + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    ArenaBlock *block = aligned_alloc(ALIGNMENT, ALIGNMENT + capacity);
    OBTAINED(block, "%zu bytes of host memory", capacity);
    *block = (ArenaBlock){.older = older, .capacity = capacity};
    ASAN_POISON_MEMORY_REGION(payload(block), capacity);
    return block;
}

void *arena_alloc(Arena *arena, size_t bytes) {
    _Static_assert(sizeof(ArenaBlock) <= ALIGNMENT, "the header fits before the payload");
    CHECK(bytes <= SIZE_MAX / 2, "%zu bytes", bytes);
    size_t taken = (bytes + GUARD + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    ArenaBlock *block = arena->newest;
    bool full = !block || block->capacity - block->used < taken;
    if (full && block && taken > LARGEST_BLOCK / 4) { // alone: others go on in the newest
        block = block->older = block_open(taken, block->older);
    } else if (full) {
        size_t grown = !block ? FIRST_BLOCK : block->capacity < LARGEST_BLOCK / 2 ? block->capacity * 2 : LARGEST_BLOCK;
        arena->newest = block = block_open(taken > grown ? taken : grown, block);
    }
    void *memory = payload(block) + block->used;
    block->used += taken;
    ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
    return memset(memory, 0, bytes);
}

void *arena_alloc_array(Arena *arena, size_t count, size_t element) {
    size_t bytes;
    CHECK(!__builtin_mul_overflow(count, element, &bytes), "%zu elements of %zu bytes", count, element);
    return arena_alloc(arena, bytes);
}

char *arena_bytes(Arena *arena, const void *data, size_t size) {
    CHECK(size < SIZE_MAX, "%zu bytes", size);
    char *copy = arena_alloc(arena, size + 1);
    if (size) memcpy(copy, data, size);
    return copy;
}

char *arena_string(Arena *arena, const char *text) {
    return arena_bytes(arena, text, strlen(text));
}

char *arena_format(Arena *arena, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    CHECK(length >= 0, "format %s", format);
    char *text = arena_alloc(arena, (size_t)length + 1);
    vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void arena_reset(Arena *arena) {
    if (!arena->newest) return;
    Arena rest = {.newest = arena->newest->older};
    arena_close(&rest);
    arena->newest->older = NULL;
    arena->newest->used = 0;
    ASAN_POISON_MEMORY_REGION(payload(arena->newest), arena->newest->capacity);
}

void arena_close(Arena *arena) {
    while (arena->newest) {
        ArenaBlock *older = arena->newest->older;
        free(arena->newest);
        arena->newest = older;
    }
}
