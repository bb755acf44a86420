// Speed of linear layers at the shapes of SmolLM2-135M and Qwen2.5-1.5B, as a share of what this machine can do: fused
// multiply-adds in registers, and, for few rows, reading the packed weights from memory. Both are measured again and again
// between the calls, for a machine's clock and its memory are not the same from one moment to the next: a share is the
// median, over the calls, of the call's speed by the best of the machine's before and after it.
// usage: bench_gemm [isa=avx2] [threads=N] [dtype=bfloat16] [only="LAYER DIRECTION"] [seconds=0.3] [clock=cpu]
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
    Tensor words; // what is read to measure the memory
    int64_t read; // where to go on
} Machine;

static double now(const Machine *machine) {
    if (!machine->options.cpu_clock) return log_seconds();
    struct timespec spent;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return ((double)spent.tv_sec + 1e-9 * (double)spent.tv_nsec) / team_size(machine->ops.team);
}

enum { PEAK_REPEATS = 12500, PEAK_TASKS_A_THREAD = 8 };

static void peak_task(void *context, int64_t index, int worker) {
    (void)index, (void)worker;
    float out[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const Machine *machine = context;
    machine->ops.kernels->gemm_peak(out, PEAK_REPEATS);
}

// Multiply-adds of all threads at this moment, in GFLOP/s.
static double peak_flops(Machine *machine) {
    float out[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    int tasks = team_size(machine->ops.team) * PEAK_TASKS_A_THREAD;
    double operations = PEAK_REPEATS * machine->ops.kernels->gemm_peak(out, 1);
    double begin = now(machine);
    team_run(machine->ops.team, tasks, peak_task, machine);
    return operations * tasks / (now(machine) - begin) * 1e-9;
}

// More than any cache holds.
#define READ_BYTES ((int64_t)1280 << 20)
enum { READ_PART = 32 << 20, READ_TASK = 1 << 18 };

static void read_task(void *context, int64_t index, int worker) {
    (void)worker;
    typedef uint64_t Line __attribute__((vector_size(64)));
    const Machine *machine = context;
    const Line *lines = (const Line *)((const char *)machine->words.data + machine->read + index * READ_TASK);
    Line sum[4] = {{0}};
    for (int64_t i = 0; i < READ_TASK / 64; i += 4)
        for (int j = 0; j < 4; j++) sum[j] ^= lines[i + j];
    sum[0] ^= sum[1] ^ sum[2] ^ sum[3];
    volatile uint64_t kept =
        sum[0][0] ^ sum[0][1] ^ sum[0][2] ^ sum[0][3] ^ sum[0][4] ^ sum[0][5] ^ sum[0][6] ^ sum[0][7];
    (void)kept;
}

// Reading by all threads at this moment, in GB/s.
static double peak_bytes(Machine *machine) {
    if (!machine->words.data)
        machine->words = DEVICE_TENSOR(&machine->ops.device, MEMORY_SCRATCH, DTYPE_I32, READ_BYTES / 4);
    if (!machine->read) memset(machine->words.data, 1, READ_BYTES);
    machine->read = (machine->read + READ_PART) % READ_BYTES;
    double begin = now(machine);
    team_run(machine->ops.team, READ_PART / READ_TASK, read_task, machine);
    return READ_PART / (now(machine) - begin) * 1e-9;
}

static Tensor matrix(Machine *machine, DType dtype, int64_t rows, int64_t columns) {
    Tensor tensor = DEVICE_TENSOR_RAW(&machine->ops.device, MEMORY_SCRATCH, dtype, rows, columns);
    for (int64_t i = 0; i < rows * columns; i++)
        dtype_store(tensor.data, dtype, i, (float)(i * 37 % 255 - 127) / 128.0f);
    return tensor;
}

typedef enum Direction { FORWARD, PACKED, TO_INPUT, TO_WEIGHT } Direction;
static const char *const direction_names[] = {"forward", "forward-packed", "backward-input", "backward-weight"};

// A layer at one dtype, with what all its measurements share.
typedef struct Layer {
    const char *name;
    int64_t n, k;
    DType dtype;
    LinearWeight *weight; // packed ones: as many as the caches cannot hold
    int copies;
    Tensor rows;
} Layer;

enum { MOST_COPIES = 2048, MOST_ROUNDS = 4096 };

static void run_once(Machine *machine, Direction direction, Layer *layer, int *copy, Tensor *x, Tensor *y, Tensor *dw) {
    Ops *ops = &machine->ops;
    LinearWeight plain = {.n = layer->n, .k = layer->k, .rows = layer->rows};
    if (direction == TO_INPUT)
        linear_backward_input(ops, x, y, &plain);
    else if (direction == TO_WEIGHT)
        linear_backward_weight(ops, dw, y, x);
    else if (direction == FORWARD)
        linear_forward(ops, y, x, &plain, NULL);
    else
        linear_forward(ops, y, x, &layer->weight[(*copy)++ % layer->copies], NULL);
}

static int by_size(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_size);
    return values[count / 2];
}

static void measure(Machine *machine, Layer *layer, Direction direction, int64_t m) {
    static double flops_share[MOST_ROUNDS], bytes_share[MOST_ROUNDS], seconds[MOST_ROUNDS];
    char label[96];
    snprintf(label, sizeof label, "%s %s m=%lld", layer->name, direction_names[direction], (long long)m);
    const Options *options = &machine->options;
    if (options->only && strncmp(label, options->only, strlen(options->only))) return;
    Ops *ops = &machine->ops;
    int64_t n = layer->n, k = layer->k;
    Tensor x = matrix(machine, layer->dtype, m, k), y = matrix(machine, layer->dtype, m, n);
    Tensor dw = direction == TO_WEIGHT ? matrix(machine, DTYPE_F32, n, k) : (Tensor){0};
    if (!layer->rows.data) layer->rows = matrix(machine, layer->dtype, n, k);
    bool few = direction == PACKED && m <= 64;
    int wanted = few ? (int)(READ_BYTES / (n * k * (int64_t)dtype_size(layer->dtype))) + 1 : 1, rounds = 0, copy = 0;
    while (direction == PACKED && layer->copies < wanted && layer->copies < MOST_COPIES) {
        LinearWeight *weight = &layer->weight[layer->copies++];
        *weight = (LinearWeight){.n = n, .k = k, .rows = layer->rows};
        linear_pack(ops, weight, MEMORY_ROLLOUT_WEIGHTS);
    }
    double operations = 2e-9 * (double)m * (double)n * (double)k;
    double gigabytes = 1e-9 * (double)(n * k) * (double)dtype_size(layer->dtype);
    int calls = 1 + (int)(0.5 / operations); // a millisecond or more
    if (few && calls < 1 + 0.03 / gigabytes) calls = 1 + (int)(0.03 / gigabytes);
    for (double start = log_seconds(); rounds < 3 || (rounds < MOST_ROUNDS && log_seconds() - start < options->seconds);
         rounds++) {
        double flops = peak_flops(machine), bytes = few ? peak_bytes(machine) : 1;
        double begin = now(machine);
        for (int i = 0; i < calls; i++) run_once(machine, direction, layer, &copy, &x, &y, &dw);
        seconds[rounds] = (now(machine) - begin) / calls;
        flops = fmax(flops, peak_flops(machine));
        if (few) bytes = fmax(bytes, peak_bytes(machine));
        flops_share[rounds] = operations / seconds[rounds] / flops;
        bytes_share[rounds] = gigabytes / seconds[rounds] / bytes;
    }
    double typical = median(seconds, rounds);
    printf("%-34s %-8s n=%-6lld k=%-5lld %9.1f us %7.1f GFLOP/s %5.1f %%", label, dtype_name(layer->dtype),
           (long long)n, (long long)k, typical * 1e6, operations / typical, 100 * median(flops_share, rounds));
    if (few) printf("  %5.1f GB/s %5.1f %%", gigabytes / typical, 100 * median(bytes_share, rounds));
    printf("\n");
    fflush(stdout);
    device_release(&ops->device, &x);
    device_release(&ops->device, &y);
    device_release(&ops->device, &dw);
}

static void measure_layer(Machine *machine, const char *name, int64_t n, int64_t k, DType dtype) {
    static const int64_t rows[] = {64, 256, 512, 768, 1024}, few[] = {1, 2, 4, 8, 16, 32, 64};
    static LinearWeight weights[MOST_COPIES];
    const char *wanted = machine->options.dtype;
    if (wanted && strcmp(wanted, dtype_name(dtype))) return;
    Layer layer = {name, n, k, dtype, weights, 0, {0}};
    for (int i = 0; i < 5; i++)
        for (int direction = FORWARD; direction <= TO_WEIGHT; direction++)
            if (direction != PACKED || rows[i] > 64) measure(machine, &layer, (Direction)direction, rows[i]);
    for (int i = 0; i < 7; i++) measure(machine, &layer, PACKED, few[i]);
    for (int i = 0; i < layer.copies; i++) device_release(&machine->ops.device, &weights[i].panels);
    device_release(&machine->ops.device, &layer.rows);
}

static void measure_all(Machine *machine) {
    static const struct {
        const char *name;
        int64_t n, k;
    } layers[] = {{"qkv", 960, 576},         {"o", 576, 576},
                  {"gate_up", 3072, 576},    {"down", 576, 1536},
                  {"head", 49152, 576},      {"qwen-qkv", 2048, 1536},
                  {"qwen-o", 1536, 1536},    {"qwen-gate_up", 17920, 1536},
                  {"qwen-down", 1536, 8960}, {"qwen-head", 151936, 1536}};
    static const DType dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    for (int d = 0; d < 3; d++)
        for (size_t layer = 0; layer < sizeof layers / sizeof *layers; layer++)
            measure_layer(machine, layers[layer].name, layers[layer].n, layers[layer].k, dtypes[d]);
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
    double gflops = 0, gigabytes = 0;
    for (int i = 0; i < 50; i++) gflops = fmax(gflops, peak_flops(&machine));
    for (int i = 0; i < 40; i++) gigabytes = fmax(gigabytes, peak_bytes(&machine));
    printf("%s, %d threads: up to %.1f GFLOP/s, reading up to %.1f GB/s\n", machine.ops.isa,
           team_size(machine.ops.team), gflops, gigabytes);
    measure_all(&machine);
    device_release(&machine.ops.device, &machine.words);
    ops_close(&machine.ops);
    return 0;
}
