#include "train/embedding_rows.h"

#include "base/int64.h"

enum { EXCHANGE_BYTES = 8 << 20 }; // of rows that travel at a time

static EmbeddingPlace place_of(const EmbeddingRows *rows, int32_t id) {
    const Shards *shards = rows->shards;
    int32_t row;
    tensor_share_ids(rows->share, &row, &id, 1);
    if (row < 0) return (EmbeddingPlace){-1, -1};
    const ShardSlice *slice = &shards->units[rows->unit].slices[row / shards->piece_rows];
    int64_t in_piece = row % shards->piece_rows, part = slice->part / rows->width;
    return (EmbeddingPlace){(int)(in_piece / part), (int32_t)(slice->local / rows->width + in_piece % part)};
}

// This rank's rows of one of its arrays.
static Tensor own_rows(const EmbeddingRows *rows, const Tensor *array) {
    const Shards *shards = rows->shards;
    const ShardSlice *last = &shards->units[rows->unit].slices[(rows->rows_held - 1) / shards->piece_rows];
    Tensor part = tensor_rows(array, 0, last->local + last->own);
    return TENSOR_RESHAPE(&part, part.size[0] / rows->width, rows->width);
}

static int64_t vocabulary_of(const EmbeddingRows *rows) {
    return (rows->share->whole ? rows->share->whole : rows->share)->vocab_size;
}

void embedding_rows_open(EmbeddingRows *rows, Shards *shards, const Architecture *share) {
    int unit = shards->table->unit_count - 1;
    const Parameter *embedding = parameters_find(shards->table, unit, PARAMETER_EMBEDDING);
    *rows = (EmbeddingRows){.shards = shards,
                            .share = share,
                            .rows_held = embedding->rows,
                            .width = embedding->cols,
                            .unit = unit,
                            .apart = !parameters_find(shards->table, unit, PARAMETER_HEAD)};
    int64_t vocabulary = vocabulary_of(rows);
    rows->place = arena_array(&rows->arena, EmbeddingPlace, vocabulary);
    rows->row_of_id = arena_array(&rows->arena, int32_t, vocabulary);
    rows->distinct = arena_array(&rows->arena, int32_t, vocabulary);
    for (int64_t id = 0; id < vocabulary; id++) {
        rows->place[id] = place_of(rows, (int32_t)id);
        rows->row_of_id[id] = -1;
    }
}

void embedding_rows_close(EmbeddingRows *rows) {
    arena_close(&rows->arena);
    *rows = (EmbeddingRows){0};
}

void embedding_rows_begin(EmbeddingRows *rows, const int32_t *ids, int64_t count) {
    const Shards *shards = rows->shards;
    Tensor own_UD = own_rows(rows, &shards->gradient[rows->unit]);
    rows->distinct_count = 0;
    for (int64_t t = 0; t < count; t++) {
        CHECK(ids[t] >= 0 && ids[t] < vocabulary_of(rows), "token id %d at %lld", ids[t], (long long)t);
        EmbeddingPlace place = rows->place[ids[t]];
        if (place.owner != shard_comm(shards)->rank || rows->row_of_id[ids[t]] >= 0) continue;
        rows->row_of_id[ids[t]] = rows->apart ? (int32_t)rows->distinct_count : place.row;
        rows->distinct[rows->distinct_count++] = ids[t];
    }
    rows->table_UD = own_UD;
    if (rows->apart) // as many as there may be: the account must not depend on the ids
        rows->table_UD = DEVICE_TENSOR(&shards->ops->device, MEMORY_GRADIENT_SHARD, DTYPE_F32,
                                       int64_smaller(count, own_UD.size[0]), rows->width);
}

