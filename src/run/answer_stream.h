// The text of one answer, shown on standard output while it grows.
//
// Held back is what may still change: bytes that are no whole character yet, and what may become part of a stop string. What
// was shown is in the end the text of the whole answer (stop_strings_text).
#pragma once
#include "rollout/engine.h"
#include "text/detokenize.h"

// Zero-initialise and set the first two fields.
typedef struct AnswerStream {
    const Engine *engine;
    DetokenizeState detokenizer;
    StrBuf text;   // of the tokens taken, special ones left out
    int64_t taken; // tokens
    size_t shown;  // bytes
} AnswerStream;

// Prints what can be shown since the last call, and all of it when the answer is finished or `last`.
void answer_stream_show(AnswerStream *stream, EngineAnswer answer, bool last);

// Appends the text of an answer as it is reported: without special tokens, cut before the stop string that ended it.
void answer_stream_text(const Engine *engine, StrBuf *text, EngineAnswer answer);
void answer_stream_close(AnswerStream *stream);
