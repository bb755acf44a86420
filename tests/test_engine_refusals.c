// What the engine refuses, and that the message says why.
#include "rollout/engine.h"
#include "support/tiny_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const PrecisionPolicy fp32 = {DTYPE_F32, DTYPE_F32};
static const OpsOptions one_thread = {.threads = 1};
static const EngineRun run = {.seed = 1, .purpose = RNG_SAMPLE_TOKEN};
enum { ROWS = 64 };

static GenerationOptions usual(void) {
    return (GenerationOptions){.max_new_tokens = 20,
                               .temperature = 1,
                               .top_p = 1,
                               .max_length = 60,
                               .max_sequences = 64,
                               .prefill_chunk = 64};
}

static void assert_refused(TinyModel *model, GenerationOptions options, const char *part) {
    Error error = {{0}};
    Engine *engine = (Engine *)model;
    assert_false(engine_open(&engine, &model->resident, &options, (EngineStops){0}, &error));
    assert_null(engine);
    if (!strstr(error.text, part)) fail_msg("\"%s\" lacks \"%s\"", error.text, part);
}

static void test_options_are_refused(void **state) {
    (void)state;
    TinyModel model;
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    static const struct {
        size_t place;
        int64_t value;
        const char *part;
    } integers[] = {{offsetof(GenerationOptions, max_new_tokens), 0, "max_new_tokens: 0"},
                    {offsetof(GenerationOptions, max_new_tokens), INT64_MAX, "max_new_tokens"},
                    {offsetof(GenerationOptions, max_length), 1, "max_model_len: 1"},
                    {offsetof(GenerationOptions, max_length), TINY_POSITIONS + 1, "192 positions"},
                    {offsetof(GenerationOptions, top_k), -1, "top_k: -1"},
                    {offsetof(GenerationOptions, max_sequences), 0, "max_sequences"},
                    {offsetof(GenerationOptions, max_sequences), INT32_MAX, "max_sequences"},
                    {offsetof(GenerationOptions, prefill_chunk), -5, "prefill_chunk: -5"},
                    {offsetof(GenerationOptions, kv_cache_tokens), -1, "kv_cache_tokens: -1"},
                    {offsetof(GenerationOptions, kv_cache_tokens), 15, "kv_cache_tokens: 15"},
                    {offsetof(GenerationOptions, kv_cache_tokens), INT64_MAX, "kv_cache_tokens"}};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        GenerationOptions options = usual();
        memcpy((char *)&options + integers[i].place, &integers[i].value, sizeof integers[i].value);
        assert_refused(&model, options, integers[i].part);
    }
    static const double temperatures[] = {-1, 1e-5, 1e30, NAN, INFINITY}, top_ps[] = {0, -0.1, 1.1, NAN, 1e-300};
    static const double min_ps[] = {-0.1, 1.1, NAN, 1e-300, INFINITY};
    for (int i = 0; i < 5; i++) {
        GenerationOptions options = usual();
        options.temperature = temperatures[i];
        assert_refused(&model, options, "policy.generation.temperature");
        options = usual();
        options.top_p = top_ps[i];
        assert_refused(&model, options, "policy.generation.top_p");
        options = usual();
        options.min_p = min_ps[i];
        assert_refused(&model, options, "whet.min_p");
    }
    GenerationOptions options = usual();
    options.stop_count = GENERATION_MAX_STOP_IDS + 1;
    assert_refused(&model, options, "stop_token_ids");
    options.stop_count = 2;
    options.stop_ids[1] = TINY_VOCABULARY;
    assert_refused(&model, options, "stop_token_ids: 131 is not in the model's vocabulary of 131");
    tiny_model_close(&model);
}

static void test_requests_are_refused(void **state) {
    (void)state;
    Error error;
    Engine *engine;
    TinyModel model;
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    GenerationOptions options = usual();
    assert_true(engine_open(&engine, &model.resident, &options, (EngineStops){0}, &error));
    int32_t ids[60] = {1, 2, 3}, beyond[] = {1, TINY_VOCABULARY}, below[] = {-1};
    const EngineRequest good = {.ids = ids, .count = 3, .prompt = 8, .samples = 1};
    const struct {
        EngineRequest request;
        const char *part;
    } wrong[] = {{{.ids = ids, .count = 0, .prompt = 17, .samples = 1}, "prompt 17 is empty"},
                 {{.ids = ids, .count = 60, .prompt = 17, .samples = 1}, "prompt 17 has 60 tokens"},
                 {{.ids = beyond, .count = 2, .prompt = 17, .samples = 1}, "token 1 has the id 131"},
                 {{.ids = below, .count = 1, .prompt = 17, .samples = 1}, "token 0 has the id -1"},
                 {{.ids = ids, .count = 3, .prompt = 17, .samples = 0}, "prompt 17: 0 samples"},
                 {{.ids = ids, .count = 3, .prompt = 8, .samples = 1}, "prompt 8 is asked for twice"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        EngineRequest requests[] = {good, wrong[i].request};
        assert_false(engine_start(engine, requests, 2, run, &error));
        if (!strstr(error.text, wrong[i].part)) fail_msg("\"%s\" lacks \"%s\"", error.text, wrong[i].part);
        assert_false(engine_step(engine)); // nothing was begun
    }
    assert_true(engine_start(engine, &good, 1, run, &error));
    while (engine_step(engine)) {
    }
    engine_close(engine);
    engine_close(NULL);
    tiny_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_are_refused),
        cmocka_unit_test(test_requests_are_refused),
    };
    return cmocka_run_group_tests_name("engine_refusals", tests, NULL, NULL);
}
