#include "run/bench_machine.h"

#include "base/log.h"
#include "ops/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PEAK_REPEATS = 100000, LEAST_ROUNDS = 3 };
#define WORDS_BYTES ((int64_t)1 << 30)
#define PART_BYTES ((int64_t)64 << 20)
#define TASK_BYTES ((int64_t)1 << 18)
#define AHEAD_BYTES 4096 // asked for before they are read: a tenth more than by loads alone
#define LEAST_ROUND 2e-3 // seconds: shorter calls are repeated until a round is so long

void bench_machine_open(BenchMachine *machine, Ops *ops) {
    *machine = (BenchMachine){.ops = ops};
}

void bench_machine_close(BenchMachine *machine) {
    if (machine->ops) device_release(&machine->ops->device, &machine->words);
    *machine = (BenchMachine){0};
}

typedef struct Multiply {
    const Ops *ops;
    double seconds;
    double *rates; // by task: per second of the thread that did it
} Multiply;

static void multiply_task(void *context, int64_t index, int worker) {
    (void)worker;
    float out[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const Multiply *multiply = context;
    double begun = log_seconds(), operations = 0, spent;
    do {
        operations += multiply->ops->kernels->gemm_peak(out, PEAK_REPEATS);
        spent = log_seconds() - begun;
    } while (spent < multiply->seconds);
    multiply->rates[index] = operations / spent;
}

// By each thread's own clock: waking a thread takes as long as a good part of its measurement, and would pass for a slow
// machine.
double bench_machine_flops(BenchMachine *machine, double seconds) {
    enum { MAX_THREADS = 1024 };
    double rates[MAX_THREADS], sum = 0;
    int threads = team_size(machine->ops->team);
    CHECK(threads <= MAX_THREADS, "%d threads", threads);
    Multiply multiply = {machine->ops, seconds, rates};
    team_run(machine->ops->team, threads, multiply_task, &multiply);
    for (int i = 0; i < threads; i++) sum += rates[i];
    return sum;
}

static void read_task(void *context, int64_t index, int worker) {
    (void)worker;
    typedef uint64_t Line __attribute__((vector_size(64)));
    const BenchMachine *machine = context;
    const Line *lines = (const Line *)((const char *)machine->words.data + machine->at + index * TASK_BYTES);
    Line sum[4] = {{0}};
    for (int64_t i = 0; i < TASK_BYTES / 64; i += 4)
        for (int j = 0; j < 4; j++) {
            __builtin_prefetch((const char *)(lines + i + j) + AHEAD_BYTES, 0, 0);
            sum[j] ^= lines[i + j];
        }
    sum[0] ^= sum[1] ^ sum[2] ^ sum[3];
    volatile uint64_t kept = 0; // so that the reads are not left out
    for (int j = 0; j < 8; j++) kept ^= sum[0][j];
    (void)kept;
}

double bench_machine_bytes(BenchMachine *machine, double seconds) {
    Ops *ops = machine->ops;
    if (!machine->words.data) {
        machine->words = DEVICE_TENSOR_RAW(&ops->device, MEMORY_SCRATCH, DTYPE_F32, (WORDS_BYTES + AHEAD_BYTES) / 4);
        memset(machine->words.data, 1, (size_t)(WORDS_BYTES + AHEAD_BYTES));
    }
    double begun = log_seconds(), bytes = 0, spent;
    do {
        machine->at = (machine->at + PART_BYTES) % WORDS_BYTES;
        team_run(ops->team, PART_BYTES / TASK_BYTES, read_task, machine);
        bytes += (double)PART_BYTES;
        spent = log_seconds() - begun;
    } while (spent < seconds);
    return bytes / spent;
}

double bench_machine_best(BenchMachine *machine, double (*measure)(BenchMachine *machine, double seconds), int count,
                          double seconds) {
    double best = 0;
    for (int i = 0; i < count; i++) best = fmax(best, measure(machine, seconds));
    return best;
}

// ---- the timer

// Each for as long as what is compared with it: a host that takes a thread away now and then takes it from both.
static void measure_peaks(BenchTimer *timer, double seconds) {
    timer->peak_flops = timer->flops > 0 ? bench_machine_flops(timer->machine, seconds) : 0;
    timer->peak_bytes = timer->bytes > 0 ? bench_machine_bytes(timer->machine, seconds) : 0;
    timer->best_flops = fmax(timer->best_flops, timer->peak_flops);
    timer->best_bytes = fmax(timer->best_bytes, timer->peak_bytes);
}

void bench_timer_begin(BenchTimer *timer, BenchMachine *machine, double flops, double bytes, double budget) {
    *timer = (BenchTimer){.machine = machine, .flops = flops, .bytes = bytes, .budget = budget, .calls = 1};
    timer->begun = log_seconds();
}

// The first round only warms the caches and tells how many calls a round wants.
bool bench_timer_again(BenchTimer *timer) {
    double now = log_seconds();
    bool first = timer->round_begun == 0;
    if (!first && ++timer->call < timer->calls) return true;
    if (!first && timer->rounds == 0 && timer->calls == 1 && timer->call == 1) {
        double once = now - timer->round_begun;
        timer->calls = once < LEAST_ROUND ? 2 + (int64_t)(LEAST_ROUND / (once + 1e-7)) : 1;
        timer->rounds = 1;
        measure_peaks(timer, once * (double)timer->calls);
    } else if (!first) {
        double before_flops = timer->peak_flops, before_bytes = timer->peak_bytes;
        double seconds = (now - timer->round_begun) / (double)timer->calls;
        measure_peaks(timer, now - timer->round_begun);
        int round = timer->rounds - 1;
        timer->seconds[round] = seconds;
        timer->flops_share[round] = timer->flops / seconds / ((before_flops + timer->peak_flops) / 2);
        timer->bytes_share[round] = timer->bytes / seconds / ((before_bytes + timer->peak_bytes) / 2);
        timer->rounds++;
        bool enough = timer->rounds > LEAST_ROUNDS && log_seconds() - timer->begun >= timer->budget;
        if (enough || timer->rounds > BENCH_MAX_ROUNDS) return false;
    }
    timer->call = 0;
    timer->round_begun = log_seconds();
    return true;
}

static int by_size(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_size);
    return values[count / 2];
}

BenchResult bench_timer_result(BenchTimer *timer) {
    int rounds = timer->rounds - 1;
    BenchResult result = {.seconds = median(timer->seconds, rounds)};
    double quickest = timer->seconds[0]; // sorted by the median
    if (timer->flops > 0) {
        result.flops_share = median(timer->flops_share, rounds);
        result.best_flops_share = timer->flops / quickest / timer->best_flops;
    }
    if (timer->bytes > 0) {
        result.bytes_share = median(timer->bytes_share, rounds);
        result.best_bytes_share = timer->bytes / quickest / timer->best_bytes;
    }
    result.flops_rate = timer->flops / result.seconds;
    result.bytes_rate = timer->bytes / result.seconds;
    return result;
}
