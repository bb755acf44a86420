// Matrix products: bits equal a naive chain of fused multiply-adds, whatever the instruction set, the threads, the number
// of rows and the order in which the weight is stored.
#include "ops/linear.h"
#include "ops/rows.h"

#include <math.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *const isas[] = {"scalar", "avx2", "avx512"};
enum { ISAS = 3, MAX_OPENED = 9 };

// 1, 2 and 3; but instrumented products take long, and two threads meet each other there too.
#ifdef __SANITIZE_ADDRESS__
enum { FEWEST_THREADS = 2, MOST_THREADS = 2 };
#else
enum { FEWEST_THREADS = 1, MOST_THREADS = 3 };
#endif

// Every instruction set that this CPU has, with all these numbers of threads.
typedef struct Bench {
    Ops ops[MAX_OPENED];
    int count;
} Bench;

// Other CPUs' ways too, no matter which suits this one.
static void suit(Ops *ops, int threads) {
    ops->rereads = threads != 3;
    ops->first_floats = threads == 2 ? 12 << 10 : 8 << 10; // 48 or 32 KiB
    ops->second_floats = threads == 2 ? 256 << 10 : 128 << 10;
}

static int bench_open(void **state) {
    static Bench bench;
    Error error;
    bench.count = 0;
    for (int i = 0; i < ISAS; i++)
        for (int threads = FEWEST_THREADS; threads <= MOST_THREADS; threads++)
            if (ops_open(&bench.ops[bench.count], (OpsOptions){DEVICE_CPU, threads, isas[i]}, &error))
                suit(&bench.ops[bench.count++], threads);
    *state = &bench;
    return bench.count ? 0 : -1;
}

static int bench_close(void **state) {
    Bench *bench = *state;
    for (int i = 0; i < bench->count; i++) ops_close(&bench->ops[i]);
    return 0;
}

