#include "ops/kernels.h"
#include "ops/simd_scalar.h"

#include "ops/attention.inc"
#include "ops/attention_backward.inc"
#include "ops/gemm.inc"
#include "ops/rows.inc"
#include "ops/softmax.inc"

const Kernels kernels_scalar = {.isa = "scalar", ALL_KERNELS(KERNEL_VALUE)};
