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

void linear_segments_add(LinearSegments *segments, int64_t size, int64_t pieces, int64_t unit) {
    CHECK(segments->group_count < LINEAR_MAX_GROUPS && segments->count > 0 && segments->count <= LINEAR_MAX_SEGMENTS,
          "group %d, %d segments", segments->group_count, segments->count);
    CHECK(pieces == 0 || segments->count % pieces == 0 || pieces % segments->count == 0, "%lld pieces, %d segments",
          (long long)pieces, segments->count);
    int64_t units = (size + unit - 1) / unit, piece = pieces ? (units + pieces - 1) / pieces * unit : size;
    segments->groups[segments->group_count].size = size;
    segments->groups[segments->group_count].piece = piece;
    segments->groups[segments->group_count++].pieces = pieces;
}

int linear_segments_folds(int count, int i) {
    if (count % 2) return i > 0;
    int half = count / 2;
    return i < half ? linear_segments_folds(half, i) : linear_segments_folds(half, i - half) + (i == count - 1);
}

// Runs of k in the order in which chains take them; returns how many.
static int runs_of(GemmRun runs[GEMM_MAX_RUNS], const LinearSegments *segments, int64_t k) {
    int count = 0, waiting = 0;
    int64_t all = 0;
    for (int i = 0; i < segments->count; i++) {
        int first = count;
        int64_t start = 0;
        for (int g = 0; g < segments->group_count; start += segments->groups[g++].size) {
            int64_t size = segments->groups[g].size, piece = segments->groups[g].piece;
            int64_t pieces = segments->groups[g].pieces, from = (i * pieces + segments->count - 1) / segments->count;
            int64_t to = ((i + 1) * pieces + segments->count - 1) / segments->count;
            if (from == to) continue;
            from = from * piece < size ? from * piece : size;
            to = to * piece < size ? to * piece : size;
            runs[count++] = (GemmRun){.first = start + from, .count = to - from, .slot = waiting};
        }
        if (first == count) runs[count++] = (GemmRun){.slot = waiting};
        runs[first].starts = runs[count - 1].ends = true;
        runs[count - 1].folds = linear_segments_folds(segments->count, i);
        waiting += 1 - runs[count - 1].folds;
        all = start;
    }
    CHECK(all == k || !segments->count, "segments of %lld, the sum has %lld", (long long)all, (long long)k);
    return count;
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
    if (!ops_starts(ops, 0, 2 * OPS_BYTES(rows_RK))) return;
    GemmLines lines = {rows_RK->data, dtype, GEMM_K_INNER, weight->k};
    char *out = (char *)weight->panels.data + (size_t)(first * weight->k) * dtype_size(dtype);
    gemm_pack(ops, out, &lines, count, weight->k);
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
    GemmRun runs[GEMM_MAX_RUNS];
    gemm_run(ops, &(Gemm){.m = rows,
                          .n = weight->n,
                          .k = weight->k,
                          .runs = runs,
                          .run_count = runs_of(runs, &weight->over_k, weight->k),
                          .a = {x_TK->data, x_TK->dtype, GEMM_K_INNER, weight->k},
                          .b = {b->data, b->dtype, packed ? GEMM_PANELS : GEMM_K_INNER, weight->k},
                          .c = y_TN->data,
                          .dtype = y_TN->dtype,
                          .bias = bias_N ? bias_N->data : NULL,
                          .bias_dtype = bias_N ? bias_N->dtype : DTYPE_F32});
    ops_wrote(ops, __func__, y_TN);
}

// runs: room for those of the sum over n.
static Gemm input_product(GemmRun runs[GEMM_MAX_RUNS], const Tensor *dx_TK, const Tensor *dy_TN,
                          const LinearWeight *weight) {
    int64_t rows = dy_TN->size[0];
    check_matrix(dy_TN, "dy", rows, weight->n);
    check_matrix(dx_TK, "dx", rows, weight->k);
    check_matrix(&weight->rows, "weight", weight->n, weight->k);
    return (Gemm){.m = rows,
                  .n = weight->k,
                  .k = weight->n,
                  .runs = runs,
                  .run_count = runs_of(runs, &weight->over_n, weight->n),
                  .a = {dy_TN->data, dy_TN->dtype, GEMM_K_INNER, weight->n},
                  .b = {weight->rows.data, weight->rows.dtype, GEMM_K_OUTER, weight->k},
                  .c = dx_TK->data,
                  .dtype = dx_TK->dtype};
}

void linear_backward_input(Ops *ops, Tensor *dx_TK, const Tensor *dy_TN, const LinearWeight *weight) {
    GemmRun runs[GEMM_MAX_RUNS];
    Gemm product = input_product(runs, dx_TK, dy_TN, weight);
    gemm_run(ops, &product);
    ops_wrote(ops, __func__, dx_TK);
}

