// Operations on rows: against plain double references, and the same bits on every instruction set, team and place in the
// batch.
#include "base/arena.h"
#include "base/rng.h"
#include "ops/kernels.h"
#include "ops/norm.h"
#include "ops/rows.h"

#include <setjmp.h>
#include <stdarg.h>
// cmocka wants the four headers around it in this order.
#include <cmocka.h>
#include <stdio.h>

enum { T = 300 }; // more than the slab of rms_norm_backward
static const DType dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
static const int64_t widths[] = {1, 15, 16, 24, 100, 576, 1100};
enum { DTYPES = 3, WIDTHS = sizeof widths / sizeof *widths };

static float number(uint32_t what, uint32_t row, uint32_t column) {
    uint32_t words[4];
    rng_words(words, 5, RNG_TEST_WEIGHTS, (RngCounter){what, row, column, 0});
    return ((float)(words[0] >> 8) + (float)(words[1] >> 8)) * 0x1p-22f - 4.0f;
}

// A matrix of numbers that depend on `what`, row and column. Reversed: row t is where row rows−1−t was.
static Tensor matrix(Ops *ops, DType dtype, int64_t rows, int64_t columns, uint32_t what, bool reversed) {
    Tensor x = DEVICE_TENSOR(&ops->device, MEMORY_SCRATCH, dtype, rows, columns);
    for (int64_t t = 0; t < rows; t++)
        for (int64_t i = 0; i < columns; i++)
            dtype_store(x.data, dtype, (reversed ? rows - 1 - t : t) * columns + i,
                        number(what, (uint32_t)t, (uint32_t)i));
    return x;
}

static double at(const Tensor *x, int64_t row, int64_t column) {
    return dtype_load(x->data, x->dtype, row * x->size[x->rank - 1] + column);
}

static bool open_ops(Ops *ops, const char *isa, int threads) {
    Error error;
    return ops_open(ops, (OpsOptions){.threads = threads, .isa = isa}, &error);
}

// ---- references

// Half a step of the dtype at this size, and fp32's own error.
static double tolerance(DType dtype, double size) {
    double step = dtype == DTYPE_F32 ? 0 : dtype == DTYPE_BF16 ? 0x1p-8 : 0x1p-11;
    return step * fabs(size) + 4e-6 * (1 + fabs(size)) + (dtype == DTYPE_F16 ? 0x1p-25 : 0);
}

static void assert_near(double found, double expected, DType dtype, double more, const char *what, int64_t row,
                        int64_t column) {
    if (!(fabs(found - expected) <= tolerance(dtype, expected) * more))
        fail_msg("%s[%lld, %lld]: %.9g, not %.9g", what, (long long)row, (long long)column, found, expected);
}

static void test_embedding(void **state) {
    (void)state;
    Ops ops;
    assert_true(open_ops(&ops, NULL, 2));
    for (int i = 0; i < DTYPES * DTYPES; i++) {
        DType from = dtypes[i % 3], to = dtypes[i / 3];
        Tensor table = matrix(&ops, from, 40, 100, 1, false), y = matrix(&ops, to, T, 100, 2, false);
        Tensor back = matrix(&ops, DTYPE_F32, 40, 100, 3, false), before = matrix(&ops, DTYPE_F32, 40, 100, 3, false);
        int32_t ids[T];
        for (int t = 0; t < T; t++) ids[t] = (t * 7 + t / 5) % 40;
        embedding_forward(&ops, &y, &table, ids);
        for (int64_t t = 0; t < T; t++)
            for (int64_t d = 0; d < 100; d++) {
                uint32_t stored = 0; // rounded once, no tolerance
                dtype_store(&stored, to, 0, (float)at(&table, ids[t], d));
                assert_true(at(&y, t, d) == dtype_load(&stored, to, 0));
            }
        embedding_backward(&ops, &back, &y, ids);
        for (int64_t d = 0; d < 100; d++)
            for (int64_t v = 0; v < 40; v++) {
                float sum = (float)at(&before, v, d);
                for (int64_t t = 0; t < T; t++)
                    if (ids[t] == v) sum += (float)at(&y, t, d);
                assert_true(at(&back, v, d) == sum);
            }
        int32_t places[40];
        for (int v = 0; v < 40; v++) places[v] = T - 1 - 3 * v;
        rows_scatter(&ops, &y, &table, places);
        for (int64_t d = 0; d < 100; d++) {
            uint32_t stored = 0;
            dtype_store(&stored, to, 0, (float)at(&table, 39, d));
            assert_true(at(&y, T - 1 - 3 * 39, d) == dtype_load(&stored, to, 0));
            dtype_store(&stored, to, 0, (float)at(&table, ids[T - 2], d));
            assert_true(at(&y, T - 2, d) == dtype_load(&stored, to, 0)); // left alone
        }
        Tensor *all[] = {&table, &y, &back, &before};
        for (int j = 0; j < 4; j++) device_release(&ops.device, all[j]);
    }
    ops_close(&ops);
}

