#include "support/engine_setup.h"

const EngineStops engine_setup_stops = {.ids = (const int32_t[]){3, 77}, .count = 2};
const EngineRun engine_setup_run = {.seed = 0x123456789abcdefu, .purpose = RNG_SAMPLE_TOKEN, .step = 5};

GenerationOptions engine_setup_options(void) {
    return (GenerationOptions){.max_new_tokens = 20,
                               .temperature = 1,
                               .top_p = 1,
                               .max_length = 60,
                               .max_sequences = 64,
                               .enable_prefix_caching = true,
                               .prefill_chunk = 64};
}

void engine_setup_requests(EngineRequest requests[PROMPTS], Arena *arena) {
    static const int32_t lengths[PROMPTS] = {1, 15, 16, 17, 33, 50, 5, 32};
    static const int32_t numbers[PROMPTS] = {4, 2, 9, 0, 1, 7, 1000000, 3};
    for (int i = 0; i < PROMPTS; i++) {
        int32_t *ids = arena_array(arena, int32_t, lengths[i]);
        for (int32_t t = 0; t < lengths[i]; t++) ids[t] = (t * 37 + i * 11 + t * t) % TINY_VOCABULARY;
        requests[i] = (EngineRequest){.ids = ids,
                                      .count = lengths[i],
                                      .prompt = numbers[i],
                                      .samples = 1 + (i * 3 + 2) % 4,
                                      .question = 100 + i};
    }
}

Engine *engine_setup_open(TinyModel *model, const GenerationOptions *options) {
    Error error;
    Engine *engine;
    CHECK(engine_open(&engine, &model->resident, options, engine_setup_stops, &error), "%s", error.text);
    return engine;
}

Samples engine_setup_run_on(Engine *engine, const EngineRequest *requests, int64_t count, Arena *arena) {
    Error error;
    CHECK(engine_start(engine, requests, count, engine_setup_run, &error), "%s", error.text);
    while (engine_step(engine)) continue;
    EngineCounts counts = engine_counts(engine);
    CHECK(counts.finished == counts.samples && counts.free_pages == counts.pages,
          "%lld of %lld finished, %lld of %lld pages free", (long long)counts.finished, (long long)counts.samples,
          (long long)counts.free_pages, (long long)counts.pages);
    Samples samples;
    engine_collect(engine, &samples, arena);
    return samples;
}

Samples engine_setup_generate(TinyModel *model, const GenerationOptions *options, const EngineRequest *requests,
                              int64_t count, EngineCounts *counts, Arena *arena) {
    Engine *engine = engine_setup_open(model, options);
    Samples samples = engine_setup_run_on(engine, requests, count, arena);
    if (counts) *counts = engine_counts(engine);
    engine_close(engine);
    return samples;
}

Samples engine_setup_usual(TinyModel *model, const GenerationOptions *options, Arena *arena) {
    EngineRequest requests[PROMPTS];
    engine_setup_requests(requests, arena);
    return engine_setup_generate(model, options, requests, PROMPTS, NULL, arena);
}

void engine_setup_same_floats(const float *a, const float *b, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        CHECK(dtype_bits(a[i]) == dtype_bits(b[i]), "%lld: %a is not %a", (long long)i, (double)a[i], (double)b[i]);
}

#define SAME(column, count)                                                                                            \
    CHECK(!memcmp(a->column, b->column, (size_t)(count) * sizeof *a->column), "columns %s differ", #column)

void engine_setup_same(const Samples *a, const Samples *b) {
    CHECK(a->count == b->count, "%lld samples, not %lld", (long long)a->count, (long long)b->count);
    SAME(prompt, a->count);
    SAME(question, a->count);
    SAME(prompt_length, a->count);
    SAME(finish, a->count);
    SAME(stopped_by, a->count);
    SAME(offset, a->count + 1);
    SAME(ids, a->offset[a->count]);
    engine_setup_same_floats(a->generation_logprobs, b->generation_logprobs, a->offset[a->count]);
}
