#include "ops/ops.h"

#include "ops/gemm.h"
#include "ops/kernels.h"

#include <cpuid.h>
#include <stdio.h>
#include <unistd.h>

enum { MAX_THREADS = 4096 };

static bool has_scalar(void) {
    return true;
}

static bool has_avx2(void) {
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_F16C)) return false;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); // these ask the system too
}

static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

// Slowest first.
static const struct {
    const Kernels *kernels;
    bool (*present)(void);
} sets[] = {{&kernels_scalar, has_scalar}, {&kernels_avx2, has_avx2}, {&kernels_avx512, has_avx512}};
enum { SETS = sizeof sets / sizeof *sets };

static void list_sets(char *text, size_t size, bool present_only) {
    size_t used = 0;
    for (int i = 0; i < SETS; i++) {
        if (present_only && !sets[i].present()) continue;
        int written = snprintf(text + used, size - used, "%s%s", used ? ", " : "", sets[i].kernels->isa);
        if (written < 0 || (size_t)written >= size - used) return;
        used += (size_t)written;
    }
}

static bool choose_kernels(const Kernels **kernels, const char *wanted, Error *error) {
    const char *asked_by = wanted ? "instruction set" : "WHET_ISA";
    if (!wanted) wanted = getenv("WHET_ISA");
    bool any = !wanted || !*wanted;
    char names[64];
    for (int i = SETS - 1; i >= 0; i--) {
        if (!any && strcmp(wanted, sets[i].kernels->isa)) continue;
        if (sets[i].present()) {
            *kernels = sets[i].kernels;
            return true;
        }
        if (any) continue;
        list_sets(names, sizeof names, true);
        return error_set(error, "%s: this CPU lacks \"%s\"; it has %s", asked_by, wanted, names);
    }
    list_sets(names, sizeof names, false);
    return error_set(error, "%s: \"%s\" is not known; choose one of %s", asked_by, wanted, names);
}

// Measured over whole products of fp32: an Intel core (Sapphire Rapids) is 1-4 % faster if most numbers of A are operands in
// memory, a Zen 5 core, which then needs both its load ports in every cycle, 3 % slower.
static bool rereads(void) {
    return __builtin_cpu_is("intel");
}

// The system may not tell.
static int64_t cached_floats(int level, int64_t least_bytes) {
    int64_t bytes = sysconf(level);
    return (bytes > least_bytes ? bytes : least_bytes) / (int64_t)sizeof(float);
}

bool ops_open(Ops *ops, OpsOptions options, Error *error) {
    *ops = (Ops){.device.kind = options.device};
    if (options.threads < 0 || options.threads > MAX_THREADS)
        return error_set(error, "threads: %d is not in 0..%d (0: one for each core)", options.threads, MAX_THREADS);
    if (!choose_kernels(&ops->kernels, options.isa, error)) return false;
    ops->isa = ops->kernels->isa;
    ops->packs = gemm_scratch(&ops->device);
    ops->first_floats = cached_floats(_SC_LEVEL1_DCACHE_SIZE, 1 << 15);
    ops->second_floats = cached_floats(_SC_LEVEL2_CACHE_SIZE, 1 << 19);
    ops->rereads = rereads();
    if (ops_runs(ops)) ops->team = team_open(options.threads ? options.threads : team_usable_cores());
    return true;
}

void ops_close(Ops *ops) {
    team_close(ops->team);
    device_release(&ops->device, &ops->packs);
    device_close(&ops->device);
    *ops = (Ops){0};
}

bool ops_starts(Ops *ops, uint64_t flops, uint64_t bytes) {
    OpsWork *work = &ops->work[ops->device.ledger.phase];
    double computing = ops->machine.flops > 0 ? (double)flops / ops->machine.flops : 0;
    double moving = ops->machine.bytes > 0 ? (double)bytes / ops->machine.bytes : 0;
    work->flops += flops;
    work->bytes += bytes;
    work->seconds += computing > moving ? computing : moving;
    return ops_runs(ops);
}

uint64_t ops_bytes(int count, const Tensor *const *tensors) {
    uint64_t bytes = 0;
    for (int i = 0; i < count; i++)
        if (tensors[i]) bytes += tensor_bytes(tensors[i]);
    return bytes;
}

OpsWork ops_worked(const Ops *ops) {
    OpsWork sum = {0};
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        sum.flops += ops->work[phase].flops;
        sum.bytes += ops->work[phase].bytes;
        sum.seconds += ops->work[phase].seconds;
    }
    return sum;
}
