#include "ops/attention.h"

#include "base/int64.h"
#include "ops/kernels.h"
#include "ops/linear.h"

// Blocks of one span and key/value head are handed out newest first: they see most keys and take longest.
typedef struct AttentionJob {
    const Kernels *kernels;
    AttentionBlock block; // what all tasks share
    const AttentionSpan *spans;
    int64_t span_count, blocks, step;
} AttentionJob;

// Where keys and values are read from the pages, qkv may be its query columns alone.
static bool queries_alone(const Tensor *qkv_TC, const AttentionShape *shape) {
    return qkv_TC->size[1] == shape->query_heads * shape->head_dim;
}

static void check_attention(const Tensor *qkv_TC, const KvPages *kv, const AttentionShape *shape,
                            const AttentionSpan *spans, int64_t span_count) {
    int64_t heads = shape->query_heads, kv_heads = shape->kv_heads, size = shape->head_dim;
    CHECK(kv_heads > 0 && heads > 0 && heads % kv_heads == 0, "%lld query heads, %lld key/value heads",
          (long long)heads, (long long)kv_heads);
    CHECK(size > 0 && size <= ATTENTION_MAX_HEAD && heads <= INT32_MAX, "%lld heads of %lld", (long long)heads,
          (long long)size);
    CHECK(shape->window >= 0, "window %lld", (long long)shape->window);
    CHECK(qkv_TC->rank == 2 && qkv_TC->dtype != DTYPE_I32 &&
              (qkv_TC->size[1] == (heads + 2 * kv_heads) * size || queries_alone(qkv_TC, shape)),
          "qkv is %s with %lld columns, not %lld", dtype_name(qkv_TC->dtype), (long long)qkv_TC->size[1],
          (long long)((heads + 2 * kv_heads) * size));
    const Tensor *keys = &kv->keys, *values = &kv->values;
    CHECK(keys->rank == 4 && keys->size[1] == kv_heads && keys->size[2] == size && keys->size[3] == KV_PAGE_TOKENS,
          "keys: %lld pages of %lld x %lld x %lld", (long long)keys->size[0], (long long)keys->size[1],
          (long long)keys->size[2], (long long)keys->size[3]);
    CHECK(values->rank == 4 && values->size[0] == keys->size[0] && values->size[1] == kv_heads &&
              values->size[2] == KV_PAGE_TOKENS && values->size[3] == size && values->dtype == keys->dtype,
          "values: %lld pages of %lld x %lld x %lld", (long long)values->size[0], (long long)values->size[1],
          (long long)values->size[2], (long long)values->size[3]);
    for (int64_t i = 0; i < span_count; i++) {
        const AttentionSpan *s = &spans[i];
        CHECK(s->row >= 0 && s->count >= 0 && s->start >= 0 && s->row <= qkv_TC->size[0] - s->count &&
                  s->start <= INT32_MAX - s->count,
              "span %lld: rows %lld + %lld of %lld, position %lld", (long long)i, (long long)s->row,
              (long long)s->count, (long long)qkv_TC->size[0], (long long)s->start);
    }
}

