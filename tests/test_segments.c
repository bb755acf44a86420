// Sums that several ranks share (ops/linear.h): bits equal the fold of naive chains, whatever the instruction set, the threads
// and the number of ranks that own the segments.
#include "ops/linear.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *const isas[] = {"scalar", "avx2", "avx512"};
enum { ISAS = 3 };

static Tensor fill(Ops *ops, DType dtype, int64_t rows, int64_t columns, uint32_t seed) {
    Tensor tensor = DEVICE_TENSOR(&ops->device, MEMORY_ACTIVATION, dtype, rows, columns);
    uint32_t state = seed * 2654435761u + 1;
    for (int64_t i = 0; i < rows * columns; i++) {
        state = state * 1664525u + 1013904223u;
        dtype_store(tensor.data, dtype, i, (float)(state >> 8) / 8388608.0f - 1.0f);
    }
    return tensor;
}

static void assert_same(const Tensor *got, const Tensor *expected, const Ops *ops, const char *what) {
    for (int64_t i = 0; i < tensor_count(expected); i++) {
        float a = dtype_load(got->data, got->dtype, i), b = dtype_load(expected->data, expected->dtype, i);
        if (dtype_bits(a) != dtype_bits(b))
            fail_msg("%s with %s: element %lld of %lld × %lld is %.9g, expected %.9g", what, ops->isa, (long long)i,
                     (long long)expected->size[0], (long long)expected->size[1], (double)a, (double)b);
    }
}

static float fold(const float *sums, int count) {
    if (count % 2 == 0) return fold(sums, count / 2) + fold(sums + count / 2, count / 2);
    float sum = sums[0];
    for (int i = 1; i < count; i++) sum += sums[i];
    return sum;
}

// What shares an index: like query, key and value columns.
typedef struct Index {
    int segments, groups;
    int64_t size[LINEAR_MAX_GROUPS], pieces[LINEAR_MAX_GROUPS], unit;
} Index;

static LinearSegments segments_of(const Index *index) {
    LinearSegments segments = {.count = index->segments};
    for (int g = 0; g < index->groups; g++)
        linear_segments_add(&segments, index->size[g], index->pieces[g], index->unit);
    return segments;
}

static int64_t total_of(const Index *index) {
    int64_t total = 0;
    for (int g = 0; g < index->groups; g++) total += index->size[g];
    return total;
}

// The segment of element k; -1 when it takes no part. Written down anew, from the header's words.
static int segment_of(const Index *index, int64_t k) {
    int g = 0;
    while (k >= index->size[g]) k -= index->size[g++];
    if (!index->pieces[g]) return -1;
    int64_t units = (index->size[g] + index->unit - 1) / index->unit;
    int64_t piece = (units + index->pieces[g] - 1) / index->pieces[g] * index->unit;
    return (int)(k / piece * index->segments / index->pieces[g]);
}

// y[t][n] = fold over segments of chains over k of x[t][k] · w(n, k).
static void naive(Tensor *y, const Tensor *x, const Tensor *w, const Index *index, bool across) {
    int64_t K = total_of(index), N = y->size[1];
    for (int64_t i = 0; i < tensor_count(y); i++) {
        float sums[LINEAR_MAX_SEGMENTS] = {0};
        for (int64_t k = 0; k < K; k++) {
            int segment = segment_of(index, k);
            if (segment < 0) continue;
            float weight = dtype_load(w->data, w->dtype, across ? k * N + i % N : i % N * K + k);
            sums[segment] = fmaf(dtype_load(x->data, x->dtype, i / N * K + k), weight, sums[segment]);
        }
        dtype_store(y->data, y->dtype, i, fold(sums, index->segments));
    }
}

