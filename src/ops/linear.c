#include "ops/linear.h"

#include "ops/gemm.h"
#include "ops/kernels.h"

static void check_float(const Tensor *tensor, const char *name) {
    CHECK(tensor->dtype == DTYPE_F32 || tensor->dtype == DTYPE_BF16 || tensor->dtype == DTYPE_F16, "%s is %s", name,
          dtype_name(tensor->dtype));
}

static void check_matrix(const Tensor *tensor, const char *name, int64_t rows, int64_t columns) {
    check_float(tensor, name);
    CHECK(tensor->rank == 2 && tensor->size[0] == rows && tensor->size[1] == columns,
          "%s is rank %d, %lld × %lld; expected %lld × %lld", name, tensor->rank, (long long)tensor->size[0],
          (long long)tensor->size[1], (long long)rows, (long long)columns);
}

static void check_vector(const Tensor *tensor, const char *name, int64_t count) {
    check_float(tensor, name);
    CHECK(tensor_count(tensor) == count, "%s has %lld elements, expected %lld", name, (long long)tensor_count(tensor),
          (long long)count);
}

static int64_t panels_of(const LinearWeight *weight) {
    return (weight->n + GEMM_PANEL - 1) / GEMM_PANEL;
}

typedef struct PackJob {
    const Kernels *kernels;
    const GemmLines *lines;
    int64_t count, k; // lines, and numbers of each
    char *out;
} PackJob;

static void pack_task(void *context, int64_t panel, int worker) {
    (void)worker;
    const PackJob *job = context;
    DType dtype = job->lines->dtype;
    int64_t first = panel * GEMM_PANEL;
    job->kernels->gemm_pack_strips(&(GemmPackStrips){.lines = job->lines,
                                                     .first = first,
                                                     .count = job->count - first,
                                                     .strips = GEMM_PANEL / GEMM_STRIP,
                                                     .k = job->k,
                                                     .out = job->out + (size_t)(first * job->k) * dtype_size(dtype),
                                                     .dtype = dtype});
}

void linear_open_panels(Ops *ops, LinearWeight *weight, DType dtype, MemoryTag tag) {
    weight->panels = DEVICE_TENSOR_RAW(&ops->device, tag, dtype, panels_of(weight), weight->k, GEMM_PANEL);
}

void linear_pack_rows(Ops *ops, LinearWeight *weight, const Tensor *rows_RK, int64_t first) {
    _Static_assert((int)LINEAR_PACKED_ROWS == (int)GEMM_PANEL, "whole panels");
    int64_t count = rows_RK->size[0];
    DType dtype = weight->panels.dtype;
    check_matrix(rows_RK, "rows", count, weight->k);
    CHECK(rows_RK->dtype == dtype, "rows are %s, the panels %s", dtype_name(rows_RK->dtype), dtype_name(dtype));
    CHECK(first >= 0 && first % GEMM_PANEL == 0 && count <= weight->n - first &&
              (count % GEMM_PANEL == 0 || first + count == weight->n),
          "rows %lld + %lld of %lld", (long long)first, (long long)count, (long long)weight->n);
    if (!ops_runs(ops)) return;
    GemmLines lines = {rows_RK->data, dtype, GEMM_K_INNER, weight->k};
    char *out = (char *)weight->panels.data + (size_t)(first * weight->k) * dtype_size(dtype);
    PackJob job = {ops->kernels, &lines, count, weight->k, out};
    team_run(ops->team, (count + GEMM_PANEL - 1) / GEMM_PANEL, pack_task, &job);
}

void linear_pack(Ops *ops, LinearWeight *weight, MemoryTag tag) {
    check_matrix(&weight->rows, "weight", weight->n, weight->k);
    linear_open_panels(ops, weight, weight->rows.dtype, tag);
    linear_pack_rows(ops, weight, &weight->rows, 0);
}

