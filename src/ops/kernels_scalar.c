#include "ops/kernels.h"
#include "ops/simd_scalar.h"

const Kernels kernels_scalar = {.isa = "scalar", ALL_KERNELS(KERNEL_VALUE)};
