#include "model/tensor_layout.h"

#include <string.h>

// Copies what a share holds of a parameter, row by row: from the whole into the share, or (`back`) the other way.
static void copy_part(char *part, char *whole, size_t size, const Parameter *item, const Parameter *of, bool back) {
    size_t bytes = (size_t)item->cols * size;
    for (int64_t row = 0; row < item->real_rows; row++) {
        char *here = part + (size_t)(item->offset + row * item->cols) * size;
        char *there = whole + (size_t)(of->offset + (item->first_row + row) * of->cols + item->first_col) * size;
        memcpy(back ? there : here, back ? here : there, bytes);
    }
}

static void copy_unit(void *part, void *whole, DType dtype, const ParameterTable *parts, const ParameterTable *table,
                      int unit, bool back) {
    for (int i = 0; i < parts->count; i++) {
        const Parameter *item = &parts->items[i];
        if (item->unit != unit || (back && !item->counts)) continue;
        copy_part(part, whole, dtype_size(dtype), item, parameters_find(table, unit, item->role), back);
    }
}

void tensor_layout_join(Ops *ops, Comm *tensor, const Architecture *share, const ParameterTable *whole, int unit,
                        Tensor *whole_X, const Tensor *flat_X) {
    int64_t size = flat_X->size[0];
    CHECK(whole_X->dtype == flat_X->dtype && whole_X->size[0] == whole->unit_sizes[unit],
          "a %s of %lld for a %s of %lld", dtype_name(whole_X->dtype), (long long)whole_X->size[0],
          dtype_name(flat_X->dtype), (long long)size);
    Tensor all = DEVICE_TENSOR_RAW(&ops->device, MEMORY_COMMUNICATION, flat_X->dtype, tensor->size, size);
    size_t bytes = tensor_bytes(flat_X);
    if (ops_runs(ops)) memcpy((char *)all.data + (size_t)tensor->rank * bytes, flat_X->data, bytes);
    comm_all_gather(tensor, all.data, bytes);
    if (ops_runs(ops)) memset(whole_X->data, 0, tensor_bytes(whole_X));
    for (int rank = 0; ops_runs(ops) && rank < tensor->size; rank++) {
        Architecture other = *share;
        ParameterTable parts;
        other.rank = rank;
        parameters_open(&parts, &other);
        copy_unit((char *)all.data + (size_t)rank * bytes, whole_X->data, flat_X->dtype, &parts, whole, unit, true);
        parameters_close(&parts);
    }
    device_release(&ops->device, &all);
}

void tensor_layout_cut(Ops *ops, const ParameterTable *part, const ParameterTable *whole, int unit, Tensor *flat_X,
                       const Tensor *whole_X) {
    CHECK(whole_X->dtype == flat_X->dtype && flat_X->size[0] == part->unit_sizes[unit],
          "a share of %lld, expected %lld", (long long)flat_X->size[0], (long long)part->unit_sizes[unit]);
    if (!ops_runs(ops)) return;
    memset(flat_X->data, 0, tensor_bytes(flat_X));
    copy_unit(flat_X->data, whole_X->data, flat_X->dtype, part, whole, unit, false);
}
