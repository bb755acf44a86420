// What this machine can do, measured at the moment of use: fused multiply-adds in registers and reading from memory, by all
// threads. A clock and a memory shared with others change from one moment to the next; so both are measured again between the
// calls of what is compared with them, and a share is the median of many. Beside it stands the share of the quickest round
// by the highest of these measurements: what remains when nothing disturbs either.
#pragma once
#include "ops/ops.h"

typedef struct BenchMachine {
    Ops *ops;
    Tensor words; // more than a cache holds
    int64_t at;   // where reading goes on
} BenchMachine;

void bench_machine_open(BenchMachine *machine, Ops *ops);
void bench_machine_close(BenchMachine *machine);

// Per second, now, over at least so many seconds.
double bench_machine_flops(BenchMachine *machine, double seconds);
double bench_machine_bytes(BenchMachine *machine, double seconds);

// The best of so many measurements by one of these two.
double bench_machine_best(BenchMachine *machine, double (*measure)(BenchMachine *machine, double seconds), int count,
                          double seconds);

// How a repeated call fared. Zero flops or bytes: not asked.
typedef struct BenchResult {
    double seconds;                            // of one call, the median
    double flops_share, bytes_share;           // medians
    double best_flops_share, best_bytes_share; // of the quickest round, by the machine's best
    double flops_rate, bytes_rate;             // per second
} BenchResult;

enum { BENCH_MAX_ROUNDS = 1024 };

//   bench_timer_begin(&timer, …); while (bench_timer_again(&timer)) call; result = bench_timer_result(&timer);
typedef struct BenchTimer {
    BenchMachine *machine;
    double flops, bytes, budget; // of one call; seconds in all
    double begun, round_begun, peak_flops, peak_bytes;
    double best_flops, best_bytes; // of all rounds
    int64_t calls, call;           // of a round
    int rounds;
    double seconds[BENCH_MAX_ROUNDS], flops_share[BENCH_MAX_ROUNDS], bytes_share[BENCH_MAX_ROUNDS];
} BenchTimer;

// At least three rounds, as many as fit into `budget` seconds.
void bench_timer_begin(BenchTimer *timer, BenchMachine *machine, double flops, double bytes, double budget);
bool bench_timer_again(BenchTimer *timer);
BenchResult bench_timer_result(BenchTimer *timer);
