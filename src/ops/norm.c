#include "ops/norm.h"

#include "ops/rows_job.h"

enum {
    SLAB_ROWS = 256,  // rows whose 1/rms is remembered between the two halves of rms_norm_backward
    SLAB_HEADS = 4096 // heads, likewise
};

static void rms_norm_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    EACH_ROW(job, task, row) {
        int64_t at = row * job->columns;
        job->kernels->rms_norm_row(numbers(job->out, at), numbers(job->a, at), numbers(job->b, 0), job->columns,
                                   job->number);
    }
}

void rms_norm_forward(Ops *ops, Tensor *y_TD, const Tensor *x_TD, const Tensor *w_D, float eps) {
    int64_t rows = x_TD->size[0], columns = x_TD->size[1];
    check_matrix(x_TD, "x", rows, columns);
    check_matrix(y_TD, "y", rows, columns);
    check_count(w_D, "w", columns);
    if (!ops_starts(ops, 0, OPS_BYTES(y_TD, x_TD, w_D))) return;
    RowsJob job = {.rows = rows, .columns = columns, .out = y_TD, .a = x_TD, .b = w_D, .number = eps};
    run_rows(ops, job, rms_norm_task);
    ops_wrote(ops, __func__, y_TD);
}

// Rows of one slab, counted from job->first.
static void rms_norm_backward_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    EACH_ROW(job, task, row) {
        int64_t at = (job->first + row) * job->columns;
        job->rstd[row] =
            job->kernels->rms_norm_row_backward(numbers(job->out, at), numbers(job->a, at), numbers(job->b, at),
                                                numbers(job->c, 0), numbers(job->d, at), job->columns, job->number);
    }
}

static void rms_norm_weight_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    int64_t first = task * job->step, count = int64_smaller(job->step, job->columns - first);
    for (int64_t row = 0; row < job->rows; row++) {
        int64_t at = (job->first + row) * job->columns + first;
        job->kernels->rms_norm_weight_row(job->chains + first, numbers(job->a, at), numbers(job->b, at), job->rstd[row],
                                          count);
    }
}

// The chains of a weight's gradient, which wait between slabs, and what they are added to.
static float *chains_open(Ops *ops, int64_t count) {
    CHECK(count <= tensor_count(&ops->packs), "a norm of %lld numbers", (long long)count);
    memset(ops->packs.data, 0, (size_t)count * sizeof(float));
    return ops->packs.data;
}
static void chains_add(Ops *ops, Tensor *sums, int64_t count) {
    ops->kernels->rows_accumulate(sums->data, numbers(&ops->packs, 0), count);
}

void rms_norm_backward(Ops *ops, Tensor *dx_TD, Tensor *dw_D, const Tensor *dy_TD, const Tensor *x_TD,
                       const Tensor *w_D, const Tensor *residual_TD, float eps) {
    int64_t rows = x_TD->size[0], columns = x_TD->size[1];
    check_matrix(x_TD, "x", rows, columns);
    check_matrix(dx_TD, "dx", rows, columns);
    check_matrix(dy_TD, "dy", rows, columns);
    if (residual_TD) check_matrix(residual_TD, "residual", rows, columns);
    check_count(w_D, "w", columns);
    if (dw_D) check_count(dw_D, "dw", columns);
    if (dw_D) check_f32(dw_D, "dw");
    CHECK(dx_TD->data != dy_TD->data && dx_TD->data != x_TD->data, "dx is dy or x (%p)", dx_TD->data);
    if (!ops_starts(ops, 0, OPS_BYTES(dx_TD, dw_D, dy_TD, x_TD, w_D, residual_TD))) return;
    float rstd[SLAB_ROWS];
    RowsJob job = {.columns = columns, .out = dx_TD, .a = dy_TD, .b = x_TD, .c = w_D, .d = residual_TD};
    job.number = eps;
    job.rstd = rstd;
    if (dw_D) job.chains = chains_open(ops, columns);
    for (job.first = 0; job.first < rows; job.first += SLAB_ROWS) {
        job.rows = int64_smaller(SLAB_ROWS, rows - job.first);
        run_rows(ops, job, rms_norm_backward_task);
        if (dw_D) run_columns(ops, job, rms_norm_weight_task);
    }
    if (dw_D) chains_add(ops, dw_D, columns);
    ops_wrote(ops, __func__, dx_TD);
    if (dw_D) ops_wrote(ops, __func__, dw_D);
}

// Where head `row` (of all rows' heads, counted from job->first) begins.
static int64_t head_at(const RowsJob *job, int64_t row) {
    int64_t head = job->first + row;
    return head / job->heads * job->stride + job->offset + head % job->heads * job->columns;
}

static void head_norm_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    EACH_ROW(job, task, row) {
        Numbers x = numbers(job->out, head_at(job, row));
        job->kernels->rms_norm_row(x, x, numbers(job->b, 0), job->columns, job->number);
    }
}

