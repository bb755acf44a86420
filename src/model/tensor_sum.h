// A sum that tensor-parallel ranks share (ops/linear.h): each rank has the fold of its own segments, in fp32; the ranks exchange
// them, each folds one part of the elements over all ranks and rounds it once, and all gather the rounded parts. On the wire, of R
// ranks: (R−1)/R of the fp32 sums and (R−1)/R of the result, in its dtype.
#pragma once
#include "comm/comm.h"
#include "ops/linear.h"

static inline bool tensor_sum_shared(const Comm *tensor) { // NULL: one rank
    return tensor && tensor->size > 1;
}

// Room for this rank's sums of an out_TD, fp32; tensor_sum_close releases it and fills out_TD. The number of elements is a
// multiple of the number of ranks.
Tensor tensor_sum_open(Ops *ops, const Tensor *out_TD);
void tensor_sum_close(Ops *ops, Comm *tensor, Tensor *out_TD, Tensor *sums_TD);

// out_TD = linear_forward or linear_backward_input of what this rank holds, summed over the ranks, some rows at a time.
void tensor_sum_forward(Ops *ops, Comm *tensor, Tensor *out_TD, const Tensor *x_TK, const LinearWeight *weight);
void tensor_sum_backward_input(Ops *ops, Comm *tensor, Tensor *out_TD, const Tensor *dy_TN, const LinearWeight *weight);

// sum_X (fp32) += the fold of sums_SX (S segments of this rank) over all ranks: for what is small.
void tensor_sum_add(Ops *ops, Comm *tensor, Tensor *sum_X, const Tensor *sums_SX);
