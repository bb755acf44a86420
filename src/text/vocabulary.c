#include "text/vocabulary.h"

#include "text/utf8.h"

#include <string.h>
#include <xxhash.h>

enum { FIRST_SHIFTED = 0x100, SHIFTED_COUNT = 68, POOL_BYTES = 1 << 16 };

// Bytes 00..20, 7F..A0 and AD have no printable Latin-1 character and are numbered from U+0100 on.
static uint32_t byte_character(uint8_t byte) {
    if (byte <= 0x20) return FIRST_SHIFTED + byte;
    if (byte >= 0x7F && byte <= 0xA0) return FIRST_SHIFTED + 0x21 + (byte - 0x7Fu);
    return byte == 0xAD ? FIRST_SHIFTED + SHIFTED_COUNT - 1 : byte;
}

// The byte that a character stands for, or -1.
static int character_byte(uint32_t code) {
    if (code < FIRST_SHIFTED) return byte_character((uint8_t)code) == code ? (int)code : -1;
    uint32_t index = code - FIRST_SHIFTED;
    if (index < 0x21) return (int)index;
    if (index < SHIFTED_COUNT - 1) return (int)(0x7F + (index - 0x21));
    return index == SHIFTED_COUNT - 1 ? 0xAD : -1;
}

size_t vocabulary_put_byte(char out[4], uint8_t byte) {
    return utf8_put(out, byte_character(byte));
}

void vocabulary_open(Vocabulary *vocabulary, Arena *arena, int32_t size, bool byte_level) {
    CHECK(size >= 0 && size <= VOCABULARY_LARGEST, "%d ids", size);
    uint32_t slots = 16;
    while (slots < 2 * (uint32_t)size) slots *= 2;
    *vocabulary = (Vocabulary){
        .tokens = arena_array(arena, VocabularyToken, size),
        .size = size,
        .slots = arena_array(arena, int32_t, slots),
        .mask = slots - 1,
        .byte_level = byte_level,
    };
    memset(vocabulary->slots, 0xFF, slots * sizeof *vocabulary->slots);
}

// The slot that holds the text, or the free one where it belongs.
static uint32_t find_slot(const Vocabulary *vocabulary, const char *text, size_t size) {
    uint32_t slot = (uint32_t)XXH3_64bits(text, size) & vocabulary->mask;
    for (;; slot = (slot + 1) & vocabulary->mask) {
        int32_t id = vocabulary->slots[slot];
        if (id < 0) return slot;
        const VocabularyToken *token = vocabulary->tokens + id;
        if (token->text_size == size && !memcmp(token->text, text, size)) return slot;
    }
}

int32_t vocabulary_find(const Vocabulary *vocabulary, const char *text, size_t size) {
    return vocabulary->slots[find_slot(vocabulary, text, size)];
}

// Token texts are short: taken one by one from the arena, its alignment would multiply them.
static char *take(Vocabulary *vocabulary, Arena *arena, size_t size) {
    if (size > vocabulary->pool_left) {
        vocabulary->pool_left = size > POOL_BYTES ? size : POOL_BYTES;
        vocabulary->pool = arena_alloc(arena, vocabulary->pool_left);
    }
    char *taken = vocabulary->pool;
    vocabulary->pool += size;
    vocabulary->pool_left -= size;
    return taken;
}

// A token that is not written in byte characters throughout (an added one with a blank, say) stands for its own text.
// bytes: room for text[size], which stays where it is.
static void set_bytes(const Vocabulary *vocabulary, VocabularyToken *token, char *bytes, const char *text,
                      size_t size) {
    uint32_t count = 0;
    for (size_t at = 0; at < size;) {
        Utf8Step step = utf8_step(text + at, size - at);
        int byte = vocabulary->byte_level && step.kind == UTF8_GOOD ? character_byte(step.code) : -1;
        if (byte < 0) {
            token->bytes = text;
            token->byte_size = (uint32_t)size;
            return;
        }
        bytes[count++] = (char)byte;
        at += step.size;
    }
    token->bytes = bytes;
    token->byte_size = count;
}

void vocabulary_set_bytes(Vocabulary *vocabulary, Arena *arena, int32_t id, const char *text, size_t size) {
    CHECK(id >= 0 && id < vocabulary->size && size <= UINT32_MAX / 2, "id %d, %zu bytes", id, size);
    char *copy = take(vocabulary, arena, 2 * (size + 1));
    memcpy(copy, text, size);
    set_bytes(vocabulary, vocabulary->tokens + id, copy + size + 1, copy, size);
}

bool vocabulary_add(Vocabulary *vocabulary, Arena *arena, int32_t id, const char *text, size_t size, uint32_t flags,
                    Error *error) {
    CHECK(id >= 0 && id < vocabulary->size, "id %d of %d", id, vocabulary->size);
    if (!size) return error_set(error, "token %d is empty", id);
    if (size > UINT32_MAX / 2) return error_set(error, "token %d is too long (%zu bytes)", id, size);
    VocabularyToken *token = vocabulary->tokens + id;
    uint32_t slot = find_slot(vocabulary, text, size);
    int32_t other = vocabulary->slots[slot];
    if (other >= 0 && other != id) return error_set(error, "token \"%.200s\" has the ids %d and %d", text, other, id);
    if (token->text && other != id)
        return error_set(error, "id %d has the tokens \"%.200s\" and \"%.200s\"", id, token->text, text);
    token->flags |= flags;
    if (token->text) return true;
    char *copy = take(vocabulary, arena, 2 * (size + 1)); // the text, and its bytes, which are no more
    memcpy(copy, text, size);
    token->text = copy;
    token->text_size = (uint32_t)size;
    set_bytes(vocabulary, token, copy + size + 1, copy, size);
    vocabulary->slots[slot] = id;
    return true;
}
