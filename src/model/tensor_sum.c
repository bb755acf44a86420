#include "model/tensor_sum.h"

#include "base/int64.h"
#include "ops/rows.h"

Tensor tensor_sum_open(Ops *ops, const Tensor *out_TD) {
    return device_tensor_raw(&ops->device, MEMORY_COMMUNICATION, DTYPE_F32, out_TD->rank, out_TD->size);
}

// One row of a matrix of `count` rows, made of all elements of a tensor.
static Tensor parts_of(const Tensor *tensor, int count) {
    Tensor flat = TENSOR_RESHAPE(tensor, tensor_count(tensor));
    return TENSOR_RESHAPE(&flat, count, tensor_count(tensor) / count);
}

void tensor_sum_close(Ops *ops, Comm *tensor, Tensor *out_TD, Tensor *sums_TD) {
    int ranks = tensor->size;
    int64_t part = tensor_count(out_TD) / ranks;
    CHECK(part * ranks == tensor_count(out_TD) && tensor_count(sums_TD) == tensor_count(out_TD),
          "%lld sums, %lld elements, %d ranks", (long long)tensor_count(sums_TD), (long long)tensor_count(out_TD),
          ranks);
    Tensor sums = parts_of(sums_TD, ranks), out = parts_of(out_TD, ranks), own = tensor_rows(&out, tensor->rank, 1);
    comm_all_to_all(tensor, sums.data, (size_t)part * sizeof(float));
    linear_fold(ops, &own, &sums);
    device_release(&ops->device, sums_TD);
    comm_all_gather(tensor, out.data, (size_t)part * dtype_size(out.dtype));
}

enum { ROWS_AT_ONCE = 512 }; // whose sums exist at a time

void tensor_sum_forward(Ops *ops, Comm *tensor, Tensor *out_TD, const Tensor *x_TK, const LinearWeight *weight) {
    if (!tensor_sum_shared(tensor)) {
        linear_forward(ops, out_TD, x_TK, weight, NULL);
        return;
    }
    for (int64_t first = 0, rows = out_TD->size[0]; first < rows; first += ROWS_AT_ONCE) {
        int64_t count = int64_smaller(rows - first, ROWS_AT_ONCE);
        Tensor out_CD = tensor_rows(out_TD, first, count), x_CK = tensor_rows(x_TK, first, count);
        Tensor sums_CD = tensor_sum_open(ops, &out_CD);
        linear_forward(ops, &sums_CD, &x_CK, weight, NULL);
        tensor_sum_close(ops, tensor, &out_CD, &sums_CD);
    }
}

void tensor_sum_backward_input(Ops *ops, Comm *tensor, Tensor *out_TD, const Tensor *dy_TN,
                               const LinearWeight *weight) {
    if (!tensor_sum_shared(tensor)) {
        linear_backward_input(ops, out_TD, dy_TN, weight);
        return;
    }
    for (int64_t first = 0, rows = out_TD->size[0]; first < rows; first += ROWS_AT_ONCE) {
        int64_t count = int64_smaller(rows - first, ROWS_AT_ONCE);
        Tensor out_CD = tensor_rows(out_TD, first, count), dy_CN = tensor_rows(dy_TN, first, count);
        Tensor sums_CD = tensor_sum_open(ops, &out_CD);
        linear_backward_input(ops, &sums_CD, &dy_CN, weight);
        tensor_sum_close(ops, tensor, &out_CD, &sums_CD);
    }
}

void tensor_sum_add(Ops *ops, Comm *tensor, Tensor *sum_X, const Tensor *sums_SX) {
    int64_t count = tensor_count(sum_X);
    int ranks = tensor_sum_shared(tensor) ? tensor->size : 1, rank = ranks > 1 ? tensor->rank : 0;
    Tensor parts = DEVICE_TENSOR_RAW(&ops->device, MEMORY_COMMUNICATION, DTYPE_F32, ranks + 1, count);
    Tensor own = tensor_rows(&parts, rank, 1), of_all = tensor_rows(&parts, 0, ranks),
           total = tensor_rows(&parts, ranks, 1);
    linear_fold(ops, &own, sums_SX);
    if (ranks > 1) comm_all_gather(tensor, of_all.data, (size_t)count * sizeof(float));
    linear_fold(ops, &total, &of_all);
    Tensor total_X = TENSOR_RESHAPE(&total, count), sum = TENSOR_RESHAPE(sum_X, count);
    rows_add(ops, &sum, &sum, &total_X);
    device_release(&ops->device, &parts);
}
