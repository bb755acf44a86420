#include "run/bench_kernels.h"

#include "base/strbuf.h"
#include "model/block.h"
#include "ops/linear.h"
#include "ops/norm.h"
#include "ops/rows.h"
#include "ops/softmax.h"

#include <stdio.h>
#include <string.h>

// What is measured when no model is given: sizes from the models' config.json.
static const struct {
    const char *name;
    ModelFamily family;
    int64_t hidden, ffn, query_heads, kv_heads, head_dim, vocab, layers;
} shapes[] = {
    {"smollm2-135m", MODEL_LLAMA, 576, 1536, 9, 3, 64, 49152, 30},
    {"qwen2.5-1.5b", MODEL_QWEN2, 1536, 8960, 12, 2, 128, 151936, 28},
};
enum { SHAPES = sizeof shapes / sizeof *shapes, PRODUCTS = 5 };

bool bench_kernels_shape(Architecture *a, const char *name, Error *error) {
    const char *names[SHAPES];
    for (int i = 0; i < SHAPES; i++) {
        names[i] = shapes[i].name;
        if (strcmp(names[i], name)) continue;
        *a = (Architecture){.family = shapes[i].family,
                            .vocab_size = shapes[i].vocab,
                            .hidden_size = shapes[i].hidden,
                            .intermediate_size = shapes[i].ffn,
                            .layer_count = shapes[i].layers,
                            .query_heads = shapes[i].query_heads,
                            .kv_heads = shapes[i].kv_heads,
                            .head_dim = shapes[i].head_dim,
                            .max_positions = 4096,
                            .rms_norm_eps = 1e-5f,
                            .tied_head = true};
        return true;
    }
    return error_set(error, "--shape is '%s'; expected %s or %s", name, names[0], names[1]);
}

bool bench_kernels_any(const BenchOptions *options) {
    static const char *const first_words[] = {"qkv",       "o",        "gate_up", "down",         "head",
                                              "attention", "rms_norm", "swiglu",  "residual sum", "log-sum-exp",
                                              "top-p",     "sample",   "AdamW"};
    const char *beginning = options->only ? options->only : "";
    for (size_t i = 0; i < (options->rows ? PRODUCTS : sizeof first_words / sizeof *first_words); i++) {
        size_t length = strlen(first_words[i]), given = strlen(beginning);
        bool whole = given <= length || beginning[length] == ' ' || beginning[length] == ',';
        if (whole && !strncmp(beginning, first_words[i], given < length ? given : length)) return true;
    }
    return false;
}

typedef struct Bench {
    BenchMachine *machine;
    Ops *ops;
    const BenchOptions *options;
    BlockShape shape;
    DType dtype;
    BenchTimer timer;
    char name[64];
    int measured; // kernels whose names begin with options->only
} Bench;

// ---- one measurement

