// How the rows of a micro-batch are divided over tensor-parallel ranks (sequence parallelism; Korthikanti et al. 2022). Between the
// product that sums over the ranks and the next one whose outputs they divide each rank has its own rows alone: those of the
// residual stream and of norms. They are next to each other, in rank order, equally many, of the last ranks fewer or none.
//
// The sums are those of model/tensor_sum.h, of which each rank folds its own rows, all columns; what is gathered is rounded before.
// So a product costs on the wire, of R ranks: (R−1)/R of the fp32 sums and, where the next one begins, (R−1)/R of its input.
#pragma once
#include "comm/comm.h"
#include "ops/linear.h"

typedef struct RowShare {
    Comm *tensor;         // ranks that share the model; NULL: none
    bool divided;         // over them; else each has all rows
    int64_t all, part;    // rows; those of a rank, the last ones excepted
    int64_t first, count; // this rank's
} RowShare;

// divided has no effect on one rank.
RowShare row_share_of(int64_t rows, Comm *tensor, bool divided);

// A matrix for all rows has room for more, where they do not divide evenly: so that parts are equal when they are gathered.
static inline int64_t row_share_room(const RowShare *rows) {
    return rows->divided ? rows->part * rows->tensor->size : rows->all;
}
Tensor row_share_open(Ops *ops, const RowShare *rows, DType dtype, int64_t columns); // it; tag MEMORY_ACTIVATION
Tensor row_share_own(const RowShare *rows, const Tensor *room_TD);                   // a view of this rank's rows, and
Tensor row_share_gather(const RowShare *rows, Tensor *room_TD); // of all, which the ranks fill with theirs

// All rows of what lies on the ranks as own_TD: in room (tag MEMORY_ACTIVATION), which the caller releases. Where rows are not divided
// own_TD itself, and no room.
Tensor row_share_spread(Ops *ops, const RowShare *rows, Tensor *room, const Tensor *own_TD);

// This rank's rows of what is summed over the ranks, some at a time: linear_forward, linear_backward_input, or what each holds as
// from_TD, all rows, which may be out_TD where they are not divided (then: model/tensor_sum.h).
void row_share_forward(Ops *ops, const RowShare *rows, Tensor *out_TD, const Tensor *x_TK, const LinearWeight *weight);
void row_share_backward_input(Ops *ops, const RowShare *rows, Tensor *out_TD, const Tensor *dy_TN,
                              const LinearWeight *weight);
void row_share_sum(Ops *ops, const RowShare *rows, Tensor *out_TD, const Tensor *from_TD);

// row_share_backward_input with the weight's own gradient, of all rows: linear_backward where nothing is summed over ranks.
void row_share_backward(Ops *ops, const RowShare *rows, Tensor *dx_TD, Tensor *dw_ND, const Tensor *dy_TN,
                        const Tensor *x_TD, const LinearWeight *weight);

// rms_norm_backward of this rank's rows, a run of those that all ranks have in their order. The chain of dw_D goes from rank to
// rank, and then lies on all.
void row_share_norm_backward(Ops *ops, const RowShare *rows, Tensor *dx_TD, Tensor *dw_D, const Tensor *dy_TD,
                             const Tensor *x_TD, const Tensor *w_D, const Tensor *residual_TD, float eps);

// Of what each rank found in its rows; `value` where rows are not divided.
int64_t row_share_total(const RowShare *rows, int64_t value);
float row_share_largest(const RowShare *rows, float value);
