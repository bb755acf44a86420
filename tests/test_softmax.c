// Log-probabilities, filters, sampling and their gradient: against plain references, and the same bits everywhere.
#include "base/arena.h"
#include "base/rng.h"
#include "ops/kernels.h"
#include "ops/softmax.h"

#include <setjmp.h>
#include <stdarg.h>
// cmocka wants the four headers around it in this order.
#include <cmocka.h>
#include <stdio.h>

enum { PADDING = 5 };

typedef enum Kind { PEAKED, SPREAD, FLAT, TIES, HOLES, STEEP, KINDS } Kind;

static float uniform(uint32_t a, uint32_t b) {
    return rng_uniform(7, RNG_TEST_WEIGHTS, (RngCounter){a, b, 0, 0});
}

// A row of logits of some kind, the padding NaN.
static void fill(float *logits, int64_t n, Kind kind, uint32_t row) {
    for (int64_t i = 0; i < n; i++) {
        float u = uniform(row * 100 + kind, (uint32_t)i), sum = u;
        for (uint32_t j = 1; j < 4; j++) sum += uniform(row * 100 + kind + j * 1000000, (uint32_t)i);
        float normal = (sum - 2) * 1.7320508f;
        switch (kind) {
        case PEAKED: logits[i] = normal * 2 + (u > 0.99f ? 9.0f : 0.0f); break;
        case SPREAD: logits[i] = normal * 0.5f - 3; break;
        case FLAT: logits[i] = 1.25f; break;
        case TIES: logits[i] = floorf(normal * 2) * (u > 0.5f ? 1.0f : -1.0f); break; // −0 and 0 among them
        case HOLES: logits[i] = u < 0.7f ? -INFINITY : normal * 3; break;
        default: logits[i] = normal * 60; break;
        }
    }
    if (kind == HOLES) logits[n / 2] = 1;
    for (int64_t i = n; i < n + PADDING; i++) logits[i] = NAN;
}

static bool open_ops(Ops *ops, const char *isa, int threads) {
    Error error;
    return ops_open(ops, (OpsOptions){.threads = threads, .isa = isa}, &error);
}

// ---- the definition of softmax.h, spelled out on a sorted row

typedef struct Brute {
    int64_t n;
    float *x, *e;       // e: exp(x − max)
    float *own, *scale; // exp(x − the block's max), exp(the block's max − max)
    int32_t *order;     // by logit descending, id ascending
    bool *kept;
    float max, sum;
} Brute;

static void merge_sort(const float *x, int32_t *order, int32_t *spare, int64_t n) {
    if (n < 2) return;
    int64_t half = n / 2, a = 0, b = half, out = 0;
    merge_sort(x, order, spare, half);
    merge_sort(x, order + half, spare, n - half);
    while (a < half || b < n) {
        bool left = b == n || (a < half && x[order[a]] >= x[order[b]]);
        spare[out++] = order[left ? a++ : b++];
    }
    memcpy(order, spare, (size_t)n * sizeof *order);
}

static float brute_sum(const Brute *b) {
    float total = 0;
    for (int64_t first = 0; first < b->n; first += 512) {
        float lane[16] = {0};
        for (int64_t i = first; i < b->n && i < first + 512; i++) lane[(i - first) % 16] += b->kept[i] ? b->own[i] : 0;
        for (int half = 8; half; half /= 2)
            for (int i = 0; i < half; i++) lane[i] += lane[i + half];
        total += lane[0] * b->scale[first];
    }
    return total;
}

static void brute_blocks(Brute *b, const Kernels *kernels) {
    for (int64_t first = 0; first < b->n; first += 512) {
        int64_t end = b->n < first + 512 ? b->n : first + 512;
        float max = -INFINITY;
        for (int64_t i = first; i < end; i++) max = fmaxf(max, b->x[i]);
        if (max == -INFINITY) continue; // sums stay 0
        for (int64_t i = first; i < end; i++) b->own[i] = b->x[i] - max, b->scale[i] = max - b->max;
        kernels->vmath_exps(b->own + first, b->own + first, end - first);
        kernels->vmath_exps(b->scale + first, b->scale + first, end - first);
    }
}

