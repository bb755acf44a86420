#include "ops/norm_chain.h"

#include "base/int64.h"
#include "ops/kernels.h"

#include <string.h>

enum {
    SLAB_ROWS = 256,  // rows whose 1/rms is remembered
    TASK_ROWS = 16,   // of one task that finds it
    TASK_COLUMNS = 64 // of one task that sums over rows
};

typedef struct ChainJob {
    const Kernels *kernels;
    const Tensor *dy, *x;
    int64_t first, rows, columns; // of a slab
    float eps, *rstd, *chain;
} ChainJob;

static Numbers numbers(const Tensor *tensor, int64_t at) {
    return (Numbers){(char *)tensor->data + (size_t)at * dtype_size(tensor->dtype), tensor->dtype};
}

static void rstd_task(void *context, int64_t task, int worker) {
    (void)worker;
    const ChainJob *job = context;
    int64_t from = task * TASK_ROWS, to = int64_smaller(job->rows, from + TASK_ROWS);
    for (int64_t row = from; row < to; row++)
        job->rstd[row] =
            job->kernels->rms_norm_rstd(numbers(job->x, (job->first + row) * job->columns), job->columns, job->eps);
}

static void chain_task(void *context, int64_t task, int worker) {
    (void)worker;
    const ChainJob *job = context;
    int64_t first = task * TASK_COLUMNS, count = int64_smaller(TASK_COLUMNS, job->columns - first);
    for (int64_t row = 0; row < job->rows; row++) {
        int64_t at = (job->first + row) * job->columns + first;
        job->kernels->rms_norm_weight_row(job->chain + first, numbers(job->dy, at), numbers(job->x, at), job->rstd[row],
                                          count);
    }
}

static void check_matrix(const Tensor *tensor, const char *name, int64_t columns, int64_t rows) {
    CHECK(tensor->dtype != DTYPE_I32 && tensor->rank == 2 && tensor->size[0] == rows && tensor->size[1] == columns,
          "%s is %s, %lld x %lld, not %lld x %lld", name, dtype_name(tensor->dtype), (long long)tensor->size[0],
          (long long)tensor->size[1], (long long)rows, (long long)columns);
}

void norm_chain_add(Ops *ops, Tensor *chain_D, const Tensor *dy_TD, const Tensor *x_TD, float eps, bool begins) {
    int64_t rows = x_TD->size[0], columns = tensor_count(chain_D);
    check_matrix(x_TD, "x", columns, rows);
    check_matrix(dy_TD, "dy", columns, rows);
    CHECK(chain_D->dtype == DTYPE_F32, "the chain is %s, not float32", dtype_name(chain_D->dtype));
    if (!ops_starts(ops, 0, OPS_BYTES(chain_D, dy_TD, x_TD))) return;
    float rstd[SLAB_ROWS];
    ChainJob job = {.kernels = ops->kernels, .dy = dy_TD, .x = x_TD, .columns = columns, .eps = eps};
    job.rstd = rstd;
    job.chain = chain_D->data;
    if (begins) memset(chain_D->data, 0, tensor_bytes(chain_D));
    for (job.first = 0; job.first < rows; job.first += SLAB_ROWS) {
        job.rows = int64_smaller(SLAB_ROWS, rows - job.first);
        team_run(ops->team, (job.rows + TASK_ROWS - 1) / TASK_ROWS, rstd_task, &job);
        team_run(ops->team, (columns + TASK_COLUMNS - 1) / TASK_COLUMNS, chain_task, &job);
    }
    ops_wrote(ops, __func__, chain_D);
}
