// The inner loops, one table an instruction set. Each body (*.inc) is written once and built by kernels_scalar.c,
// kernels_avx2.c and kernels_avx512.c on sixteen logical lanes (simd_*.h), so all tables give the same bits.
// A body defines one static function for each of its entries, named as the entry.
#pragma once
#include "device/device.h"

#include <stdint.h>

// ENTRY(result, name, (arguments)): one line a kernel.
#define GEMM_KERNELS(ENTRY)
#define ROWS_KERNELS(ENTRY)
#define ATTENTION_KERNELS(ENTRY)
#define SOFTMAX_KERNELS(ENTRY)
#define ALL_KERNELS(ENTRY) GEMM_KERNELS(ENTRY) ROWS_KERNELS(ENTRY) ATTENTION_KERNELS(ENTRY) SOFTMAX_KERNELS(ENTRY)

#define KERNEL_MEMBER(result, name, arguments) result(*name) arguments;
#define KERNEL_VALUE(result, name, arguments) .name = name,

typedef struct Kernels {
    const char *isa; // "scalar", "avx2", "avx512"
    ALL_KERNELS(KERNEL_MEMBER)
} Kernels;

extern const Kernels kernels_scalar, kernels_avx2, kernels_avx512;
