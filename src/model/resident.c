#include "model/resident.h"

#include "ops/panels.h"
#include "ops/rows.h"

KvCache kv_cache_open(Ops *ops, MemoryTag tag, const Architecture *architecture, DType dtype, int64_t pages) {
    AttentionShape shape = block_shape(architecture, 0).attention;
    KvCache cache = {.pages = pages, .layer_count = (int)architecture->layer_count};
    cache.layers = arena_array(&cache.arena, KvPages, cache.layer_count);
    for (int i = 0; i < cache.layer_count; i++) cache.layers[i] = kv_pages_open(ops, tag, dtype, pages, &shape);
    return cache;
}

void kv_cache_close(Ops *ops, KvCache *cache) {
    for (int i = 0; i < cache->layer_count; i++) kv_pages_close(ops, &cache->layers[i]);
    arena_close(&cache->arena);
    *cache = (KvCache){0};
}

void kv_cache_copy_page(Ops *ops, KvCache *cache, int32_t to, int32_t from) {
    for (int i = 0; i < cache->layer_count; i++) kv_pages_copy(ops, &cache->layers[i], to, from);
}

static void scratch_open(Resident *r) {
    Device *device = &r->ops->device;
    DType compute = r->policy.compute;
    int64_t T = r->max_rows, D = r->shape.hidden, F = r->shape.ffn;
    r->activations = (BlockActivations){
        .x_TD = DEVICE_TENSOR_RAW(device, MEMORY_SCRATCH, compute, T, D),
        .qkv_TC = DEVICE_TENSOR_RAW(device, MEMORY_SCRATCH, compute, T, r->shape.qkv_columns),
        .attn_TO = DEVICE_TENSOR_RAW(device, MEMORY_SCRATCH, compute, T, r->shape.heads_columns),
        .mid_TD = DEVICE_TENSOR_RAW(device, MEMORY_SCRATCH, compute, T, D),
        .gate_up_T2F = DEVICE_TENSOR_RAW(device, MEMORY_SCRATCH, compute, T, 2 * F),
    };
    r->scratch = (BlockScratch){
        .norm_TD = DEVICE_TENSOR_RAW(device, MEMORY_SCRATCH, compute, T, D),
        .proj_TD = DEVICE_TENSOR_RAW(device, MEMORY_SCRATCH, compute, T, D),
        .act_TF = DEVICE_TENSOR_RAW(device, MEMORY_SCRATCH, compute, T, F),
    };
    r->out_TD = DEVICE_TENSOR_RAW(device, MEMORY_UNIT_OUTPUT, r->policy.output, T, D);
    r->last_ND = DEVICE_TENSOR_RAW(device, MEMORY_SCRATCH, r->policy.output, T, D);
}

static void scratch_close(Resident *r) {
    Tensor *all[] = {&r->activations.x_TD,
                     &r->activations.qkv_TC,
                     &r->activations.attn_TO,
                     &r->activations.mid_TD,
                     &r->activations.gate_up_T2F,
                     &r->scratch.norm_TD,
                     &r->scratch.proj_TD,
                     &r->scratch.act_TF,
                     &r->out_TD,
                     &r->last_ND};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) device_release(&r->ops->device, all[i]);
}

void resident_open(Resident *r, Ops *ops, const Architecture *architecture, const ParameterTable *parameters,
                   PrecisionPolicy policy, MemoryTag tag, int64_t max_rows, int64_t max_positions) {
    *r = (Resident){.ops = ops,
                    .architecture = architecture,
                    .parameters = parameters,
                    .policy = policy,
                    .shape = block_shape(architecture, 0),
                    .tag = tag,
                    .max_rows = max_rows};
    r->blocks = arena_array(&r->arena, BlockWeights, architecture->layer_count);
    r->block_vectors = arena_array(&r->arena, Tensor, architecture->layer_count);
    r->cos_sin_PE = DEVICE_TENSOR_RAW(&ops->device, MEMORY_SCRATCH, DTYPE_F32, max_positions, architecture->head_dim);
    block_rope_table(ops, &r->cos_sin_PE, architecture);
    scratch_open(r);
}