static void check_norm(Ops *ops, DType dtype, DType other, int64_t D) {
    const float eps = 1e-5f;
    Tensor x = matrix(ops, dtype, T, D, 1, false), w = matrix(ops, other, 1, D, 2, false);
    Tensor y = matrix(ops, other, T, D, 3, false), dy = matrix(ops, other, T, D, 4, false);
    Tensor residual = matrix(ops, dtype, T, D, 5, false), dx = matrix(ops, dtype, T, D, 6, false);
    Tensor dw = matrix(ops, DTYPE_F32, 1, D, 7, false), dw_before = matrix(ops, DTYPE_F32, 1, D, 7, false);
    Arena arena = {0};
    double *weights = arena_array(&arena, double, D), *sizes = arena_array(&arena, double, D);
    bool with_residual = D % 2 == 0;
    rms_norm_forward(ops, &y, &x, &w, eps);
    rms_norm_backward(ops, &dx, &dw, &dy, &x, &w, with_residual ? &residual : NULL, eps);
    for (int64_t t = 0; t < T; t++) {
        double square = 0, dot = 0;
        for (int64_t d = 0; d < D; d++) {
            square += at(&x, t, d) * at(&x, t, d);
            dot += at(&dy, t, d) * at(&w, 0, d) * at(&x, t, d);
        }
        double rstd = 1 / sqrt(square / (double)D + (double)eps);
        for (int64_t d = 0; d < D; d++) {
            assert_near(at(&y, t, d), at(&x, t, d) * rstd * at(&w, 0, d), other, 1, "y", t, d);
            double gradient = rstd * (at(&dy, t, d) * at(&w, 0, d) - at(&x, t, d) * dot * rstd * rstd / (double)D);
            double base = with_residual ? at(&residual, t, d) : 0;
            // A single column is nearly independent of x: the difference of two equal numbers.
            double more = 1 + fabs(rstd * at(&dy, t, d) * at(&w, 0, d));
            assert_near(at(&dx, t, d), base + gradient, dtype, more, "dx", t, d);
            weights[d] += at(&dy, t, d) * at(&x, t, d) * rstd;
            sizes[d] += fabs(at(&dy, t, d) * at(&x, t, d) * rstd);
        }
    }
    for (int64_t d = 0; d < D; d++)
        if (!(fabs(at(&dw, 0, d) - at(&dw_before, 0, d) - weights[d]) <= 1e-6 * (1 + sizes[d])))
            fail_msg("dw[%lld]: %.9g, not %.9g", (long long)d, at(&dw, 0, d), at(&dw_before, 0, d) + weights[d]);
    // The chain alone, over rows that come in parts, of which one is empty.
    static const int64_t ends[] = {0, 7, 7, T};
    Tensor chain = matrix(ops, DTYPE_F32, 1, D, 8, false);
    for (int i = 0; i < 3; i++) {
        Tensor dy_part = tensor_rows(&dy, ends[i], ends[i + 1] - ends[i]);
        Tensor x_part = tensor_rows(&x, ends[i], ends[i + 1] - ends[i]);
        norm_chain_add(ops, &chain, &dy_part, &x_part, eps, i == 0);
    }
    rows_add(ops, &dw_before, &dw_before, &chain);
    assert_memory_equal(dw.data, dw_before.data, (size_t)D * sizeof(float));
    Tensor *all[] = {&x, &w, &y, &dy, &residual, &dx, &dw, &dw_before, &chain};
    for (int i = 0; i < 9; i++) device_release(&ops->device, all[i]);
    arena_close(&arena);
}