void linear_backward_input_part(Ops *ops, Tensor *chain_TK, const Tensor *dy_TN, const LinearWeight *weight,
                                int64_t first, int64_t count, bool begins) {
    int64_t rows = dy_TN->size[0];
    check_matrix(dy_TN, "dy", rows, weight->n);
    check_matrix(chain_TK, "chain", rows, weight->k);
    check_matrix(&weight->rows, "weight", weight->n, weight->k);
    CHECK(chain_TK->dtype == DTYPE_F32 && first >= 0 && count >= 0 && first + count <= weight->n,
          "rows %lld + %lld of %lld", (long long)first, (long long)count, (long long)weight->n);
    const char *dy = (const char *)dy_TN->data + (size_t)first * dtype_size(dy_TN->dtype);
    const char *w = (const char *)weight->rows.data + (size_t)(first * weight->k) * dtype_size(weight->rows.dtype);
    gemm_run(ops, &(Gemm){.m = rows,
                          .n = weight->k,
                          .k = count,
                          .a = {dy, dy_TN->dtype, GEMM_K_INNER, weight->n},
                          .b = {w, weight->rows.dtype, GEMM_K_OUTER, weight->k},
                          .c = chain_TK->data,
                          .dtype = DTYPE_F32,
                          .chain = begins ? NULL : chain_TK->data});
    ops_wrote(ops, __func__, chain_TK);
}

static Gemm weight_product(Tensor *dw_NK, Tensor *chain_NK, const Tensor *dy_TN, const Tensor *x_TK, LinearPart part) {
    int64_t rows = dy_TN->size[0], n = dy_TN->size[1], k = x_TK->size[1];
    check_matrix(dy_TN, "dy", rows, n);
    check_matrix(x_TK, "x", rows, k);
    check_matrix(dw_NK, "dw", n, k);
    CHECK(dw_NK->dtype == DTYPE_F32, "dw is %s", dtype_name(dw_NK->dtype));
    CHECK(chain_NK || (part.first && part.last), "parts of chains without a place to wait");
    if (chain_NK) check_matrix(chain_NK, "chain", n, k);
    return (Gemm){.m = n,
                  .n = k,
                  .k = rows,
                  .a = {dy_TN->data, dy_TN->dtype, GEMM_K_OUTER, n},
                  .b = {x_TK->data, x_TK->dtype, GEMM_K_OUTER, k},
                  .c = part.last ? dw_NK->data : chain_NK->data,
                  .dtype = DTYPE_F32,
                  .chain = part.first ? NULL : chain_NK->data,
                  .adds = part.last};
}

void linear_backward_weight_part(Ops *ops, Tensor *dw_NK, Tensor *chain_NK, const Tensor *dy_TN, const Tensor *x_TK,
                                 LinearPart part) {
    Gemm product = weight_product(dw_NK, chain_NK, dy_TN, x_TK, part);
    gemm_run(ops, &product);
    if (part.last) ops_wrote(ops, "linear_backward_weight", dw_NK);
}

static const LinearPart all_tokens = {.first = true, .last = true};

void linear_backward_weight(Ops *ops, Tensor *dw_NK, const Tensor *dy_TN, const Tensor *x_TK) {
    linear_backward_weight_part(ops, dw_NK, NULL, dy_TN, x_TK, all_tokens);
}

void linear_backward(Ops *ops, Tensor *dx_TK, Tensor *dw_NK, const Tensor *dy_TN, const Tensor *x_TK,
                     const LinearWeight *weight) {
    GemmRun runs[GEMM_MAX_RUNS];
    Gemm to_weight = weight_product(dw_NK, NULL, dy_TN, x_TK, all_tokens);
    Gemm to_input = input_product(runs, dx_TK, dy_TN, weight);
    gemm_run_both(ops, &to_weight, &to_input);
    ops_wrote(ops, "linear_backward_weight", dw_NK);
    ops_wrote(ops, "linear_backward_input", dx_TK);
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
    if (!ops_starts(ops, 0, OPS_BYTES(dy_TN))) return;
    SumJob job = {ops->kernels, dbias_N->data, dy_TN};
    team_run(ops->team, (n + SUM_COLUMNS - 1) / SUM_COLUMNS, sum_task, &job);
    ops_wrote(ops, __func__, dbias_N);
}

typedef struct FoldJob {
    const Kernels *kernels;
    const Tensor *out, *parts;
    int64_t count; // elements of one part
    int folds[LINEAR_MAX_SEGMENTS];
} FoldJob;

enum { FOLD_ELEMENTS = 8192 }; // of one task

static void fold_task(void *context, int64_t task, int worker) {
    (void)worker;
    const FoldJob *job = context;
    int64_t first = task * FOLD_ELEMENTS, left = job->count - first;
    Numbers out = {(char *)job->out->data + (size_t)first * dtype_size(job->out->dtype), job->out->dtype};
    job->kernels->gemm_fold_parts(out, (const float *)job->parts->data + first, job->count, job->folds,
                                  (int)job->parts->size[0], left < FOLD_ELEMENTS ? left : FOLD_ELEMENTS);
}

void linear_fold(Ops *ops, Tensor *out_X, const Tensor *parts_SX) {
    int parts = (int)parts_SX->size[0];
    FoldJob job = {ops->kernels, out_X, parts_SX, tensor_count(out_X), {0}};
    CHECK(parts_SX->dtype == DTYPE_F32 && parts > 0 && parts <= LINEAR_MAX_SEGMENTS &&
              tensor_count(parts_SX) == parts * job.count,
          "%d parts of %lld elements in all for %lld, %s", parts, (long long)tensor_count(parts_SX),
          (long long)job.count, dtype_name(parts_SX->dtype));
    if (!ops_starts(ops, 0, OPS_BYTES(out_X, parts_SX))) return;
    for (int i = 0; i < parts; i++) job.folds[i] = linear_segments_folds(parts, i);
    team_run(ops->team, (job.count + FOLD_ELEMENTS - 1) / FOLD_ELEMENTS, fold_task, &job);
    ops_wrote(ops, __func__, out_X);
}
