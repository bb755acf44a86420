// Speed of linear layers at the shapes of SmolLM2-135M and Qwen2.5-1.5B, as a share of what this machine can do: fused
// multiply-adds in registers, and, for few rows, reading the packed weights from memory.
// usage: bench_gemm [isa=avx2] [threads=N] [dtype=bfloat16] [only=TEXT] [seconds=0.3] [clock=cpu]
// clock=cpu counts the threads' own time instead of the wall's: on a machine that is busy with other work.
#include "base/log.h"
#include "ops/kernels.h"
#include "ops/linear.h"

#include <stdio.h>
#include <time.h>

typedef struct Options {
    const char *isa, *dtype, *only;
    int threads;
    double seconds; // of each measurement
    bool cpu_clock;
} Options;

typedef struct Machine {
    Ops ops;
    Options options;
    double gflops, gigabytes; // peak of all threads
} Machine;

static double now(const Machine *machine) {
    if (!machine->options.cpu_clock) return log_seconds();
    struct timespec spent;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return ((double)spent.tv_sec + 1e-9 * (double)spent.tv_nsec) / team_size(machine->ops.team);
}

static void peak_task(void *context, int64_t index, int worker) {
    (void)index, (void)worker;
    float out[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const Machine *machine = context;
    machine->ops.kernels->gemm_peak(out, 100000);
}

static double peak_flops(Machine *machine) {
    float out[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    int threads = team_size(machine->ops.team);
    double operations = machine->ops.kernels->gemm_peak(out, 100000) * threads, best = 0;
    for (double start = log_seconds(); log_seconds() - start < machine->options.seconds;) {
        double begin = now(machine);
        team_run(machine->ops.team, threads, peak_task, machine);
        double rate = operations / (now(machine) - begin) * 1e-9;
        if (rate > best) best = rate;
    }
    return best;
}

enum { READ_BYTES = 256 << 20, READ_TASK = 1 << 20 };

static void read_task(void *context, int64_t index, int worker) {
    (void)worker;
    typedef uint64_t Line __attribute__((vector_size(64)));
    const Line *lines = (const Line *)context + index * (READ_TASK / 64);
    Line sum[4] = {{0}};
    for (int64_t i = 0; i < READ_TASK / 64; i += 4)
        for (int j = 0; j < 4; j++) sum[j] ^= lines[i + j];
    sum[0] ^= sum[1] ^ sum[2] ^ sum[3];
    volatile uint64_t kept =
        sum[0][0] ^ sum[0][1] ^ sum[0][2] ^ sum[0][3] ^ sum[0][4] ^ sum[0][5] ^ sum[0][6] ^ sum[0][7];
    (void)kept;
}

static double peak_bytes(Machine *machine) {
    Tensor words = DEVICE_TENSOR(&machine->ops.device, MEMORY_SCRATCH, DTYPE_I32, READ_BYTES / 4);
    double best = 0;
    for (double start = log_seconds(); log_seconds() - start < machine->options.seconds;) {
        double begin = now(machine);
        team_run(machine->ops.team, READ_BYTES / READ_TASK, read_task, words.data);
        double rate = READ_BYTES / (now(machine) - begin) * 1e-9;
        if (rate > best) best = rate;
    }
    device_release(&machine->ops.device, &words);
    return best;
}

static Tensor matrix(Machine *machine, DType dtype, int64_t rows, int64_t columns) {
    Tensor tensor = DEVICE_TENSOR_RAW(&machine->ops.device, MEMORY_SCRATCH, dtype, rows, columns);
    for (int64_t i = 0; i < rows * columns; i++)
        dtype_store(tensor.data, dtype, i, (float)(i * 37 % 255 - 127) / 128.0f);
    return tensor;
}

typedef enum Direction { FORWARD, PACKED, TO_INPUT, TO_WEIGHT } Direction;
static const char *const direction_names[] = {"forward", "forward-packed", "backward-input", "backward-weight"};

enum { MOST_COPIES = 64, COPY_BYTES = 192 << 20 };

// Best of many: the other programs on a machine only ever slow one down.
static void measure(Machine *machine, const char *name, Direction direction, DType dtype, int64_t m, int64_t n,
                    int64_t k) {
    char label[96];
    snprintf(label, sizeof label, "%s %s m=%lld", name, direction_names[direction], (long long)m);
    const Options *options = &machine->options;
    if (options->only && !strstr(label, options->only)) return;
    if (options->dtype && strcmp(options->dtype, dtype_name(dtype))) return;
    Ops *ops = &machine->ops;
    LinearWeight weight[MOST_COPIES] = {{0}}; // few rows: enough copies that none stays in a cache
    int copies = 1;
    if (direction == PACKED && m <= 8) {
        copies = (int)(COPY_BYTES / (n * k * (int64_t)dtype_size(dtype))) + 1;
        if (copies > MOST_COPIES) copies = MOST_COPIES;
    }
    for (int i = 0; i < copies; i++) {
        weight[i] = (LinearWeight){.n = n, .k = k, .rows = matrix(machine, dtype, n, k)};
        if (direction != PACKED) continue;
        linear_pack(ops, &weight[i], MEMORY_ROLLOUT_WEIGHTS);
        device_release(&ops->device, &weight[i].rows);
    }
    Tensor x = matrix(machine, dtype, m, k), y = matrix(machine, dtype, m, n);
    Tensor dw = direction == TO_WEIGHT ? matrix(machine, DTYPE_F32, n, k) : (Tensor){0};
    double best = 1e9;
    int calls = 0;
    for (double start = log_seconds(); calls < 3 || log_seconds() - start < options->seconds; calls++) {
        double begin = now(machine);
        for (int i = 0; i < copies; i++) {
            if (direction == TO_INPUT)
                linear_backward_input(ops, &x, &y, &weight[0]);
            else if (direction == TO_WEIGHT)
                linear_backward_weight(ops, &dw, &y, &x);
            else
                linear_forward(ops, &y, &x, &weight[i], NULL);
        }
        double seconds = (now(machine) - begin) / copies;
        if (seconds < best) best = seconds;
    }
    double gflops = 2e-9 * (double)m * (double)n * (double)k / best;
    printf("%-34s %-8s n=%-6lld k=%-5lld %9.1f us %7.1f GFLOP/s %5.1f %%", label, dtype_name(dtype), (long long)n,
           (long long)k, best * 1e6, gflops, 100 * gflops / machine->gflops);
    if (copies > 1) {
        double rate = 1e-9 * (double)(n * k) * (double)dtype_size(dtype) / best;
        printf("  %5.1f GB/s %5.1f %%", rate, 100 * rate / machine->gigabytes);
    }
    printf("\n");
    fflush(stdout);
    for (int i = 0; i < copies; i++) {
        device_release(&ops->device, &weight[i].rows);
        device_release(&ops->device, &weight[i].panels);
    }
    device_release(&ops->device, &x);
    device_release(&ops->device, &y);
    device_release(&ops->device, &dw);
}

static void measure_all(Machine *machine) {
    static const struct {
        const char *name;
        int64_t n, k;
    } layers[] = {{"qkv", 960, 576},
                  {"o", 576, 576},
                  {"gate_up", 3072, 576},
                  {"down", 576, 1536},
                  {"head", 49152, 576}},
      large[] = {{"qwen-qkv", 2048, 1536}, {"qwen-gate_up", 17920, 1536}, {"qwen-down", 1536, 8960}};
    static const int64_t rows[] = {64, 256, 512, 768, 1024}, few[] = {1, 2, 4, 8};
    static const DType dtypes[] = {DTYPE_F32, DTYPE_BF16};
    for (int d = 0; d < 2; d++) {
        for (int layer = 0; layer < 5; layer++) {
            int64_t n = layers[layer].n, k = layers[layer].k;
            for (int i = 0; i < 5; i++)
                for (int direction = FORWARD; direction <= TO_WEIGHT; direction++)
                    measure(machine, layers[layer].name, (Direction)direction, dtypes[d], rows[i], n, k);
            for (int i = 0; i < 4; i++) measure(machine, layers[layer].name, PACKED, dtypes[d], few[i], n, k);
        }
        for (int layer = 0; layer < 3; layer++)
            for (int i = 0; i < 4; i++)
                measure(machine, large[layer].name, PACKED, dtypes[d], few[i], large[layer].n, large[layer].k);
        for (int direction = FORWARD; direction <= TO_WEIGHT; direction++)
            measure(machine, "qwen-down", (Direction)direction, dtypes[d], 512, 1536, 8960);
    }
}

int main(int argc, char **argv) {
    Machine machine = {.options = {.seconds = 0.3}};
    Options *options = &machine.options;
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "isa=", 4))
            options->isa = argv[i] + 4;
        else if (!strncmp(argv[i], "dtype=", 6))
            options->dtype = argv[i] + 6;
        else if (!strncmp(argv[i], "only=", 5))
            options->only = argv[i] + 5;
        else if (!strncmp(argv[i], "threads=", 8))
            options->threads = (int)strtol(argv[i] + 8, NULL, 10);
        else if (!strncmp(argv[i], "seconds=", 8))
            options->seconds = strtod(argv[i] + 8, NULL);
        else if (!strcmp(argv[i], "clock=cpu"))
            options->cpu_clock = true;
        else {
            fprintf(stderr, "bench_gemm: \"%s\" is not one of isa=, threads=, dtype=, only=, seconds=, clock=cpu\n",
                    argv[i]);
            return 2;
        }
    }
    Error error;
    if (!ops_open(&machine.ops, (OpsOptions){DEVICE_CPU, options->threads, options->isa}, &error)) {
        fprintf(stderr, "bench_gemm: %s\n", error.text);
        return 2;
    }
    machine.gflops = peak_flops(&machine);
    machine.gigabytes = peak_bytes(&machine);
    printf("%s, %d threads: peak %.1f GFLOP/s, reading %.1f GB/s\n", machine.ops.isa, team_size(machine.ops.team),
           machine.gflops, machine.gigabytes);
    measure_all(&machine);
    ops_close(&machine.ops);
    return 0;
}