static void test_norm(void **state) {
    (void)state;
    Ops ops;
    assert_true(open_ops(&ops, NULL, 2));
    for (int i = 0; i < DTYPES * DTYPES; i++)
        for (int j = 0; j < WIDTHS; j++) check_norm(&ops, dtypes[i % 3], dtypes[i / 3], widths[j]);
    ops_close(&ops);
}

// Heads of a wider matrix, against the norm of these heads as rows of their own: the same bits. More heads than one slab.
static void check_head_norm(Ops *ops, DType dtype, DType other, int64_t E) {
    enum { FIRST = 1, HEADS = 14, COLUMNS_BEHIND = 3 };
    const float eps = 1e-5f;
    int64_t columns = (FIRST + HEADS) * E + COLUMNS_BEHIND;
    Tensor x = matrix(ops, dtype, T, columns, 1, false), before = matrix(ops, dtype, T, columns, 1, false);
    Tensor d = matrix(ops, dtype, T, columns, 2, false), d_before = matrix(ops, dtype, T, columns, 2, false);
    Tensor w = matrix(ops, other, 1, E, 3, false), dw = matrix(ops, DTYPE_F32, 1, E, 4, false);
    Tensor apart = matrix(ops, dtype, T * HEADS, E, 5, false), y = matrix(ops, dtype, T * HEADS, E, 6, false);
    Tensor dy = matrix(ops, dtype, T * HEADS, E, 7, false), dx = matrix(ops, dtype, T * HEADS, E, 8, false);
    Tensor dw_apart = matrix(ops, DTYPE_F32, 1, E, 4, false);
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < HEADS * E; i++) {
            dtype_store(apart.data, dtype, t * HEADS * E + i, (float)at(&before, t, FIRST * E + i));
            dtype_store(dy.data, dtype, t * HEADS * E + i, (float)at(&d_before, t, FIRST * E + i));
        }
    head_norm_forward(ops, &x, &w, FIRST, HEADS, eps);
    head_norm_backward(ops, &d, &dw, &before, &w, FIRST, HEADS, eps);
    rms_norm_forward(ops, &y, &apart, &w, eps);
    rms_norm_backward(ops, &dx, &dw_apart, &dy, &apart, &w, NULL, eps);
    for (int64_t t = 0; t < T; t++)
        for (int64_t i = 0; i < columns; i++) {
            int64_t head = i - FIRST * E, row = t * HEADS + head / E;
            bool normed = head >= 0 && head < HEADS * E;
            assert_true(at(&x, t, i) == (normed ? at(&y, row, head % E) : at(&before, t, i)));
            assert_true(at(&d, t, i) == (normed ? at(&dx, row, head % E) : at(&d_before, t, i)));
        }
    assert_memory_equal(dw.data, dw_apart.data, (size_t)E * sizeof(float));
    Tensor *all[] = {&x, &before, &d, &d_before, &w, &dw, &apart, &y, &dy, &dx, &dw_apart};
    for (int i = 0; i < 11; i++) device_release(&ops->device, all[i]);
}

static void test_head_norm(void **state) {
    (void)state;
    Ops ops;
    assert_true(open_ops(&ops, NULL, 2));
    static const int64_t sizes[] = {6, 72};
    for (int i = 0; i < DTYPES; i++)
        for (int j = 0; j < 2; j++) check_head_norm(&ops, dtypes[i], dtypes[(i + j) % 3], sizes[j]);
    ops_close(&ops);
}