static Brute brute(Arena *arena, const Kernels *kernels, const float *logits, int64_t n, SoftmaxFilter filter) {
    Brute b = {.n = n, .x = arena_array(arena, float, n), .e = arena_array(arena, float, n)};
    b.own = arena_array(arena, float, n);
    b.scale = arena_array(arena, float, n);
    b.order = arena_array(arena, int32_t, n);
    b.kept = arena_array(arena, bool, n);
    for (int64_t i = 0; i < n; i++) {
        b.x[i] = filter.temperature == 1 ? logits[i] : logits[i] / filter.temperature;
        b.order[i] = (int32_t)i;
    }
    merge_sort(b.x, b.order, arena_array(arena, int32_t, n), n);
    b.max = b.x[b.order[0]];
    for (int64_t i = 0; i < n; i++) b.e[i] = b.x[i] - b.max;
    kernels->vmath_exps(b.e, b.e, n);
    brute_blocks(&b, kernels);
    int64_t count = filter.top_k && filter.top_k < n ? filter.top_k : n;
    float least = filter.min_p;
    kernels->vmath_logs(&least, &least, 1); // of 0: −inf
    while (filter.min_p > 0 && b.x[b.order[count - 1]] < b.max + least) count--;
    for (int64_t i = 0; i < count; i++) b.kept[b.order[i]] = true;
    b.sum = brute_sum(&b);
    if (filter.top_p == 1) return b;
    double target = ceil((double)filter.top_p * (double)b.sum * 0x1p40), reached = 0; // integers below 2^53: exact
    int64_t last = 0;
    for (; last < count; last++) {
        reached += floor((double)b.e[b.order[last]] * 0x1p40);
        if (reached >= fmax(target, 1)) break;
    }
    for (int64_t i = last + 1; i < count; i++) b.kept[b.order[i]] = false;
    b.sum = brute_sum(&b);
    return b;
}

static int32_t brute_pick(const Brute *b, float u) {
    float target = u * b->sum, before = 0;
    int32_t last = -1;
    for (int64_t first = 0; first < b->n; first += 512) {
        Brute block = *b;
        block.n = b->n - first < 512 ? b->n - first : 512;
        block.own += first;
        block.scale += first;
        block.kept += first;
        float after = before + brute_sum(&block);
        if (!(after > target)) {
            before = after;
            continue;
        }
        for (int64_t i = first; i < first + block.n; i++) {
            if (!b->kept[i] || !(b->e[i] > 0)) continue;
            last = (int32_t)i;
            if ((before += b->e[i]) > target) break;
        }
        return last;
    }
    return -1;
}

// What is certain without knowing any order of sums: log-probs and the kept set by plain doubles.
static void check_plainly(const Brute *b, const float *logprob, SoftmaxFilter filter) {
    double all = 0, kept = 0, smallest = INFINITY;
    int64_t in_k = filter.top_k && filter.top_k < b->n ? filter.top_k : b->n;
    for (int64_t i = 0; i < in_k; i++) {
        double e = exp((double)b->x[b->order[i]] - b->max);
        bool taken = e >= (double)filter.min_p;
        if (fabs(e - (double)filter.min_p) > 1e-5 * e && filter.top_p == 1)
            assert_int_equal(b->kept[b->order[i]], taken);
        if (taken) all += e;
    }
    for (int64_t i = 0; i < b->n; i++) {
        if (!b->kept[i]) continue;
        double e = exp((double)b->x[i] - b->max);
        kept += e;
        smallest = fmin(smallest, e);
    }
    if (filter.top_p < 1) {
        assert_true(kept >= (filter.top_p - 2e-6) * all);
        assert_true(kept - smallest <= (filter.top_p + 2e-6) * all);
    }
    for (int64_t i = 0; i < b->n; i++) {
        if (!b->kept[i]) continue;
        double expected = (double)b->x[i] - b->max - log(kept);
        if (!(fabs(logprob[i] - expected) <= 2e-6 * (1 + fabs(expected))) && logprob[i] != expected)
            fail_msg("token %lld: %.9g, not %.9g", (long long)i, logprob[i], expected);
    }
}

