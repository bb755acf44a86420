// The answers of a run of the engine on standard output: each as soon as it is finished and all before it are printed, by
// prompt, then sample.
#pragma once
#include "run/answer_stream.h"
#include "run/inputs.h"

typedef struct Answers {
    const Engine *engine;
    const Inputs *prompts;
    int32_t samples;     // of each prompt
    bool json;           // one object a line; else text
    int64_t next;        // prompt · samples + sample: the first that is not printed
    int64_t lost;        // the first, counted alike, whose numbers were lost; -1: none
    AnswerStream stream; // of a lone answer in text
} Answers;

void answers_open(Answers *answers, const Engine *engine, const Inputs *prompts, int32_t samples, bool json);

// Prints what can be printed. The error is that of standard output.
bool answers_print(Answers *answers, Error *error);
// Behind all of them: an error when an answer ended because its numbers were lost.
bool answers_check(const Answers *answers, DType compute, Error *error);
void answers_close(Answers *answers);