static RowsJob head_job(Tensor *out_TC, const Tensor *w_E, int64_t first, int64_t heads, float eps) {
    int64_t size = tensor_count(w_E), columns = out_TC->size[1];
    check_matrix(out_TC, "x", out_TC->size[0], columns);
    check_floats(w_E, "w");
    CHECK(size > 0 && first >= 0 && heads > 0 && heads <= columns / size - first,
          "heads %lld + %lld of %lld in %lld columns", (long long)first, (long long)heads, (long long)size,
          (long long)columns);
    return (RowsJob){.rows = out_TC->size[0] * heads,
                     .columns = size,
                     .out = out_TC,
                     .b = w_E,
                     .number = eps,
                     .heads = heads,
                     .stride = columns,
                     .offset = first * size};
}

void head_norm_forward(Ops *ops, Tensor *x_TC, const Tensor *w_E, int64_t first, int64_t heads, float eps) {
    RowsJob job = head_job(x_TC, w_E, first, heads, eps);
    uint64_t elements = (uint64_t)(job.rows * job.columns);
    if (!ops_starts(ops, 0, 2 * elements * dtype_size(x_TC->dtype))) return;
    run_rows(ops, job, head_norm_task);
    ops_wrote(ops, __func__, x_TC);
}

static void head_rstd_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    EACH_ROW(job, task, row) {
        job->rstd[row] = job->kernels->rms_norm_rstd(numbers(job->a, head_at(job, row)), job->columns, job->number);
    }
}

static void head_weight_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    int64_t first = task * job->step, count = int64_smaller(job->step, job->columns - first);
    for (int64_t row = 0; row < job->rows; row++) {
        int64_t at = head_at(job, row) + first;
        job->kernels->rms_norm_weight_row(job->chains + first, numbers(job->out, at), numbers(job->a, at),
                                          job->rstd[row], count);
    }
}

static void head_norm_backward_task(void *context, int64_t task, int worker) {
    (void)worker;
    const RowsJob *job = context;
    EACH_ROW(job, task, row) {
        int64_t at = head_at(job, row);
        Numbers d = numbers(job->out, at);
        job->kernels->rms_norm_row_backward(d, d, numbers(job->a, at), numbers(job->b, 0), (Numbers){0}, job->columns,
                                            job->number);
    }
}

// The weight's gradient first: afterwards the output's is gone.
void head_norm_backward(Ops *ops, Tensor *d_TC, Tensor *dw_E, const Tensor *x_TC, const Tensor *w_E, int64_t first,
                        int64_t heads, float eps) {
    RowsJob job = head_job(d_TC, w_E, first, heads, eps);
    int64_t rows = job.rows;
    float rstd[SLAB_HEADS];
    check_matrix(x_TC, "x", d_TC->size[0], d_TC->size[1]);
    check_count(dw_E, "dw", job.columns);
    check_f32(dw_E, "dw");
    CHECK(d_TC->data != x_TC->data, "d is x (%p)", d_TC->data);
    uint64_t elements = (uint64_t)(rows * job.columns);
    if (!ops_starts(ops, 0, elements * (2 * dtype_size(d_TC->dtype) + dtype_size(x_TC->dtype)))) return;
    job.a = x_TC;
    job.chains = chains_open(ops, job.columns);
    job.rstd = rstd;
    for (job.first = 0; job.first < rows; job.first += SLAB_HEADS) {
        job.rows = int64_smaller(SLAB_HEADS, rows - job.first);
        run_rows(ops, job, head_rstd_task);
        run_columns(ops, job, head_weight_task);
        run_rows(ops, job, head_norm_backward_task);
    }
    chains_add(ops, dw_E, job.columns);
    ops_wrote(ops, __func__, d_TC);
    ops_wrote(ops, __func__, dw_E);
}

// A row is its only head.
void norm_chain_add(Ops *ops, Tensor *chain_D, const Tensor *dy_TD, const Tensor *x_TD, float eps, bool begins) {
    int64_t rows = x_TD->size[0], columns = x_TD->size[1];
    check_matrix(x_TD, "x", rows, columns);
    check_matrix(dy_TD, "dy", rows, columns);
    check_count(chain_D, "the chain", columns);
    check_f32(chain_D, "the chain");
    if (!ops_starts(ops, 0, OPS_BYTES(chain_D, dy_TD, x_TD))) return;
    float rstd[SLAB_ROWS];
    RowsJob job = {.columns = columns, .out = dy_TD, .a = x_TD, .number = eps, .heads = 1, .stride = columns};
    job.rstd = rstd;
    job.chains = chain_D->data;
    if (begins) memset(chain_D->data, 0, tensor_bytes(chain_D));
    for (job.first = 0; job.first < rows; job.first += SLAB_ROWS) {
        job.rows = int64_smaller(SLAB_ROWS, rows - job.first);
        run_rows(ops, job, head_rstd_task);
        run_columns(ops, job, head_weight_task);
    }
    ops_wrote(ops, __func__, chain_D);
}