static const SoftmaxFilter filters[] = {
    {1, 1, 0, 0},          {0.7f, 1, 0, 0},   {1, 0.9f, 0, 0},      {0.7f, 0.9f, 0, 0},    {1, 1, 1, 0},
    {1, 1, 5, 0},          {2.5f, 1, 100, 0}, {1, 0.5f, 50, 0},     {1, 1e-6f, 0, 0},      {1, 0.1f, 3, 0},
    {1, 0.9999999f, 0, 0}, {1, 0.999f, 0, 0}, {0.01f, 0.95f, 0, 0}, {1, 0.3f, 1000000, 0}, {1.3f, 1, 600, 0},
    {1, 1, 1200, 0},       {1, 1, 0, 0.1f},   {0.7f, 1, 0, 0.02f},  {1.3f, 1, 20, 0.05f},  {1, 0.9f, 0, 0.1f},
    {1, 0.8f, 40, 0.01f},  {1, 1, 0, 1},      {1, 1, 0, 1e-30f},
};
static const int64_t sizes[] = {1, 2, 15, 16, 17, 511, 512, 513, 2500};
enum { FILTERS = sizeof filters / sizeof *filters, SIZES = sizeof sizes / sizeof *sizes };

static void check_row(Ops *ops, int64_t n, Kind kind, SoftmaxFilter filter) {
    Arena arena = {0};
    Tensor logits = DEVICE_TENSOR(&ops->device, MEMORY_LOGITS, DTYPE_F32, 1, n + PADDING);
    fill(logits.data, n, kind, (uint32_t)n);
    Brute b = brute(&arena, ops->kernels, logits.data, n, filter);
    SoftmaxRow row;
    softmax_rows(ops, &row, &logits, n, filter);
    assert_int_equal(dtype_bits(row.max), dtype_bits(b.max));
    assert_int_equal(dtype_bits(row.sum), dtype_bits(b.sum));
    float *logprob = arena_array(&arena, float, n);
    for (int32_t id = 0; id < n; id++) {
        softmax_logprobs(ops, &logprob[id], &logits, &row, &id, filter);
        if (!b.kept[id]) assert_true(logprob[id] == -INFINITY);
        if (b.kept[id] && b.x[id] > -INFINITY) assert_true(logprob[id] > -INFINITY);
    }
    check_plainly(&b, logprob, filter);
    for (uint32_t i = 0; i < 12; i++) {
        float u = i == 0 ? 0 : i == 1 ? 0x1.fffffep-1f : i == 2 ? 0x1p-24f : uniform(i, 77);
        int32_t id;
        softmax_sample(ops, &id, &logits, &row, n, &u, filter);
        assert_true(id >= 0 && id < n && b.kept[id] && b.e[id] > 0);
        assert_int_equal(id, brute_pick(&b, u));
    }
    int32_t likeliest;
    softmax_sample(ops, &likeliest, &logits, &row, n, NULL, filter);
    assert_int_equal(likeliest, b.order[0]);
    device_release(&ops->device, &logits);
    arena_close(&arena);
}

static void test_definition(void **state) {
    (void)state;
    Ops ops;
    assert_true(open_ops(&ops, NULL, 1));
    for (int f = 0; f < FILTERS; f++)
        for (int s = 0; s < SIZES; s++)
            for (Kind kind = 0; kind < KINDS; kind++) check_row(&ops, sizes[s], kind, filters[f]);
    ops_close(&ops);
}