// The pages that a span's newest position reaches.
static int64_t span_pages(const AttentionSpan *span) {
    return (span->start + span->count + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
}

// Page numbers are host memory that exists on `plan` as well, but only running operations read them.
static void check_pages(const KvPages *kv, const AttentionShape *shape, const AttentionSpan *spans,
                        int64_t span_count) {
    for (int64_t i = 0; i < span_count; i++) {
        if (!spans[i].count) continue;
        int64_t first = shape->window && spans[i].start >= shape->window
                            ? (spans[i].start - shape->window + 1) / KV_PAGE_TOKENS
                            : 0;
        for (int64_t page = first; page < span_pages(&spans[i]); page++)
            CHECK(spans[i].pages[page] >= 0 && spans[i].pages[page] < kv->keys.size[0],
                  "span %lld: page %lld is %d, of %lld", (long long)i, (long long)page, (int)spans[i].pages[page],
                  (long long)kv->keys.size[0]);
    }
}

static Numbers numbers(const Tensor *tensor) {
    return tensor ? (Numbers){tensor->data, tensor->dtype} : (Numbers){0};
}

static AttentionJob job_of(Ops *ops, const Tensor *qkv_TC, const KvPages *kv, const AttentionShape *shape,
                           const AttentionSpan *spans, int64_t span_count) {
    return (AttentionJob){
        .kernels = ops->kernels,
        .block = {.shape = shape,
                  .columns = qkv_TC->size[1],
                  .parts = 1,
                  .rows = qkv_TC->size[0],
                  .qkv = numbers(qkv_TC),
                  .keys = numbers(&kv->keys),
                  .values = numbers(&kv->values)},
        .spans = spans,
        .span_count = span_count,
    };
}

// Hands out `units(span)` units of every span and key/value head in blocks of job->step.
typedef int64_t SpanUnits(const AttentionSpan *span, const AttentionBlock *block);

static int64_t units_positions(const AttentionSpan *span, const AttentionBlock *block) {
    (void)block;
    return span->count;
}

static int64_t units_whole(const AttentionSpan *span, const AttentionBlock *block) {
    (void)block;
    return span->count > 0;
}

static int64_t units_pages(const AttentionSpan *span, const AttentionBlock *block) {
    (void)block;
    return span_pages(span);
}

static int64_t units_rows(const AttentionSpan *span, const AttentionBlock *block) {
    return span->count * (block->shape->query_heads / (block->shape->kv_heads * block->parts));
}

// Task number → span, head and block; false when the span is too short to have this block.
static bool find_block(AttentionBlock *block, const AttentionJob *job, int64_t task, SpanUnits *units) {
    *block = job->block;
    int64_t heads = block->shape->kv_heads * block->parts;
    block->kv_head = task % heads;
    block->span = job->spans[task / heads % job->span_count];
    block->first = (job->blocks - 1 - task / heads / job->span_count) * job->step;
    int64_t left = units(&block->span, block) - block->first;
    block->count = left < job->step ? left : job->step;
    return block->count > 0;
}

static void run_blocks(Ops *ops, AttentionJob *job, int64_t step, SpanUnits *units, TeamTask *task) {
    int64_t most = 0;
    for (int64_t i = 0; i < job->span_count; i++) {
        int64_t count = units(&job->spans[i], &job->block);
        if (count > most) most = count;
    }
    job->step = step;
    job->blocks = (most + step - 1) / step;
    team_run(ops->team, job->blocks * job->span_count * job->block.shape->kv_heads * job->block.parts, task, job);
}

KvPages kv_pages_open(Ops *ops, MemoryTag tag, DType dtype, int64_t pages, const AttentionShape *shape) {
    int64_t heads = shape->kv_heads, size = shape->head_dim;
    return (KvPages){.keys = DEVICE_TENSOR(&ops->device, tag, dtype, pages, heads, size, KV_PAGE_TOKENS),
                     .values = DEVICE_TENSOR(&ops->device, tag, dtype, pages, heads, KV_PAGE_TOKENS, size)};
}

void kv_pages_close(Ops *ops, KvPages *kv) {
    device_release(&ops->device, &kv->keys);
    device_release(&ops->device, &kv->values);
}

void kv_pages_copy(Ops *ops, KvPages *kv, int32_t to, int32_t from) {
    int64_t pages = kv->keys.size[0];
    CHECK(to >= 0 && from >= 0 && to < pages && from < pages, "page %d to %d of %lld", (int)from, (int)to,
          (long long)pages);
    if (!ops_runs(ops) || to == from) return;
    Tensor *both[] = {&kv->keys, &kv->values};
    for (int i = 0; i < 2; i++) {
        size_t bytes = tensor_bytes(both[i]) / (size_t)pages;
        char *data = both[i]->data;
        memcpy(data + bytes * (size_t)to, data + bytes * (size_t)from, bytes);
    }
}

static void store_task(void *context, int64_t task, int worker) {
    (void)worker;
    const AttentionJob *job = context;
    AttentionBlock block;
    if (find_block(&block, job, task, units_positions)) job->kernels->attention_store(&block);
}

void kv_store(Ops *ops, KvPages *kv, const Tensor *qkv_TC, const AttentionShape *shape, const AttentionSpan *spans,
              int64_t span_count) {
    check_attention(qkv_TC, kv, shape, spans, span_count);
    CHECK(!queries_alone(qkv_TC, shape), "no keys to store");
    uint64_t rows = 0, columns = (uint64_t)(2 * shape->kv_heads * shape->head_dim);
    for (int64_t i = 0; i < span_count; i++) rows += (uint64_t)spans[i].count;
    uint64_t bytes = rows * columns * (dtype_size(qkv_TC->dtype) + dtype_size(kv->keys.dtype));
    if (!ops_starts(ops, 0, bytes) || !span_count) return;
    check_pages(kv, shape, spans, span_count);
    AttentionJob job = job_of(ops, qkv_TC, kv, shape, spans, span_count);
    run_blocks(ops, &job, 8 * KV_PAGE_TOKENS, units_positions, store_task);
}

// Query-key pairs of one query head in all spans: position i sees min(i + 1, window) keys.
static uint64_t count_pairs(const AttentionShape *shape, const AttentionSpan *spans, int64_t span_count) {
    uint64_t pairs = 0;
    for (int64_t i = 0; i < span_count; i++) {
        uint64_t start = (uint64_t)spans[i].start, end = start + (uint64_t)spans[i].count; // sees start+1 .. end keys
        uint64_t window = shape->window ? (uint64_t)shape->window : end;
        uint64_t growing_end = end < window ? end : window, growing_start = start < growing_end ? start : growing_end;
        pairs += growing_end * (growing_end + 1) / 2 - growing_start * (growing_start + 1) / 2;
        pairs += (end - start - (growing_end - growing_start)) * window;
    }
    return pairs;
}

static int64_t padded_head(const AttentionShape *shape) {
    return (shape->head_dim + 15) / 16 * 16;
}

// Pages that a block of up to `rows` rows of the span reads.
static int64_t pages_seen(const AttentionSpan *span, const AttentionShape *shape, int64_t rows) {
    int64_t all = span_pages(span);
    if (!shape->window || shape->window >= all * KV_PAGE_TOKENS) return all;
    return int64_smaller(all, kv_pages_of(shape->window + rows) + 1);
}

static uint64_t multiplied(const AttentionShape *shape, const AttentionSpan *spans, int64_t span_count) {
    return (uint64_t)(shape->head_dim * shape->query_heads) * count_pairs(shape, spans, span_count);
}

// Keys and values that the spans read, each page once for a span.
static uint64_t bytes_seen(const KvPages *kv, const AttentionShape *shape, const AttentionSpan *spans,
                           int64_t span_count) {
    uint64_t pages = 0, page = (uint64_t)(2 * shape->kv_heads * shape->head_dim * KV_PAGE_TOKENS);
    for (int64_t i = 0; i < span_count; i++)
        if (spans[i].count) pages += (uint64_t)pages_seen(&spans[i], shape, spans[i].count);
    return pages * page * dtype_size(kv->keys.dtype);
}

// Rows of one forward block: fewer where many keys are seen, so that their scores are kept while that is possible.
static int64_t rows_of_block(const AttentionShape *shape, const AttentionSpan *spans, int64_t span_count) {
    int64_t pages = 1, rows = attention_rows(padded_head(shape));
    for (int64_t i = 0; i < span_count; i++) {
        int64_t seen = pages_seen(&spans[i], shape, rows);
        if (seen > pages) pages = seen;
    }
    int64_t fitting = ATTENTION_SCORES / (pages * KV_PAGE_TOKENS) / 16 * 16;
    return fitting >= 16 && fitting < rows ? fitting : rows;
}

static void forward_task(void *context, int64_t task, int worker) {
    (void)worker;
    const AttentionJob *job = context;
    AttentionBlock block;
    if (find_block(&block, job, task, units_rows)) job->kernels->attention_forward_block(&block);
}

static void check_out(const Tensor *out_TO, const Tensor *lse_TH, const Tensor *qkv_TC, const AttentionShape *shape) {
    int64_t rows = qkv_TC->size[0], columns = shape->query_heads * shape->head_dim;
    CHECK(out_TO->rank == 2 && out_TO->dtype != DTYPE_I32 && out_TO->size[0] == rows && out_TO->size[1] == columns,
          "out is %s, %lld x %lld, not %lld x %lld", dtype_name(out_TO->dtype), (long long)out_TO->size[0],
          (long long)out_TO->size[1], (long long)rows, (long long)columns);
    if (!lse_TH) return;
    CHECK(lse_TH->rank == 2 && lse_TH->dtype == DTYPE_F32 && lse_TH->size[0] == rows &&
              lse_TH->size[1] == shape->query_heads,
          "lse is %s, %lld x %lld", dtype_name(lse_TH->dtype), (long long)lse_TH->size[0], (long long)lse_TH->size[1]);
}

void attention_forward(Ops *ops, Tensor *out_TO, Tensor *lse_TH, const Tensor *qkv_TC, const KvPages *kv,
                       const AttentionShape *shape, const AttentionSpan *spans, int64_t span_count) {
    check_attention(qkv_TC, kv, shape, spans, span_count);
    check_out(out_TO, lse_TH, qkv_TC, shape);
    uint64_t bytes = OPS_BYTES(out_TO, qkv_TC, lse_TH) + bytes_seen(kv, shape, spans, span_count);
    if (!ops_starts(ops, 4 * multiplied(shape, spans, span_count), bytes) || !span_count) return;
    check_pages(kv, shape, spans, span_count);
    AttentionJob job = job_of(ops, qkv_TC, kv, shape, spans, span_count);
    job.block.out = numbers(out_TO);
    job.block.lse = lse_TH ? lse_TH->data : NULL;
    run_blocks(ops, &job, rows_of_block(shape, spans, span_count), units_rows, forward_task);
    ops_wrote(ops, __func__, out_TO);
}

static void backward_head_task(void *context, int64_t task, int worker) {
    (void)worker;
    const AttentionJob *job = context;
    AttentionBlock block;
    if (find_block(&block, job, task, units_whole)) job->kernels->attention_backward_head(&block);
}

static void backward_queries_task(void *context, int64_t task, int worker) {
    (void)worker;
    const AttentionJob *job = context;
    AttentionBlock block;
    if (find_block(&block, job, task, units_rows)) job->kernels->attention_backward_queries(&block);
}

static void backward_keys_task(void *context, int64_t task, int worker) {
    (void)worker;
    const AttentionJob *job = context;
    AttentionBlock block;
    if (find_block(&block, job, task, units_pages)) job->kernels->attention_backward_keys(&block);
}

// Whether one pass per span and key/value head is possible and faster: it computes five products instead of seven, but each
// takes one thread for long.
static bool one_pass(const Ops *ops, const AttentionShape *shape, int64_t parts, const AttentionSpan *spans,
                     int64_t span_count) {
    int64_t longest = 0, tasks = 0, threads = team_size(ops->team);
    for (int64_t i = 0; i < span_count; i++) {
        if (spans[i].count > longest) longest = spans[i].count;
        tasks += spans[i].count ? shape->kv_heads * parts : 0;
    }
    if ((longest + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS * KV_PAGE_TOKENS * padded_head(shape) > ATTENTION_GRADIENTS)
        return false;
    return (tasks + threads - 1) / threads * threads * 5 <= tasks * 7;
}

void attention_backward(Ops *ops, Tensor *dqkv_TC, Tensor *dkv_PTC, const Tensor *dout_TO, const Tensor *out_TO,
                        const Tensor *lse_TH, const Tensor *qkv_TC, const KvPages *kv, const AttentionShape *shape,
                        const AttentionSpan *spans, int64_t span_count) {
    check_attention(qkv_TC, kv, shape, spans, span_count);
    check_attention(dqkv_TC, kv, shape, spans, span_count);
    CHECK(!queries_alone(dqkv_TC, shape), "no room for gradients of keys");
    check_out(out_TO, lse_TH, qkv_TC, shape);
    check_out(dout_TO, NULL, qkv_TC, shape);
    int64_t parts = dkv_PTC ? dkv_PTC->size[0] : 1, width = 2 * shape->kv_heads * shape->head_dim;
    CHECK(!dkv_PTC || (dkv_PTC->dtype == DTYPE_F32 && shape->query_heads % (shape->kv_heads * parts) == 0 &&
                       tensor_count(dkv_PTC) == parts * qkv_TC->size[0] * width),
          "%lld parts of %lld query heads of %lld key/value heads", (long long)parts, (long long)shape->query_heads,
          (long long)shape->kv_heads);
    for (int64_t i = 0; i < span_count; i++)
        CHECK(spans[i].start == 0, "span %lld starts at position %lld", (long long)i, (long long)spans[i].start);
    uint64_t bytes = OPS_BYTES(dqkv_TC, dout_TO, out_TO, lse_TH, qkv_TC) + bytes_seen(kv, shape, spans, span_count);
    if (!ops_starts(ops, 10 * multiplied(shape, spans, span_count), bytes) || !span_count) return;
    check_pages(kv, shape, spans, span_count);
    AttentionJob job = job_of(ops, qkv_TC, kv, shape, spans, span_count);
    job.block.out = numbers(out_TO);
    job.block.dout = numbers(dout_TO);
    job.block.dqkv = numbers(dqkv_TC);
    job.block.dcolumns = dqkv_TC->size[1];
    job.block.parts = parts;
    job.block.dkv = dkv_PTC ? dkv_PTC->data : NULL;
    job.block.lse = lse_TH->data;
    int64_t padded = padded_head(shape);
    if (one_pass(ops, shape, parts, spans, span_count)) {
        run_blocks(ops, &job, 1, units_whole, backward_head_task);
    } else {
        run_blocks(ops, &job, attention_rows(padded), units_rows, backward_queries_task);
        run_blocks(ops, &job, int64_smaller(ATTENTION_FLOATS / (KV_PAGE_TOKENS * padded), 4), units_pages,
                   backward_keys_task);
    }
    ops_wrote(ops, __func__, dqkv_TC);
}

typedef struct FoldJob {
    const Kernels *kernels;
    const Tensor *dqkv, *parts;
    const AttentionShape *shape;
    int folds[LINEAR_MAX_SEGMENTS];
} FoldJob;

static void fold_task(void *context, int64_t row, int worker) {
    (void)worker;
    const FoldJob *job = context;
    const Tensor *dqkv = job->dqkv, *parts = job->parts;
    int64_t columns = dqkv->size[1], queries = job->shape->query_heads * job->shape->head_dim,
            width = columns - queries;
    Numbers out = {(char *)dqkv->data + (size_t)(row * columns + queries) * dtype_size(dqkv->dtype), dqkv->dtype};
    job->kernels->gemm_fold_parts(out, (const float *)parts->data + row * width, dqkv->size[0] * width, job->folds,
                                  (int)parts->size[0], width);
}

void attention_fold_keys(Ops *ops, Tensor *dqkv_TC, const Tensor *dkv_PTC, const AttentionShape *shape) {
    int parts = (int)dkv_PTC->size[0];
    FoldJob job = {ops->kernels, dqkv_TC, dkv_PTC, shape, {0}};
    int64_t width = 2 * shape->kv_heads * shape->head_dim;
    CHECK(parts > 0 && parts <= LINEAR_MAX_SEGMENTS && dkv_PTC->dtype == DTYPE_F32 &&
              tensor_count(dkv_PTC) == parts * dqkv_TC->size[0] * width &&
              dqkv_TC->size[1] == width + shape->query_heads * shape->head_dim,
          "%d parts of %lld elements in all", parts, (long long)tensor_count(dkv_PTC));
    if (!ops_starts(ops, 0, OPS_BYTES(dkv_PTC))) return;
    for (int i = 0; i < parts; i++) job.folds[i] = linear_segments_folds(parts, i);
    team_run(ops->team, dqkv_TC->size[0], fold_task, &job);
}
