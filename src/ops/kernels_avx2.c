#include "ops/kernels.h"
#include "ops/simd_avx2.h"

#include "ops/attention.inc"
#include "ops/attention_backward.inc"
#include "ops/gemm.inc"
#include "ops/rows.inc"
#include "ops/softmax.inc"

const Kernels kernels_avx2 = {.isa = "avx2", ALL_KERNELS(KERNEL_VALUE)};
