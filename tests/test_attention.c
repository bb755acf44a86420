// Attention: against a plain double reference, and the same bits however a sequence is cut, paged, batched and computed.
#include "base/arena.h"
#include "base/rng.h"
#include "ops/attention.h"
#include "ops/kernels.h"

#include <setjmp.h>
#include <stdarg.h>
// cmocka wants the four headers around it in this order.
#include <cmocka.h>
#include <stdio.h>

enum { MAX_SEQUENCES = 4, SEED = 11 };

typedef struct Case {
    int64_t heads, kv_heads, head_dim, window;
    DType dtype, page_dtype;
} Case;

// How the sequences are run: results must not depend on any of it.
typedef struct Manner {
    const char *isa;
    int threads;
    int64_t chunk;    // positions pushed at once; 0: whole sequences
    uint64_t shuffle; // order of the pages
    bool reversed;    // order of the sequences in the batch
    int64_t alone;    // only sequence alone − 1; 0: all of them in one batch
} Manner;

// What came out, and what backward says about it: [sequence][position][columns] as floats.
typedef struct Result {
    float *out, *lse, *dqkv;
    Arena arena;
} Result;

static AttentionShape shape_of(const Case *c) {
    return (AttentionShape){c->heads, c->kv_heads, c->head_dim, 1 / sqrtf((float)c->head_dim), c->window};
}

static int64_t columns_of(const Case *c) {
    return (c->heads + 2 * c->kv_heads) * c->head_dim;
}

// A number that depends on the sequence and its own coordinates alone, about normal in spread.
static float number(int64_t sequence, int64_t position, int64_t column, uint32_t what) {
    uint32_t words[4];
    RngCounter at = {(uint32_t)sequence, (uint32_t)position, (uint32_t)column, what};
    rng_words(words, SEED, RNG_TEST_WEIGHTS, at);
    return ((float)(words[0] >> 8) + (float)(words[1] >> 8)) * 0x1p-23f * 1.5f - 3.0f;
}

static void fill(Tensor *x, int64_t row, int64_t sequence, int64_t position, uint32_t what) {
    for (int64_t i = 0; i < x->size[1]; i++)
        dtype_store(x->data, x->dtype, row * x->size[1] + i, number(sequence, position, i, what));
}

static void keep(float *to, const Tensor *x, int64_t row, int64_t sequence, int64_t position, const int64_t *lengths) {
    int64_t at = position, columns = x->size[1];
    for (int64_t s = 0; s < sequence; s++) at += lengths[s];
    for (int64_t i = 0; i < columns; i++) to[at * columns + i] = dtype_load(x->data, x->dtype, row * columns + i);
}

static void fill_garbage(Tensor *x) {
    memset(x->data, 0xff, tensor_bytes(x)); // NaN in every dtype
}

// Page numbers for all sequences: sequence s gets a stride of `most` entries.
static void make_pages(int32_t *pages, int64_t count, uint64_t shuffle) {
    uint32_t order[4096];
    assert_true(count <= 4096);
    rng_shuffle(order, (uint32_t)count, shuffle, RNG_SHUFFLE, 0);
    for (int64_t i = 0; i < count; i++) pages[i] = shuffle ? (int32_t)order[i] : (int32_t)i;
}

static bool open_ops(Ops *ops, const Manner *manner) {
    Error error;
    return ops_open(ops, (OpsOptions){.threads = manner->threads ? manner->threads : 1, .isa = manner->isa}, &error);
}

// One chunk of every sequence that still has positions: spans, rows, numbers. Returns the rows.
static int64_t make_spans(AttentionSpan *spans, int64_t *members, int64_t *span_count, const Manner *manner,
                          const int64_t *lengths, int64_t count, int64_t from, int32_t *pages, int64_t most) {
    int64_t rows = 0;
    *span_count = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t s = manner->reversed ? count - 1 - i : i, left = lengths[s] - from;
        if (left <= 0 || (manner->alone && manner->alone - 1 != s)) continue;
        int64_t take = manner->chunk && manner->chunk < left ? manner->chunk : left;
        members[*span_count] = s;
        spans[(*span_count)++] = (AttentionSpan){rows, take, from, pages + s * most};
        rows += take;
    }
    return rows;
}

