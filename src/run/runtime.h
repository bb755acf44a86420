// What the verbs that only walk a model open: model, operations, resident weights.
#pragma once
#include "base/log.h"
#include "model/resident.h"
#include "run/command.h"
#include "run/loaded_model.h"

typedef struct Runtime {
    Ops ops;
    LoadedModel model;
    Resident resident;
    PrecisionPolicy policy;
} Runtime;

// The options that these verbs share: --precision, --output-dtype, --threads, --chat-template.
#define RUNTIME_OPTIONS                                                                                                \
    {"--precision", "float32|bfloat16|float16", "compute dtype (default float32)"},                                    \
        {"--output-dtype", "float32|bfloat16|float16|param",                                                           \
         "what a block hands on (fsdp_output_dtype; default float32; param: as --precision)"},                         \
        {"--chat-template", "T", "template text or a .jinja file; default: the model's own"}, {                        \
        "--threads", "N", "threads; default: one for each core"                                                        \
    }

// How the message ends where a model's numbers are lost; %s: the compute dtype.
#define RUNTIME_NUMBERS_LOST "the weights are damaged, or --precision %s does not hold the model's numbers"

// rows: most rows walked at once; positions: longest sequence, at most what the model was made for.
bool runtime_open(Runtime *runtime, Arguments *arguments, const char *path, Error *error);
bool runtime_load(Runtime *runtime, int64_t rows, int64_t positions, Error *error);
void runtime_say_memory(
    const Runtime *runtime);          // verbose: what was alive at the peak, and what the process held at its own
void runtime_close(Runtime *runtime); // accepts a half-opened one
