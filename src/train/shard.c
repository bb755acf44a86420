#include "train/shard.h"

#include "base/int64.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 1024 }; // elements; a part is a multiple of it

// ---- layout

static ShardSlice slice_of(const Shards *shards, int64_t first, int64_t count, int64_t block, int64_t *local) {
    int64_t ranks = shard_comm(shards)->size, blocks = (count + block - 1) / block;
    int64_t part = (blocks + ranks - 1) / ranks * block, start = int64_smaller(part * shard_comm(shards)->rank, count);
    ShardSlice slice = {.first = first, .count = count, .block = block, .part = part, .local = *local};
    slice.own = int64_smaller(part, count - start);
    *local += slice.own;
    return slice;
}

// A matrix of the vocabulary in pieces of rows; what stands between the matrices is a slice of its own.
static void cut_root(Shards *shards, ShardUnit *unit, int root) {
    const ParameterTable *table = shards->table;
    int64_t at = 0, end = table->unit_sizes[root];
    const Parameter *matrices[] = {parameters_find(table, root, PARAMETER_EMBEDDING),
                                   parameters_find(table, root, PARAMETER_HEAD)};
    for (int i = 0; i < 2; i++) {
        const Parameter *matrix = matrices[i];
        if (!matrix) break;
        if (matrix->offset > at)
            unit->slices[unit->slice_count++] = slice_of(shards, at, matrix->offset - at, BLOCK, &unit->own);
        for (int64_t row = 0; row < matrix->rows; row += shards->piece_rows) {
            int64_t rows = int64_smaller(shards->piece_rows, matrix->rows - row);
            unit->slices[unit->slice_count++] =
                slice_of(shards, matrix->offset + row * matrix->cols, rows * matrix->cols, matrix->cols, &unit->own);
        }
        at = matrix->offset + matrix->rows * matrix->cols;
    }
    if (end > at) unit->slices[unit->slice_count++] = slice_of(shards, at, end - at, BLOCK, &unit->own);
}

// By when a walk needs them (ShardBlockSlice): what follows the last matrix are the vectors.
static void cut_block(Shards *shards, ShardUnit *unit, int index) {
    const Parameter *down = parameters_find(shards->table, index, PARAMETER_DOWN);
    const int64_t ends[] = {parameters_find(shards->table, index, PARAMETER_GATE)->offset, down->offset, down[1].offset,
                            shards->table->unit_sizes[index]};
    for (int64_t at = 0; unit->slice_count < SHARD_BLOCK_SLICES; at = ends[unit->slice_count++])
        unit->slices[unit->slice_count] = slice_of(shards, at, ends[unit->slice_count] - at, BLOCK, &unit->own);
}

static void cut_unit(Shards *shards, int index) {
    ShardUnit *unit = &shards->units[index];
    int root = shards->table->unit_count - 1;
    const Parameter *embedding = parameters_find(shards->table, root, PARAMETER_EMBEDDING);
    int64_t most = index == root ? 2 * (embedding->rows / shards->piece_rows + 1) + 3 : SHARD_BLOCK_SLICES;
    unit->slices = arena_array(&shards->arena, ShardSlice, most);
    if (index == root)
        cut_root(shards, unit, root);
    else
        cut_block(shards, unit, index);
}

void shard_open_ranks(Shards *shards, Ops *ops, const ParameterTable *table, ShardOptions options) {
    *shards = (Shards){.ops = ops, .table = table, .comm = options.comm, .self = comm_self()};
    shards->piece_rows = options.piece_rows ? options.piece_rows : SHARD_PIECE_ROWS;
    shards->units = arena_array(&shards->arena, ShardUnit, table->unit_count);
    Tensor **columns[] = {&shards->weight, &shards->gradient, &shards->moment1, &shards->moment2};
    for (int i = 0; i < 4; i++) *columns[i] = arena_array(&shards->arena, Tensor, table->unit_count);
    for (int unit = 0; unit < table->unit_count; unit++) {
        cut_unit(shards, unit);
        int64_t own = shards->units[unit].own;
        shards->weight[unit] = DEVICE_TENSOR(&ops->device, MEMORY_WEIGHT_SHARD, DTYPE_F32, own);
        shards->moment1[unit] = DEVICE_TENSOR(&ops->device, MEMORY_OPTIMIZER, DTYPE_F32, own);
        shards->moment2[unit] = DEVICE_TENSOR(&ops->device, MEMORY_OPTIMIZER, DTYPE_F32, own);
    }
}

