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
#include "ops/trace.h"

typedef struct Kernels Kernels; // ops/kernels.h

typedef struct OpsOptions {
    DeviceKind device;
    int threads;     // 0: one for each core that this process may use
    const char *isa; // NULL: the environment's WHET_ISA, else the best that this CPU has; "scalar", "avx2", "avx512"
} OpsOptions;

// What a machine does in a second at best; 0: not known.
typedef struct OpsMachine {
    double flops, bytes; // multiply-adds count 2; read from and written to memory
} OpsMachine;

// What operations come to, also on plan, if each reads every operand once and writes every result once.
typedef struct OpsWork {
    uint64_t flops; // of matrix products and attention
    uint64_t bytes;
    double seconds; // at best: of each operation the longer of computing and moving; 0 without a machine
} OpsWork;

typedef struct Ops {
    Device device;
    const Kernels *kernels;
    const char *isa;
    Team *team;                          // NULL on plan
    Tensor packs;                        // chains of GEMMs that wait, of one fixed size (gemm.h)
    int64_t first_floats, second_floats; // in a core's first and second cache; change speed only
    bool rereads;       // GEMM tiles of fp32 panels read numbers of A twice, as suits this CPU; changes speed only
    OpsMachine machine; // for estimates
    OpsWork work[PHASE_COUNT]; // by the ledger's phase
    Trace *trace;              // NULL: none
    int unit;                  // of the model that is being worked on, for the trace
} Ops;

bool ops_open(Ops *ops, OpsOptions options, Error *error); // refuses an unknown isa, or one that this CPU lacks
void ops_close(Ops *ops);                                  // all tensors of its device must have been released
static inline bool ops_runs(const Ops *ops) {              // false on plan: return before memory is touched
    return ops->device.kind == DEVICE_CPU;
}
OpsWork ops_worked(const Ops *ops); // in all phases

// For operations: counts one and says whether it runs.
bool ops_starts(Ops *ops, uint64_t flops, uint64_t bytes);
uint64_t ops_bytes(int count, const Tensor *const *tensors); // of all that are not NULL
#define OPS_BYTES(...)                                                                                                 \
    ops_bytes((int)(sizeof((const Tensor *const[]){__VA_ARGS__}) / sizeof(const Tensor *)),                            \
              (const Tensor *const[]){__VA_ARGS__})

// For operations: what one has written, when that is traced.
static inline void ops_wrote(Ops *ops, const char *operation, const Tensor *out) {
    if (ops->trace && ops_runs(ops)) trace_note(ops->trace, operation, ops->device.ledger.phase, ops->unit, out);
}