static void check_swiglu(Ops *ops, DType dtype, DType other, int64_t F) {
    Tensor gate_up = matrix(ops, dtype, T, 2 * F, 1, false), act = matrix(ops, other, T, F, 2, false);
    Tensor dact = matrix(ops, other, T, F, 3, false), back = matrix(ops, dtype, T, 2 * F, 4, false);
    if (dtype == DTYPE_F32) { // far out, where exp overflows or vanishes
        float *row = gate_up.data;
        row[0] = -200;
        row[2 * F] = 200;
        row[4 * F] = -87;
    }
    swiglu_forward(ops, &act, &gate_up);
    Tensor act_again = DEVICE_TENSOR(&ops->device, MEMORY_SCRATCH, other, T, F);
    swiglu_backward(ops, &back, &act_again, &dact, &gate_up);
    assert_memory_equal(act_again.data, act.data, tensor_bytes(&act));
    Tensor in_place = matrix(ops, dtype, T, 2 * F, 5, false), act_in_place = matrix(ops, other, T, F, 6, false);
    memcpy(in_place.data, gate_up.data, tensor_bytes(&gate_up));
    memcpy(act_in_place.data, dact.data, tensor_bytes(&dact));
    swiglu_backward(ops, &in_place, &act_in_place, &act_in_place, &in_place);
    assert_memory_equal(in_place.data, back.data, tensor_bytes(&back));
    assert_memory_equal(act_in_place.data, act.data, tensor_bytes(&act));
    for (int64_t t = 0; t < T; t++) {
        for (int64_t f = 0; f < F; f++) {
            double g = at(&gate_up, t, f), u = at(&gate_up, t, F + f), s = 1 / (1 + exp(-g)), d = at(&dact, t, f);
            assert_near(at(&act, t, f), g * s * u, other, 1, "act", t, f);
            double more = 1 + fabs(d * u);
            assert_near(at(&back, t, f), d * u * s * (1 + g * (1 - s)), dtype, more, "dgate", t, f);
            assert_near(at(&back, t, F + f), d * g * s, dtype, 1, "dup", t, f);
        }
    }
    Tensor *all[] = {&gate_up, &act, &act_again, &dact, &back, &in_place, &act_in_place};
    for (int i = 0; i < 7; i++) device_release(&ops->device, all[i]);
}

static void test_swiglu(void **state) {
    (void)state;
    Ops ops;
    assert_true(open_ops(&ops, NULL, 2));
    for (int i = 0; i < DTYPES * DTYPES; i++)
        for (int j = 0; j < WIDTHS; j++) check_swiglu(&ops, dtypes[i % 3], dtypes[i / 3], widths[j]);
    ops_close(&ops);
}

static void check_rope(Ops *ops, DType dtype, int64_t head_dim, float scale) {
    enum { HEADS = 3, POSITIONS = 400 };
    int64_t half = head_dim / 2, columns = HEADS * head_dim + 5; // the last ones are not heads
    float inv_freq[256];
    for (int64_t i = 0; i < half; i++) inv_freq[i] = (float)pow(10000, -(double)i / (double)half);
    Tensor table = DEVICE_TENSOR(&ops->device, MEMORY_SCRATCH, DTYPE_F32, POSITIONS, head_dim);
    Tensor x = matrix(ops, dtype, T, columns, 1, false), before = matrix(ops, dtype, T, columns, 1, false);
    int32_t positions[T];
    for (int t = 0; t < T; t++) positions[t] = (t * 31) % POSITIONS;
    rope_table(ops, &table, inv_freq, scale);
    rope_apply(ops, &x, &table, positions, HEADS, head_dim, false);
    for (int64_t t = 0; t < T; t++) {
        for (int64_t i = 0; i < HEADS * half; i++) {
            int64_t a = i / half * head_dim + i % half, b = a + half;
            float angle = (float)positions[t] * inv_freq[i % half];
            double c = cos((double)angle) * (double)scale, s = sin((double)angle) * (double)scale,
                   p = at(&before, t, a), q = at(&before, t, b);
            assert_near(at(&x, t, a), p * c - q * s, dtype, 1, "rotated", t, a);
            assert_near(at(&x, t, b), q * c + p * s, dtype, 1, "rotated", t, b);
        }
        for (int64_t i = HEADS * head_dim; i < columns; i++) assert_true(at(&x, t, i) == at(&before, t, i));
    }
    rope_apply(ops, &x, &table, positions, HEADS, head_dim, true);
    for (int64_t t = 0; t < T && dtype == DTYPE_F32; t++)
        for (int64_t i = 0; i < columns; i++) {
            double square = i < HEADS * head_dim ? (double)scale * (double)scale : 1;
            assert_near(at(&x, t, i), at(&before, t, i) * square, dtype, 1, "back", t, i);
        }
    Tensor *all[] = {&table, &x, &before};
    for (int i = 0; i < 3; i++) device_release(&ops->device, all[i]);
}

