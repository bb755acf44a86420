#include "model/resident.h"

#include "base/log.h"
#include "model/vocabulary_share.h"
#include "ops/norm.h"
#include "ops/rows.h"

size_t kv_cache_token_bytes(const Architecture *share, DType dtype) {
    return 2 * dtype_size(dtype) * (size_t)(share->layer_count * share->kv_heads * share->head_dim);
}

KvCache kv_cache_open(Ops *ops, MemoryTag tag, const Architecture *share, DType dtype, int64_t pages) {
    AttentionShape shape = block_shape(share, 0, NULL).attention;
    KvCache cache = {.pages = pages, .layer_count = (int)share->layer_count};
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
    if (r->out_TD.data) return;
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

void resident_drop_scratch(Resident *r) {
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
                   Comm *tensor, PrecisionPolicy policy, MemoryTag tag, int64_t max_rows, int64_t max_positions) {
    *r = (Resident){.ops = ops,
                    .architecture = architecture->whole ? architecture->whole : architecture,
                    .share = architecture,
                    .tensor = tensor,
                    .parameters = parameters,
                    .policy = policy,
                    .shape = block_shape(architecture, 0, tensor),
                    .tag = tag,
                    .max_rows = max_rows};
    r->blocks = arena_array(&r->arena, BlockWeights, architecture->layer_count);
    r->block_vectors = arena_array(&r->arena, Tensor, architecture->layer_count);
    r->cos_sin_PE = DEVICE_TENSOR_RAW(&ops->device, MEMORY_SCRATCH, DTYPE_F32, max_positions, architecture->head_dim);
    block_rope_table(ops, &r->cos_sin_PE, architecture);
}

void resident_drop_weights(Resident *r) {
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
}

void resident_close(Resident *r) {
    if (!r->ops) return;
    resident_drop_weights(r);
    resident_drop_scratch(r);
    device_release(&r->ops->device, &r->cos_sin_PE);
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

// Where biases and norms begin in a block's flat array, behind the matrices.
static int64_t vectors_from(const Resident *r, int unit) {
    const Parameter *first = parameters_find(r->parameters, unit, PARAMETER_Q_BIAS);
    if (!first) first = parameters_find(r->parameters, unit, PARAMETER_INPUT_NORM);
    return first->offset;
}

// Biases and norms have a small array of their own, with the same order and gaps: flat's part from vectors_from on.
static void load_vectors(Resident *r, int unit, const Tensor *part) {
    BlockWeights *block = &r->blocks[unit];
    block_weights_share(block, &r->shape.sums);
    int64_t from = vectors_from(r, unit);
    Tensor *vectors = &r->block_vectors[unit];
    if (!vectors->data) *vectors = DEVICE_TENSOR_RAW(&r->ops->device, r->tag, r->policy.compute, part->size[0]);
    rows_cast(r->ops, vectors, part);
    Tensor *views[] = {&block->qkv_bias_C, &block->input_norm_D, &block->middle_norm_D, &block->q_norm_E,
                       &block->k_norm_E};
    ParameterRole roles[] = {PARAMETER_Q_BIAS, PARAMETER_INPUT_NORM, PARAMETER_MIDDLE_NORM, PARAMETER_Q_NORM,
                             PARAMETER_K_NORM};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const Parameter *parameter = parameters_find(r->parameters, unit, roles[i]);
        if (!parameter) continue;
        int64_t size = roles[i] == PARAMETER_Q_BIAS ? r->shape.qkv_columns : parameter->rows;
        *views[i] = tensor_rows(vectors, parameter->offset - from, size);
    }
}

static void load_block(Resident *r, int unit, const Tensor *flat) {
    BlockWeights *block = &r->blocks[unit];
    Tensor copy, in_compute = rounded(r, &copy, flat);
    block_weights_view(block, r->parameters, unit, &in_compute, 0);
    repack(r, &block->qkv);
    repack(r, &block->o);
    repack(r, &block->gate_up);
    repack(r, &block->down);
    device_release(&r->ops->device, &copy);
    int64_t from = vectors_from(r, unit);
    Tensor part = tensor_rows(flat, from, r->parameters->unit_sizes[unit] - from);
    load_vectors(r, unit, &part);
}

void resident_load_unit(Resident *r, int unit, const Tensor *flat) {
    r->loads++;
    r->ops->unit = unit;
    if (unit == r->architecture->layer_count)
        load_root(r, unit, flat);
    else
        load_block(r, unit, flat);
}

void resident_load_rows(Resident *r, const Parameter *parameter, int64_t first, const Tensor *rows_RK) {
    Device *device = &r->ops->device;
    bool head = parameter->role == PARAMETER_HEAD || !parameters_find(r->parameters, parameter->unit, PARAMETER_HEAD);
    if (first == 0) r->loads++;
    if (head && first == 0) {
        device_release(device, &r->head.panels);
        r->head.n = parameter->rows;
        r->head.k = parameter->cols;
        linear_open_panels(r->ops, &r->head, r->policy.compute, r->tag);
    } else if (first == 0) {
        device_release(device, &r->embedding_VD);
        r->embedding_VD = DEVICE_TENSOR_RAW(device, r->tag, r->policy.compute, parameter->rows, parameter->cols);
    }
    if (head) {
        linear_pack_rows(r->ops, &r->head, rows_RK, first);
        return;
    }
    Tensor to = tensor_rows(&r->embedding_VD, first, rows_RK->size[0]);
    rows_cast(r->ops, &to, rows_RK);
}

void resident_load_norm(Resident *r, const Tensor *norm_D) {
    device_release(&r->ops->device, &r->final_norm_D);
    r->final_norm_D = DEVICE_TENSOR_RAW(&r->ops->device, r->tag, r->policy.compute, norm_D->size[0]);
    rows_cast(r->ops, &r->final_norm_D, norm_D);
}

// --- from a file: matrices go stripe by stripe into their panels, so that no unit ever lies in memory as a whole

enum { STRIPE_BYTES = 1 << 20, STRIPE_ROWS = 1024, TASK_ROWS = 16 };

typedef struct ReadJob {
    const ModelFile *file;
    const Parameter *group; // matrices whose rows follow each other
    int64_t first, count;   // rows of the group
    float *out;
    bool finite[STRIPE_ROWS];
} ReadJob;

static const Parameter *row_owner(const Parameter *group, int64_t *row) { // *row becomes the owner's
    while (*row >= group->rows) *row -= group++->rows;
    return group;
}

static void read_task(void *context, int64_t task, int worker) {
    (void)worker;
    ReadJob *job = context;
    for (int64_t i = task * TASK_ROWS; i < job->count && i < (task + 1) * TASK_ROWS; i++) {
        int64_t row = job->first + i;
        const Parameter *owner = row_owner(job->group, &row);
        job->finite[i] = model_file_read_row(job->file, owner, row, job->out + i * owner->cols);
    }
}

// Rows first, first+1, … of the group into rows_RK (F32).
static bool read_rows(Resident *r, Tensor *rows_RK, const ModelFile *file, const Parameter *group, int64_t first,
                      Error *error) {
    if (!ops_runs(r->ops)) return true;
    ReadJob job = {.file = file, .group = group, .first = first, .count = rows_RK->size[0], .out = rows_RK->data};
    team_run(r->ops->team, (job.count + TASK_ROWS - 1) / TASK_ROWS, read_task, &job);
    for (int64_t i = 0, row = first; i < job.count; i++, row = first + i)
        if (!job.finite[i]) return model_file_not_finite(file, row_owner(group, &row), error);
    return true;
}

// Rows that are read at a time: whole panels, few enough for the caches.
static int64_t stripe_rows(int64_t k) {
    int64_t rows = STRIPE_BYTES / (int64_t)sizeof(float) / k / LINEAR_PACKED_ROWS * LINEAR_PACKED_ROWS;
    return rows < LINEAR_PACKED_ROWS ? LINEAR_PACKED_ROWS : rows > STRIPE_ROWS ? STRIPE_ROWS : rows;
}

// What a load works with: where it reads from, and room for one stripe of any matrix, as read and in the compute dtype.
typedef struct Load {
    const ModelFile *file;
    Tensor read, cast; // one tensor when the compute dtype is F32
} Load;

static void load_open(Load *load, Resident *r, const ModelFile *file) {
    int64_t most = 0;
    for (int i = 0; i < r->parameters->count; i++) {
        int64_t k = r->parameters->items[i].cols, size = stripe_rows(k) * k;
        if (size > most) most = size;
    }
    load->file = file;
    load->read = DEVICE_TENSOR_RAW(&r->ops->device, MEMORY_SCRATCH, DTYPE_F32, most);
    load->cast = load->read;
    if (r->policy.compute != DTYPE_F32)
        load->cast = DEVICE_TENSOR_RAW(&r->ops->device, MEMORY_SCRATCH, r->policy.compute, most);
}

static void load_close(Load *load, Resident *r) {
    if (load->cast.data != load->read.data) device_release(&r->ops->device, &load->cast);
    device_release(&r->ops->device, &load->read);
}

static Tensor stripe_of(const Tensor *room, int64_t rows, int64_t k) {
    Tensor part = tensor_rows(room, 0, rows * k);
    return TENSOR_RESHAPE(&part, rows, k);
}

// The matrix of a role, with those that follow it up to `last`, into new panels, or (to_panels NULL) into to_rows.
static bool load_matrix(Resident *r, LinearWeight *to_panels, Tensor *to_rows, const Load *load, int unit,
                        ParameterRole role, ParameterRole last, Error *error) {
    Device *device = &r->ops->device;
    DType compute = r->policy.compute;
    const Parameter *group = parameters_find(r->parameters, unit, role);
    const Parameter *end = parameters_find(r->parameters, unit, last) + 1;
    int64_t n = 0, k = group->cols, stripe = stripe_rows(k);
    for (const Parameter *at = group; at < end; at++) n += at->rows;
    if (to_panels) {
        device_release(device, &to_panels->panels);
        *to_panels = (LinearWeight){.n = n, .k = k};
        linear_open_panels(r->ops, to_panels, compute, r->tag);
    } else {
        device_release(device, to_rows);
        *to_rows = DEVICE_TENSOR_RAW(device, r->tag, compute, n, k);
    }
    for (int64_t first = 0; first < n; first += stripe) {
        int64_t count = n - first < stripe ? n - first : stripe;
        Tensor cast = to_panels ? stripe_of(&load->cast, count, k) : tensor_rows(to_rows, first, count);
        Tensor read = compute == DTYPE_F32 ? cast : stripe_of(&load->read, count, k);
        if (!read_rows(r, &read, load->file, group, first, error)) return false;
        if (compute != DTYPE_F32) rows_cast(r->ops, &cast, &read);
        if (to_panels) linear_pack_rows(r->ops, to_panels, &cast, first);
    }
    for (const Parameter *at = group; ops_runs(r->ops) && at < end; at++) model_file_leave(load->file, at);
    return true;
}

static bool load_block_file(Resident *r, const Load *load, int unit, Error *error) {
    BlockWeights *block = &r->blocks[unit];
    const ParameterTable *table = r->parameters;
    if (!load_matrix(r, &block->qkv, NULL, load, unit, PARAMETER_Q, PARAMETER_V, error) ||
        !load_matrix(r, &block->o, NULL, load, unit, PARAMETER_O, PARAMETER_O, error) ||
        !load_matrix(r, &block->gate_up, NULL, load, unit, PARAMETER_GATE, PARAMETER_UP, error) ||
        !load_matrix(r, &block->down, NULL, load, unit, PARAMETER_DOWN, PARAMETER_DOWN, error))
        return false;
    int64_t from = vectors_from(r, unit);
    Tensor part = DEVICE_TENSOR(&r->ops->device, MEMORY_SCRATCH, DTYPE_F32, table->unit_sizes[unit] - from);
    bool good = true;
    for (int i = 0; good && ops_runs(r->ops) && i < table->count; i++) {
        const Parameter *parameter = &table->items[i];
        if (parameter->unit != unit || !parameter->vector) continue;
        good = model_file_read(load->file, parameter, (float *)part.data + (parameter->offset - from), error);
    }
    if (good) load_vectors(r, unit, &part);
    device_release(&r->ops->device, &part);
    return good;
}

static bool load_root_file(Resident *r, const Load *load, int unit, Error *error) {
    Device *device = &r->ops->device;
    const Parameter *norm = parameters_find(r->parameters, unit, PARAMETER_FINAL_NORM);
    bool tied = !parameters_find(r->parameters, unit, PARAMETER_HEAD);
    ParameterRole head = tied ? PARAMETER_EMBEDDING : PARAMETER_HEAD; // tied: the head's panels hold the embeddings
    if ((!tied &&
         !load_matrix(r, NULL, &r->embedding_VD, load, unit, PARAMETER_EMBEDDING, PARAMETER_EMBEDDING, error)) ||
        !load_matrix(r, &r->head, NULL, load, unit, head, head, error))
        return false;
    Tensor part = DEVICE_TENSOR_RAW(device, MEMORY_SCRATCH, DTYPE_F32, norm->rows);
    device_release(device, &r->final_norm_D);
    r->final_norm_D = DEVICE_TENSOR_RAW(device, r->tag, r->policy.compute, norm->rows);
    bool good = !ops_runs(r->ops) || model_file_read(load->file, norm, part.data, error);
    if (good) rows_cast(r->ops, &r->final_norm_D, &part);
    device_release(device, &part);
    return good;
}

bool resident_load_file(Resident *r, const ModelFile *file, Error *error) {
    Load load;
    bool good = true;
    r->loads++;
    load_open(&load, r, file);
    for (int unit = 0; good && unit < r->parameters->unit_count; unit++)
        good = unit == r->architecture->layer_count ? load_root_file(r, &load, unit, error)
                                                    : load_block_file(r, &load, unit, error);
    load_close(&load, r);
    return good;
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

// The first loss is said, once.
static void say_overflow(const Resident *r, int64_t count_before) {
    if (count_before || !r->overflow.count) return;
    char text[192];
    overflow_text(text, &r->overflow, r->architecture->layer_count);
    log_warn("%s; bfloat16 has float32's range", text);
}

void resident_forward(Resident *r, KvCache *cache, const TokenBatch *batch) {
    CHECK(batch->count > 0 && batch->count <= r->max_rows, "%lld rows, room for %lld", (long long)batch->count,
          (long long)r->max_rows);
    scratch_open(r);
    BlockActivations a = activations_of(r, batch->count);
    BlockScratch scratch = {
        .norm_TD = tensor_rows(&r->scratch.norm_TD, 0, batch->count),
        .proj_TD = tensor_rows(&r->scratch.proj_TD, 0, batch->count),
        .act_TF = tensor_rows(&r->scratch.act_TF, 0, batch->count),
    };
    Tensor out_TD = tensor_rows(&r->out_TD, 0, batch->count);
    r->ops->unit = (int)r->architecture->layer_count;
    vocabulary_share_embed(r->ops, r->share, r->tensor, &a.x_TD, r->embedding_VD.data ? &r->embedding_VD : NULL,
                           &r->head, batch->ids);
    bool narrow = overflow_possible(r->policy);
    int64_t before = r->overflow.count;
    for (int layer = 0; layer < cache->layer_count; layer++) {
        r->ops->unit = layer;
        if (layer) { // the unit before handed on policy.output; cast on entry
            int64_t lost = rows_cast(r->ops, &a.x_TD, &out_TD);
            overflow_note(&r->overflow, r->ops, NULL, lost, layer - 1, false, &out_TD);
        }
        a.kv = cache->layers[layer];
        BlockShape shape = block_shape(r->share, layer, r->tensor);
        block_forward(r->ops, &shape, &r->blocks[layer], &r->cos_sin_PE, batch, &a, &scratch, &out_TD);
        if (narrow) block_note_overflow(r->ops, &shape, &r->overflow, layer, &r->blocks[layer], &a, &scratch, &out_TD);
    }
    say_overflow(r, before);
}

void resident_logits(Resident *r, Tensor *logits_NV, const int32_t *rows) {
    int64_t count = logits_NV->size[0];
    CHECK(count <= r->max_rows, "%lld rows, room for %lld", (long long)count, (long long)r->max_rows);
    // The root unit reads the last block's output as it was handed on, without a cast on entry (reference section 9).
    Tensor last_ND = tensor_rows(&r->last_ND, 0, count);
    Tensor norm_ND = tensor_rows(&r->scratch.norm_TD, 0, count);
    r->ops->unit = (int)r->architecture->layer_count;
    rows_gather(r->ops, &last_ND, &r->out_TD, rows);
    rms_norm_forward(r->ops, &norm_ND, &last_ND, &r->final_norm_D, r->shape.rms_norm_eps);
    if (overflow_possible(r->policy)) {
        int64_t before = r->overflow.count, lost = rows_count_nonfinite(r->ops, &norm_ND);
        overflow_note(&r->overflow, r->ops, NULL, lost, (int)r->architecture->layer_count, false, &norm_ND);
        say_overflow(r, before);
    }
    vocabulary_share_logits(r->ops, r->share, r->tensor, logits_NV, &norm_ND, &r->head);
}
