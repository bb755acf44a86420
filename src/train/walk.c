#include "train/walk.h"

#include "base/int64.h"
#include "model/row_share.h"
#include "model/vocabulary_share.h"
#include "ops/norm.h"
#include "train/walk_block.h"

void walk_open(Walk *walk, Ops *ops, const Architecture *architecture, Shards *shards, WalkOptions options) {
    *walk = (Walk){.ops = ops,
                   .architecture = architecture->whole ? architecture->whole : architecture,
                   .share = architecture,
                   .shards = shards,
                   .options = options,
                   .shape = block_shape(architecture, 0, options.tensor)};
    architecture = walk->architecture;
    walk->activations = arena_array(&walk->arena, BlockActivations, architecture->layer_count);
    embedding_rows_open(&walk->embedding, shards, walk->share);
    walk->cos_sin_PE =
        DEVICE_TENSOR_RAW(&ops->device, MEMORY_SCRATCH, DTYPE_F32, options.max_positions, architecture->head_dim);
    block_rope_table(ops, &walk->cos_sin_PE, architecture);
}

void walk_close(Walk *walk) {
    if (!walk->ops) return;
    device_release(&walk->ops->device, &walk->cos_sin_PE);
    embedding_rows_close(&walk->embedding);
    arena_close(&walk->arena);
    *walk = (Walk){0};
}

static int root_unit(const Walk *walk) {
    return (int)walk->architecture->layer_count;
}

// What follows is work on this unit: a trace names it.
static void enter_unit(Walk *walk, int unit) {
    walk->ops->unit = unit;
}

static Tensor root_parameter(const Walk *walk, const Tensor *flat, ParameterRole role) {
    const Parameter *parameter = parameters_find(walk->shards->table, root_unit(walk), role);
    if (!parameter) parameter = parameters_find(walk->shards->table, root_unit(walk), PARAMETER_EMBEDDING); // tied head
    return shard_view(flat, parameter);
}

void walk_begin(Walk *walk, const int32_t *ids, int64_t count) {
    shard_gradients_open(walk->shards);
    walk->overflow = (Overflow){0};
    embedding_rows_begin(&walk->embedding, ids, count);
}

void walk_end(Walk *walk) {
    enter_unit(walk, root_unit(walk));
    embedding_rows_end(&walk->embedding);
}

static bool idles(const Walk *walk) {
    return walk->batch->count == 0;
}

static Tensor gather_root(Walk *walk) {
    int root = root_unit(walk);
    return shard_gather(walk->shards, &walk->shards->weight[root], root, SHARD_ALL, walk->options.policy.compute);
}

// What a unit hands on becomes the next unit's input: cast to the compute dtype, so that only this copy is kept.
static Tensor cast_on_entry(Walk *walk, Tensor *out_TD, int unit) {
    DType compute = walk->options.policy.compute;
    if (out_TD->dtype == compute) {
        Tensor same = *out_TD;
        *out_TD = (Tensor){0};
        return same;
    }
    Tensor x_TD = DEVICE_TENSOR_RAW(&walk->ops->device, MEMORY_ACTIVATION, compute, out_TD->size[0], out_TD->size[1]);
    int64_t lost = rows_cast(walk->ops, &x_TD, out_TD);
    overflow_note(&walk->overflow, walk->ops, &walk->rows, lost, unit - 1, false, out_TD);
    device_release(&walk->ops->device, out_TD);
    return x_TD;
}

// The other ranks need this one's part of each unit.
static void forward_idly(Walk *walk) {
    embedding_rows_forward(&walk->embedding, NULL, walk->round, walk->options.policy.compute);
    for (int layer = 0; layer < root_unit(walk); layer++) {
        enter_unit(walk, layer);
        walk_block_forward(walk, layer, NULL);
    }
}

