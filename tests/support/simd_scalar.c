#include "ops/simd_scalar.h"
#include "support/simd_probe.h"

#include "support/simd_probe.inc"

const SimdProbe simd_probe_scalar = {"scalar", run, copy, transpose};
