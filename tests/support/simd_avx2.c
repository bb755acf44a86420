#include "ops/simd_avx2.h"
#include "support/simd_probe.h"

#include "support/simd_probe.inc"

const SimdProbe simd_probe_avx2 = {"avx2", run, copy, transpose};
