// Texts, chats and ids as token ids, from the lines of a file: what `whet generate --prompts` and `whet score` read.
#pragma once
#include "run/command.h"
#include "run/loaded_model.h"

typedef struct InputOptions {
    const char *text_key; // "prompt" or "text"
    bool plain;           // every line is a text; else JSONL
    bool as_chat;  // a text becomes a user message; else it is encoded as it stands, with a BOS where the tokenizer
                   // wants one
    bool raw;      // no chat template is wanted: lines of messages are refused
    bool answered; // chats end with the beginning of an answer, also where a line has no add_generation_prompt
    const char
        *system; // NULL, or the system message of chats that bring none; ids and texts that are no chats refuse it
    int64_t least, most, context; // tokens of one input; context: of an input and what follows it, for the message
} InputOptions;

// The options of the verbs that read such files.
#define INPUT_OPTIONS(key)                                                                                             \
    {"--format", "jsonl|text", "how FILE is written; text: a line a text (default: text for a name in .txt)"}, {       \
        "--key", "NAME", "key of the text in a line of JSONL (default " key ")"                                        \
    }

// Zero-initialise but for the first two.
typedef struct Inputs {
    const LoadedModel *model;
    InputOptions options;
    int64_t count, longest; // tokens of the longest input
    int64_t *offset;        // [count + 1] of ids, in the arena given
    TokenList ids;
} Inputs;

// Reads --format and --key into text_key and plain; path NULL: no file is read.
bool inputs_options(InputOptions *options, Arguments *arguments, const char *path, Error *error);

// path "-": standard input. A line of JSONL is an object with exactly one of text_key, "messages" (a chat) and "ids"; its other
// keys are the user's own. Empty lines are passed over. The error names file, line, key, and where a text has too few or too
// many tokens how many.
bool inputs_read(Inputs *inputs, const char *path, Arena *arena, Error *error);

// One text that came from elsewhere, as the only input.
bool inputs_take(Inputs *inputs, const char *text, size_t size, Arena *arena, Error *error);

void inputs_close(Inputs *inputs); // accepts a half-read one