void resident_close(Resident *r) {
    if (!r->ops) return;
    Device *device = &r->ops->device;
    for (int i = 0; i < r->architecture->layer_count; i++) {
        BlockWeights *block = &r->blocks[i];
        device_release(device, &block->qkv.panels);
        device_release(device, &block->o.panels);
        device_release(device, &block->gate_up.panels);
        device_release(device, &block->down.panels);
        device_release(device, &r->block_vectors[i]);
    }
    device_release(device, &r->head.panels);
    device_release(device, &r->embedding_VD);
    device_release(device, &r->final_norm_D);
    device_release(device, &r->cos_sin_PE);
    scratch_close(r);
    arena_close(&r->arena);
    *r = (Resident){0};
}

// Packs the weight anew and forgets the rows, which belong to the flat array.
static void repack(Resident *r, LinearWeight *weight) {
    device_release(&r->ops->device, &weight->panels);
    linear_pack(r->ops, weight, r->tag);
    weight->rows = (Tensor){0};
}

// A copy of a parameter's elements in the compute dtype, as a tensor of its own.
static void keep(Resident *r, Tensor *kept, const Tensor *flat, const Parameter *parameter) {
    device_release(&r->ops->device, kept);
    Tensor part = tensor_rows(flat, parameter->offset, parameter->rows * parameter->cols);
    *kept = DEVICE_TENSOR_RAW(&r->ops->device, r->tag, r->policy.compute, part.size[0]);
    rows_cast(r->ops, kept, &part);
    if (!parameter->vector) *kept = TENSOR_RESHAPE(kept, parameter->rows, parameter->cols);
}

// `flat` itself when it is in the compute dtype, else a copy that is, to be released.
static Tensor rounded(Resident *r, Tensor *copy, const Tensor *flat) {
    *copy = (Tensor){0};
    if (flat->dtype == r->policy.compute) return *flat;
    *copy = DEVICE_TENSOR_RAW(&r->ops->device, MEMORY_GATHERED_UNIT, r->policy.compute, flat->size[0]);
    rows_cast(r->ops, copy, flat);
    return *copy;
}

static void load_root(Resident *r, int unit, const Tensor *flat) {
    const Parameter *embedding = parameters_find(r->parameters, unit, PARAMETER_EMBEDDING);
    const Parameter *head = parameters_find(r->parameters, unit, PARAMETER_HEAD);
    if (head)
        keep(r, &r->embedding_VD, flat, embedding);
    else
        head = embedding; // tied: the head's panels hold the embeddings
    keep(r, &r->final_norm_D, flat, parameters_find(r->parameters, unit, PARAMETER_FINAL_NORM));
    Tensor part = tensor_rows(flat, head->offset, head->rows * head->cols), copy;
    part = rounded(r, &copy, &part);
    r->head.n = head->rows;
    r->head.k = head->cols;
    r->head.rows = TENSOR_RESHAPE(&part, head->rows, head->cols);
    repack(r, &r->head);
    device_release(&r->ops->device, &copy);
}

static void load_block(Resident *r, int unit, const Tensor *flat) {
    BlockWeights *block = &r->blocks[unit];
    Tensor copy, in_compute = rounded(r, &copy, flat);
    block_weights_view(block, r->parameters, unit, &in_compute);
    repack(r, &block->qkv);
    repack(r, &block->o);
    repack(r, &block->gate_up);
    repack(r, &block->down);
    device_release(&r->ops->device, &copy);
    // Biases and norms lie behind the matrices: their own small array, with the same order and gaps.
    const Parameter *first = parameters_find(r->parameters, unit, PARAMETER_Q_BIAS);
    if (!first) first = parameters_find(r->parameters, unit, PARAMETER_INPUT_NORM);
    int64_t count = r->parameters->unit_sizes[unit] - first->offset;
    Tensor *vectors = &r->block_vectors[unit], part = tensor_rows(flat, first->offset, count);
    if (!vectors->data) *vectors = DEVICE_TENSOR_RAW(&r->ops->device, r->tag, r->policy.compute, count);
    rows_cast(r->ops, vectors, &part);
    Tensor *views[] = {&block->qkv_bias_C, &block->input_norm_D, &block->middle_norm_D, &block->q_norm_E,
                       &block->k_norm_E};
    ParameterRole roles[] = {PARAMETER_Q_BIAS, PARAMETER_INPUT_NORM, PARAMETER_MIDDLE_NORM, PARAMETER_Q_NORM,
                             PARAMETER_K_NORM};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const Parameter *parameter = parameters_find(r->parameters, unit, roles[i]);
        if (parameter) *views[i] = tensor_rows(vectors, parameter->offset - first->offset, views[i]->size[0]);
    }
}