static void backward_too(Ops *ops, const Case *c, Result *result, const Tensor *out, const Tensor *lse,
                         const Tensor *qkv, const KvPages *kv, const AttentionSpan *spans, const int64_t *members,
                         int64_t span_count, const int64_t *lengths) {
    AttentionShape shape = shape_of(c);
    Tensor dout = DEVICE_TENSOR(&ops->device, MEMORY_SCRATCH, c->dtype, qkv->size[0], c->heads * c->head_dim);
    Tensor dqkv = DEVICE_TENSOR(&ops->device, MEMORY_SCRATCH, c->dtype, qkv->size[0], columns_of(c));
    fill_garbage(&dqkv);
    for (int64_t i = 0; i < span_count; i++)
        for (int64_t t = 0; t < spans[i].count; t++) fill(&dout, spans[i].row + t, members[i], t, 1);
    attention_backward(ops, &dqkv, NULL, &dout, out, lse, qkv, kv, &shape, spans, span_count);
    for (int64_t i = 0; i < span_count; i++)
        for (int64_t t = 0; t < spans[i].count; t++)
            keep(result->dqkv, &dqkv, spans[i].row + t, members[i], t, lengths);
    device_release(&ops->device, &dout);
    device_release(&ops->device, &dqkv);
}

// Runs the sequences in this manner; backward as well when they are pushed whole.
static bool attend(Result *result, const Case *c, Manner manner, const int64_t *lengths, int64_t count) {
    Ops ops;
    if (!open_ops(&ops, &manner)) return false;
    AttentionShape shape = shape_of(c);
    int64_t total = 0, most = 0;
    for (int64_t s = 0; s < count; s++) {
        total += lengths[s];
        if ((lengths[s] + 15) / 16 > most) most = (lengths[s] + 15) / 16;
    }
    *result = (Result){0};
    result->out = arena_array(&result->arena, float, total * c->heads * c->head_dim);
    result->lse = arena_array(&result->arena, float, total * c->heads);
    result->dqkv = arena_array(&result->arena, float, total *columns_of(c));
    int32_t *pages = arena_array(&result->arena, int32_t, most * count);
    make_pages(pages, most * count, manner.shuffle);
    KvPages kv = kv_pages_open(&ops, MEMORY_KV_CACHE, c->page_dtype, most * count, &shape);
    fill_garbage(&kv.keys);
    fill_garbage(&kv.values);
    AttentionSpan spans[MAX_SEQUENCES];
    int64_t members[MAX_SEQUENCES], span_count, step = manner.chunk ? manner.chunk : most * 16;
    for (int64_t from = 0; from < most * 16; from += step) {
        int64_t rows = make_spans(spans, members, &span_count, &manner, lengths, count, from, pages, most);
        Tensor qkv = DEVICE_TENSOR(&ops.device, MEMORY_SCRATCH, c->dtype, rows, columns_of(c));
        Tensor out = DEVICE_TENSOR(&ops.device, MEMORY_SCRATCH, c->dtype, rows, c->heads * c->head_dim);
        Tensor lse = DEVICE_TENSOR(&ops.device, MEMORY_SCRATCH, DTYPE_F32, rows, c->heads);
        for (int64_t i = 0; i < span_count; i++)
            for (int64_t t = 0; t < spans[i].count; t++) fill(&qkv, spans[i].row + t, members[i], from + t, 0);
        kv_store(&ops, &kv, &qkv, &shape, spans, span_count);
        attention_forward(&ops, &out, manner.shuffle == 3 ? NULL : &lse, &qkv, &kv, &shape, spans, span_count);
        for (int64_t i = 0; i < span_count; i++)
            for (int64_t t = 0; t < spans[i].count; t++) {
                keep(result->out, &out, spans[i].row + t, members[i], from + t, lengths);
                keep(result->lse, &lse, spans[i].row + t, members[i], from + t, lengths);
            }
        if (!manner.chunk) backward_too(&ops, c, result, &out, &lse, &qkv, &kv, spans, members, span_count, lengths);
        device_release(&ops.device, &qkv);
        device_release(&ops.device, &out);
        device_release(&ops.device, &lse);
    }
    kv_pages_close(&ops, &kv);
    ops_close(&ops);
    return true;
}

