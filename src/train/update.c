#include "train/update.h"

#include <math.h>

// Host columns of one chunk of loss rows, picked from the batch.
typedef struct Chunk {
    float *current, *unfiltered, *previous, *generation, *reference, *advantage, *mask, *dcurrent, *dunfiltered;
    SoftmaxRow *rows, *rows_unfiltered;
} Chunk;

static Chunk chunk_open(Arena *arena, int64_t capacity) {
    Chunk chunk = {.rows = arena_array(arena, SoftmaxRow, capacity),
                   .rows_unfiltered = arena_array(arena, SoftmaxRow, capacity)};
    float **columns[] = {&chunk.current,   &chunk.unfiltered, &chunk.previous, &chunk.generation, &chunk.reference,
                         &chunk.advantage, &chunk.mask,       &chunk.dcurrent, &chunk.dunfiltered};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) *columns[i] = arena_array(arena, float, capacity);
    return chunk;
}

static void pick(float *out, const float *column, const int64_t *indices, int64_t count) {
    for (int64_t i = 0; column && i < count; i++) out[i] = column[indices[i]];
}

// Loss and gradients of the log-probs; true when the unfiltered log-prob has a gradient of its own.
static bool chunk_loss(UpdateResult *result, Chunk *chunk, const TrainBatch *batch, const MicroBatch *micro,
                       int64_t first, int64_t count, bool filtered, const LossOptions *loss, bool nll) {
    const int64_t *columns = micro->loss_columns + first;
    pick(chunk->mask, batch->mask, columns, count);
    if (nll) {
        loss_nll(&result->metrics.loss, chunk->dcurrent, chunk->current, chunk->mask, count, result->global_valid_toks);
        return false;
    }
    pick(chunk->generation, batch->generation, columns, count);
    pick(chunk->previous, batch->previous ? batch->previous : batch->generation, columns, count);
    pick(chunk->reference, batch->reference, columns, count);
    pick(chunk->advantage, batch->advantage, columns, count);
    for (int64_t i = 0; i < count; i++) {
        double error = fabs((double)chunk->current[i] - (double)chunk->generation[i]);
        if (error > result->max_abs_logprob_error || isnan(error)) result->max_abs_logprob_error = error;
        if (chunk->current[i] == -INFINITY) { // an earlier step of this rollout moved the token out of the filter's set
            chunk->mask[i] = 0;
            chunk->current[i] = chunk->generation[i];
            result->filtered_tokens++;
        }
    }
    LossTokens tokens = {.count = count,
                         .current = chunk->current,
                         .current_unfiltered = filtered ? chunk->unfiltered : chunk->current,
                         .previous = chunk->previous,
                         .generation = chunk->generation,
                         .reference = batch->reference ? chunk->reference : NULL,
                         .advantage = chunk->advantage,
                         .mask = chunk->mask};
    loss_clipped_pg(&result->metrics, chunk->dcurrent, chunk->dunfiltered, &tokens, loss, result->global_valid_toks);
    return filtered;
}