static uint32_t noise(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

// Numbers of mixed sizes; a few are zero or, in their dtype, subnormal (not in large ones: CPUs are slow at those).
static Tensor fill(Ops *ops, DType dtype, int64_t rows, int64_t columns, uint32_t seed) {
    Tensor tensor = DEVICE_TENSOR(&ops->device, MEMORY_ACTIVATION, dtype, rows, columns);
    uint32_t state = seed * 2654435761u + 1;
    for (int64_t i = 0; i < rows * columns; i++) {
        float value = ((float)noise(&state) / 8388608.0f - 1.0f) * (noise(&state) % 7 ? 1.0f : 0.01f);
        uint32_t kind = noise(&state) % 64;
        if (kind == 0) value = 0;
        if (kind == 1 && rows * columns < 100000) value *= dtype == DTYPE_F16 ? 1e-5f : 1e-39f;
        dtype_store(tensor.data, dtype, i, value);
    }
    return tensor;
}

static Tensor copy(Ops *ops, const Tensor *tensor) {
    Tensor result = device_tensor_raw(&ops->device, MEMORY_ACTIVATION, tensor->dtype, tensor->rank, tensor->size);
    memcpy(result.data, tensor->data, tensor_bytes(tensor));
    return result;
}

static void assert_same(const Tensor *got, const Tensor *expected, const Ops *ops, const char *what) {
    if (!memcmp(got->data, expected->data, tensor_bytes(expected))) return;
    for (int64_t i = 0; i < tensor_count(expected); i++) {
        float a = dtype_load(got->data, got->dtype, i), b = dtype_load(expected->data, expected->dtype, i);
        if (dtype_bits(a) != dtype_bits(b))
            fail_msg("%s with %s and %d threads: element %lld of %lld × %lld is %.9g, expected %.9g", what, ops->isa,
                     team_size(ops->team), (long long)i, (long long)expected->size[0], (long long)expected->size[1],
                     (double)a, (double)b);
    }
}

// c[m][n] = chain over k of a·b (element (line, k) at line·line_stride + k·k_stride), then bias, then the rounding.
typedef struct Side {
    const Tensor *tensor;
    int64_t line_stride, k_stride;
} Side;

static void naive(Tensor *c, Side a, Side b, int64_t k, bool adds, const Tensor *bias) {
    int64_t n = c->size[1];
    for (int64_t i = 0; i < c->size[0] * n; i++) {
        float sum = 0.0f;
        for (int64_t j = 0; j < k; j++) {
            float left = dtype_load(a.tensor->data, a.tensor->dtype, i / n * a.line_stride + j * a.k_stride);
            float right = dtype_load(b.tensor->data, b.tensor->dtype, i % n * b.line_stride + j * b.k_stride);
            sum = fmaf(left, right, sum);
        }
        if (bias) sum += dtype_load(bias->data, bias->dtype, i % n);
        if (adds) sum = dtype_load(c->data, c->dtype, i) + sum;
        dtype_store(c->data, c->dtype, i, sum);
    }
}

typedef struct Shape {
    int64_t t, n, k;
    DType x, w, y, bias;
} Shape;

// Odd sizes around the widths of vectors, tiles (3, 6, 14), panels (32) and blocks of k (320, 384, 576).
static const Shape shapes[] = {
    {1, 1, 1, DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32},
    {1, 33, 70, DTYPE_F32, DTYPE_BF16, DTYPE_BF16, DTYPE_F32},
    {2, 64, 17, DTYPE_BF16, DTYPE_BF16, DTYPE_F32, DTYPE_BF16},
    {3, 31, 16, DTYPE_F16, DTYPE_F16, DTYPE_F16, DTYPE_F16},
    {5, 47, 40, DTYPE_F32, DTYPE_F16, DTYPE_F32, DTYPE_F32},
    {7, 95, 33, DTYPE_BF16, DTYPE_F32, DTYPE_F16, DTYPE_F32},
    {13, 17, 65, DTYPE_F32, DTYPE_F32, DTYPE_BF16, DTYPE_F32},
    {15, 40, 15, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16},
    {29, 65, 31, DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F16},
    {64, 48, 20, DTYPE_F16, DTYPE_BF16, DTYPE_F32, DTYPE_F32},
    {4, 37, 1300, DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32},
    {17, 20, 1301, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, DTYPE_F32},
    {20, 1, 700, DTYPE_F32, DTYPE_F16, DTYPE_F16, DTYPE_F32},
    {3, 9, 0, DTYPE_F32, DTYPE_BF16, DTYPE_BF16, DTYPE_F32},
    {0, 9, 5, DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32},
    {130, 35, 9, DTYPE_F32, DTYPE_BF16, DTYPE_F32, DTYPE_F32},
    {61, 70, 530, DTYPE_BF16, DTYPE_F32, DTYPE_F32, DTYPE_F32},
    {45, 33, 100, DTYPE_F32, DTYPE_F32, DTYPE_BF16, DTYPE_F32},
    {100, 129, 37, DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_F32},
    {75, 34, 1203, DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void test_forward(void **state) {
    Bench *bench = *state;
    for (int s = 0; s < SHAPES; s++) {
        Shape shape = shapes[s];
        for (int with_bias = 0; with_bias < 2; with_bias++) {
            Ops *first = &bench->ops[0];
            Tensor x = fill(first, shape.x, shape.t, shape.k, 1), w = fill(first, shape.w, shape.n, shape.k, 2);
            Tensor bias = fill(first, shape.bias, 1, shape.n, 3), y = fill(first, shape.y, shape.t, shape.n, 4);
            naive(&y, (Side){&x, shape.k, 1}, (Side){&w, shape.k, 1}, shape.k, false, with_bias ? &bias : NULL);
            for (int i = 0; i < bench->count; i++) {
                Ops *ops = &bench->ops[i];
                LinearWeight weight = {.n = shape.n, .k = shape.k, .rows = w};
                Tensor got = fill(ops, shape.y, shape.t, shape.n, 5);
                linear_forward(ops, &got, &x, &weight, with_bias ? &bias : NULL);
                assert_same(&got, &y, ops, "forward from rows");
                device_release(&ops->device, &got);
                got = fill(ops, shape.y, shape.t, shape.n, 6);
                linear_pack(ops, &weight, MEMORY_ROLLOUT_WEIGHTS);
                weight.rows = (Tensor){0};
                linear_forward(ops, &got, &x, &weight, with_bias ? &bias : NULL);
                assert_same(&got, &y, ops, "forward from panels");
                device_release(&ops->device, &got);
                device_release(&ops->device, &weight.panels);
            }
            device_release(&first->device, &x);
            device_release(&first->device, &w);
            device_release(&first->device, &bias);
            device_release(&first->device, &y);
        }
    }
}

static void test_backward_input(void **state) {
    Bench *bench = *state;
    for (int s = 0; s < SHAPES; s++) {
        Shape shape = shapes[s]; // k and n change places: the chain over n is the long one
        Ops *first = &bench->ops[0];
        Tensor dy = fill(first, shape.x, shape.t, shape.k, 7), w = fill(first, shape.w, shape.k, shape.n, 8);
        Tensor dx = fill(first, shape.y, shape.t, shape.n, 9);
        naive(&dx, (Side){&dy, shape.k, 1}, (Side){&w, 1, shape.n}, shape.k, false, NULL);
        for (int i = 0; i < bench->count; i++) {
            Ops *ops = &bench->ops[i];
            LinearWeight weight = {.n = shape.k, .k = shape.n, .rows = w};
            Tensor got = fill(ops, shape.y, shape.t, shape.n, 10);
            linear_backward_input(ops, &got, &dy, &weight);
            assert_same(&got, &dx, ops, "backward to the input");
            device_release(&ops->device, &got);
        }
        device_release(&first->device, &dy);
        device_release(&first->device, &w);
        device_release(&first->device, &dx);
    }
}

// Whole, and cut into parts of unequal length, whose chains wait.
static void test_backward_weight(void **state) {
    Bench *bench = *state;
    for (int s = 0; s < SHAPES; s++) {
        Shape shape = shapes[s];
        int64_t tokens = shape.k;
        Ops *first = &bench->ops[0];
        Tensor dy = fill(first, shape.y, tokens, shape.t, 11), x = fill(first, shape.x, tokens, shape.n, 12);
        Tensor start = fill(first, DTYPE_F32, shape.t, shape.n, 13), dw = copy(first, &start);
        naive(&dw, (Side){&dy, 1, shape.t}, (Side){&x, 1, shape.n}, tokens, true, NULL);
        for (int i = 0; i < bench->count; i++) {
            Ops *ops = &bench->ops[i];
            Tensor got = copy(ops, &start);
            linear_backward_weight(ops, &got, &dy, &x);
            assert_same(&got, &dw, ops, "backward to the weight");
            memcpy(got.data, start.data, tensor_bytes(&start));
            Tensor chain = fill(ops, DTYPE_F32, shape.t, shape.n, 26); // what a first part finds there is lost
            for (int64_t t = 0, count = 1; t < tokens; t += count, count = 2 * count + 1) {
                if (count > tokens - t) count = tokens - t;
                Tensor dy_part = tensor_rows(&dy, t, count), x_part = tensor_rows(&x, t, count);
                linear_backward_weight_part(ops, &got, &chain, &dy_part, &x_part,
                                            (LinearPart){t == 0, t + count == tokens});
            }
            assert_same(&got, &dw, ops, "backward to the weight in parts");
            device_release(&ops->device, &got);
            device_release(&ops->device, &chain);
        }
        device_release(&first->device, &dy);
        device_release(&first->device, &x);
        device_release(&first->device, &start);
        device_release(&first->device, &dw);
    }
}

// The same bits as one after the other, also where chains of both wait, in segments too, where one alone has rounds, and where what
// waits of both does not fit together.
static void test_backward_both(void **state) {
    Bench *bench = *state;
    static const Shape large[] = {{620, 352, 370, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16, DTYPE_F32},
                                  {700, 90, 65, DTYPE_F32, DTYPE_F32, DTYPE_F32, DTYPE_F32},
                                  {600, 2800, 1600, DTYPE_F16, DTYPE_F16, DTYPE_F16, DTYPE_F32},
                                  {600, 600, 3000, DTYPE_F16, DTYPE_F16, DTYPE_F16, DTYPE_F32}};
    enum { LARGE = sizeof large / sizeof *large };
    for (int s = 0; s < SHAPES + LARGE; s++) {
        Shape shape = s < SHAPES ? shapes[s] : large[s - SHAPES];
        for (int i = 0; i < bench->count; i++) {
            Ops *ops = &bench->ops[i];
            if (s >= SHAPES && !strcmp(ops->isa, "scalar")) continue; // slow
            LinearWeight weight = {.n = shape.n, .k = shape.k};
            if (s == SHAPES) {
                weight.over_n.count = 4;
                linear_segments_add(&weight.over_n, shape.n, 4, 8);
            }
            weight.rows = fill(ops, shape.w, shape.n, shape.k, 31);
            Tensor dy = fill(ops, shape.y, shape.t, shape.n, 32), x = fill(ops, shape.x, shape.t, shape.k, 33);
            Tensor dx = fill(ops, shape.x, shape.t, shape.k, 34), dw = fill(ops, DTYPE_F32, shape.n, shape.k, 35);
            Tensor got_dx = copy(ops, &dx), got_dw = copy(ops, &dw);
            linear_backward_weight(ops, &dw, &dy, &x);
            linear_backward_input(ops, &dx, &dy, &weight);
            linear_backward(ops, &got_dx, &got_dw, &dy, &x, &weight);
            assert_same(&got_dx, &dx, ops, "backward to the input with the weight's");
            assert_same(&got_dw, &dw, ops, "backward to the weight with the input's");
            Tensor all[] = {weight.rows, dy, x, dx, dw, got_dx, got_dw};
            for (int j = 0; j < 7; j++) device_release(&ops->device, &all[j]);
        }
    }
}

static void test_backward_bias(void **state) {
    Bench *bench = *state;
    static const struct {
        int64_t tokens, n;
        DType dtype;
    } cases[] = {{1, 1, DTYPE_F32},
                 {7, 65, DTYPE_BF16},
                 {100, 200, DTYPE_F16},
                 {0, 5, DTYPE_F32},
                 {33, 130, DTYPE_F32}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Ops *first = &bench->ops[0];
        int64_t n = cases[c].n;
        Tensor dy = fill(first, cases[c].dtype, cases[c].tokens, n, 14);
        Tensor start = fill(first, DTYPE_F32, 1, n, 15), sums = copy(first, &start);
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int64_t t = 0; t < cases[c].tokens; t++) sum += dtype_load(dy.data, dy.dtype, t * n + j);
            ((float *)sums.data)[j] += sum;
        }
        for (int i = 0; i < bench->count; i++) {
            Tensor got = copy(&bench->ops[i], &start);
            linear_backward_bias(&bench->ops[i], &got, &dy);
            assert_same(&got, &sums, &bench->ops[i], "backward to the bias");
            device_release(&bench->ops[i].device, &got);
        }
        device_release(&first->device, &dy);
        device_release(&first->device, &start);
        device_release(&first->device, &sums);
    }
}

// A row alone, in batches of 7 and in one of 64 rows, from rows and from panels.
static void test_batches(void **state) {
    Bench *bench = *state;
    enum { T = 64, N = 70, K = 90 };
    for (int i = 0; i < bench->count; i++) {
        Ops *ops = &bench->ops[i];
        for (int packed = 0; packed < 2; packed++) {
            Tensor x = fill(ops, DTYPE_BF16, T, K, 16);
            LinearWeight weight = {.n = N, .k = K, .rows = fill(ops, DTYPE_BF16, N, K, 17)};
            if (packed) linear_pack(ops, &weight, MEMORY_ROLLOUT_WEIGHTS);
            Tensor whole = fill(ops, DTYPE_F32, T, N, 18), parts = fill(ops, DTYPE_F32, T, N, 19);
            linear_forward(ops, &whole, &x, &weight, NULL);
            for (int64_t batch = 1; batch <= 7; batch += 6) {
                for (int64_t t = 0; t < T; t += batch) {
                    int64_t count = T - t < batch ? T - t : batch;
                    Tensor x_part = tensor_rows(&x, t, count), y_part = tensor_rows(&parts, t, count);
                    linear_forward(ops, &y_part, &x_part, &weight, NULL);
                }
                assert_same(&parts, &whole, ops, "batches");
            }
            device_release(&ops->device, &x);
            device_release(&ops->device, &weight.rows);
            device_release(&ops->device, &weight.panels);
            device_release(&ops->device, &whole);
            device_release(&ops->device, &parts);
        }
    }
}

// Large enough for several rounds of rows, of columns and of k, also of rows that are packed once for all tasks, that are
// multiplied where they lie, and whose distance forbids that: the vector sets agree (the scalar one would be slow), each with
// two of the three numbers of threads, with packed weights too.
static void test_rounds(void **state) {
    Bench *bench = *state;
    static const struct {
        int64_t t, n, k;
        DType dtype;
    } cases[] = {{1500, 1100, 1290, DTYPE_BF16}, {1300, 2300, 600, DTYPE_F32}, {100, 3000, 1500, DTYPE_F32},
                 {60, 900, 2000, DTYPE_F16},     {111, 700, 1000, DTYPE_BF16}, {70, 35400, 346, DTYPE_BF16},
                 {100, 40, 24000, DTYPE_F32},    {14, 40, 24000, DTYPE_BF16},  {1100, 300, 2048, DTYPE_F32},
                 {1100, 300, 2064, DTYPE_F32}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Tensor expected = {0}, expected_dx = {0}, expected_dw = {0};
        Ops *first = NULL;
        for (int i = 0; i < bench->count; i++) {
            Ops *ops = &bench->ops[i];
            int threads = team_size(ops->team), left_out = !strcmp(ops->isa, "avx2") ? 3 : 1;
            if (!strcmp(ops->isa, "scalar") || threads == left_out) continue;
            DType dtype = cases[c].dtype;
            Tensor x = fill(ops, dtype, cases[c].t, cases[c].k, 20), dy = fill(ops, dtype, cases[c].t, cases[c].n, 21);
            LinearWeight weight = {.n = cases[c].n, .k = cases[c].k};
            weight.rows = fill(ops, dtype, weight.n, weight.k, 22);
            Tensor y = fill(ops, dtype, cases[c].t, weight.n, 23), dx = fill(ops, dtype, cases[c].t, weight.k, 24);
            Tensor dw = fill(ops, DTYPE_F32, weight.n, weight.k, 25);
            linear_forward(ops, &y, &x, &weight, NULL);
            linear_backward_input(ops, &dx, &dy, &weight);
            linear_backward_weight(ops, &dw, &dy, &x);
            LinearWeight packed = weight;
            linear_pack(ops, &packed, MEMORY_ROLLOUT_WEIGHTS);
            Tensor y_packed = fill(ops, dtype, cases[c].t, weight.n, 26);
            linear_forward(ops, &y_packed, &x, &packed, NULL);
            assert_same(&y_packed, &y, ops, "forward by packed weights in rounds");
            if (!first) {
                first = ops;
                expected = copy(ops, &y);
                expected_dx = copy(ops, &dx);
                expected_dw = copy(ops, &dw);
                float sum = 0; // and the last element is what it ought to be
                for (int64_t j = 0; j < weight.k; j++)
                    sum = fmaf(dtype_load(x.data, dtype, tensor_count(&x) - weight.k + j),
                               dtype_load(weight.rows.data, dtype, tensor_count(&weight.rows) - weight.k + j), sum);
                dtype_store(y.data, dtype, tensor_count(&y) - 1, sum);
            }
            assert_same(&y, &expected, ops, "forward in rounds");
            assert_same(&dx, &expected_dx, ops, "backward to the input in rounds");
            assert_same(&dw, &expected_dw, ops, "backward to the weight in rounds");
            Tensor all[] = {x, dy, weight.rows, y, dx, dw, packed.panels, y_packed};
            for (int j = 0; j < 8; j++) device_release(&ops->device, &all[j]);
        }
        if (!first) continue;
        device_release(&first->device, &expected);
        device_release(&first->device, &expected_dx);
        device_release(&first->device, &expected_dw);
    }
}

// On plan nothing is touched, and the account is that of a CPU.
static void test_plan(void **state) {
    Bench *bench = *state;
    Ops plan;
    Error error;
    assert_true(ops_open(&plan, (OpsOptions){.device = DEVICE_PLAN, .threads = 2}, &error));
    assert_int_equal(plan.device.ledger.live_total, bench->ops[0].device.ledger.live_total);
    LinearWeight weight = {.n = 70, .k = 50};
    weight.rows = DEVICE_TENSOR(&plan.device, MEMORY_ROLLOUT_WEIGHTS, DTYPE_BF16, 70, 50);
    Tensor x = DEVICE_TENSOR(&plan.device, MEMORY_ACTIVATION, DTYPE_BF16, 8, 50);
    Tensor y = DEVICE_TENSOR(&plan.device, MEMORY_ACTIVATION, DTYPE_BF16, 8, 70);
    uint64_t before = plan.device.ledger.live_total;
    linear_pack(&plan, &weight, MEMORY_ROLLOUT_WEIGHTS);
    assert_int_equal(plan.device.ledger.live_total - before, 3 * 50 * 32 * 2);
    linear_forward(&plan, &y, &x, &weight, NULL);
    assert_int_equal(ops_worked(&plan).flops, 2 * 8 * 70 * 50);
    // Packing reads and writes the rows; the product reads x and the weight and writes y: each once, by the phase.
    assert_int_equal(plan.work[PHASE_LOAD].bytes, 2 * (2 * 70 * 50 + 8 * 50 + 70 * 50 + 8 * 70));
    assert_true(plan.work[PHASE_LOAD].seconds == 0);
    plan.machine = (OpsMachine){.flops = 1e6, .bytes = 1e6};
    ledger_enter(&plan.device.ledger, PHASE_FORWARD);
    linear_forward(&plan, &y, &x, &weight, NULL); // 56 ms of computing, 9 of moving
    rows_add(&plan, &y, &y, &y);                  // moving alone
    assert_true(fabs(plan.work[PHASE_FORWARD].seconds - (0.056 + 3 * 8 * 70 * 2 * 1e-6)) < 1e-9);
    ledger_enter(&plan.device.ledger, PHASE_LOAD);
    device_release(&plan.device, &weight.rows);
    device_release(&plan.device, &weight.panels);
    device_release(&plan.device, &x);
    device_release(&plan.device, &y);
    ops_close(&plan);
}

static void test_isa(void **state) {
    (void)state;
    Ops ops;
    Error error = {""};
    const char *old = getenv("WHET_ISA");
    setenv("WHET_ISA", "nonsense", 1);
    assert_false(ops_open(&ops, (OpsOptions){.threads = 1}, &error));
    assert_non_null(strstr(error.text, "WHET_ISA"));
    assert_non_null(strstr(error.text, "\"nonsense\""));
    for (int i = 0; i < ISAS; i++) assert_non_null(strstr(error.text, isas[i]));
    ops_close(&ops);
    setenv("WHET_ISA", "scalar", 1);
    assert_true(ops_open(&ops, (OpsOptions){.threads = 1}, &error));
    assert_string_equal(ops.isa, "scalar");
    ops_close(&ops);
    if (old)
        setenv("WHET_ISA", old, 1);
    else
        unsetenv("WHET_ISA");
    assert_false(ops_open(&ops, (OpsOptions){.threads = -1}, &error));
    assert_non_null(strstr(error.text, "threads"));
    assert_false(ops_open(&ops, (OpsOptions){.threads = 1, .isa = "avx"}, &error));
    assert_non_null(strstr(error.text, "avx2"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forward),
        cmocka_unit_test(test_backward_input),
        cmocka_unit_test(test_backward_weight),
        cmocka_unit_test(test_backward_both),
        cmocka_unit_test(test_backward_bias),
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_isa),
    };
    return cmocka_run_group_tests(tests, bench_open, bench_close);
}