static float rounded(DType dtype, float x) {
    uint32_t stored = 0;
    dtype_store(&stored, dtype, 0, x);
    return dtype_load(&stored, dtype, 0);
}

// The same in plain double, with analytic gradients; dqkv is for dout as fill() makes it.
typedef struct Reference {
    double *out, *lse, *dqkv;
} Reference;

typedef struct Plain {
    const Case *c;
    int64_t sequence, length;
    double *qkv, *p; // values as read (keys and values as the pages hold them), probabilities of one query
} Plain;

static double *plain_row(const Plain *plain, int64_t position, int64_t column) {
    return plain->qkv + position * columns_of(plain->c) + column;
}

static void reference_head(const Plain *plain, Reference *r, int64_t h, int64_t i, int64_t row) {
    const Case *c = plain->c;
    int64_t E = c->head_dim, kv = h / (c->heads / c->kv_heads), k_column = (c->heads + kv) * E;
    int64_t v_column = k_column + c->kv_heads * E, low = c->window && i >= c->window ? i - c->window + 1 : 0;
    double scale = 1 / sqrt((double)E), largest = -INFINITY, sum = 0, dot = 0, *p = plain->p;
    for (int64_t j = low; j <= i; j++) {
        p[j] = 0;
        for (int64_t e = 0; e < E; e++) p[j] += plain_row(plain, i, h * E)[e] * plain_row(plain, j, k_column)[e];
        p[j] *= scale;
        largest = fmax(largest, p[j]);
    }
    for (int64_t j = low; j <= i; j++) sum += p[j] = exp(p[j] - largest);
    r->lse[row * c->heads + h] = largest + log(sum);
    double *out = r->out + (row * c->heads + h) * E;
    for (int64_t j = low; j <= i; j++)
        for (int64_t e = 0; e < E; e++) out[e] += p[j] / sum * plain_row(plain, j, v_column)[e];
    for (int64_t e = 0; e < E; e++) dot += out[e] * rounded(c->dtype, number(plain->sequence, i, h * E + e, 1));
    for (int64_t j = low; j <= i; j++) {
        double dp = -dot, *dq = r->dqkv + row * columns_of(c) + h * E;
        double *dk = r->dqkv + (row - i + j) * columns_of(c) + k_column, *dv = dk + c->kv_heads * E;
        for (int64_t e = 0; e < E; e++) {
            double dout = rounded(c->dtype, number(plain->sequence, i, h * E + e, 1));
            dp += dout * plain_row(plain, j, v_column)[e];
            dv[e] += p[j] / sum * dout;
        }
        for (int64_t e = 0; e < E; e++) {
            dq[e] += scale * p[j] / sum * dp * plain_row(plain, j, k_column)[e];
            dk[e] += scale * p[j] / sum * dp * plain_row(plain, i, h * E)[e];
        }
    }
}

static Reference reference(Arena *arena, const Case *c, const int64_t *lengths, int64_t count) {
    int64_t total = 0, row = 0, columns = columns_of(c);
    for (int64_t s = 0; s < count; s++) total += lengths[s];
    Reference r = {arena_array(arena, double, total * c->heads * c->head_dim),
                   arena_array(arena, double, total * c->heads), arena_array(arena, double, total *columns)};
    for (int64_t s = 0; s < count; s++) {
        Plain plain = {c, s, lengths[s], arena_array(arena, double, lengths[s] * columns),
                       arena_array(arena, double, lengths[s])};
        for (int64_t t = 0; t < lengths[s]; t++)
            for (int64_t i = 0; i < columns; i++) {
                float value = rounded(c->dtype, number(s, t, i, 0));
                plain.qkv[t * columns + i] = i < c->heads * c->head_dim ? value : rounded(c->page_dtype, value);
            }
        for (int64_t t = 0; t < lengths[s]; t++, row++)
            for (int64_t h = 0; h < c->heads; h++) reference_head(&plain, &r, h, t, row);
    }
    return r;
}

