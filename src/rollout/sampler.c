#include "rollout/sampler.h"

#include "base/int64.h"

SoftmaxFilter sampler_filter(const GenerationOptions *options) {
    if (options->temperature == 0) return (SoftmaxFilter){.temperature = 1, .top_p = 1};
    return (SoftmaxFilter){.temperature = (float)options->temperature,
                           .top_p = (float)options->top_p,
                           .top_k = (int32_t)options->top_k,
                           .min_p = (float)options->min_p};
}

void sampler_set_filter(Sampler *sampler, const GenerationOptions *options) {
    sampler->filter = sampler_filter(options);
    sampler->greedy = options->temperature == 0;
}

void sampler_open(Sampler *sampler, Resident *resident, const GenerationOptions *options, int64_t rows, Arena *arena) {
    int64_t capacity = int64_smaller(int64_smaller(rows, SAMPLER_MAX_ROWS), resident->max_rows);
    *sampler = (Sampler){.resident = resident,
                         .capacity = capacity,
                         .softmax = arena_array(arena, SoftmaxRow, capacity),
                         .rows = arena_array(arena, int32_t, capacity),
                         .ids = arena_array(arena, int32_t, capacity),
                         .uniforms = arena_array(arena, float, capacity),
                         .logprobs = arena_array(arena, float, capacity)};
    sampler_set_filter(sampler, options);
}

void sampler_open_logits(Sampler *sampler) {
    const Resident *resident = sampler->resident;
    sampler->logits = DEVICE_TENSOR_RAW(&resident->ops->device, MEMORY_LOGITS, DTYPE_F32, sampler->capacity,
                                        resident->architecture->vocab_size);
}

void sampler_drop_logits(Sampler *sampler) {
    device_release(&sampler->resident->ops->device, &sampler->logits);
}

void sampler_close(Sampler *sampler) {
    if (!sampler->resident) return;
    sampler_drop_logits(sampler);
    *sampler = (Sampler){0};
}

static void draw_few(Sampler *s, SamplerDraw *draws, int64_t count, uint64_t seed, RngPurpose purpose) {
    Ops *ops = s->resident->ops;
    int64_t vocabulary = s->resident->architecture->vocab_size;
    for (int64_t i = 0; i < count; i++) {
        s->rows[i] = draws[i].row;
        s->uniforms[i] = rng_uniform(seed, purpose, draws[i].at);
    }
    Tensor logits_NV = tensor_rows(&s->logits, 0, count);
    resident_logits(s->resident, &logits_NV, s->rows);
    softmax_rows(ops, s->softmax, &logits_NV, vocabulary, s->filter);
    softmax_sample(ops, s->ids, &logits_NV, s->softmax, vocabulary, s->greedy ? NULL : s->uniforms, s->filter);
    softmax_logprobs(ops, s->logprobs, &logits_NV, s->softmax, s->ids, s->filter);
    for (int64_t i = 0; i < count; i++) {
        draws[i].id = ops_runs(ops) ? s->ids[i] : (int32_t)((double)s->uniforms[i] * (double)vocabulary);
        draws[i].logprob = s->logprobs[i];
    }
}

void sampler_draw(Sampler *sampler, SamplerDraw *draws, int64_t count, uint64_t seed, RngPurpose purpose) {
    for (int64_t first = 0; first < count; first += sampler->capacity)
        draw_few(sampler, draws + first, int64_smaller(count - first, sampler->capacity), seed, purpose);
}
