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

static Tensor gradient_of(const Shards *shards, const Parameter *parameter) {
    return shard_view(&shards->gradient[parameter->unit], parameter);
}

double shard_gradient_norm(const Shards *shards, Comm *tensor) {
    enum { MOST_RANKS = 64 };
    RowsSquares sums[MOST_RANKS] = {{0}}, total = {0};
    Comm self = comm_self(), *comm = tensor ? tensor : &self;
    const ParameterTable *table = shards->table;
    uint64_t largest = 0, count = 0;
    CHECK(comm->size <= MOST_RANKS, "%d ranks", comm->size);
    for (int i = 0; i < table->count; i++) {
        Tensor view = gradient_of(shards, &table->items[i]);
        uint32_t bits = dtype_bits(rows_magnitude(shards->ops, &view));
        if (bits > largest) largest = bits;
        count += (uint64_t)(table->items[i].whole_rows * table->items[i].whole_cols);
    }
    float magnitude = dtype_float((uint32_t)comm_largest(comm, largest));
    if (!isfinite(magnitude)) return (double)magnitude;
    RowsSquares grid = rows_squares_grid(magnitude, (int64_t)count), *own = &sums[comm->rank];
    for (int i = 0; i < table->count; i++) {
        if (!table->items[i].counts) continue;
        Tensor view = gradient_of(shards, &table->items[i]);
        RowsSquares part = rows_squares(shards->ops, &view, grid);
        own->coarse += part.coarse;
        own->fine += part.fine;
    }
    comm_all_gather(comm, sums, sizeof *sums);
    for (int rank = 0; rank < comm->size; rank++) {
        total.coarse += sums[rank].coarse;
        total.fine += sums[rank].fine;
    }
    return sqrt(total.coarse + total.fine);
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