static bool begin(Bench *bench, double flops, double bytes, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static bool begin(Bench *bench, double flops, double bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(bench->name, sizeof bench->name, format, arguments);
    va_end(arguments);
    const char *only = bench->options->only;
    if (only && strncmp(bench->name, only, strlen(only))) return false;
    bench->measured++;
    bench_timer_begin(&bench->timer, bench->machine, flops, bytes, bench->options->seconds);
    return true;
}

static void report(Bench *bench) {
    BenchResult r = bench_timer_result(&bench->timer);
    const char *dtype = dtype_name(bench->dtype);
    if (bench->options->json) {
        printf("{\"kernel\":\"%s\",\"dtype\":\"%s\",\"seconds\":%.9g", bench->name, dtype, r.seconds);
        if (r.flops_rate > 0)
            printf(",\"gflops\":%.2f,\"share_of_flops\":%.4f,\"best_share_of_flops\":%.4f", r.flops_rate * 1e-9,
                   r.flops_share, r.best_flops_share);
        if (r.bytes_rate > 0)
            printf(",\"gigabytes\":%.2f,\"share_of_bandwidth\":%.4f,\"best_share_of_bandwidth\":%.4f",
                   r.bytes_rate * 1e-9, r.bytes_share, r.best_bytes_share);
        printf("}\n");
    } else {
        printf("  %-38s %-8s %10.1f us", bench->name, dtype, r.seconds * 1e6);
        if (r.flops_rate > 0)
            printf("  %7.1f GFLOP/s %5.1f %% (%5.1f)", r.flops_rate * 1e-9, 100 * r.flops_share,
                   100 * r.best_flops_share);
        if (r.bytes_rate > 0)
            printf("  %6.1f GB/s %5.1f %% (%5.1f)", r.bytes_rate * 1e-9, 100 * r.bytes_share, 100 * r.best_bytes_share);
        printf("\n");
    }
    fflush(stdout);
}

#define MEASURE(bench, flops, bytes, call, ...)                                                                        \
    do {                                                                                                               \
        if (begin((bench), (flops), (bytes), __VA_ARGS__)) {                                                           \
            while (bench_timer_again(&(bench)->timer)) call;                                                           \
            report(bench);                                                                                             \
        }                                                                                                              \
    } while (0)

static Tensor matrix(Bench *bench, DType dtype, int64_t rows, int64_t columns) {
    Tensor tensor = DEVICE_TENSOR_RAW(&bench->ops->device, MEMORY_SCRATCH, dtype, rows, columns);
    for (int64_t i = 0; i < rows * columns; i++)
        dtype_store(tensor.data, dtype, i, (float)(i * 37 % 255 - 127) / 256.0f);
    return tensor;
}

static void release(Bench *bench, Tensor *tensor) {
    device_release(&bench->ops->device, tensor);
}

// ---- matrix products

typedef struct Layer {
    const char *name;
    int64_t n, k;
} Layer;

enum { TRAINED_ROWS = 512, MOST_COPIES = 1024 };
#define UNCACHED ((int64_t)1 << 30) // bytes of packed weights in turn, so that decode reads them from memory

static void bench_training(Bench *bench, const Layer *layer) {
    int64_t m = bench->options->rows ? bench->options->rows : TRAINED_ROWS, n = layer->n, k = layer->k;
    Tensor x = matrix(bench, bench->dtype, m, k), y = matrix(bench, bench->dtype, m, n);
    Tensor rows = matrix(bench, bench->dtype, n, k), gradient = matrix(bench, DTYPE_F32, n, k);
    LinearWeight weight = {.n = n, .k = k, .rows = rows};
    double flops = 2.0 * (double)m * (double)n * (double)k;
    MEASURE(bench, flops, 0, linear_forward(bench->ops, &y, &x, &weight, NULL), "%s forward, %lld rows", layer->name,
            (long long)m);
    MEASURE(bench, flops, 0, linear_backward_input(bench->ops, &x, &y, &weight), "%s input gradient, %lld rows",
            layer->name, (long long)m);
    MEASURE(bench, flops, 0, linear_backward_weight(bench->ops, &gradient, &y, &x), "%s weight gradient, %lld rows",
            layer->name, (long long)m);
    release(bench, &gradient);
    release(bench, &rows);
    release(bench, &y);
    release(bench, &x);
}

static void bench_decode(Bench *bench, const Layer *layer) {
    static const int64_t decoded[] = {1, 8, 64, TRAINED_ROWS};
    const int64_t *counts = bench->options->rows ? &bench->options->rows : decoded;
    int64_t n = layer->n, k = layer->k, bytes = n * k * (int64_t)dtype_size(bench->dtype);
    int copies = (int)(UNCACHED / bytes) + 1, copy = 0;
    if (copies > MOST_COPIES) copies = MOST_COPIES;
    Arena arena = {0};
    LinearWeight *weight = arena_array(&arena, LinearWeight, copies);
    Tensor rows = matrix(bench, bench->dtype, n, k);
    for (int i = 0; i < copies; i++) {
        weight[i] = (LinearWeight){.n = n, .k = k, .rows = rows};
        linear_pack(bench->ops, &weight[i], MEMORY_ROLLOUT_WEIGHTS);
    }
    for (int i = 0; i < (counts == decoded ? 4 : 1); i++) {
        int64_t m = counts[i];
        Tensor x = matrix(bench, bench->dtype, m, k), y = matrix(bench, bench->dtype, m, n);
        double flops = 2.0 * (double)m * (double)n * (double)k;
        MEASURE(bench, flops, m <= 8 ? (double)bytes : 0,
                linear_forward(bench->ops, &y, &x, &weight[copy++ % copies], NULL), "%s packed, %lld rows", layer->name,
                (long long)m);
        release(bench, &y);
        release(bench, &x);
    }
    for (int i = copies; i-- > 0;) release(bench, &weight[i].panels);
    release(bench, &rows);
    arena_close(&arena);
}

// ---- attention

static void bench_attention(Bench *bench, int64_t sequences, int64_t queries, int64_t keys, bool backward) {
    const AttentionShape *shape = &bench->shape.attention;
    Arena arena = {0};
    int64_t T = sequences * queries, C = bench->shape.qkv_columns, O = bench->shape.heads_columns;
    int64_t pages_each = kv_pages_of(keys);
    AttentionSpan *spans = arena_array(&arena, AttentionSpan, sequences);
    int32_t *pages = arena_array(&arena, int32_t, sequences * pages_each);
    for (int32_t i = 0; i < sequences * pages_each; i++) pages[i] = i;
    for (int64_t s = 0; s < sequences; s++)
        spans[s] = (AttentionSpan){.row = s * queries,
                                   .count = queries,
                                   .start = keys - queries,
                                   .pages = pages + s * pages_each};
    Tensor qkv = matrix(bench, bench->dtype, T, C), out = matrix(bench, bench->dtype, T, O);
    Tensor lse = matrix(bench, DTYPE_F32, T, shape->query_heads);
    KvPages kv = kv_pages_open(bench->ops, MEMORY_KV_CACHE, bench->dtype, sequences * pages_each, shape);
    kv_store(bench->ops, &kv, &qkv, shape, spans, sequences);
    // Pairs of a query and a key that it sees: q·k and p·v, 2 operations for each element of a head.
    double pairs = (double)sequences * (double)queries * ((double)(keys - queries) + 0.5 * (double)(queries + 1));
    double flops = 4.0 * pairs * (double)O;
    double bytes = queries > 1 ? 0
                               : 2.0 * (double)(sequences * keys * shape->kv_heads * shape->head_dim) *
                                     (double)dtype_size(bench->dtype);
    MEASURE(bench, flops, bytes, attention_forward(bench->ops, &out, &lse, &qkv, &kv, shape, spans, sequences),
            "attention %lld×%lld of %lld keys", (long long)sequences, (long long)queries, (long long)keys);
    if (backward) {
        Tensor dqkv = matrix(bench, bench->dtype, T, C), dout = matrix(bench, bench->dtype, T, O);
        MEASURE(bench, 2.5 * flops, 0,
                attention_backward(bench->ops, &dqkv, NULL, &dout, &out, &lse, &qkv, &kv, shape, spans, sequences),
                "attention backward %lld×%lld", (long long)sequences, (long long)queries);
        release(bench, &dout);
        release(bench, &dqkv);
    }
    kv_pages_close(bench->ops, &kv);
    release(bench, &lse);
    release(bench, &out);
    release(bench, &qkv);
    arena_close(&arena);
}

// ---- rows

static void bench_rows(Bench *bench) {
    int64_t T = TRAINED_ROWS * 8, D = bench->shape.hidden, F = bench->shape.ffn;
    double size = (double)dtype_size(bench->dtype);
    Tensor x = matrix(bench, bench->dtype, T, D), y = matrix(bench, bench->dtype, T, D);
    Tensor w = DEVICE_TENSOR(&bench->ops->device, MEMORY_SCRATCH, bench->dtype, D);
    Tensor gate_up = matrix(bench, bench->dtype, T, 2 * F), act = matrix(bench, bench->dtype, T, F);
    MEASURE(bench, 0, 2 * size * (double)(T * D), rms_norm_forward(bench->ops, &y, &x, &w, 1e-5f),
            "rms_norm, %lld rows", (long long)T);
    MEASURE(bench, 0, 3 * size * (double)(T * F), swiglu_forward(bench->ops, &act, &gate_up), "swiglu, %lld rows",
            (long long)T);
    MEASURE(bench, 0, 3 * size * (double)(T * D), rows_add(bench->ops, &y, &x, &y), "residual sum, %lld rows",
            (long long)T);
    release(bench, &act);
    release(bench, &gate_up);
    release(bench, &w);
    release(bench, &y);
    release(bench, &x);
}

static void bench_softmax(Bench *bench, int64_t vocabulary) {
    enum { ROWS = 64 };
    SoftmaxRow rows[ROWS];
    float uniform[ROWS];
    int32_t ids[ROWS];
    for (int i = 0; i < ROWS; i++) uniform[i] = (float)i / ROWS;
    Tensor logits = matrix(bench, DTYPE_F32, ROWS, vocabulary);
    const SoftmaxFilter plain = {.temperature = 1, .top_p = 1}, nucleus = {.temperature = 0.7f, .top_p = 0.9f};
    double bytes = 4.0 * ROWS * (double)vocabulary;
    MEASURE(bench, 0, bytes, softmax_rows(bench->ops, rows, &logits, vocabulary, plain), "log-sum-exp, %d rows", ROWS);
    MEASURE(bench, 0, bytes, softmax_rows(bench->ops, rows, &logits, vocabulary, nucleus), "top-p 0.9, %d rows", ROWS);
    softmax_rows(bench->ops, rows, &logits, vocabulary, plain);
    MEASURE(bench, 0, bytes, softmax_sample(bench->ops, ids, &logits, rows, vocabulary, uniform, plain),
            "sample, %d rows", ROWS);
    release(bench, &logits);
}

static void bench_adamw(Bench *bench) {
    int64_t n = 1 << 24;
    Tensor w = matrix(bench, DTYPE_F32, 1, n), m = matrix(bench, DTYPE_F32, 1, n), v = matrix(bench, DTYPE_F32, 1, n);
    Tensor gradient = matrix(bench, DTYPE_F32, 1, n);
    memset(v.data, 0, tensor_bytes(&v));
    AdamwStep step = {.lr = 1e-6, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .gradient_scale = 1, .step = 1};
    MEASURE(bench, 0, 28.0 * (double)n, adamw_update(bench->ops, &w, &m, &v, &gradient, step), "AdamW, 2^24 weights");
    release(bench, &gradient);
    release(bench, &v);
    release(bench, &m);
    release(bench, &w);
}

int bench_kernels_run(BenchMachine *machine, const Architecture *a, DType dtype, const BenchOptions *options) {
    Bench bench = {.machine = machine,
                   .ops = machine->ops,
                   .options = options,
                   .dtype = dtype,
                   .shape = block_shape(a, 0, NULL)};
    const Layer layers[PRODUCTS] = {{"qkv", bench.shape.qkv_columns, a->hidden_size},
                                    {"o", a->hidden_size, bench.shape.heads_columns},
                                    {"gate_up", 2 * a->intermediate_size, a->hidden_size},
                                    {"down", a->hidden_size, a->intermediate_size},
                                    {"head", a->vocab_size, a->hidden_size}};
    for (int i = 0; i < PRODUCTS; i++) {
        bench_training(&bench, &layers[i]);
        bench_decode(&bench, &layers[i]);
    }
    if (options->rows) return bench.measured;
    bench_attention(&bench, 1, 1, 2048, false);
    bench_attention(&bench, 64, 1, 512, false);
    bench_attention(&bench, 4, 512, 512, true);
    bench_rows(&bench);
    bench_softmax(&bench, a->vocab_size);
    if (dtype == DTYPE_F32) bench_adamw(&bench);
    return bench.measured;
}