// Whole vocabularies of real models, flat ones among them.
static void test_large(void **state) {
    (void)state;
    Ops ops;
    assert_true(open_ops(&ops, NULL, 2));
    static const SoftmaxFilter some[] = {{1, 1, 0, 0}, {0.7f, 0.9f, 0, 0}, {1, 0.95f, 4000, 0}};
    for (int f = 0; f < 3; f++)
        for (Kind kind = 0; kind < KINDS; kind++) check_row(&ops, f == 1 ? 151936 : 49152, kind, some[f]);
    ops_close(&ops);
}

// ---- frequencies

static void test_frequencies(void **state) {
    (void)state;
    enum { TOKENS = 20, ROWS = 2000, ROUNDS = 50 };
    Ops ops;
    assert_true(open_ops(&ops, NULL, 2));
    Tensor logits = DEVICE_TENSOR(&ops.device, MEMORY_LOGITS, DTYPE_F32, ROWS, TOKENS);
    for (int row = 0; row < ROWS; row++)
        for (uint32_t i = 0; i < TOKENS; i++) ((float *)logits.data)[row * TOKENS + i] = 3 * uniform(5, i);
    static const SoftmaxFilter ways[] = {{1, 1, 0, 0}, {0.6f, 0.8f, 0, 0}};
    for (int way = 0; way < 2; way++) {
        SoftmaxRow rows[ROWS];
        int64_t seen[TOKENS] = {0};
        softmax_rows(&ops, rows, &logits, TOKENS, ways[way]);
        for (uint32_t round = 0; round < ROUNDS; round++) {
            float u[ROWS];
            int32_t ids[ROWS];
            for (uint32_t i = 0; i < ROWS; i++)
                u[i] = rng_uniform(3, RNG_SAMPLE_TOKEN, (RngCounter){round, i, (uint32_t)way, 0});
            softmax_sample(&ops, ids, &logits, rows, TOKENS, u, ways[way]);
            for (int i = 0; i < ROWS; i++) seen[ids[i]]++;
        }
        double chi = 0;
        for (int32_t id = 0; id < TOKENS; id++) {
            float logprob;
            Tensor one = tensor_rows(&logits, 0, 1);
            softmax_logprobs(&ops, &logprob, &one, rows, &id, ways[way]);
            double expected = exp(logprob) * ROWS * ROUNDS;
            if (expected == 0)
                assert_int_equal(seen[id], 0);
            else
                chi += (seen[id] - expected) * (seen[id] - expected) / expected;
        }
        assert_true(chi < 46); // 19 degrees of freedom: once in 2000
    }
    device_release(&ops.device, &logits);
    ops_close(&ops);
}

// ---- gradient

static void test_gradient(void **state) {
    (void)state;
    Ops ops;
    assert_true(open_ops(&ops, NULL, 1));
    SoftmaxFilter plain = {1, 1, 0, 0};
    for (int f = 0; f < FILTERS; f++) {
        for (int s = 0; s < SIZES; s++) {
            int64_t n = sizes[s];
            SoftmaxFilter filter = filters[f];
            if (filter.temperature < 0.1f) continue; // gradients of 1/t
            plain.temperature = filter.temperature;
            Arena arena = {0};
            Tensor logits = DEVICE_TENSOR(&ops.device, MEMORY_LOGITS, DTYPE_F32, 1, n + PADDING);
            float *x = logits.data, g = 1.75f, h = s % 3 ? -0.5f : 0;
            fill(x, n, s % 2 ? PEAKED : HOLES, (uint32_t)f);
            Brute b = brute(&arena, ops.kernels, x, n, filter);
            SoftmaxRow row, unfiltered;
            softmax_rows(&ops, &row, &logits, n, filter);
            softmax_rows(&ops, &unfiltered, &logits, n, plain);
            int32_t id = b.order[(n - 1) / 7];
            if (!b.kept[id] || b.e[id] == 0) id = b.order[0];
            double sum = 0, sum_all = 0;
            for (int64_t i = 0; i < n; i++) {
                sum_all += exp((double)b.x[i] - b.max);
                if (b.kept[i]) sum += exp((double)b.x[i] - b.max);
            }
            softmax_backward(&ops, &logits, &row, s % 3 ? &unfiltered : NULL, &id, &g, s % 3 ? &h : NULL, n, filter);
            for (int64_t i = 0; i < n; i++) {
                double e = exp((double)b.x[i] - b.max), p = b.kept[i] ? e / sum : 0;
                double expected = (g * ((i == id) - p) + h * ((i == id) - e / sum_all)) / filter.temperature;
                if (!(fabs(x[i] - expected) <= 2e-6)) fail_msg("%lld: %g, not %g", (long long)i, x[i], expected);
            }
            for (int64_t i = n; i < n + PADDING; i++) assert_true(x[i] == 0);
            device_release(&ops.device, &logits);
            arena_close(&arena);
        }
    }
    ops_close(&ops);
}

