// Matrix products of linear layers. Every output element is one chain over k, starting from 0, rounded once to the output's
// dtype, or added to what is there where += is said: so tiles, threads and the number of rows change no bit. Inputs may be
// F32, BF16 or F16 in any mix; they are widened exactly.
//
// A sum that several ranks may share (tensor parallelism) must not depend on how many they are. So its index can be cut into
// segments: each is a chain from 0, and their sums are folded by one tree: of an even number the fold of the first half plus
// that of the second, of an odd number one after the other. Ranks that own halves, quarters, … or single segments fold their
// part of the tree, and the rest of it is folded from what they send.
#pragma once
#include "ops/ops.h"

enum { LINEAR_MAX_SEGMENTS = 16, LINEAR_MAX_GROUPS = 3 };

// The index is made of groups, one behind the other (query, key, value columns), each cut into pieces of one size (the last
// may be shorter or empty). Piece i belongs to segment i·count/pieces, which is a chain over its pieces in ascending order. A group of
// no pieces takes no part in the sum.
typedef struct LinearSegments {
    int count; // 0: one chain over everything
    int group_count;
    struct {
        int64_t size, piece, pieces;
    } groups[LINEAR_MAX_GROUPS];
} LinearSegments;

// Adds a group whose pieces are whole multiples of `unit`, as even as that allows. count must be set.
void linear_segments_add(LinearSegments *segments, int64_t size, int64_t pieces, int64_t unit);

// How many sums that wait, the youngest first, are added to the sum of segment i of `count`, before it waits itself.
int linear_segments_folds(int count, int i);

// out_X = the fold of parts_SX (F32, S sums of X elements each), rounded once.
void linear_fold(Ops *ops, Tensor *out_X, const Tensor *parts_SX);

// A weight of shape N×K (out × in, as Hugging Face stores it). Either rows or panels is present, or both.
typedef struct LinearWeight {
    int64_t n, k;
    Tensor rows;   // [N, K]; a view is fine
    Tensor panels; // the same numbers in the order in which the kernel reads them (linear_pack), in rows' dtype
    LinearSegments over_k, over_n; // of the sums of linear_forward and of linear_backward_input
} LinearWeight;

// Packs rows into new panels (for weights that are used many times: decode). The caller releases weight->panels.
void linear_pack(Ops *ops, LinearWeight *weight, MemoryTag tag);

// The same in parts, for weights that never lie in memory as rows: makes room for panels of dtype, then packs rows
// first..first+R-1 of the weight from rows_RK. first is a multiple of LINEAR_PACKED_ROWS, R too unless it ends the weight.
enum { LINEAR_PACKED_ROWS = 32 };
void linear_open_panels(Ops *ops, LinearWeight *weight, DType dtype, MemoryTag tag);
void linear_pack_rows(Ops *ops, LinearWeight *weight, const Tensor *rows_RK, int64_t first);

// y_TN = x_TK · Wᵀ + bias_N (segments over k). bias may be NULL; it is added to the finished chain in fp32 before the rounding.
void linear_forward(Ops *ops, Tensor *y_TN, const Tensor *x_TK, const LinearWeight *weight, const Tensor *bias_N);

// dx_TK = dy_TN · W (segments over n). Needs weight->rows.
void linear_backward_input(Ops *ops, Tensor *dx_TK, const Tensor *dy_TN, const LinearWeight *weight);

// The chains of one such sum, for a weight that comes in parts of rows: chain_TK (fp32) goes on over count rows of the weight from
// `first` on, or begins with them.
void linear_backward_input_part(Ops *ops, Tensor *chain_TK, const Tensor *dy_TN, const LinearWeight *weight,
                                int64_t first, int64_t count, bool begins);

// dw_NK += dyᵀ · x (fp32; the chain over tokens starts from 0 and is added when it is finished).
void linear_backward_weight(Ops *ops, Tensor *dw_NK, const Tensor *dy_TN, const Tensor *x_TK);

// Both, the weight's gradient first, at once: threads wait for each other less often. dx is neither dy nor x.
void linear_backward(Ops *ops, Tensor *dx_TK, Tensor *dw_NK, const Tensor *dy_TN, const Tensor *x_TK,
                     const LinearWeight *weight);

// linear_backward_weight for tokens that come in parts, ascending: the unfinished chains wait in chain_NK (fp32), which the first part
// begins and the last one adds to dw_NK. The cut changes no bit. chain_NK may be NULL when the part is both.
typedef struct LinearPart {
    bool first, last;
} LinearPart;
void linear_backward_weight_part(Ops *ops, Tensor *dw_NK, Tensor *chain_NK, const Tensor *dy_TN, const Tensor *x_TK,
                                 LinearPart part);

// dbias_N += Σ_t dy (fp32; a sum over tokens ascending, from 0).
void linear_backward_bias(Ops *ops, Tensor *dbias_N, const Tensor *dy_TN);