static Tensor embed(Walk *walk) {
    DType compute = walk->options.policy.compute;
    Tensor out_TD =
        DEVICE_TENSOR_RAW(&walk->ops->device, MEMORY_ACTIVATION, compute, walk->rows.count, walk->shape.hidden);
    Tensor room = {0}, all_TD = out_TD;
    if (walk->rows.divided) {
        room = row_share_open(walk->ops, &walk->rows, compute, walk->shape.hidden);
        all_TD = tensor_rows(&room, 0, walk->rows.all);
    }
    if (!shard_whole(walk->shards)) {
        embedding_rows_forward(&walk->embedding, &all_TD, walk->round, compute);
    } else {
        walk->root = gather_root(walk);
        Tensor table_VD = root_parameter(walk, &walk->root, PARAMETER_EMBEDDING);
        vocabulary_share_look_up(walk->ops, walk->share, &all_TD, &table_VD, NULL, walk->batch->ids);
    }
    row_share_sum(walk->ops, &walk->rows, &out_TD, &all_TD);
    device_release(&walk->ops->device, &room);
    return out_TD;
}

void walk_forward(Walk *walk, const TokenBatch *round, int64_t page_count) {
    Device *device = &walk->ops->device;
    PrecisionPolicy policy = walk->options.policy;
    int layers = root_unit(walk);
    walk->round = round;
    walk->batch = &round[shard_comm(walk->shards)->rank];
    walk->rows = row_share_of(walk->batch->count, walk->options.tensor, walk->options.sequence_parallel);
    walk->page_count = page_count;
    enter_unit(walk, root_unit(walk));
    if (idles(walk)) {
        forward_idly(walk);
        return;
    }
    Tensor out_TD = embed(walk);
    for (int layer = 0; layer < layers; layer++) {
        enter_unit(walk, layer);
        walk->activations[layer].x_TD = cast_on_entry(walk, &out_TD, layer);
        out_TD = DEVICE_TENSOR_RAW(device, MEMORY_UNIT_OUTPUT, policy.output, walk->rows.count, walk->shape.hidden);
        walk_block_forward(walk, layer, &out_TD);
    }
    walk->last_TD = out_TD;
}

static const Parameter *final_norm(const Walk *walk) {
    return parameters_find(walk->shards->table, root_unit(walk), PARAMETER_FINAL_NORM);
}

static int norm_slice(const Walk *walk) {
    return shard_slice_of(walk->shards, final_norm(walk));
}

// The final norm in its slice of the root: its weights, or (of) where their gradient is summed.
static Tensor norm_view(const Walk *walk, const Tensor *slice) {
    const ShardSlice *of = &walk->shards->units[root_unit(walk)].slices[norm_slice(walk)];
    return tensor_rows(slice, final_norm(walk)->offset - of->first, final_norm(walk)->rows);
}

static Tensor gather_norm(Walk *walk) {
    int root = root_unit(walk), slice = norm_slice(walk);
    const ShardSlice *of = &walk->shards->units[root].slices[slice];
    if (shard_whole(walk->shards)) return tensor_rows(&walk->root, of->first, of->count);
    return shard_gather(walk->shards, &walk->shards->weight[root], root, slice, walk->options.policy.compute);
}

static void release_norm(Walk *walk, Tensor *gathered) {
    if (!shard_whole(walk->shards)) shard_release(walk->shards, gathered);
}

// The final norm is part of the root unit: it reads what the last block handed on, without a cast on entry.
static Tensor last_rows(Walk *walk) {
    const WalkHead *head = &walk->head;
    Tensor last_ND = DEVICE_TENSOR_RAW(&walk->ops->device, MEMORY_ACTIVATION, walk->options.policy.output, head->own,
                                       walk->shape.hidden);
    rows_gather(walk->ops, &last_ND, &walk->last_TD, head->own_rows);
    return last_ND;
}