// ---- rows without a distribution

static void test_hostile(void **state) {
    (void)state;
    Ops ops;
    assert_true(open_ops(&ops, NULL, 1));
    static const SoftmaxFilter ways[] = {{1, 1, 0, 0}, {0.5f, 0.9f, 10, 0}, {1, 0.5f, 0, 0}, {1, 1, 3, 0}};
    for (int way = 0; way < 4; way++) {
        for (int kind = 0; kind < 4; kind++) {
            enum { N = 100 };
            Tensor logits = DEVICE_TENSOR(&ops.device, MEMORY_LOGITS, DTYPE_F32, 1, N);
            float *x = logits.data, logprob, u = 0.5f, g = 1;
            fill(x, N - PADDING, PEAKED, 1);
            for (int i = N - PADDING; i < N; i++) x[i] = 0;
            if (kind == 0) x[37] = NAN;
            if (kind == 1) x[99] = INFINITY;
            for (int i = 0; kind == 2 && i < N; i++) x[i] = -INFINITY;
            if (kind == 3) x[96] = -NAN, x[3] = INFINITY;
            SoftmaxRow row;
            int32_t id = 7;
            softmax_rows(&ops, &row, &logits, N, ways[way]);
            assert_true(isnan(row.max) && isnan(row.sum) && isnan(row.log_sum));
            softmax_logprobs(&ops, &logprob, &logits, &row, &id, ways[way]);
            assert_true(isnan(logprob));
            softmax_sample(&ops, &id, &logits, &row, N, &u, ways[way]);
            assert_int_equal(id, 0);
            softmax_sample(&ops, &id, &logits, &row, N, NULL, ways[way]);
            assert_int_equal(id, 0);
            softmax_backward(&ops, &logits, &row, NULL, &id, &g, NULL, N, ways[way]);
            assert_true(isnan(x[50]));
            g = 0; // such a row may be masked
            softmax_backward(&ops, &logits, &row, NULL, &id, &g, NULL, N, ways[way]);
            assert_true(x[50] == 0 && x[37] == 0);
            device_release(&ops.device, &logits);
        }
    }
    ops_close(&ops);
}

// ---- bits

enum { ROWS = 6, N = 3001 };
typedef struct Outcome {
    SoftmaxRow rows[ROWS];
    int32_t ids[ROWS], likeliest[ROWS];
    float logprobs[ROWS], gradient[ROWS][N + PADDING];
} Outcome;