void resident_load_unit(Resident *r, int unit, const Tensor *flat) {
    r->loads++;
    if (unit == r->architecture->layer_count)
        load_root(r, unit, flat);
    else
        load_block(r, unit, flat);
}

bool resident_load_file(Resident *r, const ModelFile *file, Error *error) {
    Device *device = &r->ops->device;
    // The root, the largest unit, first: what it needs in passing is there before the others are.
    for (int unit = r->parameters->unit_count - 1; unit >= 0; unit--) {
        Tensor flat = DEVICE_TENSOR(device, MEMORY_SCRATCH, DTYPE_F32, r->parameters->unit_sizes[unit]);
        bool good = !ops_runs(r->ops) || model_file_read_unit(file, unit, flat.data, error);
        if (good) resident_load_unit(r, unit, &flat);
        device_release(device, &flat);
        if (!good) return false;
    }
    return true;
}

// The first `count` rows of every scratch tensor.
static BlockActivations activations_of(const Resident *r, int64_t count) {
    const BlockActivations *a = &r->activations;
    return (BlockActivations){
        .x_TD = tensor_rows(&a->x_TD, 0, count),
        .qkv_TC = tensor_rows(&a->qkv_TC, 0, count),
        .attn_TO = tensor_rows(&a->attn_TO, 0, count),
        .mid_TD = tensor_rows(&a->mid_TD, 0, count),
        .gate_up_T2F = tensor_rows(&a->gate_up_T2F, 0, count),
    };
}

void resident_forward(Resident *r, KvCache *cache, const TokenBatch *batch) {
    CHECK(batch->count > 0 && batch->count <= r->max_rows, "%lld rows, room for %lld", (long long)batch->count,
          (long long)r->max_rows);
    BlockActivations a = activations_of(r, batch->count);
    BlockScratch scratch = {
        .norm_TD = tensor_rows(&r->scratch.norm_TD, 0, batch->count),
        .proj_TD = tensor_rows(&r->scratch.proj_TD, 0, batch->count),
        .act_TF = tensor_rows(&r->scratch.act_TF, 0, batch->count),
    };
    Tensor out_TD = tensor_rows(&r->out_TD, 0, batch->count);
    if (r->embedding_VD.data)
        embedding_forward(r->ops, &a.x_TD, &r->embedding_VD, batch->ids);
    else
        panels_gather(r->ops, &a.x_TD, &r->head, batch->ids);
    for (int layer = 0; layer < cache->layer_count; layer++) {
        if (layer) rows_cast(r->ops, &a.x_TD, &out_TD); // the unit before handed on policy.output; cast on entry
        a.kv = cache->layers[layer];
        BlockShape shape = block_shape(r->architecture, layer);
        block_forward(r->ops, &shape, &r->blocks[layer], &r->cos_sin_PE, batch, &a, &scratch, &out_TD);
    }
}

void resident_logits(Resident *r, Tensor *logits_NV, const int32_t *rows) {
    int64_t count = logits_NV->size[0];
    CHECK(count <= r->max_rows, "%lld rows, room for %lld", (long long)count, (long long)r->max_rows);
    // The root unit reads the last block's output as it was handed on, without a cast on entry (reference section 9).
    Tensor last_ND = tensor_rows(&r->last_ND, 0, count);
    Tensor norm_ND = tensor_rows(&r->scratch.norm_TD, 0, count);
    rows_gather(r->ops, &last_ND, &r->out_TD, rows);
    rms_norm_forward(r->ops, &norm_ND, &last_ND, &r->final_norm_D, r->shape.rms_norm_eps);
    linear_forward(r->ops, logits_NV, &norm_ND, &r->head, NULL);
}