static void find_own_rows(Walk *walk) {
    WalkHead *head = &walk->head;
    const RowShare *rows = &walk->rows;
    head->own = head->count;
    head->own_rows = head->rows;
    if (!rows->divided) return;
    int32_t *own_rows = arena_array(&head->arena, int32_t, head->count);
    head->own = 0;
    for (int64_t i = 0; i < head->count; i++) {
        if (head->rows[i] < rows->first || head->rows[i] >= rows->first + rows->count) continue;
        if (!head->own) head->own_first = i;
        own_rows[head->own++] = head->rows[i] - (int32_t)rows->first;
    }
    head->own_rows = own_rows;
}

static void final_norm_forward(Walk *walk, const Tensor *norm_D) {
    WalkHead *head = &walk->head;
    head->norm_ND = DEVICE_TENSOR_RAW(&walk->ops->device, MEMORY_ACTIVATION, walk->options.policy.compute, head->count,
                                      walk->shape.hidden);
    if (walk->rows.divided) { // ranks have unequally many loss rows
        Tensor room = row_share_open(walk->ops, &walk->rows, walk->options.policy.compute, walk->shape.hidden);
        Tensor own_TD = row_share_own(&walk->rows, &room);
        rms_norm_forward(walk->ops, &own_TD, &walk->last_TD, norm_D, walk->shape.rms_norm_eps);
        Tensor norm_TD = row_share_gather(&walk->rows, &room);
        rows_gather(walk->ops, &head->norm_ND, &norm_TD, head->rows);
        device_release(&walk->ops->device, &room);
        return;
    }
    Tensor last_ND = last_rows(walk);
    rms_norm_forward(walk->ops, &head->norm_ND, &last_ND, norm_D, walk->shape.rms_norm_eps);
    device_release(&walk->ops->device, &last_ND);
}

void walk_head_open(Walk *walk, const int32_t *rows, int64_t count) {
    WalkHead *head = &walk->head;
    CHECK(!head->norm_ND.data, "a head that is still open, of %lld rows", (long long)head->count);
    *head = (WalkHead){.count = count, .rows = rows};
    enter_unit(walk, root_unit(walk));
    Tensor gathered = gather_norm(walk), norm_D = norm_view(walk, &gathered);
    find_own_rows(walk);
    if (count) final_norm_forward(walk, &norm_D);
    release_norm(walk, &gathered);
}

static LinearWeight head_weight(const Walk *walk) {
    Tensor head_VD = root_parameter(walk, &walk->root, PARAMETER_HEAD);
    return (LinearWeight){.n = head_VD.size[0],
                          .k = head_VD.size[1],
                          .rows = head_VD,
                          .over_n = walk->shape.sums.vocabulary};
}

void walk_head_forward(Walk *walk, Tensor *logits_CV, int64_t first) {
    LinearWeight weight = head_weight(walk);
    Tensor norm_CD = tensor_rows(&walk->head.norm_ND, first, logits_CV->size[0]);
    vocabulary_share_logits(walk->ops, walk->share, walk->options.tensor, logits_CV, &norm_CD, &weight);
}

void walk_head_share_forward(Walk *walk, Tensor *logits_CS, int64_t first) {
    LinearWeight weight = head_weight(walk);
    Tensor norm_CD = tensor_rows(&walk->head.norm_ND, first, logits_CS->size[0]);
    linear_forward(walk->ops, logits_CS, &norm_CD, &weight, NULL);
}

