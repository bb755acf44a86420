// A conversation on a terminal: messages typed, answers streamed, commands that begin with a slash.
#pragma once
#include "rollout/engine.h"
#include "run/runtime.h"

typedef struct ChatOptions {
    GenerationOptions generation; // max_length and max_new_tokens hold for every turn
    int64_t seed;
    const char *system; // NULL: none
    bool plain;         // no chat template: the text typed is continued as it stands
    bool verbose;       // say how fast each answer came
} ChatOptions;

// Runs until the user ends it. The resident is loaded, with room for max_length positions. A turn's random numbers depend on
// the seed, on the turn's number and on how often its answer was asked for anew.
bool chat_session_run(Runtime *runtime, const ChatOptions *options, Error *error);
