// The mixed-precision policy of FSDP units, obeyed alike by the training walk, its recomputation and the resident walk.
// reference/nemo_rl.md section 0 and 9: param_dtype = policy.precision, output_dtype = fsdp_output_dtype, reduce fp32.
#pragma once
#include "base/error.h"
#include "device/dtype.h"

typedef struct PrecisionPolicy {
    DType compute; // policy.precision: weights, activations, keys and values
    DType output;  // what a decoder block hands on; the next unit casts it back to compute on entry
} PrecisionPolicy;

// Parses fsdp_output_dtype: float32/fp32, bfloat16/bf16, float16/fp16, or param (= compute, no cast); upper or lower case,
// surrounding blanks allowed; NULL = float32. Refuses anything else, naming key (as the user wrote it), value and choices.
bool precision_parse_output(DType *output, const char *key, const char *text, DType compute, Error *error);

// Parses policy.precision: float32, bfloat16, float16; nothing else, NULL neither.
bool precision_parse_compute(DType *compute, const char *key, const char *text, Error *error);
