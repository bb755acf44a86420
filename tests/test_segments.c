// Sums that several ranks share (ops/linear.h): bits equal the fold of naive chains, whatever the instruction set, the threads
// and the number of ranks that own the segments.
#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/rows.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

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

enum { HEADS = 6, KV_HEADS = 2, HEAD = 10, TOKENS = 40, PARTS = 3 };

// Gradients of keys and values from query heads first..first+count-1 of every key/value head's group, as a model of those alone.
static void backward_of(Ops *ops, Tensor *dkv, const Tensor *qkv, const Tensor *dout, int64_t first, int64_t count) {
    int64_t group = HEADS / KV_HEADS, columns = (KV_HEADS * count + 2 * KV_HEADS) * HEAD;
    AttentionShape shape = {.query_heads = KV_HEADS * count, .kv_heads = KV_HEADS, .head_dim = HEAD, .scale = 0.3f};
    int32_t pages[] = {2, 0, 1};
    AttentionSpan span = {.count = TOKENS, .pages = pages};
    Device *device = &ops->device;
    Tensor own = DEVICE_TENSOR(device, MEMORY_ACTIVATION, DTYPE_F32, TOKENS, columns);
    Tensor down = DEVICE_TENSOR(device, MEMORY_ACTIVATION, DTYPE_F32, TOKENS, KV_HEADS * count * HEAD);
    for (int64_t t = 0; t < TOKENS; t++) {
        const float *from = (const float *)qkv->data + t * qkv->size[1],
                    *d = (const float *)dout->data + t * HEADS * HEAD;
        float *to = (float *)own.data + t * columns, *to_d = (float *)down.data + t * KV_HEADS * count * HEAD;
        for (int64_t kv = 0; kv < KV_HEADS; kv++) {
            memcpy(to + kv * count * HEAD, from + (kv * group + first) * HEAD, (size_t)(count * HEAD) * sizeof *to);
            memcpy(to_d + kv * count * HEAD, d + (kv * group + first) * HEAD, (size_t)(count * HEAD) * sizeof *to);
        }
        memcpy(to + KV_HEADS * count * HEAD, from + HEADS * HEAD, (size_t)(2 * KV_HEADS * HEAD) * sizeof *to);
    }
    KvPages kv = kv_pages_open(ops, MEMORY_ACTIVATION, DTYPE_F32, 3, &shape);
    Tensor out = DEVICE_TENSOR(device, MEMORY_ACTIVATION, DTYPE_F32, TOKENS, KV_HEADS * count * HEAD);
    Tensor lse = DEVICE_TENSOR(device, MEMORY_ACTIVATION, DTYPE_F32, TOKENS, KV_HEADS * count);
    Tensor dqkv = DEVICE_TENSOR(device, MEMORY_ACTIVATION, DTYPE_F32, TOKENS, columns);
    kv_store(ops, &kv, &own, &shape, &span, 1);
    attention_forward(ops, &out, &lse, &own, &kv, &shape, &span, 1);
    attention_backward(ops, &dqkv, dkv->rank == 3 ? dkv : NULL, &down, &out, &lse, &own, &kv, &shape, &span, 1);
    for (int64_t t = 0; t < TOKENS && dkv->rank == 2; t++)
        memcpy((float *)dkv->data + t * 2 * KV_HEADS * HEAD, (float *)dqkv.data + t * columns + KV_HEADS * count * HEAD,
               (size_t)(2 * KV_HEADS * HEAD) * sizeof(float));
    kv_pages_close(ops, &kv);
    Tensor all[] = {own, down, out, lse, dqkv};
    for (int i = 0; i < 5; i++) device_release(device, &all[i]);
}

// Parts of a key/value head's query heads are sums of their own, as if each part were alone; their fold is linear_fold's.
static void test_attention_parts(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) { // one pass, or dq and dk, dv apart
        Ops ops;
        Error error;
        assert_true(ops_open(&ops, (OpsOptions){.threads = threads}, &error));
        int64_t width = 2 * KV_HEADS * HEAD;
        Tensor qkv = fill(&ops, DTYPE_F32, TOKENS, HEADS * HEAD + width, 14);
        Tensor dout = fill(&ops, DTYPE_F32, TOKENS, HEADS * HEAD, 15);
        Tensor parts = DEVICE_TENSOR(&ops.device, MEMORY_ACTIVATION, DTYPE_F32, PARTS, TOKENS, width);
        Tensor alone = DEVICE_TENSOR(&ops.device, MEMORY_ACTIVATION, DTYPE_F32, TOKENS, width);
        backward_of(&ops, &parts, &qkv, &dout, 0, HEADS / KV_HEADS);
        for (int64_t part = 0; part < PARTS; part++) {
            Tensor got = tensor_rows(&parts, part, 1), got_TC = TENSOR_RESHAPE(&got, TOKENS, width);
            backward_of(&ops, &alone, &qkv, &dout, part, 1);
            assert_same(&got_TC, &alone, &ops, "a part");
        }
        AttentionShape shape = {.query_heads = HEADS, .kv_heads = KV_HEADS, .head_dim = HEAD};
        Tensor dqkv = fill(&ops, DTYPE_F32, TOKENS, HEADS * HEAD + width, 16);
        attention_fold_keys(&ops, &dqkv, &parts, &shape);
        linear_fold(&ops, &alone, &parts);
        Tensor folded = columns_of(&ops, &dqkv, HEADS * HEAD, width);
        assert_same(&folded, &alone, &ops, "the fold of parts");
        Tensor all[] = {qkv, dout, parts, alone, dqkv, folded};
        for (int i = 0; i < 6; i++) device_release(&ops.device, &all[i]);
        ops_close(&ops);
    }
}

// Rows that another rank has are −0, and gradients that it sums are left out.
static void test_rows_elsewhere(void **state) {
    (void)state;
    Ops ops;
    Error error;
    assert_true(ops_open(&ops, (OpsOptions){.threads = 1}, &error));
    Tensor table = fill(&ops, DTYPE_BF16, 3, 20, 17), y = fill(&ops, DTYPE_BF16, 2, 20, 18);
    Tensor sums = DEVICE_TENSOR(&ops.device, MEMORY_ACTIVATION, DTYPE_F32, 3, 20);
    const int32_t ids[] = {-1, 2};
    embedding_forward(&ops, &y, &table, ids);
    embedding_backward(&ops, &sums, &y, ids);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(dtype_bits(dtype_load(y.data, DTYPE_BF16, i)), 0x80000000u);
        assert_true(dtype_load(y.data, DTYPE_BF16, 20 + i) == dtype_load(table.data, DTYPE_BF16, 40 + i));
        assert_true(((float *)sums.data)[i] == 0 && ((float *)sums.data)[20 + i] == 0);
        assert_true(((float *)sums.data)[40 + i] == dtype_load(table.data, DTYPE_BF16, 40 + i));
    }
    Tensor all[] = {table, y, sums};
    for (int i = 0; i < 3; i++) device_release(&ops.device, &all[i]);
    ops_close(&ops);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),        cmocka_unit_test(test_ranks),          cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_attention_parts), cmocka_unit_test(test_rows_elsewhere),
    };
    return cmocka_run_group_tests_name("segments", tests, NULL, NULL);
}