void linear_forward(Ops *ops, Tensor *y_TN, const Tensor *x_TK, const LinearWeight *weight, const Tensor *bias_N) {
    int64_t rows = x_TK->size[0];
    check_matrix(x_TK, "x", rows, weight->k);
    check_matrix(y_TN, "y", rows, weight->n);
    bool packed = weight->panels.data;
    if (packed)
        check_vector(&weight->panels, "weight's panels", panels_of(weight) * GEMM_PANEL * weight->k);
    else
        check_matrix(&weight->rows, "weight", weight->n, weight->k);
    if (bias_N) check_vector(bias_N, "bias", weight->n);
    const Tensor *b = packed ? &weight->panels : &weight->rows;
    gemm_run(ops, &(Gemm){.m = rows,
                          .n = weight->n,
                          .k = weight->k,
                          .a = {x_TK->data, x_TK->dtype, GEMM_K_INNER, weight->k},
                          .b = {b->data, b->dtype, packed ? GEMM_PANELS : GEMM_K_INNER, weight->k},
                          .c = y_TN->data,
                          .dtype = y_TN->dtype,
                          .bias = bias_N ? bias_N->data : NULL,
                          .bias_dtype = bias_N ? bias_N->dtype : DTYPE_F32});
}

void linear_backward_input(Ops *ops, Tensor *dx_TK, const Tensor *dy_TN, const LinearWeight *weight) {
    int64_t rows = dy_TN->size[0];
    check_matrix(dy_TN, "dy", rows, weight->n);
    check_matrix(dx_TK, "dx", rows, weight->k);
    check_matrix(&weight->rows, "weight", weight->n, weight->k);
    gemm_run(ops, &(Gemm){.m = rows,
                          .n = weight->k,
                          .k = weight->n,
                          .a = {dy_TN->data, dy_TN->dtype, GEMM_K_INNER, weight->n},
                          .b = {weight->rows.data, weight->rows.dtype, GEMM_K_OUTER, weight->k},
                          .c = dx_TK->data,
                          .dtype = dx_TK->dtype});
}

void linear_backward_weight(Ops *ops, Tensor *dw_NK, const Tensor *dy_TN, const Tensor *x_TK) {
    int64_t rows = dy_TN->size[0], n = dy_TN->size[1], k = x_TK->size[1];
    check_matrix(dy_TN, "dy", rows, n);
    check_matrix(x_TK, "x", rows, k);
    check_matrix(dw_NK, "dw", n, k);
    CHECK(dw_NK->dtype == DTYPE_F32, "dw is %s", dtype_name(dw_NK->dtype));
    gemm_run(ops, &(Gemm){.m = n,
                          .n = k,
                          .k = rows,
                          .a = {dy_TN->data, dy_TN->dtype, GEMM_K_OUTER, n},
                          .b = {x_TK->data, x_TK->dtype, GEMM_K_OUTER, k},
                          .c = dw_NK->data,
                          .dtype = DTYPE_F32,
                          .accumulate = true});
}

enum { SUM_COLUMNS = 64 }; // of one task

typedef struct SumJob {
    const Kernels *kernels;
    float *sums;
    const Tensor *rows;
} SumJob;

static void sum_task(void *context, int64_t index, int worker) {
    (void)worker;
    const SumJob *job = context;
    const Tensor *rows = job->rows;
    int64_t first = index * SUM_COLUMNS, columns = rows->size[1] - first;
    const char *start = (const char *)rows->data + (size_t)first * dtype_size(rows->dtype);
    job->kernels->gemm_column_sums(job->sums + first, start, rows->dtype, rows->size[1], rows->size[0],
                                   columns < SUM_COLUMNS ? columns : SUM_COLUMNS);
}

void linear_backward_bias(Ops *ops, Tensor *dbias_N, const Tensor *dy_TN) {
    int64_t n = dy_TN->size[1];
    check_matrix(dy_TN, "dy", dy_TN->size[0], n);
    check_vector(dbias_N, "dbias", n);
    CHECK(dbias_N->dtype == DTYPE_F32, "dbias is %s", dtype_name(dbias_N->dtype));
    if (!ops_runs(ops)) return;
    SumJob job = {ops->kernels, dbias_N->data, dy_TN};
    team_run(ops->team, (n + SUM_COLUMNS - 1) / SUM_COLUMNS, sum_task, &job);
}