static bool outcome(Outcome *o, const char *isa, int threads, SoftmaxFilter filter, bool reversed) {
    Ops ops;
    if (!open_ops(&ops, isa, threads)) return false;
    Tensor logits = DEVICE_TENSOR(&ops.device, MEMORY_LOGITS, DTYPE_F32, ROWS, N + PADDING);
    SoftmaxRow rows[ROWS];
    int32_t ids[ROWS], likeliest[ROWS];
    float u[ROWS], logprobs[ROWS], g[ROWS], *x = logits.data;
    for (int i = 0; i < ROWS; i++) {
        int at = reversed ? ROWS - 1 - i : i;
        fill(x + at * (N + PADDING), N, (Kind)i, 9);
        u[at] = uniform((uint32_t)i, 1);
        g[at] = uniform((uint32_t)i, 2) - 0.5f;
    }
    softmax_rows(&ops, rows, &logits, N, filter);
    softmax_sample(&ops, ids, &logits, rows, N, u, filter);
    softmax_sample(&ops, likeliest, &logits, rows, N, NULL, filter);
    softmax_logprobs(&ops, logprobs, &logits, rows, ids, filter);
    softmax_backward(&ops, &logits, rows, rows, ids, g, g, N, filter);
    for (int i = 0; i < ROWS; i++) {
        int at = reversed ? ROWS - 1 - i : i;
        o->rows[i] = rows[at];
        o->ids[i] = ids[at];
        o->likeliest[i] = likeliest[at];
        o->logprobs[i] = logprobs[at];
        memcpy(o->gradient[i], x + at * (N + PADDING), sizeof o->gradient[i]);
    }
    device_release(&ops.device, &logits);
    ops_close(&ops);
    return true;
}

static void test_bits(void **state) {
    (void)state;
    static Outcome first, other;
    for (int f = 0; f < FILTERS; f++) {
        assert_true(outcome(&first, "scalar", 1, filters[f], false));
        static const char *const sets[] = {"scalar", "avx2", "avx512"};
        for (int i = 0; i < 3; i++)
            for (int threads = 1; threads <= 3; threads++)
                if (outcome(&other, sets[i], threads, filters[f], threads == 2))
                    assert_memory_equal(&first, &other, sizeof first);
    }
}

// The vocabulary in pieces of one and more blocks: rows, log-probs and gradients are those of the whole, NaN included.
static void test_pieces(void **state) {
    (void)state;
    enum { T = 8, V = 2500, BLOCKS = (V + SOFTMAX_BLOCK - 1) / SOFTMAX_BLOCK };
    Ops ops;
    assert_true(open_ops(&ops, NULL, 2));
    for (int way = 0; way < 4; way++) {
        SoftmaxFilter filter = {.temperature = way % 2 ? 0.7f : 1, .top_p = 1};
        int64_t size = (1 + way) * SOFTMAX_BLOCK;
        Tensor whole = DEVICE_TENSOR(&ops.device, MEMORY_LOGITS, DTYPE_F32, T, V + PADDING);
        Tensor piece = DEVICE_TENSOR(&ops.device, MEMORY_LOGITS, DTYPE_F32, T, size + PADDING);
        float *x = whole.data, *p = piece.data, logprob[T], g[T], targets[T];
        int32_t ids[T];
        SoftmaxRow rows[T], folded[T];
        SoftmaxBlock blocks[T * BLOCKS];
        for (int t = 0; t < T; t++) {
            fill(x + t * (V + PADDING), V, (Kind)(t % KINDS), (uint32_t)t);
            ids[t] = t * 311 % V;
            g[t] = uniform((uint32_t)t, 5) - 0.5f;
        }
        x[3 * (V + PADDING) + 1000] = NAN;
        for (int i = 0; i < V; i++) x[5 * (V + PADDING) + i] = -INFINITY;
        for (int pass = 0; pass < 2; pass++) {
            for (int64_t first = 0; first < V; first += size) {
                int64_t count = V - first < size ? V - first : size;
                for (int64_t i = 0; i < T * (size + PADDING); i++) p[i] = NAN;
                for (int t = 0; t < T; t++)
                    for (int i = 0; i < count; i++) p[t * (size + PADDING) + i] = x[t * (V + PADDING) + first + i];
                if (!pass) {
                    softmax_blocks(&ops, blocks, BLOCKS, &piece, first, count, filter.temperature);
                    softmax_targets(&ops, targets, &piece, ids, first, count, filter.temperature);
                    continue;
                }
                softmax_backward_piece(&ops, &piece, folded, NULL, ids, g, NULL, first, count, filter);
                Tensor expected = DEVICE_TENSOR(&ops.device, MEMORY_LOGITS, DTYPE_F32, T, V + PADDING);
                memcpy(expected.data, x, tensor_bytes(&whole));
                softmax_backward(&ops, &expected, rows, NULL, ids, g, NULL, V, filter);
                for (int t = 0; t < T; t++)
                    for (int i = 0; i < count; i++)
                        assert_int_equal(dtype_bits(p[t * (size + PADDING) + i]),
                                         dtype_bits(((float *)expected.data)[t * (V + PADDING) + first + i]));
                device_release(&ops.device, &expected);
            }
            if (pass) break;
            softmax_fold(&ops, folded, blocks, T, BLOCKS);
            softmax_rows(&ops, rows, &whole, V, filter);
            assert_memory_equal(folded, rows, sizeof rows);
            softmax_logprobs(&ops, logprob, &whole, rows, ids, filter);
            for (int t = 0; t < T; t++)
                assert_int_equal(dtype_bits(softmax_logprob_of(targets[t], &folded[t])), dtype_bits(logprob[t]));
        }
        device_release(&ops.device, &whole);
        device_release(&ops.device, &piece);
    }
    ops_close(&ops);
}

