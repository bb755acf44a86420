// The tokens of a vocabulary: text and bytes by id, id by text.
//
// The token texts of a byte-level vocabulary are written in GPT-2's byte characters: each byte is one printable character (printable Latin-1 stands
// for itself, the other 68 bytes for U+0100..U+0143 in order; openai/gpt-2, encoder.py, bytes_to_unicode).
#pragma once
#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

typedef enum VocabularyFlag {
    VOCABULARY_MODEL = 1,        // known to the BPE model
    VOCABULARY_ADDED = 2,        // cut out of the text before BPE
    VOCABULARY_SPECIAL = 4,      // left out by a decode that skips special tokens
    VOCABULARY_NORMALIZED = 8,   // added, and looked for in the normalized text only
    VOCABULARY_SINGLE_WORD = 16, // these three: added.h
    VOCABULARY_LSTRIP = 32,
    VOCABULARY_RSTRIP = 64,
    VOCABULARY_BYTE = 128, // <0xHH>, known to the BPE model for bytes only
} VocabularyFlag;

typedef struct VocabularyToken {
    const char *text;  // as in the file, 0-terminated; NULL: no token has this id
    const char *bytes; // what it decodes to
    uint32_t text_size, byte_size;
    uint32_t flags; // VocabularyFlag
} VocabularyToken;

typedef struct Vocabulary {
    VocabularyToken *tokens; // by id
    int32_t size;            // highest id + 1
    int32_t *slots;          // hash table of ids, -1: free
    uint32_t mask;
    bool byte_level; // texts are in byte characters
    char *pool;      // where the next text goes
    size_t pool_left;
} Vocabulary;

enum { VOCABULARY_LARGEST = 1 << 22 }; // ids must be smaller; the largest published vocabularies have 2^18 tokens

// Room for `size` ids, all without a token. Everything lives in the arena.
void vocabulary_open(Vocabulary *vocabulary, Arena *arena, int32_t size, bool byte_level);

// Gives the id its text (copied) and flags. When the id has the same text already, the flags are added. Fails, naming
// both, when the id has another text or the text another id, and when the text is empty.
bool vocabulary_add(Vocabulary *vocabulary, Arena *arena, int32_t id, const char *text, size_t size, uint32_t flags,
                    Error *error);

// Makes the id, which has a token, decode as this text would: an added token that is looked for in normalized text.
void vocabulary_set_bytes(Vocabulary *vocabulary, Arena *arena, int32_t id, const char *text, size_t size);

int32_t vocabulary_find(const Vocabulary *vocabulary, const char *text, size_t size); // -1: none

size_t vocabulary_put_byte(char out[4], uint8_t byte); // writes the byte's character, returns its length (1 or 2)
