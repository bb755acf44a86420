// Matrix products of linear layers. Every output element is one chain over k, starting from 0 (or from the value that is
// there, where += is said), rounded once to the output's dtype: so tiles, threads and the number of rows change no bit.
// Inputs may be F32, BF16 or F16 in any mix; they are widened exactly.
#pragma once
#include "ops/ops.h"

// A weight of shape N×K (out × in, as Hugging Face stores it). Either rows or panels is present, or both.
typedef struct LinearWeight {
    int64_t n, k;
    Tensor rows;   // [N, K]; a view is fine
    Tensor panels; // the same numbers in the order in which the kernel reads them (linear_pack), in rows' dtype
} LinearWeight;

// Packs rows into new panels (for weights that are used many times: decode). The caller releases weight->panels.
void linear_pack(Ops *ops, LinearWeight *weight, MemoryTag tag);

// The same in parts, for weights that never lie in memory as rows: makes room for panels of dtype, then packs rows
// first..first+R-1 of the weight from rows_RK. first is a multiple of LINEAR_PACKED_ROWS, R too unless it ends the weight.
enum { LINEAR_PACKED_ROWS = 32 };
void linear_open_panels(Ops *ops, LinearWeight *weight, DType dtype, MemoryTag tag);
void linear_pack_rows(Ops *ops, LinearWeight *weight, const Tensor *rows_RK, int64_t first);

// y_TN = x_TK · Wᵀ + bias_N. bias may be NULL; it is added to the finished chain in fp32 before the rounding.
void linear_forward(Ops *ops, Tensor *y_TN, const Tensor *x_TK, const LinearWeight *weight, const Tensor *bias_N);

// dx_TK = dy_TN · W (chain over n). Needs weight->rows.
void linear_backward_input(Ops *ops, Tensor *dx_TK, const Tensor *dy_TN, const LinearWeight *weight);

// dw_NK += dyᵀ · x (fp32; the chain over tokens goes on from what is there, so cutting T into micro-batches changes no bit).
void linear_backward_weight(Ops *ops, Tensor *dw_NK, const Tensor *dy_TN, const Tensor *x_TK);

// dbias_N += Σ_t dy (fp32; sum over tokens ascending, going on from what is there).
void linear_backward_bias(Ops *ops, Tensor *dbias_N, const Tensor *dy_TN);
