#include "model/vocabulary_share.h"

#include "base/arena.h"
#include "base/int64.h"
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

void vocabulary_share_embed(Ops *ops, const Architecture *share, Comm *tensor, Tensor *x_TD, const Tensor *table_VD,
                            const LinearWeight *head, const int32_t *ids) {
    if (!tensor_sum_shared(tensor)) {
        look_up(ops, x_TD, table_VD, head, ids);
        return;
    }
    // Each rank has its own rows, and −0, which changes no sum, for the others.
    Arena arena = {0};
    int32_t *rows = arena_array(&arena, int32_t, x_TD->size[0]);
    tensor_share_ids(share, rows, ids, x_TD->size[0]);
    look_up(ops, x_TD, table_VD, head, rows);
    Tensor sums_TD = tensor_sum_open(ops, x_TD);
    rows_cast(ops, &sums_TD, x_TD);
    tensor_sum_close(ops, tensor, x_TD, &sums_TD);
    arena_close(&arena);
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
