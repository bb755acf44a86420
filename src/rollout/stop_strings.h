// Texts that end an answer. Each sample's answer is followed token by token as bytes, special tokens' text among them, by one
// small automaton (Knuth, Morris, Pratt) a string: a match may begin and end in the middle of a token, and a byte is looked at
// once, however long the answer. The strings are whole UTF-8 characters, and UTF-8 has no character inside another, so a match of bytes is a match
// of the decoded text.
#pragma once
#include "rollout/generation_options.h"
#include "text/tokenizer.h"

// Immutable after open.
typedef struct StopStrings {
    const Tokenizer *tokenizer; // not owned
    int count;
    const char *text[GENERATION_MAX_STOP_STRINGS]; // in the arena
    int32_t length[GENERATION_MAX_STOP_STRINGS];   // bytes
    int32_t *borders[GENERATION_MAX_STOP_STRINGS]; // [length] of the longest border of the first i + 1 bytes
} StopStrings;

// Of one answer: how many bytes of each string the text so far ends with. Zero-initialise.
typedef struct StopState {
    int32_t matched[GENERATION_MAX_STOP_STRINGS];
} StopState;

// Copies the strings of the options into the arena. Refuses one that is empty or not UTF-8, and strings without a tokenizer.
bool stop_strings_open(StopStrings *stops, const GenerationOptions *options, const Tokenizer *tokenizer, Arena *arena,
                       Error *error);

// Takes the answer's next token. Returns the number of the string that it completes (the one that ends first, of several that
// end at the same byte the longest), or -1.
int stop_strings_push(const StopStrings *stops, StopState *state, int32_t id);

// Bytes at the end of the answer so far that may still become part of a stop string: to be held back by whoever shows the
// text while it grows.
int32_t stop_strings_held(const StopStrings *stops, const StopState *state);

// Appends the text of an answer as it is reported: without special tokens, and when the string `stopped_by` (-1: none) ended it,
// cut before that string.
void stop_strings_text(const StopStrings *stops, StrBuf *text, const int32_t *ids, int64_t count, int stopped_by);
