#include "model/row_share.h"

#include "base/int64.h"
#include "model/tensor_sum.h"
#include "ops/norm.h"
#include "ops/rows.h"

#include <string.h>

enum {
    ROWS_AT_ONCE = 512, // of all ranks, whose sums exist at a time; but
    LEAST_ROWS = 64     // of each rank, so that a product is worth packing for
};

static int64_t first_of(const RowShare *rows, int rank) {
    return int64_smaller(rank * rows->part, rows->all);
}

// Rows of a rank's part from its row `at` on, at most `most`.
static int64_t count_of(const RowShare *rows, int rank, int64_t at, int64_t most) {
    int64_t left = int64_smaller(rows->part, rows->all - first_of(rows, rank)) - at;
    return int64_larger(int64_smaller(left, most), 0);
}

RowShare row_share_of(int64_t rows, Comm *tensor, bool divided) {
    RowShare share = {.tensor = tensor, .all = rows, .part = rows, .count = rows};
    if (!divided || !tensor_sum_shared(tensor)) return share;
    share.divided = true;
    share.part = (rows + tensor->size - 1) / tensor->size;
    share.first = first_of(&share, tensor->rank);
    share.count = count_of(&share, tensor->rank, 0, rows);
    return share;
}

Tensor row_share_open(Ops *ops, const RowShare *rows, DType dtype, int64_t columns) {
    return DEVICE_TENSOR_RAW(&ops->device, MEMORY_ACTIVATION, dtype, row_share_room(rows), columns);
}

Tensor row_share_own(const RowShare *rows, const Tensor *room_TD) {
    return tensor_rows(room_TD, rows->first, rows->count);
}

Tensor row_share_gather(const RowShare *rows, Tensor *room_TD) {
    if (rows->divided) comm_all_gather(rows->tensor, room_TD->data, tensor_bytes(room_TD) / (size_t)rows->tensor->size);
    return tensor_rows(room_TD, 0, rows->all);
}

Tensor row_share_spread(Ops *ops, const RowShare *rows, Tensor *room, const Tensor *own_TD) {
    *room = (Tensor){0};
    if (!rows->divided) return *own_TD;
    *room = row_share_open(ops, rows, own_TD->dtype, own_TD->size[1]);
    Tensor own = row_share_own(rows, room);
    rows_cast(ops, &own, own_TD);
    return row_share_gather(rows, room);
}

typedef enum Summand { SUMMAND_FORWARD, SUMMAND_BACKWARD_INPUT, SUMMAND_ITSELF } Summand;

static void make(Ops *ops, Summand summand, Tensor *to, const Tensor *from, const LinearWeight *weight) {
    switch (summand) {
    case SUMMAND_FORWARD: linear_forward(ops, to, from, weight, NULL); return;
    case SUMMAND_BACKWARD_INPUT: linear_backward_input(ops, to, from, weight); return;
    case SUMMAND_ITSELF: rows_cast(ops, to, from); return;
    }
}

// Moves the first `count` of each part's numbers behind those of the part before.
static void close_gaps(Tensor *parts, int64_t count) {
    int64_t stride = tensor_count(parts) / parts->size[0];
    float *data = parts->data;
    for (int64_t i = 1; i < parts->size[0] && count < stride; i++)
        memmove(data + i * count, data + i * stride, (size_t)count * sizeof *data);
}

// Sums of `step` rows of each rank's part, from its row `at` on: made, exchanged, folded.
static void sum_rows(Ops *ops, const RowShare *rows, Tensor *out_TD, int64_t at, int64_t step, Summand summand,
                     const Tensor *from, const LinearWeight *weight) {
    int ranks = rows->tensor->size;
    int64_t D = out_TD->size[1], own = count_of(rows, rows->tensor->rank, at, step);
    Tensor sums = DEVICE_TENSOR_RAW(&ops->device, MEMORY_COMMUNICATION, DTYPE_F32, ranks, step, D);
    Tensor flat = TENSOR_RESHAPE(&sums, ranks * step, D);
    for (int rank = 0; rank < ranks; rank++) {
        int64_t count = count_of(rows, rank, at, step);
        if (!count) continue;
        Tensor to = tensor_rows(&flat, rank * step, count),
               rows_in = tensor_rows(from, first_of(rows, rank) + at, count);
        make(ops, summand, &to, &rows_in, weight);
    }
    comm_all_to_all(rows->tensor, sums.data, (size_t)(step * D) * sizeof(float));
    if (own) {
        if (ops_runs(ops)) close_gaps(&sums, own * D);
        Tensor out = tensor_rows(out_TD, at, own), used = tensor_rows(&flat, 0, ranks * own);
        used = TENSOR_RESHAPE(&used, ranks, own, D);
        linear_fold(ops, &out, &used);
    }
    device_release(&ops->device, &sums);
}