void embedding_rows_end(EmbeddingRows *rows) {
    const Shards *shards = rows->shards;
    for (int64_t i = 0; i < rows->distinct_count; i++) {
        rows->row_of_id[rows->distinct[i]] = -1;
        rows->distinct[i] = rows->place[rows->distinct[i]].row;
    }
    if (!rows->apart) return;
    Tensor own_UD = own_rows(rows, &shards->gradient[rows->unit]);
    Tensor used_UD = tensor_rows(&rows->table_UD, 0, rows->distinct_count);
    embedding_backward(shards->ops, &own_UD, &used_UD, rows->distinct);
    device_release(&shards->ops->device, &rows->table_UD);
}

static int32_t *rows_of(EmbeddingRows *rows, int64_t count) {
    if (count > rows->rows_capacity) {
        rows->rows_capacity = int64_larger(count, 2 * rows->rows_capacity);
        rows->rows = arena_array(&rows->arena, int32_t, rows->rows_capacity);
    }
    return rows->rows;
}

// Each owner fills its tokens' places of every rank's part; then the parts change hands, and each row is taken from its owner's.
void embedding_rows_forward(EmbeddingRows *rows, Tensor *y_TD, const TokenBatch *batches, DType compute) {
    Shards *shards = rows->shards;
    Comm *comm = shard_comm(shards);
    int64_t longest = 0, bytes = rows->width * (int64_t)dtype_size(compute);
    Tensor own_UD = own_rows(rows, &shards->weight[rows->unit]);
    for (int rank = 0; rank < comm->size; rank++) longest = int64_larger(longest, batches[rank].count);
    int64_t step = int64_smaller(longest, int64_larger(EXCHANGE_BYTES / (comm->size * bytes), 16));
    int32_t *picked = rows_of(rows, step);
    Tensor parts =
        DEVICE_TENSOR_RAW(&shards->ops->device, MEMORY_COMMUNICATION, compute, comm->size * step, rows->width);
    for (int64_t first = 0; first < longest; first += step) {
        for (int rank = 0; rank < comm->size; rank++) {
            int64_t count = int64_smaller(step, batches[rank].count - first);
            for (int64_t i = 0; i < count; i++) {
                EmbeddingPlace place = rows->place[batches[rank].ids[first + i]];
                picked[i] = place.owner == comm->rank ? place.row : -1;
            }
            if (count <= 0 || !own_UD.size[0]) continue;
            Tensor part = tensor_rows(&parts, rank * step, count);
            embedding_forward(shards->ops, &part, &own_UD, picked);
        }
        comm_all_to_all(comm, parts.data, (size_t)(step * bytes));
        const TokenBatch *own = &batches[comm->rank];
        int64_t count = int64_smaller(step, own->count - first);
        if (count <= 0) continue;
        for (int64_t i = 0; i < count; i++) {
            int owner = rows->place[own->ids[first + i]].owner;
            picked[i] = owner < 0 ? -1 : (int32_t)(owner * step + i);
        }
        Tensor y = tensor_rows(y_TD, first, count);
        embedding_forward(shards->ops, &y, &parts, picked);
    }
    device_release(&shards->ops->device, &parts);
}

void embedding_rows_backward(EmbeddingRows *rows, Tensor *dy_TD, const TokenBatch *batches, DType compute) {
    Shards *shards = rows->shards;
    Comm *comm = shard_comm(shards);
    for (int rank = 0; rank < comm->size; rank++) {
        int64_t count = batches[rank].count;
        if (!count) continue;
        Tensor other = {0}, *dy = dy_TD;
        if (rank != comm->rank) {
            other = DEVICE_TENSOR_RAW(&shards->ops->device, MEMORY_COMMUNICATION, compute, count, rows->width);
            dy = &other;
        }
        comm_broadcast(comm, dy->data, tensor_bytes(dy), rank);
        int32_t *to = rows_of(rows, count);
        for (int64_t t = 0; t < count; t++) {
            int32_t id = batches[rank].ids[t];
            to[t] = rows->row_of_id[id];
            CHECK(to[t] >= 0 || rows->place[id].owner != comm->rank, "token id %d was not announced", id);
        }
        if (rows->table_UD.size[0]) embedding_backward(shards->ops, &rows->table_UD, dy, to);
        device_release(&shards->ops->device, &other);
    }
}
