#include "ops/softmax.h"

#include "ops/kernels.h"

typedef struct SoftmaxJob {
    const Kernels *kernels;
    float *logits;
    int64_t rows, columns, vocabulary, step; // step: rows of one task
    SoftmaxRow *out;
    const SoftmaxRow *filtered, *unfiltered;
    const float *uniform, *dlogprob, *dunfiltered;
    const int32_t *ids;
    int32_t *picked;
    SoftmaxFilter filter;
    SoftmaxBlock *blocks;  // of a piece
    int64_t first, stride; // its first token; blocks of a row
} SoftmaxJob;

enum { TASK_ELEMENTS = 65536 };

static SoftmaxJob job_of(Ops *ops, const Tensor *logits_TV, int64_t vocabulary, SoftmaxFilter filter) {
    CHECK(logits_TV->rank == 2 && logits_TV->dtype == DTYPE_F32, "logits: rank %d, %s", logits_TV->rank,
          dtype_name(logits_TV->dtype));
    CHECK(vocabulary >= 0 && vocabulary <= logits_TV->size[1] && vocabulary < INT32_MAX,
          "vocabulary %lld of %lld columns", (long long)vocabulary, (long long)logits_TV->size[1]);
    CHECK(filter.temperature > 0 && filter.temperature < INFINITY && filter.top_p > 0 && filter.top_k >= 0 &&
              filter.min_p >= 0 && filter.min_p <= 1,
          "temperature %g, top_p %g, top_k %d, min_p %g", filter.temperature, filter.top_p, filter.top_k, filter.min_p);
    int64_t columns = logits_TV->size[1];
    return (SoftmaxJob){
        .kernels = ops->kernels,
        .logits = logits_TV->data,
        .rows = logits_TV->size[0],
        .columns = columns,
        .vocabulary = vocabulary,
        .step = columns < TASK_ELEMENTS ? TASK_ELEMENTS / columns : 1,
        .filter = filter,
    };
}

static void run(Ops *ops, SoftmaxJob *job, TeamTask *task) {
    team_run(ops->team, (job->rows + job->step - 1) / job->step, task, job);
}

#define EACH_ROW(job, task, row)                                                                                       \
    for (int64_t row = (task) * (job)->step, end = row + (job)->step; row < end && row < (job)->rows; row++)

static void rows_task(void *context, int64_t task, int worker) {
    (void)worker;
    const SoftmaxJob *job = context;
    EACH_ROW(job, task, row)
    job->kernels->softmax_row(&job->out[row], job->logits + row * job->columns, job->vocabulary, job->filter);
}

void softmax_rows(Ops *ops, SoftmaxRow *rows_T, const Tensor *logits_TV, int64_t vocabulary, SoftmaxFilter filter) {
    SoftmaxJob job = job_of(ops, logits_TV, vocabulary, filter);
    job.out = rows_T;
    if (ops_starts(ops, 0, OPS_BYTES(logits_TV))) run(ops, &job, rows_task);
}

static void check_ids(const int32_t *ids, int64_t count, int64_t vocabulary) {
    for (int64_t i = 0; i < count; i++)
        CHECK(ids[i] >= 0 && ids[i] < vocabulary, "id %lld is %d, of %lld", (long long)i, (int)ids[i],
              (long long)vocabulary);
}

void softmax_logprobs(Ops *ops, float *logprob_T, const Tensor *logits_TV, const SoftmaxRow *rows_T, const int32_t *ids,
                      SoftmaxFilter filter) {
    SoftmaxJob job = job_of(ops, logits_TV, logits_TV->size[1], filter);
    if (!ops_runs(ops)) return;
    check_ids(ids, job.rows, job.columns);
    for (int64_t row = 0; row < job.rows; row++)
        logprob_T[row] = job.kernels->softmax_logprob(job.logits + row * job.columns, ids[row], &rows_T[row], filter);
}

static void sample_task(void *context, int64_t task, int worker) {
    (void)worker;
    const SoftmaxJob *job = context;
    EACH_ROW(job, task, row) {
        const float *logits = job->logits + row * job->columns;
        const SoftmaxRow *of = &job->filtered[row];
        job->picked[row] = job->uniform
                               ? job->kernels->softmax_pick(logits, job->vocabulary, of, job->uniform[row], job->filter)
                               : job->kernels->softmax_likeliest(logits, job->vocabulary, of, job->filter);
    }
}

void softmax_sample(Ops *ops, int32_t *ids, const Tensor *logits_TV, const SoftmaxRow *rows_T, int64_t vocabulary,
                    const float *uniform_T, SoftmaxFilter filter) {
    SoftmaxJob job = job_of(ops, logits_TV, vocabulary, filter);
    if (!ops_starts(ops, 0, OPS_BYTES(logits_TV))) return;
    for (int64_t i = 0; uniform_T && i < job.rows; i++)
        CHECK(uniform_T[i] >= 0 && uniform_T[i] < 1, "uniform %lld is %g", (long long)i, uniform_T[i]);
    job.filtered = rows_T;
    job.uniform = uniform_T;
    job.picked = ids;
    run(ops, &job, sample_task);
}

