// Every kernel of a transformer at the shapes of a model, as a share of what the machine can do.
#pragma once
#include "model/architecture.h"
#include "run/bench_machine.h"

typedef struct BenchOptions {
    double seconds;   // of each measurement
    bool json;        // one object a line instead of a table
    int64_t rows;     // of matrix products, and nothing else is measured; 0: all kernels, products at rows of their own
    const char *only; // the beginning of the names of kernels; NULL: all
} BenchOptions;

// The shapes of models by name ("smollm2-135m", "qwen2.5-1.5b"). Refuses an unknown name, listing them.
bool bench_kernels_shape(Architecture *architecture, const char *name, Error *error);

// Whether any kernel that the options ask for may be called options->only. Told without measuring anything.
bool bench_kernels_any(const BenchOptions *options);

// Prints a line a kernel, each with its weights and activations in dtype; returns how many lines.
int bench_kernels_run(BenchMachine *machine, const Architecture *architecture, DType dtype,
                      const BenchOptions *options);
