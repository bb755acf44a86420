// How ops/rows.c and ops/norm.c hand out their work: one job for each operation, and tasks that are blocks of it. For these two alone.
#pragma once
#include "base/int64.h"
#include "ops/kernels.h"
#include "ops/rows.h"

#include <stdatomic.h>

enum {
    TASK_ELEMENTS = 32768, // of one task: enough to be worth handing out, small enough to stay in the second cache
    TASK_COLUMNS = 64,     // of one task that sums over rows
};

// What the tasks of one operation share; each uses the part that it needs.
typedef struct RowsJob {
    const Kernels *kernels;
    int64_t rows, columns; // of the matrix, or 1 and the number of elements
    int64_t step;          // rows (or elements) of one task
    const Tensor *out, *a, *b, *c, *d;
    const int32_t *indices;
    const float *values;
    float *rstd, *chains;
    RowsSquares grid, *squares;
    float number;
    int64_t heads, head_dim, first, stride, offset;
    const AdamwFactors *adamw;
    _Atomic int64_t *found;
} RowsJob;

// The elements of a tensor from number `at` on; nothing of NULL.
static inline Numbers numbers(const Tensor *tensor, int64_t at) {
    if (!tensor) return (Numbers){0};
    return (Numbers){(char *)tensor->data + (size_t)at * dtype_size(tensor->dtype), tensor->dtype};
}

static inline void check_floats(const Tensor *tensor, const char *name) {
    CHECK(tensor->dtype != DTYPE_I32, "%s is %s", name, dtype_name(tensor->dtype));
}

static inline void check_matrix(const Tensor *tensor, const char *name, int64_t rows, int64_t columns) {
    check_floats(tensor, name);
    CHECK(tensor->rank == 2 && tensor->size[0] == rows && tensor->size[1] == columns,
          "%s has rank %d and is %lld x %lld, not %lld x %lld", name, tensor->rank, (long long)tensor->size[0],
          (long long)tensor->size[1], (long long)rows, (long long)columns);
}

static inline void check_f32(const Tensor *tensor, const char *name) {
    CHECK(tensor->dtype == DTYPE_F32, "%s is %s, not float32", name, dtype_name(tensor->dtype));
}

static inline void check_count(const Tensor *tensor, const char *name, int64_t count) {
    check_floats(tensor, name);
    CHECK(tensor_count(tensor) == count, "%s has %lld elements, not %lld", name, (long long)tensor_count(tensor),
          (long long)count);
}

// Tasks are blocks of rows.
static inline void run_rows(Ops *ops, RowsJob job, TeamTask *task) {
    job.kernels = ops->kernels;
    job.step = job.columns < TASK_ELEMENTS ? TASK_ELEMENTS / (job.columns ? job.columns : 1) : 1;
    team_run(ops->team, (job.rows + job.step - 1) / job.step, task, &job);
}

// Tasks are blocks of columns, each walking over the rows in ascending order.
static inline void run_columns(Ops *ops, RowsJob job, TeamTask *task) {
    job.kernels = ops->kernels;
    job.step = TASK_COLUMNS;
    team_run(ops->team, (job.columns + job.step - 1) / job.step, task, &job);
}

// Tasks are blocks of elements: rows = 1.
static inline void run_elements(Ops *ops, RowsJob job, TeamTask *task) {
    job.kernels = ops->kernels;
    job.step = TASK_ELEMENTS;
    team_run(ops->team, (job.columns + job.step - 1) / job.step, task, &job);
}

#define EACH_ROW(job, task, row)                                                                                       \
    for (int64_t row = (task) * (job)->step, last_##row = int64_smaller((job)->rows, row + (job)->step);               \
         row < last_##row; row++)