static const struct {
    Index index;
    int64_t t, n;
    DType x, w, y;
} cases[] = {
    {{1, 1, {50}, {1}, 1}, 3, 33, DTYPE_F32, DTYPE_F32, DTYPE_F32},
    {{2, 1, {64}, {2}, 1}, 1, 40, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16},
    {{2, 1, {2900}, {2}, 1}, 17, 35, DTYPE_BF16, DTYPE_BF16, DTYPE_BF16},
    {{3, 1, {99}, {3}, 1}, 7, 65, DTYPE_F32, DTYPE_BF16, DTYPE_F32},
    {{4, 2, {1320, 1320}, {4, 4}, 1}, 5, 37, DTYPE_F32, DTYPE_F32, DTYPE_F16},
    {{8, 1, {160}, {8}, 1}, 30, 64, DTYPE_F16, DTYPE_F16, DTYPE_F32},
    {{8, 1, {8200}, {8}, 1}, 2, 31, DTYPE_F32, DTYPE_F32, DTYPE_F32},
    {{8, 3, {64, 16, 16}, {8, 2, 2}, 1}, 15, 20, DTYPE_BF16, DTYPE_BF16, DTYPE_F32},
    {{4, 3, {48, 32, 32}, {4, 8, 8}, 1}, 4, 70, DTYPE_F32, DTYPE_F32, DTYPE_BF16},
    {{6, 1, {66}, {6}, 1}, 9, 9, DTYPE_F32, DTYPE_F32, DTYPE_F32},
    {{4, 1, {70}, {4}, 16}, 9, 9, DTYPE_F32, DTYPE_F32, DTYPE_F32}, // 32, 32, 6, 0
    {{2, 2, {40, 24}, {2, 0}, 1}, 6, 50, DTYPE_F32, DTYPE_F32, DTYPE_F32},
};
enum { CASES = sizeof cases / sizeof *cases };

static void check_case(Ops *ops, int c) {
    Index index = cases[c].index;
    int64_t K = total_of(&index), T = cases[c].t, N = cases[c].n;
    Tensor x = fill(ops, cases[c].x, T, K, 1), w = fill(ops, cases[c].w, N, K, 2),
           w_across = fill(ops, cases[c].w, K, N, 3);
    Tensor y = fill(ops, cases[c].y, T, N, 4), got = fill(ops, cases[c].y, T, N, 5);
    LinearWeight weight = {.n = N, .k = K, .rows = w, .over_k = segments_of(&index)};
    naive(&y, &x, &w, &index, false);
    linear_forward(ops, &got, &x, &weight, NULL);
    assert_same(&got, &y, ops, "forward from rows");
    linear_pack(ops, &weight, MEMORY_ROLLOUT_WEIGHTS);
    linear_forward(ops, &got, &x, &weight, NULL);
    assert_same(&got, &y, ops, "forward from panels");
    LinearWeight across = {.n = K, .k = N, .rows = w_across, .over_n = segments_of(&index)};
    naive(&y, &x, &w_across, &index, true);
    linear_backward_input(ops, &got, &x, &across);
    assert_same(&got, &y, ops, "backward to the input");
    Tensor all[] = {x, w, w_across, y, got, weight.panels};
    for (int i = 0; i < 6; i++) device_release(&ops->device, &all[i]);
}

static void test_products(void **state) {
    (void)state;
    for (int i = 0; i < ISAS; i++) {
        Ops ops;
        Error error;
        if (!ops_open(&ops, (OpsOptions){.threads = 1 + i, .isa = isas[i]}, &error)) continue;
        for (int c = 0; c < CASES; c++) check_case(&ops, c);
        ops_close(&ops);
    }
}

// Columns first..first+count-1 of a matrix.
static Tensor columns_of(Ops *ops, const Tensor *whole, int64_t first, int64_t count) {
    Tensor part = DEVICE_TENSOR(&ops->device, MEMORY_ACTIVATION, whole->dtype, whole->size[0], count);
    for (int64_t i = 0; i < part.size[0] * count; i++)
        dtype_store(part.data, part.dtype, i,
                    dtype_load(whole->data, whole->dtype, i / count * whole->size[1] + first + i % count));
    return part;
}

