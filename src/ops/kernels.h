// The inner loops, one table an instruction set. Each body (*.inc) is written once and built by kernels_scalar.c,
// kernels_avx2.c and kernels_avx512.c on sixteen logical lanes (simd_*.h), so all tables give the same bits.
#pragma once
#include "device/device.h"

#include <stdint.h>

typedef struct Kernels {
    const char *isa; // "scalar", "avx2", "avx512"
    // gemm (gemm.inc) and row kernels (rows.inc, attention.inc, softmax.inc) add their entries here.
} Kernels;

extern const Kernels kernels_scalar, kernels_avx2, kernels_avx512;