static void assert_close(const float *found, const double *expected, int64_t count, double tolerance,
                         const char *what) {
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(found[i] - expected[i]) <= tolerance * (1 + fabs(expected[i]))))
            fail_msg("%s[%lld]: %.9g, not %.9g", what, (long long)i, found[i], expected[i]);
}

static void assert_bits(const float *a, const float *b, int64_t count, const char *what) {
    for (int64_t i = 0; i < count; i++)
        if (dtype_bits(a[i]) != dtype_bits(b[i])) fail_msg("%s[%lld]: %.9g, not %.9g", what, (long long)i, a[i], b[i]);
}

static const Case cases[] = {
    {3, 3, 64, 0, DTYPE_F32, DTYPE_F32},   {6, 2, 64, 0, DTYPE_F32, DTYPE_F32},   {4, 1, 16, 0, DTYPE_F32, DTYPE_F32},
    {3, 1, 24, 0, DTYPE_F32, DTYPE_F32},   {4, 1, 128, 0, DTYPE_F32, DTYPE_F32},  {9, 3, 64, 0, DTYPE_BF16, DTYPE_BF16},
    {3, 1, 24, 0, DTYPE_BF16, DTYPE_BF16}, {2, 1, 64, 0, DTYPE_F16, DTYPE_F16},   {2, 1, 64, 0, DTYPE_F32, DTYPE_BF16},
    {6, 2, 64, 20, DTYPE_F32, DTYPE_F32},  {3, 1, 24, 1, DTYPE_BF16, DTYPE_BF16}, {4, 4, 16, 16, DTYPE_F32, DTYPE_F32},
    {4, 1, 64, 37, DTYPE_F32, DTYPE_F32},  {7, 1, 10, 0, DTYPE_F32, DTYPE_F32},
};
enum { CASES = sizeof cases / sizeof *cases, SEQUENCES = 3 };
static const int64_t lengths[SEQUENCES] = {75, 130, 1};

static int64_t total_length(void) {
    int64_t total = 0;
    for (int s = 0; s < SEQUENCES; s++) total += lengths[s];
    return total;
}

static void test_reference(void **state) {
    (void)state;
    for (int i = 0; i < CASES; i++) {
        const Case *c = &cases[i];
        Arena arena = {0};
        Result result;
        assert_true(attend(&result, c, (Manner){0}, lengths, SEQUENCES));
        Reference expected = reference(&arena, c, lengths, SEQUENCES);
        int64_t total = total_length();
        double tolerance = c->dtype == DTYPE_F32 ? 4e-6 : c->dtype == DTYPE_F16 ? 2e-3 : 1.2e-2;
        assert_close(result.out, expected.out, total * c->heads * c->head_dim, tolerance, "out");
        assert_close(result.lse, expected.lse, total * c->heads, 2e-6, "lse");
        assert_close(result.dqkv, expected.dqkv, total * columns_of(c), 5 * tolerance, "dqkv");
        arena_close(&result.arena);
        arena_close(&arena);
    }
}

// All manners of running the same sequences give the bits of the first.
static void test_bits(void **state) {
    (void)state;
    static const Manner manners[] = {
        {.isa = "scalar"},
        {.isa = "avx2", .threads = 2},
        {.isa = "avx512", .threads = 3},
        {.chunk = 1, .shuffle = 1},
        {.chunk = 16, .threads = 2},
        {.chunk = 64, .shuffle = 2, .reversed = true},
        {.chunk = 7, .isa = "avx2"},
        {.chunk = 3, .isa = "scalar", .alone = 1},
        {.shuffle = 5, .reversed = true, .threads = 2},
        {.alone = 2},
        {.alone = 2, .threads = 8}, // backward in two passes, and so the next
        {.alone = 1, .threads = 5, .isa = "scalar", .shuffle = 7},
        {.alone = 3, .isa = "avx2"},
    };
    for (int i = 0; i < CASES; i++) {
        const Case *c = &cases[i];
        Result first;
        assert_true(attend(&first, c, (Manner){0}, lengths, SEQUENCES));
        for (size_t m = 0; m < sizeof manners / sizeof *manners; m++) {
            Result other;
            if (!attend(&other, c, manners[m], lengths, SEQUENCES)) continue; // not on this CPU
            int64_t from = 0, count = total_length();
            if (manners[m].alone) {
                for (int64_t s = 0; s < manners[m].alone - 1; s++) from += lengths[s];
                count = lengths[manners[m].alone - 1];
            }
            int64_t o = c->heads * c->head_dim, k = columns_of(c);
            assert_bits(other.out + from * o, first.out + from * o, count * o, "out");
            assert_bits(other.lse + from * c->heads, first.lse + from * c->heads, count * c->heads, "lse");
            if (!manners[m].chunk) assert_bits(other.dqkv + from * k, first.dqkv + from * k, count * k, "dqkv");
            arena_close(&other.arena);
        }
        arena_close(&first.arena);
    }
}

