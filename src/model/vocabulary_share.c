#include "model/vocabulary_share.h"

#include "base/arena.h"
#include "base/int64.h"
#include "model/row_share.h"
#include "model/tensor_sum.h"
#include "ops/panels.h"
#include "ops/rows.h"

#include <string.h>

static void look_up(Ops *ops, Tensor *x_TD, const Tensor *table_VD, const LinearWeight *head, const int32_t *ids) {
    if (table_VD)
        embedding_forward(ops, x_TD, table_VD, ids);
    else
        panels_gather(ops, x_TD, head, ids);
}

void vocabulary_share_look_up(Ops *ops, const Architecture *share, Tensor *x_TD, const Tensor *table_VD,
                              const LinearWeight *head, const int32_t *ids) {
    if (!share->whole) {
        look_up(ops, x_TD, table_VD, head, ids);
        return;
    }
    Arena arena = {0};
    int32_t *rows = arena_array(&arena, int32_t, x_TD->size[0]);
    tensor_share_ids(share, rows, ids, x_TD->size[0]);
    look_up(ops, x_TD, table_VD, head, rows);
    arena_close(&arena);
}

void vocabulary_share_embed(Ops *ops, const Architecture *share, Comm *tensor, Tensor *x_TD, const Tensor *table_VD,
                            const LinearWeight *head, const int32_t *ids) {
    RowShare rows = row_share_of(x_TD->size[0], tensor, false);
    vocabulary_share_look_up(ops, share, x_TD, table_VD, head, ids);
    row_share_sum(ops, &rows, x_TD, x_TD);
}

// Copies the columns that two matrices of fp32 have in common: column 0 of `to` is column `first` of `from`, or the other way.
static void copy_columns(Tensor *to, int64_t to_first, const Tensor *from, int64_t from_first, int64_t count) {
    int64_t to_stride = to->size[1], from_stride = from->size[1];
    for (int64_t row = 0; row < to->size[0] && count > 0; row++)
        memcpy((float *)to->data + row * to_stride + to_first,
               (const float *)from->data + row * from_stride + from_first, (size_t)count * sizeof(float));
}

void vocabulary_share_logits(Ops *ops, const Architecture *share, Comm *tensor, Tensor *logits_NV,
                             const Tensor *norm_ND, const LinearWeight *head) {
    if (!tensor_sum_shared(tensor)) {
        linear_forward(ops, logits_NV, norm_ND, head, NULL);
        return;
    }
    int64_t N = norm_ND->size[0], own = share->vocab_size, V = logits_NV->size[1];
    Tensor parts = DEVICE_TENSOR_RAW(&ops->device, MEMORY_COMMUNICATION, DTYPE_F32, tensor->size, N, own);
    Tensor part = tensor_rows(&parts, tensor->rank, 1), part_NV = TENSOR_RESHAPE(&part, N, own);
    linear_forward(ops, &part_NV, norm_ND, head, NULL);
    comm_all_gather(tensor, parts.data, (size_t)(N * own) * sizeof(float));
    for (int64_t rank = 0; ops_runs(ops) && rank < tensor->size; rank++) {
        part = tensor_rows(&parts, rank, 1);
        part_NV = TENSOR_RESHAPE(&part, N, own);
        copy_columns(logits_NV, rank * own, &part_NV, 0, int64_smaller(own, V - rank * own));
    }
    device_release(&ops->device, &parts);
}

Tensor vocabulary_share_columns(Ops *ops, const Architecture *share, const Tensor *logits_NV) {
    Tensor own = DEVICE_TENSOR(&ops->device, MEMORY_LOGITS, DTYPE_F32, logits_NV->size[0], share->vocab_size);
    if (ops_runs(ops))
        copy_columns(&own, 0, logits_NV, tensor_share_vocabulary_first(share), tensor_share_vocabulary_count(share));
    return own;
}

// What a rank sends of one row: its blocks and a target, as floats.
static int64_t sent_floats(const Architecture *share) {
    _Static_assert(sizeof(SoftmaxBlock) == 2 * sizeof(float), "a block is two floats");
    return 2 * softmax_block_count(share->vocab_size) + 1;
}

// Blocks that `rank` has, and where they begin.
static int64_t blocks_of(int64_t *first, const Architecture *share, int rank) {
    Architecture other = *share;
    other.rank = rank;
    *first = tensor_share_vocabulary_first(&other) / SOFTMAX_BLOCK;
    return softmax_block_count(tensor_share_vocabulary_count(&other));
}

void vocabulary_share_fold(Ops *ops, const Architecture *share, Comm *tensor, SoftmaxRow *rows_T,
                           SoftmaxBlock *blocks_TS, float *targets_T, const int32_t *ids, int64_t rows) {
    const Architecture *whole = share->whole ? share->whole : share;
    int64_t S = softmax_block_count(whole->vocab_size), sent = sent_floats(share), first;
    if (!tensor_sum_shared(tensor)) {
        softmax_fold(ops, rows_T, blocks_TS, rows, S);
        return;
    }
    Tensor all = DEVICE_TENSOR_RAW(&ops->device, MEMORY_COMMUNICATION, DTYPE_F32, tensor->size, rows, sent);
    bool runs = ops_runs(ops);
    for (int64_t t = 0; runs && t < rows; t++) {
        float *to = (float *)all.data + (tensor->rank * rows + t) * sent;
        int64_t count = blocks_of(&first, share, tensor->rank);
        to[sent - 1] = targets_T[t];
        memcpy(to, blocks_TS + t * S + first, (size_t)count * sizeof *blocks_TS);
    }
    comm_all_gather(tensor, all.data, (size_t)(rows * sent) * sizeof(float));
    for (int rank = 0; runs && rank < tensor->size; rank++) {
        int64_t count = blocks_of(&first, share, rank);
        for (int64_t t = 0; t < rows; t++) {
            const float *from = (const float *)all.data + (rank * rows + t) * sent;
            memcpy(blocks_TS + t * S + first, from, (size_t)count * sizeof *blocks_TS);
            if (ids[t] / share->vocab_size == rank) targets_T[t] = from[sent - 1];
        }
    }
    device_release(&ops->device, &all);
    softmax_fold(ops, rows_T, blocks_TS, rows, S);
}
