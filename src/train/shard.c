#include "train/shard.h"

#include <math.h>

void shard_open(Shards *shards, Ops *ops, const ParameterTable *table) {
    *shards = (Shards){.ops = ops, .table = table};
    Tensor **columns[] = {&shards->weight, &shards->gradient, &shards->moment1, &shards->moment2};
    for (int i = 0; i < 4; i++) *columns[i] = arena_array(&shards->arena, Tensor, table->unit_count);
    for (int unit = 0; unit < table->unit_count; unit++) {
        int64_t size = table->unit_sizes[unit];
        shards->weight[unit] = DEVICE_TENSOR(&ops->device, MEMORY_WEIGHT_SHARD, DTYPE_F32, size);
        shards->moment1[unit] = DEVICE_TENSOR(&ops->device, MEMORY_OPTIMIZER, DTYPE_F32, size);
        shards->moment2[unit] = DEVICE_TENSOR(&ops->device, MEMORY_OPTIMIZER, DTYPE_F32, size);
    }
}

void shard_close(Shards *shards) {
    if (!shards->ops) return;
    shard_gradients_close(shards);
    for (int unit = 0; unit < shards->table->unit_count; unit++) {
        device_release(&shards->ops->device, &shards->weight[unit]);
        device_release(&shards->ops->device, &shards->moment1[unit]);
        device_release(&shards->ops->device, &shards->moment2[unit]);
    }
    arena_close(&shards->arena);
    *shards = (Shards){0};
}

bool shard_load(Shards *shards, const ModelFile *file, Error *error) {
    for (int unit = 0; ops_runs(shards->ops) && unit < shards->table->unit_count; unit++)
        if (!model_file_read_unit(file, shards->table, unit, shards->weight[unit].data, error)) return false;
    return true;
}

Tensor shard_view(const Tensor *flat, const Parameter *parameter) {
    Tensor part = tensor_rows(flat, parameter->offset, parameter->rows * parameter->cols);
    return parameter->vector ? part : TENSOR_RESHAPE(&part, parameter->rows, parameter->cols);
}

Tensor shard_gather(Shards *shards, int unit, DType compute) {
    if (compute == DTYPE_F32) return shards->weight[unit];
    Tensor gathered =
        DEVICE_TENSOR_RAW(&shards->ops->device, MEMORY_GATHERED_UNIT, compute, shards->table->unit_sizes[unit]);
    rows_cast(shards->ops, &gathered, &shards->weight[unit]);
    return gathered;
}

void shard_release(Shards *shards, Tensor *gathered) {
    if (gathered->tag == MEMORY_GATHERED_UNIT) device_release(&shards->ops->device, gathered);
    *gathered = (Tensor){0};
}

void shard_gradients_open(Shards *shards) {
    for (int unit = 0; unit < shards->table->unit_count; unit++)
        shards->gradient[unit] =
            DEVICE_TENSOR(&shards->ops->device, MEMORY_GRADIENT_SHARD, DTYPE_F32, shards->table->unit_sizes[unit]);
}

void shard_gradients_close(Shards *shards) {
    for (int unit = 0; unit < shards->table->unit_count; unit++)
        device_release(&shards->ops->device, &shards->gradient[unit]);
}

double shard_gradient_norm(const Shards *shards) {
    double sum = 0;
    for (int i = 0; i < shards->table->count; i++) {
        const Parameter *parameter = &shards->table->items[i];
        Tensor view = shard_view(&shards->gradient[parameter->unit], parameter);
        sum += rows_square_sum(shards->ops, &view);
    }
    return sqrt(sum);
}

void shard_update(Shards *shards, const OptimizerOptions *options, double lr, double gradient_scale) {
    shards->step++;
    AdamwStep step = {.lr = lr,
                      .beta1 = options->beta1,
                      .beta2 = options->beta2,
                      .eps = options->eps,
                      .weight_decay = options->weight_decay,
                      .gradient_scale = gradient_scale,
                      .step = shards->step};
    for (int unit = 0; unit < shards->table->unit_count; unit++) {
        shards->ops->unit = unit;
        adamw_update(shards->ops, &shards->weight[unit], &shards->moment1[unit], &shards->moment2[unit],
                     &shards->gradient[unit], step);
    }
}