// So long that scores are computed again for the second pass, by whole blocks and by single queries at the end.
static void test_long(void **state) {
    (void)state;
    static const Case wide = {2, 1, 16, 0, DTYPE_F32, DTYPE_F32}, windowed = {2, 1, 16, 4200, DTYPE_F32, DTYPE_F32};
    static const int64_t length = 4500;
    static const Manner manners[] = {{.isa = "avx2", .threads = 2}, {.chunk = 450}, {.chunk = 1499, .threads = 3}};
    for (int i = 0; i < 2; i++) {
        const Case *c = i ? &windowed : &wide;
        Result first, other;
        assert_true(attend(&first, c, (Manner){0}, &length, 1));
        for (int m = 0; m < 3; m++) {
            if (!attend(&other, c, manners[m], &length, 1)) continue; // not on this CPU
            assert_bits(other.out, first.out, length * 32, "out");
            assert_bits(other.lse, first.lse, length * 2, "lse");
            if (!manners[m].chunk) assert_bits(other.dqkv, first.dqkv, length * 64, "dqkv");
            arena_close(&other.arena);
        }
        arena_close(&first.arena);
    }
}

// A page that two samples share is copied before one of them goes on in it.
static void test_page_copy(void **state) {
    (void)state;
    Ops ops;
    Manner manner = {0};
    assert_true(open_ops(&ops, &manner));
    AttentionShape shape = shape_of(&cases[1]);
    KvPages kv = kv_pages_open(&ops, MEMORY_KV_CACHE, DTYPE_BF16, 3, &shape);
    int64_t size = shape.kv_heads * shape.head_dim * KV_PAGE_TOKENS;
    uint16_t *keys = kv.keys.data, *values = kv.values.data;
    for (int64_t i = 0; i < 3 * size; i++) keys[i] = (uint16_t)i, values[i] = (uint16_t)(i * 3);
    kv_pages_copy(&ops, &kv, 0, 2);
    for (int64_t i = 0; i < 3 * size; i++) {
        int64_t from = i < size ? i + 2 * size : i;
        assert_int_equal(keys[i], (uint16_t)from);
        assert_int_equal(values[i], (uint16_t)(from * 3));
    }
    kv_pages_close(&ops, &kv);
    ops_close(&ops);
}