// Head, log-softmax, loss and their backward, chunk by chunk: the logits of more than `head_chunk` rows never exist.
static void head_and_loss(UpdateResult *result, Walk *walk, const TrainBatch *batch, const MicroBatch *micro,
                          const LossOptions *loss, const UpdateOptions *options, Arena *arena) {
    Ops *ops = walk->ops;
    Device *device = &ops->device;
    int64_t V = walk->architecture->vocab_size, D = walk->shape.hidden;
    const SoftmaxFilter plain = {.temperature = options->filter.temperature, .top_p = 1};
    bool filtered = softmax_filters(options->filter);
    int64_t capacity = micro->loss_count < options->head_chunk ? micro->loss_count : options->head_chunk;
    Chunk chunk = chunk_open(arena, capacity);
    Tensor logits = DEVICE_TENSOR_RAW(device, MEMORY_LOGITS, DTYPE_F32, capacity, V);
    Tensor norm = DEVICE_TENSOR_RAW(device, MEMORY_ACTIVATION, walk->options.policy.compute, capacity, D);
    for (int64_t first = 0; first < micro->loss_count; first += capacity) {
        int64_t count = micro->loss_count - first < capacity ? micro->loss_count - first : capacity;
        Tensor logits_NV = tensor_rows(&logits, 0, count), norm_ND = tensor_rows(&norm, 0, count);
        const int32_t *rows = micro->loss_rows + first, *targets = micro->loss_targets + first;
        walk_head_forward(walk, &logits_NV, &norm_ND, rows);
        softmax_rows(ops, chunk.rows, &logits_NV, V, options->filter);
        softmax_logprobs(ops, chunk.current, &logits_NV, chunk.rows, targets, options->filter);
        if (filtered) {
            softmax_rows(ops, chunk.rows_unfiltered, &logits_NV, V, plain);
            softmax_logprobs(ops, chunk.unfiltered, &logits_NV, chunk.rows_unfiltered, targets, plain);
        }
        bool both = chunk_loss(result, &chunk, batch, micro, first, count, filtered, loss, options->nll);
        softmax_backward(ops, &logits_NV, chunk.rows, both ? chunk.rows_unfiltered : NULL, targets, chunk.dcurrent,
                         both ? chunk.dunfiltered : NULL, V, options->filter);
        walk_head_backward(walk, &logits_NV, &norm_ND, rows);
    }
    device_release(device, &logits);
    device_release(device, &norm);
}

UpdateResult update_none(void) {
    return (UpdateResult){.metrics = loss_metrics_zero()};
}

void update_add(UpdateResult *sum, const UpdateResult *part) {
    loss_metrics_add(&sum->metrics, &part->metrics);
    sum->grad_norm = part->grad_norm;
    sum->global_valid_seqs += part->global_valid_seqs;
    sum->global_valid_toks += part->global_valid_toks;
    sum->max_abs_logprob_error = part->max_abs_logprob_error;
    sum->filtered_tokens += part->filtered_tokens;
    sum->output_overflows += part->output_overflows;
    sum->nonfinite_gradients += part->nonfinite_gradients;
}

void update_average(UpdateResult *sum, int64_t steps) {
    double share = 1.0 / (double)steps;
    loss_metrics_scale(&sum->metrics, share);
    sum->global_valid_seqs *= share;
    sum->global_valid_toks *= share;
}

void update_policy(UpdateResult *result, Walk *walk, const TrainBatch *batch, const LossOptions *loss,
                   const UpdateOptions *options, Progress *progress, int64_t *done) {
    Ledger *ledger = &walk->ops->device.ledger;
    Arena arena = {0};
    *result = update_none();
    batch_valid_counts(batch, &result->global_valid_seqs, &result->global_valid_toks);
    result->metrics.num_valid_samples = result->global_valid_seqs;
    MemoryPhase before = ledger_enter(ledger, PHASE_FORWARD);
    walk_begin(walk, batch->ids + batch->offset[0], batch->offset[batch->count] - batch->offset[0]);
    for (int64_t first = 0; first < batch->count; first += options->micro_batch_size) {
        int64_t left = batch->count - first;
        int64_t count = left < options->micro_batch_size ? left : options->micro_batch_size;
        MicroBatch micro = batch_micro(batch, first, count, &arena);
        if (micro.loss_count) {
            ledger_enter(ledger, PHASE_FORWARD);
            walk_forward(walk, &micro.tokens, micro.page_count);
            ledger_enter(ledger, PHASE_BACKWARD);
            head_and_loss(result, walk, batch, &micro, loss, options, &arena);
            walk_backward(walk);
        }
        arena_reset(&arena);
        if (done) *done += count;
        if (progress && done) progress_update(progress, *done);
    }
    walk_end(walk);
    result->output_overflows = walk->output_overflows;

    ledger_enter(ledger, PHASE_OPTIMIZER);
    result->grad_norm = shard_gradient_norm(walk->shards);
    // A NaN or infinite norm would spoil every weight at once: the step is left out and reported.
    result->nonfinite_gradients = !isfinite(result->grad_norm);
    if (!result->nonfinite_gradients)
        shard_update(walk->shards, &options->optimizer, options->lr,
                     optimizer_clip_factor(result->grad_norm, options->optimizer.max_grad_norm));
    shard_gradients_close(walk->shards);
    ledger_enter(ledger, before);
    arena_close(&arena);
}