void walk_head_share_backward(Walk *walk, const Tensor *dlogits_CS, int64_t first) {
    Device *device = &walk->ops->device;
    WalkHead *head = &walk->head;
    LinearWeight weight = head_weight(walk);
    int64_t count = dlogits_CS->size[0], D = walk->shape.hidden;
    CHECK(first == head->done, "row %lld, %lld are done", (long long)first, (long long)head->done);
    LinearPart part = {.first = first == 0, .last = first + count == head->count};
    if (part.first) {
        head->dnorm_ND = DEVICE_TENSOR_RAW(device, MEMORY_ACTIVATION, walk->options.policy.compute, head->count, D);
        if (!part.last) head->chain_VD = DEVICE_TENSOR_RAW(device, MEMORY_GRADIENT_SHARD, DTYPE_F32, weight.n, D);
    }
    Tensor norm_CD = tensor_rows(&head->norm_ND, first, count), dnorm_CD = tensor_rows(&head->dnorm_ND, first, count);
    Tensor dhead_VD = root_parameter(walk, &walk->shards->gradient[root_unit(walk)], PARAMETER_HEAD);
    linear_backward_weight_part(walk->ops, &dhead_VD, head->chain_VD.data ? &head->chain_VD : NULL, dlogits_CS,
                                &norm_CD, part);
    tensor_sum_backward_input(walk->ops, walk->options.tensor, &dnorm_CD, dlogits_CS, &weight);
    head->done += count;
    if (part.last) device_release(device, &head->chain_VD);
}

void walk_head_backward(Walk *walk, const Tensor *dlogits_CV, int64_t first) {
    if (walk->share == walk->architecture) {
        walk_head_share_backward(walk, dlogits_CV, first);
        return;
    }
    Tensor own_CS = vocabulary_share_columns(walk->ops, walk->share, dlogits_CV);
    walk_head_share_backward(walk, &own_CS, first);
    device_release(&walk->ops->device, &own_CS);
}

static void final_norm_backward(Walk *walk, const Tensor *norm_D, Tensor *dweight_D) {
    Device *device = &walk->ops->device;
    WalkHead *head = &walk->head;
    Tensor last_ND = last_rows(walk);
    device_release(device, &walk->last_TD);
    Tensor dlast_ND =
        DEVICE_TENSOR_RAW(device, MEMORY_ACTIVATION, walk->options.policy.output, head->own, walk->shape.hidden);
    Tensor dnorm_ND = tensor_rows(&head->dnorm_ND, head->own_first, head->own);
    row_share_norm_backward(walk->ops, &walk->rows, &dlast_ND, dweight_D, &dnorm_ND, &last_ND, norm_D, NULL,
                            walk->shape.rms_norm_eps);
    if (overflow_possible(walk->options.policy))
        overflow_note(&walk->overflow, walk->ops, &walk->rows, rows_count_nonfinite(walk->ops, &dlast_ND),
                      root_unit(walk), true, &dnorm_ND);
    device_release(device, &last_ND);
    device_release(device, &head->dnorm_ND);
    walk->dlast_TD =
        DEVICE_TENSOR(device, MEMORY_UNIT_OUTPUT, walk->options.policy.output, walk->rows.count, walk->shape.hidden);
    rows_scatter(walk->ops, &walk->dlast_TD, &dlast_ND, head->own_rows);
    device_release(device, &dlast_ND);
}

// What the pieces of the vocabulary have summed, rounded once.
static void finish_chains(Walk *walk) {
    Device *device = &walk->ops->device;
    WalkHead *head = &walk->head;
    if (!head->chains_WND.data) return;
    head->dnorm_ND =
        DEVICE_TENSOR_RAW(device, MEMORY_ACTIVATION, walk->options.policy.compute, head->count, walk->shape.hidden);
    Tensor sum_ND = tensor_rows(&head->chains_WND, 0, 1);
    RowShare all = row_share_of(head->count, walk->options.tensor, false);
    row_share_sum(walk->ops, &all, &head->dnorm_ND, &sum_ND);
    device_release(device, &head->chains_WND);
}

void walk_head_close(Walk *walk) {
    Device *device = &walk->ops->device;
    WalkHead *head = &walk->head;
    bool backward = head->done || !shard_whole(walk->shards);
    device_release(device, &head->norm_ND);
    if (backward) {
        CHECK(head->done == head->count, "%lld of %lld rows are done", (long long)head->done, (long long)head->count);
        finish_chains(walk);
        int root = root_unit(walk), slice = norm_slice(walk);
        Tensor gathered = gather_norm(walk), norm_D = norm_view(walk, &gathered);
        Tensor unreduced = shard_unreduced(walk->shards, root, slice), dweight_D = norm_view(walk, &unreduced);
        if (head->count) final_norm_backward(walk, &norm_D, &dweight_D);
        release_norm(walk, &gathered);
        shard_reduce(walk->shards, &unreduced, root, slice);
    }
    arena_close(&head->arena);
    *head = (WalkHead){0};
}