static void test_rope(void **state) {
    (void)state;
    Ops ops;
    assert_true(open_ops(&ops, NULL, 2));
    static const int64_t sizes[] = {2, 6, 16, 24, 30, 64, 80, 128, 256};
    for (int i = 0; i < 9; i++)
        for (int j = 0; j < DTYPES; j++) check_rope(&ops, dtypes[j], sizes[i], i % 2 ? 1.25f : 1);
    ops_close(&ops);
}

static void test_casts(void **state) {
    (void)state;
    Ops ops;
    assert_true(open_ops(&ops, NULL, 3));
    enum { COUNT = 100001 };
    for (int i = 0; i < DTYPES * DTYPES; i++) {
        DType from = dtypes[i % 3], to = dtypes[i / 3];
        Tensor x = DEVICE_TENSOR(&ops.device, MEMORY_SCRATCH, from, COUNT);
        Tensor y = DEVICE_TENSOR(&ops.device, MEMORY_SCRATCH, to, COUNT);
        int64_t overflowed = 0, nonfinite = 0, lost = 0;
        for (uint32_t k = 0; k < COUNT; k++) { // all kinds of numbers, denormals, infinities and NaN among them
            float value = dtype_float(k * 42953u);
            if (k % 3 == 0) value = number(1, 0, k) * (k % 2 ? 20000 : 1e-3f);
            dtype_store(x.data, from, k, value);
        }
        int64_t found = rows_cast(&ops, &y, &x);
        for (int64_t k = 0; k < COUNT; k++) {
            uint32_t stored = 0;
            float value = dtype_load(x.data, from, k), cast = dtype_load(y.data, to, k);
            dtype_store(&stored, to, 0, value);
            float expected = dtype_load(&stored, to, 0);
            if (isnan(value))
                assert_true(isnan(cast));
            else
                assert_int_equal(dtype_bits(cast), dtype_bits(expected));
            overflowed += isfinite(value) && isinf(expected);
            nonfinite += !isfinite(value);
            lost += !isfinite(expected);
        }
        assert_int_equal(found, overflowed);
        assert_int_equal(rows_count_nonfinite(&ops, &x), nonfinite);
        assert_int_equal(rows_count_nonfinite(&ops, &y), lost);
        device_release(&ops.device, &x);
        device_release(&ops.device, &y);
    }
    ops_close(&ops);
}