// One, two, four or eight ranks own the segments of one sum, and the fold of what they send is the same.
static void test_ranks(void **state) {
    (void)state;
    enum { T = 21, N = 50, K = 1600, SEGMENTS = 8 };
    Ops ops;
    Error error;
    assert_true(ops_open(&ops, (OpsOptions){.threads = 2}, &error));
    Tensor x = fill(&ops, DTYPE_BF16, T, K, 6), w = fill(&ops, DTYPE_BF16, N, K, 7);
    Tensor whole = fill(&ops, DTYPE_BF16, T, N, 8), got = fill(&ops, DTYPE_BF16, T, N, 9);
    Index index = {SEGMENTS, 1, {K}, {SEGMENTS}, 1};
    linear_forward(&ops, &whole, &x, &(LinearWeight){.n = N, .k = K, .rows = w, .over_k = segments_of(&index)}, NULL);
    for (int ranks = 1; ranks <= SEGMENTS; ranks *= 2) {
        Tensor parts = DEVICE_TENSOR(&ops.device, MEMORY_ACTIVATION, DTYPE_F32, ranks, T, N);
        for (int rank = 0; rank < ranks; rank++) {
            int64_t own = K / ranks;
            Index local = {SEGMENTS / ranks, 1, {own}, {SEGMENTS / ranks}, 1};
            Tensor x_own = columns_of(&ops, &x, rank * own, own), w_own = columns_of(&ops, &w, rank * own, own);
            Tensor part = tensor_rows(&parts, rank, 1), part_TN = TENSOR_RESHAPE(&part, T, N);
            linear_forward(&ops, &part_TN, &x_own,
                           &(LinearWeight){.n = N, .k = own, .rows = w_own, .over_k = segments_of(&local)}, NULL);
            device_release(&ops.device, &x_own);
            device_release(&ops.device, &w_own);
        }
        linear_fold(&ops, &got, &parts);
        assert_same(&got, &whole, &ops, "ranks");
        device_release(&ops.device, &parts);
    }
    Tensor all[] = {x, w, whole, got};
    for (int i = 0; i < 4; i++) device_release(&ops.device, &all[i]);
    ops_close(&ops);
}

// Rounds of rows and columns, in which sums wait in the scratch.
static void test_rounds(void **state) {
    (void)state;
    enum { T = 1100, N = 1300, K = 160, SEGMENTS = 8 };
    Ops ops;
    Error error;
    assert_true(ops_open(&ops, (OpsOptions){.threads = 2}, &error));
    Tensor x = fill(&ops, DTYPE_F32, T, K, 10), w = fill(&ops, DTYPE_F32, N, K, 11);
    Tensor whole = fill(&ops, DTYPE_F32, T, N, 12), part = fill(&ops, DTYPE_F32, T, N, 13);
    Tensor parts = DEVICE_TENSOR(&ops.device, MEMORY_ACTIVATION, DTYPE_F32, SEGMENTS, T, N);
    Index index = {SEGMENTS, 1, {K}, {SEGMENTS}, 1};
    linear_forward(&ops, &whole, &x, &(LinearWeight){.n = N, .k = K, .rows = w, .over_k = segments_of(&index)}, NULL);
    for (int s = 0; s < SEGMENTS; s++) {
        int64_t own = K / SEGMENTS;
        Tensor x_own = columns_of(&ops, &x, s * own, own), w_own = columns_of(&ops, &w, s * own, own);
        Tensor at = tensor_rows(&parts, s, 1), at_TN = TENSOR_RESHAPE(&at, T, N);
        linear_forward(&ops, &at_TN, &x_own, &(LinearWeight){.n = N, .k = own, .rows = w_own}, NULL);
        device_release(&ops.device, &x_own);
        device_release(&ops.device, &w_own);
    }
    linear_fold(&ops, &part, &parts);
    assert_same(&part, &whole, &ops, "rounds");
    Tensor all[] = {x, w, whole, part, parts};
    for (int i = 0; i < 5; i++) device_release(&ops.device, &all[i]);
    ops_close(&ops);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_rounds),
    };
    return cmocka_run_group_tests_name("segments", tests, NULL, NULL);
}