static void sum_all(Ops *ops, const RowShare *rows, Tensor *out_TD, Summand summand, const Tensor *from,
                    const LinearWeight *weight) {
    int64_t most = int64_larger(ROWS_AT_ONCE / rows->tensor->size, LEAST_ROWS);
    for (int64_t at = 0; at < rows->part; at += most)
        sum_rows(ops, rows, out_TD, at, int64_smaller(most, rows->part - at), summand, from, weight);
}

void row_share_forward(Ops *ops, const RowShare *rows, Tensor *out_TD, const Tensor *x_TK, const LinearWeight *weight) {
    if (rows->divided)
        sum_all(ops, rows, out_TD, SUMMAND_FORWARD, x_TK, weight);
    else
        tensor_sum_forward(ops, rows->tensor, out_TD, x_TK, weight);
}

void row_share_backward_input(Ops *ops, const RowShare *rows, Tensor *out_TD, const Tensor *dy_TN,
                              const LinearWeight *weight) {
    if (rows->divided)
        sum_all(ops, rows, out_TD, SUMMAND_BACKWARD_INPUT, dy_TN, weight);
    else
        tensor_sum_backward_input(ops, rows->tensor, out_TD, dy_TN, weight);
}

void row_share_backward(Ops *ops, const RowShare *rows, Tensor *dx_TD, Tensor *dw_ND, const Tensor *dy_TN,
                        const Tensor *x_TD, const LinearWeight *weight) {
    if (!tensor_sum_shared(rows->tensor)) {
        linear_backward(ops, dx_TD, dw_ND, dy_TN, x_TD, weight);
        return;
    }
    linear_backward_weight(ops, dw_ND, dy_TN, x_TD);
    row_share_backward_input(ops, rows, dx_TD, dy_TN, weight);
}

void row_share_sum(Ops *ops, const RowShare *rows, Tensor *out_TD, const Tensor *from_TD) {
    if (rows->divided) {
        sum_all(ops, rows, out_TD, SUMMAND_ITSELF, from_TD, NULL);
    } else if (tensor_sum_shared(rows->tensor)) {
        Tensor sums_TD = tensor_sum_open(ops, out_TD);
        rows_cast(ops, &sums_TD, from_TD);
        tensor_sum_close(ops, rows->tensor, out_TD, &sums_TD);
    } else if (from_TD->data != out_TD->data) {
        rows_cast(ops, out_TD, from_TD);
    }
}

void row_share_norm_backward(Ops *ops, const RowShare *rows, Tensor *dx_TD, Tensor *dw_D, const Tensor *dy_TD,
                             const Tensor *x_TD, const Tensor *w_D, const Tensor *residual_TD, float eps) {
    rms_norm_backward(ops, dx_TD, rows->divided ? NULL : dw_D, dy_TD, x_TD, w_D, residual_TD, eps);
    if (!rows->divided) return;
    Comm *tensor = rows->tensor;
    Tensor chain_D = DEVICE_TENSOR_RAW(&ops->device, MEMORY_COMMUNICATION, DTYPE_F32, tensor_count(dw_D));
    for (int rank = 0; rank < tensor->size; rank++) {
        if (rank == tensor->rank) norm_chain_add(ops, &chain_D, dy_TD, x_TD, eps, rank == 0);
        comm_broadcast(tensor, chain_D.data, tensor_bytes(&chain_D), rank);
    }
    rows_add(ops, dw_D, dw_D, &chain_D);
    device_release(&ops->device, &chain_D);
}

int64_t row_share_total(const RowShare *rows, int64_t value) {
    if (!rows->divided) return value;
    int64_t values[LINEAR_MAX_SEGMENTS] = {0}, total = 0;
    values[rows->tensor->rank] = value;
    comm_all_gather(rows->tensor, values, sizeof *values);
    for (int rank = 0; rank < rows->tensor->size; rank++) total += values[rank];
    return total;
}

float row_share_largest(const RowShare *rows, float value) {
    if (!rows->divided) return value;
    float values[LINEAR_MAX_SEGMENTS] = {0}, largest = 0;
    values[rows->tensor->rank] = value;
    comm_all_gather(rows->tensor, values, sizeof *values);
    for (int rank = 0; rank < rows->tensor->size; rank++)
        if (values[rank] > largest) largest = values[rank];
    return largest;
}