// Pages before the window are not read: neither what stands in them nor their numbers matter.
static void test_pages_before_the_window(void **state) {
    (void)state;
    enum { POSITIONS = 150, WINDOW = 37 };
    Ops ops;
    Manner manner = {0};
    assert_true(open_ops(&ops, &manner));
    AttentionShape shape = {4, 2, 16, 0.25f, WINDOW};
    KvPages kv = kv_pages_open(&ops, MEMORY_KV_CACHE, DTYPE_F32, kv_pages_of(POSITIONS), &shape);
    Tensor qkv = DEVICE_TENSOR(&ops.device, MEMORY_ACTIVATION, DTYPE_F32, POSITIONS, 128);
    Tensor out = DEVICE_TENSOR(&ops.device, MEMORY_ACTIVATION, DTYPE_F32, POSITIONS, 64);
    Tensor again = DEVICE_TENSOR(&ops.device, MEMORY_ACTIVATION, DTYPE_F32, POSITIONS, 64);
    for (int64_t i = 0; i < POSITIONS * 128; i++) ((float *)qkv.data)[i] = sinf((float)i);
    int32_t pages[(POSITIONS + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS];
    int64_t count = kv_pages_of(POSITIONS);
    for (int32_t i = 0; i < count; i++) pages[i] = (int32_t)count - 1 - i;
    AttentionSpan whole = {0, POSITIONS, 0, pages};
    kv_store(&ops, &kv, &qkv, &shape, &whole, 1);
    attention_forward(&ops, &out, NULL, &qkv, &kv, &shape, &whole, 1);
    int64_t page_size = shape.kv_heads * shape.head_dim * KV_PAGE_TOKENS;
    for (int64_t position = WINDOW; position < POSITIONS; position++) {
        int64_t unseen = (position - WINDOW + 1) / KV_PAGE_TOKENS;
        for (int64_t i = 0; i < unseen; i++) {
            float *keys = (float *)kv.keys.data + (count - 1 - i) * page_size;
            float *values = (float *)kv.values.data + (count - 1 - i) * page_size;
            for (int64_t k = 0; k < page_size; k++) keys[k] = values[k] = NAN;
            pages[i] = -1;
        }
        AttentionSpan one = {position, 1, position, pages};
        attention_forward(&ops, &again, NULL, &qkv, &kv, &shape, &one, 1);
    }
    const float *expected = (const float *)out.data + (int64_t)WINDOW * 64;
    assert_memory_equal((const float *)again.data + (int64_t)WINDOW * 64, expected,
                        (size_t)(POSITIONS - WINDOW) * 64 * sizeof *expected);
    kv_pages_close(&ops, &kv);
    Tensor *all[] = {&qkv, &out, &again};
    for (int i = 0; i < 3; i++) device_release(&ops.device, all[i]);
    ops_close(&ops);
}

// Query-key pairs: 4 operations forward, 10 backward for each and for each number of the head.
static void test_flops(void **state) {
    (void)state;
    Ops ops;
    Error error;
    assert_true(ops_open(&ops, (OpsOptions){.device = DEVICE_PLAN}, &error));
    static const int64_t windows[] = {0, 1, 7, 100};
    for (int i = 0; i < 4; i++) {
        AttentionShape shape = {4, 2, 16, 0.25f, windows[i]};
        KvPages kv = kv_pages_open(&ops, MEMORY_KV_CACHE, DTYPE_F32, 9, &shape);
        Tensor qkv = DEVICE_TENSOR(&ops.device, MEMORY_ACTIVATION, DTYPE_F32, 40, 128);
        Tensor out = DEVICE_TENSOR(&ops.device, MEMORY_ACTIVATION, DTYPE_F32, 40, 64);
        Tensor lse = DEVICE_TENSOR(&ops.device, MEMORY_ACTIVATION, DTYPE_F32, 40, 4);
        AttentionSpan spans[] = {{0, 10, 3, NULL}, {10, 30, 0, NULL}};
        uint64_t pairs = 0, before = ops_worked(&ops).flops;
        for (int s = 0; s < 2; s++)
            for (int64_t p = spans[s].start; p < spans[s].start + spans[s].count; p++)
                pairs += (uint64_t)(windows[i] && p >= windows[i] ? windows[i] : p + 1);
        kv_store(&ops, &kv, &qkv, &shape, spans, 2);
        attention_forward(&ops, &out, &lse, &qkv, &kv, &shape, spans, 2);
        assert_int_equal(ops_worked(&ops).flops - before, 4 * 16 * 4 * pairs);
        before = ops_worked(&ops).flops;
        attention_backward(&ops, &qkv, NULL, &out, &out, &lse, &qkv, &kv, &shape, spans + 1, 1);
        assert_true(ops_worked(&ops).flops > before && (ops_worked(&ops).flops - before) % (10 * 16 * 4) == 0);
        kv_pages_close(&ops, &kv);
        device_release(&ops.device, &qkv);
        device_release(&ops.device, &out);
        device_release(&ops.device, &lse);
    }
    ops_close(&ops);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_page_copy),
        cmocka_unit_test(test_pages_before_the_window),
        cmocka_unit_test(test_flops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
