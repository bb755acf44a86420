// Where operations run: one device, one instruction set, one team of threads. Every operation checks its shapes on every
// device; on `plan` it then returns without touching memory.
//
// The contract of all operations (docs/numbers.md): arithmetic is fp32; each reads its inputs in the dtype in which they
// are stored and rounds once when it stores; every sum has one order, which does not depend on the number of rows, on the
// number of threads or on the instruction set. "chain" below means fused multiply-adds in ascending order of the summed
// index, in one accumulator; "lanes" means 16 interleaved accumulators folded by the tree of v16_sum (simd_scalar.h).
#pragma once
#include "device/device.h"
#include "ops/team.h"

typedef struct Kernels Kernels; // ops/kernels.h

typedef struct OpsOptions {
    DeviceKind device;
    int threads;     // 0: one for each core that this process may use
    const char *isa; // NULL: the environment's WHET_ISA, else the best that this CPU has; "scalar", "avx2", "avx512"
} OpsOptions;

typedef struct Ops {
    Device device;
    const Kernels *kernels;
    const char *isa;
    Team *team;            // NULL on plan
    uint64_t flops;        // multiply-adds of GEMMs and attention count 2; also counted on plan
    Tensor packs;          // chains of GEMMs that wait, of one fixed size (gemm.h)
    int64_t cached_floats; // of what a GEMM packs, in a core's second cache; changes speed only
} Ops;

bool ops_open(Ops *ops, OpsOptions options, Error *error); // refuses an unknown isa, or one that this CPU lacks
void ops_close(Ops *ops);                                  // all tensors of its device must have been released
static inline bool ops_runs(const Ops *ops) {              // false on plan: return before memory is touched
    return ops->device.kind == DEVICE_CPU;
}