// The mirror of the output cast: the gradient that leaves a unit's input goes to the unit before in policy.output, and
// that unit casts it to its compute dtype.
static Tensor cast_back(Walk *walk, Tensor *dboundary_TD) {
    if (dboundary_TD->dtype == walk->options.policy.compute) {
        Tensor same = *dboundary_TD;
        *dboundary_TD = (Tensor){0};
        return same;
    }
    Tensor dout_TD = DEVICE_TENSOR_RAW(&walk->ops->device, MEMORY_ACTIVATION, walk->options.policy.compute,
                                       dboundary_TD->size[0], dboundary_TD->size[1]);
    rows_cast(walk->ops, &dout_TD, dboundary_TD);
    device_release(&walk->ops->device, dboundary_TD);
    return dout_TD;
}

static Tensor cast_out(Walk *walk, Tensor *dx_TD, int unit) {
    if (overflow_possible(walk->options.policy))
        overflow_note(&walk->overflow, walk->ops, &walk->rows, rows_count_nonfinite(walk->ops, dx_TD), unit, true,
                      dx_TD);
    if (dx_TD->dtype == walk->options.policy.output) {
        Tensor same = *dx_TD;
        *dx_TD = (Tensor){0};
        return same;
    }
    Tensor dboundary_TD = DEVICE_TENSOR_RAW(&walk->ops->device, MEMORY_UNIT_OUTPUT, walk->options.policy.output,
                                            dx_TD->size[0], dx_TD->size[1]);
    int64_t lost = rows_cast(walk->ops, &dboundary_TD, dx_TD);
    overflow_note(&walk->overflow, walk->ops, &walk->rows, lost, unit, true, dx_TD);
    device_release(&walk->ops->device, dx_TD);
    return dboundary_TD;
}

static void backward_idly(Walk *walk) {
    for (int layer = root_unit(walk) - 1; layer >= 0; layer--) {
        enter_unit(walk, layer);
        walk_block_backward(walk, layer, NULL);
    }
    enter_unit(walk, root_unit(walk));
    embedding_rows_backward(&walk->embedding, NULL, walk->round, walk->options.policy.compute);
    walk->batch = NULL;
}

void walk_backward(Walk *walk) {
    Device *device = &walk->ops->device;
    if (idles(walk)) {
        backward_idly(walk);
        return;
    }
    CHECK(walk->dlast_TD.data, "a micro-batch of %lld tokens without gradients", (long long)walk->batch->count);
    for (int layer = root_unit(walk) - 1; layer >= 0; layer--) {
        enter_unit(walk, layer);
        Tensor d_TD = cast_back(walk, &walk->dlast_TD);
        walk_block_backward(walk, layer, &d_TD);
        if (layer) {
            walk->dlast_TD = cast_out(walk, &d_TD, layer);
        } else { // within the root: no cast
            enter_unit(walk, root_unit(walk));
            Tensor room, all_TD = row_share_spread(walk->ops, &walk->rows, &room, &d_TD);
            embedding_rows_backward(&walk->embedding, &all_TD, walk->round, walk->options.policy.compute);
            device_release(device, &room);
        }
        device_release(device, &d_TD);
    }
    walk_drop(walk);
}

void walk_drop(Walk *walk) {
    Device *device = &walk->ops->device;
    for (int layer = 0; layer < root_unit(walk); layer++) {
        walk_block_close(walk, layer);
        device_release(device, &walk->activations[layer].x_TD);
    }
    device_release(device, &walk->last_TD);
    device_release(device, &walk->dlast_TD);
    shard_release(walk->shards, &walk->root);
    walk->batch = NULL;
}
