// Requests to a tiny model, and what must be equal of their answers, for the tests of the rollout engine.
#pragma once
#include "rollout/engine.h"
#include "support/tiny_model.h"

#include <string.h>

enum { ROWS = 256, PROMPTS = 8 };

static const PrecisionPolicy fp32 = {DTYPE_F32, DTYPE_F32}, bf16 = {DTYPE_BF16, DTYPE_F32};
static const PrecisionPolicy precisions[] = {{DTYPE_F32, DTYPE_F32}, {DTYPE_BF16, DTYPE_F32}, {DTYPE_F16, DTYPE_F16}};
enum { PRECISIONS = sizeof precisions / sizeof *precisions };
static const OpsOptions one_thread = {.threads = 1};
extern const EngineStops engine_setup_stops; // the ids 3 and 77
extern const EngineRun engine_setup_run;     // coordinates of the draws

GenerationOptions engine_setup_options(void); // at most 20 new tokens and 60 in all, 64 seats, chunks of 64

// Prompts of lengths around the size of a page, with 1 to 4 samples. Numbers are not the order of the requests.
void engine_setup_requests(EngineRequest requests[PROMPTS], Arena *arena);

// Run to the end. The program ends when that is refused or a page is left behind.
Engine *engine_setup_open(TinyModel *model, const GenerationOptions *options);
Samples engine_setup_run_on(Engine *engine, const EngineRequest *requests, int64_t count, Arena *arena);
// The same on an engine of its own; counts may be NULL.
Samples engine_setup_generate(TinyModel *model, const GenerationOptions *options, const EngineRequest *requests,
                              int64_t count, EngineCounts *counts, Arena *arena);
Samples engine_setup_usual(TinyModel *model, const GenerationOptions *options, Arena *arena); // the requests above

void engine_setup_same_floats(const float *a, const float *b, int64_t count); // by bits, or the program ends
void engine_setup_same(const Samples *a, const Samples *b);                   // all that the engine fills, likewise
