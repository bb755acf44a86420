// What bfloat16 and float16 cost in accuracy: log-probabilities and gradients of one text against float32's.
// usage: tool_precision MODEL [TEXT-FILE] (without one: 200 made-up ids; at most 300 tokens of a text)
#include "base/file.h"
#include "ops/rows.h"
#include "ops/softmax.h"
#include "support/model_setup.h"
#include "train/batch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MADE_UP = 200, LONGEST = 300 };

typedef struct Measured {
    float *logprobs, **gradients; // [T], [units]
    int64_t overflows;
} Measured;

static bool read_ids(int32_t **ids, int64_t *count, const ModelSetup *setup, const char *path, Arena *arena,
                     Error *error) {
    *ids = arena_array(arena, int32_t, LONGEST);
    *count = MADE_UP;
    for (int64_t i = 0; i < MADE_UP; i++)
        (*ids)[i] = (int32_t)((i * 7919 + i * i * 31) % setup->architecture->vocab_size);
    if (!path) return true;
    char *text;
    size_t size;
    Tokenizer *tokenizer;
    TokenList list = {0};
    if (!file_read(&text, &size, arena, path, error) || !model_file_tokenizer(setup->file, &tokenizer, error))
        return false;
    bool good = tokenizer_encode(tokenizer, &list, text, size, false, error);
    *count = list.count < LONGEST ? list.count : LONGEST;
    if (good) memcpy(*ids, list.ids, (size_t)*count * sizeof **ids);
    bpe_list_close(&list);
    tokenizer_close(tokenizer);
    return good;
}

// Mean negative log-probability, its log-probs and gradients. float16's gradients travel times a power of two (train/update.c).
static void walk_text(Measured *m, ModelSetup *setup, int32_t *ids, int64_t count, DType compute, Arena *arena) {
    int64_t offset[2] = {0, count}, V = setup->architecture->vocab_size, N = count - 1;
    float *mask = arena_array(arena, float, count), sample_mask = 1;
    for (int64_t t = 1; t < count; t++) mask[t] = 1;
    TrainBatch batch = {.count = 1, .offset = offset, .ids = ids, .mask = mask, .sample_mask = &sample_mask};
    MicroBatch micro = batch_micro(&batch, 0, 1, arena);
    Device *device = &setup->ops.device;
    Tensor logits_NV = DEVICE_TENSOR(device, MEMORY_LOGITS, DTYPE_F32, N, V);
    SoftmaxRow *rows = arena_array(arena, SoftmaxRow, N);
    float *dcurrent = arena_array(arena, float, N);
    const SoftmaxFilter plain = {.temperature = 1, .top_p = 1};
    const float scale = compute == DTYPE_F16 ? 128 : 1;
    m->logprobs = arena_array(arena, float, N);
    walk_begin(&setup->walk, ids, count);
    walk_forward(&setup->walk, &micro.tokens, micro.page_count);
    walk_head_open(&setup->walk, micro.loss_rows, N);
    walk_head_forward(&setup->walk, &logits_NV, 0);
    softmax_rows(&setup->ops, rows, &logits_NV, V, plain);
    softmax_logprobs(&setup->ops, m->logprobs, &logits_NV, rows, micro.loss_targets, plain);
    for (int64_t i = 0; i < N; i++) dcurrent[i] = -scale / (float)N;
    softmax_backward(&setup->ops, &logits_NV, rows, NULL, micro.loss_targets, dcurrent, NULL, V, plain);
    walk_head_backward(&setup->walk, &logits_NV, 0);
    walk_head_close(&setup->walk);
    walk_backward(&setup->walk);
    walk_end(&setup->walk);
    m->overflows = setup->walk.overflow.count;
    m->gradients = arena_array(arena, float *, setup->parameters->unit_count);
    for (int unit = 0; unit < setup->parameters->unit_count; unit++) {
        int64_t size = setup->parameters->unit_sizes[unit];
        m->gradients[unit] = arena_array(arena, float, size);
        for (int64_t i = 0; i < size; i++)
            m->gradients[unit][i] = ((const float *)setup->shards.gradient[unit].data)[i] / scale;
    }
    shard_gradients_close(&setup->shards);
    device_release(device, &logits_NV);
}

static bool measure(Measured *m, int64_t *count, const int64_t **sizes, int *units, const char *model, const char *text,
                    DType compute, Arena *arena, Error *error) {
    ModelSetup setup;
    int32_t *ids;
    bool good =
        model_setup_open(&setup, model, (PrecisionPolicy){compute, DTYPE_F32}, (OpsOptions){0}, 8, LONGEST, error) &&
        read_ids(&ids, count, &setup, text, arena, error);
    if (good) {
        walk_text(m, &setup, ids, *count, compute, arena);
        *units = setup.parameters->unit_count;
        int64_t *copy = arena_array(arena, int64_t, *units);
        memcpy(copy, setup.parameters->unit_sizes, (size_t)*units * sizeof *copy);
        *sizes = copy;
    }
    model_setup_close(&setup);
    return good;
}

static void print_errors(const char *name, const Measured *m, const Measured *reference, int64_t count,
                         const int64_t *sizes, int units) {
    double most = 0, sum = 0, off = 0, whole = 0;
    for (int64_t i = 0; i < count - 1; i++) {
        double error = fabs((double)m->logprobs[i] - (double)reference->logprobs[i]);
        most = fmax(most, error);
        sum += error;
    }
    for (int unit = 0; unit < units; unit++)
        for (int64_t i = 0; i < sizes[unit]; i++) {
            double right = (double)reference->gradients[unit][i], difference = (double)m->gradients[unit][i] - right;
            off += difference * difference;
            whole += right * right;
        }
    printf("%-9s log-probs: max %.2e, mean %.2e; gradient: %.2e of its norm; overflows %lld\n", name, most,
           sum / (double)(count - 1), sqrt(off / whole), (long long)m->overflows);
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3) {
        fprintf(stderr, "usage: tool_precision MODEL [TEXT-FILE]\n");
        return 2;
    }
    const DType dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    Measured reference, other;
    Arena arena = {0};
    Error error;
    const int64_t *sizes;
    int64_t count;
    int units;
    for (int i = 0; i < 3; i++) {
        if (!measure(i ? &other : &reference, &count, &sizes, &units, argv[1], argc > 2 ? argv[2] : NULL, dtypes[i],
                     &arena, &error)) {
            fprintf(stderr, "tool_precision: %s\n", error.text);
            return 1;
        }
        if (i) print_errors(dtype_name(dtypes[i]), &other, &reference, count, sizes, units);
    }
    arena_close(&arena);
    return 0;
}