// The limits of overflow, one by one.
static void test_overflow(void **state) {
    (void)state;
    Ops ops;
    assert_true(open_ops(&ops, NULL, 1));
    const struct {
        DType to;
        float value;
        int64_t expected;
    } cases[] = {
        {DTYPE_F16, 65504, 0},
        {DTYPE_F16, 65519.99f, 0},
        {DTYPE_F16, 65520, 1},
        {DTYPE_F16, -65520, 1},
        {DTYPE_F16, INFINITY, 0},
        {DTYPE_F16, NAN, 0},
        {DTYPE_BF16, 0x1.fefffep127f, 0},
        {DTYPE_BF16, 0x1.ffp127f, 1},
        {DTYPE_BF16, -0x1.fffffep127f, 1},
        {DTYPE_BF16, -INFINITY, 0},
        {DTYPE_F32, 0x1.fffffep127f, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Tensor x = DEVICE_TENSOR(&ops.device, MEMORY_SCRATCH, DTYPE_F32, 3);
        Tensor y = DEVICE_TENSOR(&ops.device, MEMORY_SCRATCH, cases[i].to, 3);
        ((float *)x.data)[1] = cases[i].value;
        assert_int_equal(rows_cast(&ops, &y, &x), cases[i].expected);
        device_release(&ops.device, &x);
        device_release(&ops.device, &y);
    }
    ops_close(&ops);
}

static void test_sums(void **state) {
    (void)state;
    Ops ops;
    assert_true(open_ops(&ops, NULL, 2));
    static const int64_t counts[] = {1, 17, 4096, 4097, 3000000};
    for (int i = 0; i < 5 * DTYPES; i++) {
        int64_t count = counts[i / DTYPES];
        Tensor x = matrix(&ops, dtypes[i % DTYPES], 1, count, 1, false);
        long double expected = 0;
        for (int64_t k = 0; k < count; k++) expected += (long double)at(&x, 0, k) * (long double)at(&x, 0, k);
        assert_true(fabsl(rows_square_sum(&ops, &x) - expected) <= 1e-13L * expected);
        device_release(&ops.device, &x);
    }
    Tensor a = matrix(&ops, DTYPE_BF16, 7, 100, 1, false), b = matrix(&ops, DTYPE_F32, 7, 100, 2, false);
    Tensor sum = matrix(&ops, DTYPE_F16, 7, 100, 3, false);
    rows_add(&ops, &sum, &a, &b);
    for (int64_t i = 0; i < 700; i++) {
        uint16_t expected;
        dtype_store(&expected, DTYPE_F16, 0, (float)at(&a, 0, i) + (float)at(&b, 0, i));
        assert_int_equal(((uint16_t *)sum.data)[i], expected);
    }
    rows_add(&ops, &b, &b, &a); // in place
    assert_true(at(&b, 6, 99) == (float)((float)at(&a, 6, 99) + number(2, 6, 99)));
    Tensor *all[] = {&a, &b, &sum};
    for (int i = 0; i < 3; i++) device_release(&ops.device, all[i]);
    ops_close(&ops);
}

static void test_adamw(void **state) {
    (void)state;
    Ops ops;
    assert_true(open_ops(&ops, NULL, 2));
    enum { COUNT = 70003, STEPS = 12 };
    Tensor w = matrix(&ops, DTYPE_F32, 1, COUNT, 1, false), g = matrix(&ops, DTYPE_F32, 1, COUNT, 2, false);
    Tensor m = DEVICE_TENSOR(&ops.device, MEMORY_OPTIMIZER, DTYPE_F32, 1, COUNT);
    Tensor v = DEVICE_TENSOR(&ops.device, MEMORY_OPTIMIZER, DTYPE_F32, 1, COUNT);
    AdamwStep step = {3e-3, 0.9, 0.999, 1e-8, 0.01, 0.25, 0};
    Arena arena = {0};
    double *state_of = arena_array(&arena, double, 3 * COUNT);
    for (int64_t i = 0; i < COUNT; i++) state_of[3 * i] = at(&w, 0, i);
    for (step.step = 1; step.step <= STEPS; step.step++) {
        adamw_update(&ops, &w, &m, &v, &g, step);
        for (int64_t i = 0; i < COUNT; i++) {
            double *s = state_of + 3 * i, gradient = at(&g, 0, i) * step.gradient_scale;
            s[0] *= 1 - step.lr * step.weight_decay;
            s[1] = step.beta1 * s[1] + (1 - step.beta1) * gradient;
            s[2] = step.beta2 * s[2] + (1 - step.beta2) * gradient * gradient;
            double c1 = 1 - pow(step.beta1, (double)step.step), c2 = 1 - pow(step.beta2, (double)step.step);
            s[0] -= step.lr / c1 * s[1] / (sqrt(s[2]) / sqrt(c2) + step.eps);
        }
        for (int64_t i = 0; i < COUNT; i++) ((float *)g.data)[i] *= i % 2 ? -0.5f : 1.25f;
    }
    for (int64_t i = 0; i < COUNT; i++) {
        const double *s = state_of + 3 * i;
        assert_true(fabs(at(&w, 0, i) - s[0]) <= 3e-6);
        assert_true(fabs(at(&m, 0, i) - s[1]) <= 1e-7 + 1e-6 * fabs(s[1]));
        assert_true(fabs(at(&v, 0, i) - s[2]) <= 2e-6 * s[2]);
    }
    Tensor *all[] = {&w, &m, &v, &g};
    for (int i = 0; i < 4; i++) device_release(&ops.device, all[i]);
    arena_close(&arena);
    ops_close(&ops);
}

// ---- bits

// Everything that the operations return for one choice of dtypes and width, in order; rows turned back when reversed.
typedef struct Bits {
    Arena arena;
    uint32_t *words;
    int64_t count, capacity;
} Bits;

static void note(Bits *bits, const Tensor *x, bool reversed) {
    int64_t rows = x->size[0], columns = tensor_count(x) / rows;
    assert_true(bits->count + rows * columns <= bits->capacity);
    for (int64_t t = 0; t < rows; t++)
        for (int64_t i = 0; i < columns; i++)
            bits->words[bits->count++] =
                dtype_bits(dtype_load(x->data, x->dtype, (reversed ? rows - 1 - t : t) * columns + i));
}

static bool run_all(Bits *bits, const char *isa, int threads, DType in, DType out, int64_t D, bool reversed) {
    Ops ops;
    if (!open_ops(&ops, isa, threads)) return false;
    *bits = (Bits){.capacity = 20 * T * D + 1000};
    bits->words = arena_array(&bits->arena, uint32_t, bits->capacity);
    Tensor x = matrix(&ops, in, T, 2 * D, 1, reversed), y = matrix(&ops, out, T, D, 2, reversed);
    Tensor w = matrix(&ops, in, 1, D, 3, false), dw = matrix(&ops, DTYPE_F32, 1, D, 4, false);
    Tensor half = matrix(&ops, in, T, D, 5, reversed), dx = matrix(&ops, out, T, D, 6, reversed);
    Tensor back = matrix(&ops, out, T, 2 * D, 7, reversed), tall = matrix(&ops, DTYPE_F32, T, D, 8, reversed);
    Tensor m = matrix(&ops, DTYPE_F32, T, D, 9, reversed), v = matrix(&ops, DTYPE_F32, T, D, 10, reversed);
    int32_t ids[T];
    for (int t = 0; t < T; t++) ids[reversed ? T - 1 - t : t] = reversed ? T - 1 - t / 2 : t / 2;
    embedding_forward(&ops, &y, &half, ids);
    note(bits, &y, reversed);
    rms_norm_forward(&ops, &y, &half, &w, 1e-6f);
    note(bits, &y, reversed);
    rms_norm_backward(&ops, &dx, &dw, &y, &half, &w, &dx, 1e-6f);
    note(bits, &dx, reversed);
    Tensor heads = matrix(&ops, out, T, 2 * D, 12, reversed), dheads = matrix(&ops, in, T, 2 * D, 13, reversed);
    head_norm_backward(&ops, &dheads, &dw, &heads, &w, 1, 1, 1e-6f);
    note(bits, &dheads, reversed);
    head_norm_forward(&ops, &heads, &w, 0, 2, 1e-6f);
    note(bits, &heads, reversed);
    swiglu_forward(&ops, &y, &x);
    note(bits, &y, reversed);
    swiglu_backward(&ops, &back, &y, &y, &x);
    note(bits, &back, reversed);
    note(bits, &y, reversed);
    rows_add(&ops, &y, &half, &dx);
    note(bits, &y, reversed);
    rows_cast(&ops, &y, &half);
    note(bits, &y, reversed);
    for (int64_t i = 0; i < T * D; i++) ((float *)v.data)[i] *= ((float *)v.data)[i];
    adamw_update(&ops, &tall, &m, &v, &m, (AdamwStep){1e-2, 0.9, 0.95, 1e-6, 0.1, 0.3, 3});
    note(bits, &tall, reversed);
    if (D % 2 == 0) {
        Tensor table = matrix(&ops, DTYPE_F32, T, D, 11, reversed);
        rope_apply(&ops, &x, &table, ids, 2, D, false);
        note(bits, &x, reversed);
        device_release(&ops.device, &table);
    }
    if (!reversed) { // sums over rows
        note(bits, &dw, false);
        double sum = rows_square_sum(&ops, &x);
        memcpy(bits->words + bits->count, &sum, sizeof sum);
        bits->count += 2;
        for (int t = 0; t < T; t++) ids[t] %= 9;
        embedding_backward(&ops, &tall, &y, ids);
        note(bits, &tall, false);
    }
    Tensor *all[] = {&x, &y, &w, &dw, &half, &dx, &back, &tall, &m, &v, &heads, &dheads};
    for (int i = 0; i < 12; i++) device_release(&ops.device, all[i]);
    ops_close(&ops);
    return true;
}

// Reversed rows give the same rows, without the sums over rows at the end.
static void assert_same(const Bits *all, const Bits *other, bool reversed) {
    assert_true(reversed ? other->count < all->count : other->count == all->count);
    for (int64_t i = 0; i < other->count; i++) assert_int_equal(all->words[i], other->words[i]);
}

static void test_bits(void **state) {
    (void)state;
    static const char *const sets[] = {"scalar", "avx2", "avx512"};
    for (int i = 0; i < DTYPES * DTYPES; i++) {
        for (int j = 1; j < WIDTHS - 1; j++) {
            DType in = dtypes[i % 3], out = dtypes[i / 3];
            Bits first, other;
            assert_true(run_all(&first, "scalar", 1, in, out, widths[j], false));
            for (int k = 0; k < 6; k++) {
                int threads = k % 3 + 1;
                if (!run_all(&other, sets[k % 3], threads, in, out, widths[j], k >= 3)) continue; // not on this CPU
                assert_same(&first, &other, k >= 3);
                arena_close(&other.arena);
            }
            arena_close(&first.arena);
        }
    }
}

// On `plan` the operations check shapes and touch nothing.
static void test_plan(void **state) {
    (void)state;
    Ops ops;
    Error error;
    assert_true(ops_open(&ops, (OpsOptions){.device = DEVICE_PLAN}, &error));
    Tensor x = DEVICE_TENSOR(&ops.device, MEMORY_SCRATCH, DTYPE_BF16, T, 64);
    Tensor w = DEVICE_TENSOR(&ops.device, MEMORY_SCRATCH, DTYPE_F32, 64);
    Tensor dx = DEVICE_TENSOR(&ops.device, MEMORY_SCRATCH, DTYPE_BF16, T, 64);
    rms_norm_forward(&ops, &x, &x, &w, 1e-5f);
    rms_norm_backward(&ops, &dx, &w, &x, &x, &w, &dx, 1e-5f);
    head_norm_forward(&ops, &x, &w, 0, 1, 1e-5f);
    head_norm_backward(&ops, &dx, &w, &x, &w, 0, 1, 1e-5f);
    embedding_forward(&ops, &x, &x, NULL);
    assert_int_equal(rows_cast(&ops, &x, &x), 0);
    assert_true(rows_square_sum(&ops, &x) == 0);
    device_release(&ops.device, &x);
    device_release(&ops.device, &w);
    device_release(&ops.device, &dx);
    ops_close(&ops);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding), cmocka_unit_test(test_norm),      cmocka_unit_test(test_swiglu),
        cmocka_unit_test(test_rope),      cmocka_unit_test(test_casts),     cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_sums),      cmocka_unit_test(test_adamw),     cmocka_unit_test(test_bits),
        cmocka_unit_test(test_plan),      cmocka_unit_test(test_head_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