// Filtered rows are known from the whole; their gradient comes in pieces too.
static void test_filtered_pieces(void **state) {
    (void)state;
    enum { T = KINDS, V = 1300, SIZE = 2 * SOFTMAX_BLOCK };
    Ops ops;
    assert_true(open_ops(&ops, NULL, 2));
    for (int f = 0; f < FILTERS; f++) {
        Tensor whole = DEVICE_TENSOR(&ops.device, MEMORY_LOGITS, DTYPE_F32, T, V + PADDING);
        Tensor piece = DEVICE_TENSOR(&ops.device, MEMORY_LOGITS, DTYPE_F32, T, SIZE);
        float *x = whole.data, *p = piece.data, g[T], h[T];
        int32_t ids[T];
        SoftmaxRow rows[T], unfiltered[T];
        for (int t = 0; t < T; t++) {
            fill(x + t * (V + PADDING), V, (Kind)t, (uint32_t)t);
            ids[t] = t * 211 % V;
            g[t] = uniform((uint32_t)t, 5) - 0.5f;
            h[t] = uniform((uint32_t)t, 6) - 0.5f;
        }
        softmax_rows(&ops, rows, &whole, V, filters[f]);
        softmax_rows(&ops, unfiltered, &whole, V, (SoftmaxFilter){.temperature = filters[f].temperature, .top_p = 1});
        static float before[T * (V + PADDING)];
        memcpy(before, x, sizeof before);
        softmax_backward(&ops, &whole, rows, unfiltered, ids, g, h, V, filters[f]);
        for (int64_t first = 0; first < V; first += SIZE) {
            int64_t count = V - first < SIZE ? V - first : SIZE;
            for (int t = 0; t < T; t++)
                for (int i = 0; i < count; i++) p[t * SIZE + i] = before[t * (V + PADDING) + first + i];
            softmax_backward_piece(&ops, &piece, rows, unfiltered, ids, g, h, first, count, filters[f]);
            for (int t = 0; t < T; t++)
                for (int i = 0; i < count; i++)
                    assert_int_equal(dtype_bits(p[t * SIZE + i]), dtype_bits(x[t * (V + PADDING) + first + i]));
        }
        device_release(&ops.device, &whole);
        device_release(&ops.device, &piece);
    }
    ops_close(&ops);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_definition), cmocka_unit_test(test_large),           cmocka_unit_test(test_frequencies),
        cmocka_unit_test(test_gradient),   cmocka_unit_test(test_hostile),         cmocka_unit_test(test_bits),
        cmocka_unit_test(test_pieces),     cmocka_unit_test(test_filtered_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
