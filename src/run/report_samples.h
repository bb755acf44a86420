// The samples of a run for its report: rollouts (train_data_step<N>.jsonl) and answers of validations (val_data_step<N>.jsonl).
// Columns of numbers go into the run's object; texts go into script elements of their own, one a file, which the page reads when it
// shows them.
#pragma once
#include "run/report_json.h"

typedef struct ReportSamples {
    const char *folder; // of the run
    bool goes_on;       // the run does: what is cut at its end is being written
    StrBuf *chunks;     // script elements, id "chunk<N>"
    int64_t *chunk;     // N of the next
    json_t *notes;
    json_t *known;  // what files were read already, as ReportOptions.known
    int64_t budget; // bytes of the page for rollouts, about
} ReportSamples;

// The steps of which folder holds PREFIX<step>.jsonl, ascending, in the arena. NULL and *count 0 where there is none.
int64_t *report_samples_steps(int64_t *count, const char *folder, const char *prefix, Arena *arena);

// {"steps", "chunks": a number a step, "first": where a step's samples begin, and columns with an entry a sample: "prompt" (number in
// the chunk), "reward", "advantage" (mean over the answer's tokens), "length" (tokens of the answer), "logprob" (mean), "finish", "kept"
// (0: left out of the loss)}.
// A chunk is {"prompts": [[[role, text], …], …], "texts", "marks", "logprobs"}. marks and logprobs tell an answer's tokens apart in
// digits of base 64 (A–Z a–z 0–9 - _): UTF-16 units of each token, 63 going on in the next digit; two digits a token, with log-probability
// −40·(n/4000)², 4094 for −inf and 4095 for NaN. They are "" where the file does not tell.
json_t *report_samples_rollouts(const ReportSamples *samples, const int64_t *steps, int64_t count);

// Bytes that a step's rollouts take in the page.
int64_t report_samples_size(const ReportSamples *samples, int64_t step);

// {"questions": chunk of [[[role, text], …], …], "list": [{"step", "chunk": of ["answer", …], "question": numbers, "sample", "reward",
// "length", "finish"}]}
json_t *report_samples_validations(const ReportSamples *samples, const int64_t *steps, int64_t count);
