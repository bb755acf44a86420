#include "support/walk_run.h"

#include "ops/rows.h"
#include "ops/softmax.h"
#include "train/loss.h"

#include <string.h>

static void keep(WalkRun *run, int unit, const char *name, const Tensor *tensor, Arena *arena) {
    WalkTensor *kept = &run->tensors[run->count++];
    *kept = (WalkTensor){.unit = unit, .name = name, .dtype = tensor->dtype, .count = tensor_count(tensor)};
    kept->values = arena_array(arena, float, kept->count);
    for (int64_t i = 0; i < kept->count; i++) kept->values[i] = dtype_load(tensor->data, tensor->dtype, i);
}

static void keep_blocks(WalkRun *run, ModelSetup *setup, Arena *arena) {
    Walk *walk = &setup->walk;
    int layers = (int)setup->architecture->layer_count;
    for (int layer = 0; layer < layers; layer++) {
        const BlockActivations *a = &walk->activations[layer];
        keep(run, layer, "x", &a->x_TD, arena);
        if (walk->options.activation_checkpointing) continue; // the rest is made again in backward
        keep(run, layer, "qkv", &a->qkv_TC, arena);
        keep(run, layer, "attn", &a->attn_TO, arena);
        keep(run, layer, "lse", &a->lse_TH, arena);
        keep(run, layer, "mid", &a->mid_TD, arena);
        keep(run, layer, "gate_up", &a->gate_up_T2F, arena);
    }
    Tensor last_TD = DEVICE_TENSOR_RAW(&setup->ops.device, MEMORY_SCRATCH, walk->options.policy.compute,
                                       walk->last_TD.size[0], walk->last_TD.size[1]);
    rows_cast(&setup->ops, &last_TD, &walk->last_TD);
    keep(run, layers - 1, "output", &last_TD, arena);
    device_release(&setup->ops.device, &last_TD);
    run->boundary_dtype = walk->last_TD.dtype;
}

// Loss and gradient of loss row i, of sequence b.
static void row_loss(WalkRun *run, const TrainBatch *batch, const MicroBatch *micro, int64_t b, int64_t i,
                     float *dcurrent) {
    const LossOptions options = loss_options_default();
    LossMetrics metrics = loss_metrics_zero();
    int64_t column = micro->loss_columns[i];
    LossTokens token = {.count = 1,
                        .current = run->logprobs + i,
                        .current_unfiltered = run->logprobs + i,
                        .previous = (batch->previous ? batch->previous : batch->generation) + column,
                        .generation = batch->generation + column,
                        .reference = batch->reference + column,
                        .advantage = batch->advantage + column,
                        .mask = batch->mask + column};
    loss_clipped_pg(&metrics, dcurrent, NULL, &token, &options, batch_counts(batch));
    run->losses[b] += metrics.loss;
}

static WalkTensor *head_tensor(WalkRun *run, ModelSetup *setup, const char *name, DType dtype, int64_t count,
                               Arena *arena) {
    WalkTensor *tensor = &run->tensors[run->count++];
    *tensor = (WalkTensor){.unit = (int)setup->architecture->layer_count,
                           .name = name,
                           .dtype = dtype,
                           .count = count,
                           .values = arena_array(arena, float, count)};
    return tensor;
}

