// Data sets that NeMo-RL's recipes name: the keys of their rows, which lie in the cache as their publishers have them, in JSON lines
// (data/NAME/SPLIT.jsonl). A row is one question or conversation but for
//   NuminaMath-1.5    rows without an answer to compare with ("proof", "notfound", a proof) may be left out, and those that are not
//                     marked as valid
//   open_assistant    a tree of messages, {prompt: {role, text, replies: [{role, text, replies}, …]}}: every way from the root to a
//                     leaf is a conversation, but for those of one message
#pragma once
#include "base/arena.h"
#include "base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum PublishedShape {
    PUBLISHED_QUESTIONS, // question and answer under these keys
    PUBLISHED_CONVERSATIONS,
    PUBLISHED_TREES
} PublishedShape;

typedef struct PublishedRows {
    const char *name, *hub_name; // of recipes; ORG/NAME
    PublishedShape shape;
    const char *question, *answer; // NULL but for PUBLISHED_QUESTIONS
    const char *system;            // key of the system message, or NULL
    bool marked;                   // rows tell whether they can be compared with, and are valid
    const char *file;              // that its publisher has, in words
} PublishedRows;

const PublishedRows *published_rows_find(const char *name); // by the name of recipes; NULL: none
const PublishedRows *published_rows_of(const char *name);   // by either name

// The names of recipes, for a guess at a misspelt one.
size_t published_rows_names(const char *const **names, Arena *arena);

// What must be done by hand: "its rows are those of ORG/NAME, as JSON lines with …; …".
const char *published_rows_remedy(const PublishedRows *rows, Arena *arena);

typedef struct PublishedChoice {
    bool verifiable_only, require_valid; // of rows->marked
} PublishedChoice;

// Of how many questions a row is: 1 of most, 0 when it is left out, as many as there are conversations of a tree. Refuses what is
// no tree.
bool published_rows_count(int64_t *count, const PublishedRows *rows, PublishedChoice choice, const json_t *row,
                          Error *error);

// The messages of a tree's conversation `index`, {role, content} each. New reference.
json_t *published_rows_thread(const json_t *row, int64_t index);
