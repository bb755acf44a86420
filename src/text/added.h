// Finding added tokens in a text: leftmost first, and of those that start there the longest.
#pragma once
#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

typedef struct AddedNode {
    int32_t child, sibling; // -1: none
    int32_t id;             // of the token that ends here, -1: none
    uint8_t byte;
} AddedNode;

// A tree of bytes. Lives in the arena; read-only once filled.
typedef struct Added {
    int32_t roots[256]; // by first byte, -1: none
    AddedNode *nodes;
    size_t count, capacity;
} Added;

enum { ADDED_LONGEST = 1024 }; // bytes of a token: bounds the time that one position of a text can take

enum { ADDED_MOST = 1 << 22 }; // bytes of all tokens of one tokenizer

void added_open(Added *added, Arena *arena, size_t bytes); // bytes: sum of the lengths of all tokens to come
void added_insert(Added *added, const char *text, size_t size, int32_t id); // size: 1 to ADDED_LONGEST

// The first token in text[size]: its id, with its place in *at and *length; -1 when there is none.
int32_t added_find(const Added *added, const char *text, size_t size, size_t *at, size_t *length);
