#include "ops/simd_avx512.h"
#include "support/simd_probe.h"

#include "support/simd_probe.inc"

const SimdProbe simd_probe_avx512 = {"avx512", run, copy, transpose};
