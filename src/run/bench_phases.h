// The phases of a GRPO step on a model: loading, walking a prompt, decoding one answer and many, an optimizer step.
#pragma once
#include "model/precision.h"
#include "run/bench_kernels.h"
#include "run/loaded_model.h"

typedef struct BenchPhases {
    BenchOptions options;
    PrecisionPolicy policy;
    int64_t sequences, prompt, answer, micro_batch; // of decoding together and of the optimizer step
    bool memory;                                    // list what was alive at each peak
} BenchPhases;

// Prints a line a phase. The model's weights are loaded for rollout, and again as masters for the optimizer step.
bool bench_phases_run(BenchMachine *machine, const LoadedModel *model, const BenchPhases *phases, Error *error);