static void backward_task(void *context, int64_t task, int worker) {
    (void)worker;
    const SoftmaxJob *job = context;
    EACH_ROW(job, task, row) {
        float *logits = job->logits + row * job->columns;
        float g = job->dlogprob[row], h = job->dunfiltered ? job->dunfiltered[row] : 0;
        int64_t used = g == 0 && h == 0 ? 0 : job->vocabulary;
        memset(logits + used, 0, (size_t)(job->columns - used) * sizeof *logits);
        SoftmaxRow of = job->filtered[row];
        if (of.cut_id < INT32_MAX) of.cut_id -= (int32_t)job->first;
        if (used)
            job->kernels->softmax_row_backward(logits, used, &of, job->dunfiltered ? &job->unfiltered[row] : NULL,
                                               job->ids[row] - job->first, g, h, job->filter);
    }
}

static void run_backward(Ops *ops, SoftmaxJob job, const SoftmaxRow *filtered, const SoftmaxRow *unfiltered,
                         const int32_t *ids, const float *dlogprob, const float *dunfiltered) {
    job.filtered = filtered;
    job.unfiltered = unfiltered;
    job.ids = ids;
    job.dlogprob = dlogprob;
    job.dunfiltered = dunfiltered;
    run(ops, &job, backward_task);
}

void softmax_backward(Ops *ops, Tensor *logits_TV, const SoftmaxRow *rows_T, const SoftmaxRow *unfiltered_T,
                      const int32_t *ids, const float *dlogprob_T, const float *dunfiltered_T, int64_t vocabulary,
                      SoftmaxFilter filter) {
    SoftmaxJob job = job_of(ops, logits_TV, vocabulary, filter);
    if (!ops_starts(ops, 0, 2 * OPS_BYTES(logits_TV))) return;
    check_ids(ids, job.rows, vocabulary);
    run_backward(ops, job, rows_T, unfiltered_T, ids, dlogprob_T, dunfiltered_T);
    ops_wrote(ops, __func__, logits_TV);
}

// ---- pieces

static SoftmaxJob piece_of(Ops *ops, const Tensor *logits_TP, int64_t first, int64_t count, float temperature) {
    CHECK(first >= 0 && first % SOFTMAX_BLOCK == 0, "a piece that begins at token %lld", (long long)first);
    SoftmaxJob job = job_of(ops, logits_TP, count, (SoftmaxFilter){.temperature = temperature, .top_p = 1});
    job.first = first;
    return job;
}

static void blocks_task(void *context, int64_t task, int worker) {
    (void)worker;
    const SoftmaxJob *job = context;
    EACH_ROW(job, task, row)
    job->kernels->softmax_row_blocks(job->blocks + row * job->stride + job->first / SOFTMAX_BLOCK,
                                     job->logits + row * job->columns, job->vocabulary, job->filter.temperature);
}

void softmax_blocks(Ops *ops, SoftmaxBlock *blocks_TS, int64_t stride, const Tensor *logits_TP, int64_t first,
                    int64_t count, float temperature) {
    SoftmaxJob job = piece_of(ops, logits_TP, first, count, temperature);
    CHECK(first / SOFTMAX_BLOCK + softmax_block_count(count) <= stride, "tokens %lld + %lld in %lld blocks",
          (long long)first, (long long)count, (long long)stride);
    job.blocks = blocks_TS;
    job.stride = stride;
    if (ops_starts(ops, 0, OPS_BYTES(logits_TP))) run(ops, &job, blocks_task);
}

void softmax_fold(Ops *ops, SoftmaxRow *rows_T, const SoftmaxBlock *blocks_TS, int64_t rows, int64_t blocks) {
    if (!ops_runs(ops)) return;
    for (int64_t row = 0; row < rows; row++)
        ops->kernels->softmax_fold_row(&rows_T[row], blocks_TS + row * blocks, blocks);
}

void softmax_targets(Ops *ops, float *x_T, const Tensor *logits_TP, const int32_t *ids, int64_t first, int64_t count,
                     float temperature) {
    SoftmaxJob job = piece_of(ops, logits_TP, first, count, temperature);
    if (!ops_starts(ops, 0, 0)) return;
    for (int64_t row = 0; row < job.rows; row++) {
        if (ids[row] < first || ids[row] >= first + count) continue;
        float logit = job.logits[row * job.columns + ids[row] - first];
        x_T[row] = temperature == 1 ? logit : logit / temperature;
    }
}

void softmax_backward_piece(Ops *ops, Tensor *logits_TP, const SoftmaxRow *rows_T, const SoftmaxRow *unfiltered_T,
                            const int32_t *ids, const float *dlogprob_T, const float *dunfiltered_T, int64_t first,
                            int64_t count, SoftmaxFilter filter) {
    SoftmaxJob job = piece_of(ops, logits_TP, first, count, filter.temperature);
    if (!ops_starts(ops, 0, 2 * OPS_BYTES(logits_TP))) return;
    job.filter = filter;
    run_backward(ops, job, rows_T, unfiltered_T, ids, dlogprob_T, dunfiltered_T);
    ops_wrote(ops, __func__, logits_TP);
}
