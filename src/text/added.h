// Finding added tokens in a text: leftmost first, and of those that start there the longest; then what single_word, lstrip
// and rstrip make of each (Hugging Face tokenizers 0.23, added_vocabulary.rs).
#pragma once
#include "text/charset.h"

typedef enum AddedFlag {
    ADDED_SINGLE_WORD = 1, // counts only between characters that are no parts of words
    ADDED_LSTRIP = 2,      // takes the whitespace before it along
    ADDED_RSTRIP = 4,      // and behind it
} AddedFlag;

typedef struct AddedNode {
    int32_t child, sibling; // -1: none
    int32_t id;             // of the token that ends here, -1: none
    uint8_t byte, flags;
} AddedNode;

// A tree of bytes. Lives in the arena; read-only once filled.
typedef struct Added {
    int32_t roots[256]; // by first byte, -1: none
    AddedNode *nodes;
    size_t count, capacity;
    const Charset *word; // parts of words; NULL: no token has the flag
} Added;

enum { ADDED_LONGEST = 1024 }; // bytes of a token: bounds the time that one position of a text can take

enum { ADDED_MOST = 1 << 22 }; // bytes of all tokens of one tokenizer

void added_open(Added *added, Arena *arena, size_t bytes); // bytes: sum of the lengths of all tokens to come
// size: 1 to ADDED_LONGEST. flags: AddedFlag. A text that is there already gets the new id.
void added_insert(Added *added, const char *text, size_t size, int32_t id, uint8_t flags);

// A text on its way. Set the first two fields.
typedef struct AddedCursor {
    const char *text;
    size_t size;
    size_t scanned, done; // where to look on; what has been given out
} AddedCursor;

typedef struct AddedPart {
    size_t at, size; // text before the token; may be empty
    int32_t id;      // the token, or -1: the text ends
} AddedPart;

// The text up to the next token, and the token; after the one with id -1 no more.
AddedPart added_next(const Added *added, AddedCursor *cursor);
