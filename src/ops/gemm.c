#include "ops/gemm.h"

enum { SCRATCH_FLOATS = 3 << 20 };

Tensor gemm_scratch(Device *device) {
    return DEVICE_TENSOR_RAW(device, MEMORY_SCRATCH, DTYPE_F32, SCRATCH_FLOATS);
}
