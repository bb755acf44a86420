#include "ops/kernels.h"
#include "ops/simd_avx512.h"

const Kernels kernels_avx512 = {.isa = "avx512", ALL_KERNELS(KERNEL_VALUE)};