static void walk_head(WalkRun *run, ModelSetup *setup, const TrainBatch *batch, const MicroBatch *micro,
                      int64_t capacity, Arena *arena) {
    Device *device = &setup->ops.device;
    DType compute = setup->walk.options.policy.compute;
    int64_t V = setup->architecture->vocab_size, D = setup->architecture->hidden_size, N = micro->loss_count, b = 0;
    const SoftmaxFilter plain = {.temperature = 1, .top_p = 1};
    SoftmaxRow *rows = arena_array(arena, SoftmaxRow, capacity);
    float *dcurrent = arena_array(arena, float, capacity);
    WalkTensor *norm = head_tensor(run, setup, "norm", compute, N * D, arena);
    WalkTensor *logits = head_tensor(run, setup, "logits", DTYPE_F32, N * V, arena);
    Tensor all_NV = DEVICE_TENSOR(device, MEMORY_LOGITS, DTYPE_F32, capacity, V);
    walk_head_open(&setup->walk, micro->loss_rows, N);
    for (int64_t i = 0; i < N * D; i++) norm->values[i] = dtype_load(setup->walk.head.norm_ND.data, compute, i);
    for (int64_t first = 0; first < N; first += capacity) {
        int64_t count = N - first < capacity ? N - first : capacity;
        const int32_t *targets = micro->loss_targets + first;
        Tensor logits_NV = tensor_rows(&all_NV, 0, count);
        walk_head_forward(&setup->walk, &logits_NV, first);
        memcpy(logits->values + first * V, logits_NV.data, tensor_bytes(&logits_NV));
        softmax_rows(&setup->ops, rows, &logits_NV, V, plain);
        softmax_logprobs(&setup->ops, run->logprobs + first, &logits_NV, rows, targets, plain);
        for (int64_t i = 0; i < count; i++) {
            while (micro->loss_offset[b + 1] <= first + i) b++;
            row_loss(run, batch, micro, b, first + i, dcurrent + i);
        }
        softmax_backward(&setup->ops, &logits_NV, rows, NULL, targets, dcurrent, NULL, V, plain);
        walk_head_backward(&setup->walk, &logits_NV, first);
    }
    device_release(device, &all_NV);
    walk_head_close(&setup->walk);
    CHECK(run->boundary_dtype == setup->walk.dlast_TD.dtype, "outputs and gradients cross boundaries in two dtypes");
}

void walk_run(WalkRun *run, ModelSetup *setup, const TrainBatch *batch, int64_t head_chunk, Arena *arena) {
    MicroBatch micro = batch_micro(batch, 0, batch->count, arena);
    int64_t capacity = head_chunk < micro.loss_count ? head_chunk : micro.loss_count;
    *run = (WalkRun){.tensors = arena_array(arena, WalkTensor, 6 * setup->architecture->layer_count + 3),
                     .logprobs = arena_array(arena, float, micro.loss_count),
                     .losses = arena_array(arena, double, batch->count),
                     .gradients = arena_array(arena, float *, setup->parameters->count)};
    walk_begin(&setup->walk, batch->ids, batch->offset[batch->count]);
    walk_forward(&setup->walk, &micro.tokens, micro.page_count);
    keep_blocks(run, setup, arena);
    walk_head(run, setup, batch, &micro, capacity, arena);
    walk_backward(&setup->walk);
    walk_end(&setup->walk);
    run->overflow = setup->walk.overflow;
    run->gradient_norm = shard_gradient_norm(&setup->shards, NULL);
    for (int i = 0; i < setup->parameters->count; i++) {
        const Parameter *parameter = &setup->parameters->items[i];
        Tensor gradient = shard_view(&setup->shards.gradient[parameter->unit], parameter);
        run->gradients[i] = arena_array(arena, float, tensor_count(&gradient));
        memcpy(run->gradients[i], gradient.data, tensor_bytes(&gradient));
    }
    shard_gradients_close(&setup->shards);
}

int64_t walk_run_differing(const float *a, const float *b, int64_t count) {
    int64_t differing = 0;
    for (int64_t i = 0; i < count; i++) differing += dtype_bits(a[i]) != dtype_bits(b[i]);
    return differing;
}

int walk_run_first_difference(const WalkRun *a, const WalkRun *b, int64_t *elements) {
    CHECK(a->count == b->count, "walks of %d and %d tensors", a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        CHECK(a->tensors[i].count == b->tensors[i].count, "tensor %d has two sizes", i);
        *elements = walk_run_differing(a->tensors[i].values, b->tensors[i].values, a->tensors[i].count);
        if (*elements) return i;
    }
    *elements = 0;
    return -1;
}