void shard_open(Shards *shards, Ops *ops, const ParameterTable *table) {
    shard_open_ranks(shards, ops, table, (ShardOptions){0});
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

Tensor shard_view(const Tensor *flat, const Parameter *parameter) {
    Tensor part = tensor_rows(flat, parameter->offset, parameter->rows * parameter->cols);
    return parameter->vector ? part : TENSOR_RESHAPE(&part, parameter->rows, parameter->cols);
}

ShardPart shard_part(const Shards *shards, const Parameter *parameter, int slice) {
    const ShardSlice *of = &shards->units[parameter->unit].slices[slice];
    int64_t begin = of->first + int64_smaller(of->part * shard_comm(shards)->rank, of->count);
    int64_t first = int64_larger(begin, parameter->offset);
    int64_t last = int64_smaller(begin + of->own, parameter->offset + parameter->rows * parameter->cols);
    if (first >= last) return (ShardPart){0};
    return (ShardPart){first - parameter->offset, last - first, of->local + first - begin};
}

int shard_slice_of(const Shards *shards, const Parameter *parameter) {
    const ShardUnit *unit = &shards->units[parameter->unit];
    int slice = 0;
    while (unit->slices[slice].first + unit->slices[slice].count <= parameter->offset) slice++;
    return slice;
}

// ---- weights from a file

// The rows that hold the part, one by one: no rank reads more than its own into memory.
static bool load_part(Shards *shards, const ModelFile *file, const Parameter *parameter, ShardPart part, Arena *arena,
                      Error *error) {
    int64_t cols = parameter->vector ? parameter->rows : parameter->cols;
    float *row = arena_array(arena, float, cols);
    float *to = (float *)shards->weight[parameter->unit].data + part.local;
    for (int64_t at = part.first, count; at < part.first + part.count; at += count, to += count) {
        count = int64_smaller(cols - at % cols, part.first + part.count - at);
        if (parameter->vector ? !model_file_read(file, parameter, row, error)
                              : !model_file_read_row(file, parameter, at / cols, row) &&
                                    !model_file_not_finite(file, parameter, error))
            return false;
        memcpy(to, row + at % cols, (size_t)count * sizeof *to);
    }
    model_file_leave(file, parameter);
    return true;
}

bool shard_load(Shards *shards, const ModelFile *file, Error *error) {
    const ParameterTable *table = shards->table;
    if (!ops_runs(shards->ops)) return true;
    for (int unit = 0; shard_whole(shards) && unit < table->unit_count; unit++)
        if (!model_file_read_unit(file, table, unit, shards->weight[unit].data, error)) return false;
    if (shard_whole(shards)) return true;
    Arena arena = {0};
    bool good = true;
    for (int i = 0; good && i < table->count; i++) {
        const Parameter *parameter = &table->items[i];
        for (int slice = 0; good && slice < shards->units[parameter->unit].slice_count; slice++) {
            ShardPart part = shard_part(shards, parameter, slice);
            if (part.count) good = load_part(shards, file, parameter, part, &arena, error);
            arena_reset(&arena);
        }
    }
    arena_close(&arena);
    return good;
}

// ---- gathering and reducing

// room: part · ranks elements.
static void gather_slice(Shards *shards, Tensor *room, const Tensor *array, const ShardSlice *of) {
    Comm *comm = shard_comm(shards);
    if (of->own) {
        Tensor own = tensor_rows(array, of->local, of->own);
        Tensor place = tensor_rows(room, of->part * comm->rank, of->own);
        rows_cast(shards->ops, &place, &own);
    }
    comm_all_gather(comm, room->data, (size_t)of->part * dtype_size(room->dtype));
}

Tensor shard_gather(Shards *shards, const Tensor *array, int unit, int slice, DType dtype) {
    const ShardSlice *first = &shards->units[unit].slices[slice == SHARD_ALL ? 0 : slice];
    const ShardSlice *end = slice == SHARD_ALL ? first + shards->units[unit].slice_count : first + 1;
    Device *device = &shards->ops->device;
    if (shard_whole(shards)) {
        Tensor same = tensor_rows(array, first->first, end[-1].first + end[-1].count - first->first);
        if (dtype == DTYPE_F32) return same;
        Tensor cast = DEVICE_TENSOR_RAW(device, MEMORY_GATHERED_UNIT, dtype, same.size[0]);
        rows_cast(shards->ops, &cast, &same);
        return cast;
    }
    int64_t room = 0, ranks = shard_comm(shards)->size;
    for (const ShardSlice *of = first; of < end; of++)
        room = int64_larger(room, of->first - first->first + of->part * ranks);
    Tensor gathered = DEVICE_TENSOR_RAW(device, MEMORY_GATHERED_UNIT, dtype, room);
    for (const ShardSlice *of = first; of < end; of++) { // the room behind a slice is the next one's, which comes later
        Tensor at = tensor_rows(&gathered, of->first - first->first, of->part * ranks);
        gather_slice(shards, &at, array, of);
    }
    return gathered;
}

void shard_release(Shards *shards, Tensor *gathered) {
    if (gathered->tag == MEMORY_GATHERED_UNIT) device_release(&shards->ops->device, gathered);
    *gathered = (Tensor){0};
}

void shard_gradients_open(Shards *shards) {
    for (int unit = 0; unit < shards->table->unit_count; unit++)
        shards->gradient[unit] =
            DEVICE_TENSOR(&shards->ops->device, MEMORY_GRADIENT_SHARD, DTYPE_F32, shards->units[unit].own);
}

void shard_gradients_close(Shards *shards) {
    for (int unit = 0; unit < shards->table->unit_count; unit++)
        device_release(&shards->ops->device, &shards->gradient[unit]);
}

Tensor shard_unreduced(Shards *shards, int unit, int slice) {
    const ShardSlice *of = &shards->units[unit].slices[slice];
    if (shard_whole(shards)) return tensor_rows(&shards->gradient[unit], of->first, of->count);
    return DEVICE_TENSOR(&shards->ops->device, MEMORY_GRADIENT_SHARD, DTYPE_F32, of->part * shard_comm(shards)->size);
}

void shard_reduce(Shards *shards, Tensor *unreduced, int unit, int slice) {
    const ShardSlice *of = &shards->units[unit].slices[slice];
    if (!shard_whole(shards)) {
        comm_all_to_all(shard_comm(shards), unreduced->data, (size_t)of->part * sizeof(float));
        Tensor sum = tensor_rows(&shards->gradient[unit], of->local, of->own);
        for (int rank = 0; of->own && rank < shard_comm(shards)->size; rank++) {
            Tensor part = tensor_rows(unreduced, of->part * rank, of->own);
            rows_add(shards->ops, &sum, &sum, &part);
        }
        device_release(&shards->ops->device, unreduced);
    }
    *unreduced = (Tensor){0};
}

// ---- norm and update

// Elements of this rank in one of the flat arrays, by parameter and slice.
static Tensor part_of(const Shards *shards, const Tensor *flat, const Parameter *parameter, int slice) {
    ShardPart part = shard_part(shards, parameter, slice);
    return tensor_rows(&flat[parameter->unit], part.local, part.count);
}

static Tensor gradient_part(const Shards *shards, const Parameter *parameter, int slice) {
    return part_of(shards, shards->gradient, parameter, slice);
}

static RowsSquares sum_over(Comm *comm, RowsSquares own) {
    Arena arena = {0};
    RowsSquares *sums = arena_array(&arena, RowsSquares, comm->size), total = {0};
    sums[comm->rank] = own;
    comm_all_gather(comm, sums, sizeof *sums);
    for (int rank = 0; rank < comm->size; rank++) {
        total.coarse += sums[rank].coarse;
        total.fine += sums[rank].fine;
    }
    arena_close(&arena);
    return total;
}

#define EACH_PART(shards, parameter, slice)                                                                            \
    for (const Parameter *parameter = (shards)->table->items, *end = parameter + (shards)->table->count;               \
         parameter < end; parameter++)                                                                                 \
        for (int slice = 0; slice < (shards)->units[parameter->unit].slice_count; slice++)

double shard_gradient_norm(const Shards *shards, Comm *tensor) {
    Comm self = comm_self(), *data = shard_comm(shards);
    uint64_t largest = 0, count = 0;
    if (!tensor) tensor = &self;
    EACH_PART(shards, parameter, slice) {
        Tensor part = gradient_part(shards, parameter, slice);
        if (!part.size[0]) continue;
        uint32_t bits = dtype_bits(rows_magnitude(shards->ops, &part));
        if (bits > largest) largest = bits;
    }
    for (int i = 0; i < shards->table->count; i++)
        count += (uint64_t)(shards->table->items[i].whole_rows * shards->table->items[i].whole_cols);
    float magnitude = dtype_float((uint32_t)comm_largest(data, comm_largest(tensor, largest)));
    if (!isfinite(magnitude)) return (double)magnitude;
    RowsSquares grid = rows_squares_grid(magnitude, (int64_t)count), own = {0};
    EACH_PART(shards, parameter, slice) {
        Tensor part = gradient_part(shards, parameter, slice);
        if (!parameter->counts || !part.size[0]) continue;
        RowsSquares squares = rows_squares(shards->ops, &part, grid);
        own.coarse += squares.coarse;
        own.fine += squares.fine;
    }
    RowsSquares total = sum_over(data, sum_over(tensor, own));
    return sqrt(total.coarse + total.fine);
}

// Parameter by parameter, as each has a weight decay of its own: the update is one of single elements, so its parts change no
// bit, and the gaps between parameters stay zeros.
static void update_parts(Shards *shards, AdamwStep step) {
    double weight_decay = step.weight_decay;
    EACH_PART(shards, parameter, slice) {
        Tensor gradient = gradient_part(shards, parameter, slice);
        if (!gradient.size[0]) continue;
        Tensor weight = part_of(shards, shards->weight, parameter, slice);
        Tensor moment1 = part_of(shards, shards->moment1, parameter, slice);
        Tensor moment2 = part_of(shards, shards->moment2, parameter, slice);
        step.weight_decay = parameter->vector ? 0 : weight_decay;
        shards->ops->unit = parameter->unit; // for a trace
        adamw_update(shards->ops, &weight, &moment1, &moment2, &gradient, step);
    }
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
    if (options->spares_vectors) {
        update_parts(shards, step);
        return;
    }
    for (int unit = 0; unit < shards->table->unit_count; unit++) {
        shards->ops->unit = unit; // for a trace
        adamw_update(shards->ops, &shards->weight[unit], &shards->moment1[unit], &shards->moment2[unit],
                     &shards->gradient[unit], step);
    }
}
