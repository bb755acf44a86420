// Seats and pages: a sample that lost its seat and was walked again is the sample that it would have been.
#include "support/engine_setup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 24 };

// Many prompts of 3 to 40 tokens, one to three samples each, that may answer with up to 100 tokens.
static void many_requests(EngineRequest requests[MANY], Arena *arena) {
    for (int32_t i = 0; i < MANY; i++) {
        int32_t count = 3 + i * 29 % 38, *ids = arena_array(arena, int32_t, count);
        for (int32_t t = 0; t < count; t++) ids[t] = (t * t + i * 17 + 2) % TINY_VOCABULARY;
        requests[i] = (EngineRequest){.ids = ids, .count = count, .prompt = 3 * i, .samples = 1 + i % 3};
    }
}

static GenerationOptions many_options(int64_t pages) {
    GenerationOptions options = engine_setup_options();
    options.max_new_tokens = 100;
    options.max_length = 140;
    options.kv_cache_tokens = pages * KV_PAGE_TOKENS;
    return options;
}

static void test_preempted_and_resumed_is_undisturbed(void **state) {
    (void)state;
    static const int64_t pages[] = {9, 10, 17, 24, 40}, chunks[] = {64, 1, 16, 1000, 7};
    for (int precision = 0; precision < PRECISIONS; precision++) {
        TinyModel model;
        Arena arena = {0};
        EngineRequest requests[MANY];
        tiny_model_open(&model, (ModelFamily[]){MODEL_LLAMA, MODEL_MISTRAL, MODEL_QWEN3}[precision],
                        precisions[precision], one_thread, ROWS);
        many_requests(requests, &arena);
        GenerationOptions options = many_options(0);
        EngineCounts counts;
        Samples undisturbed = engine_setup_generate(&model, &options, requests, MANY, &counts, &arena);
        assert_int_equal(counts.preemptions, 0); // the default is room for all
        assert_int_equal(counts.recomputed_tokens, 0);
        for (int i = 0; i < 5; i++)
            for (int caching = 0; caching < 2; caching++) {
                options = many_options(pages[i]);
                options.enable_prefix_caching = caching;
                options.prefill_chunk = chunks[i];
                Samples samples = engine_setup_generate(&model, &options, requests, MANY, &counts, &arena);
                engine_setup_same(&undisturbed, &samples);
                assert_true(counts.preemptions > 0);
                assert_true(counts.recomputed_tokens > 0);
                // Walking again stays a part of the work, since a seat is given only with pages to grow into.
                assert_true(counts.recomputed_tokens < counts.answer_tokens + counts.prompt_tokens);
            }
        tiny_model_close(&model);
        arena_close(&arena);
    }
}

static void test_preemption_on_teams_and_instruction_sets(void **state) {
    (void)state;
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    Arena arena = {0};
    EngineRequest requests[MANY];
    many_requests(requests, &arena);
    Samples first = {0};
    for (int i = 0; i < 3; i++) {
        Error error;
        Ops probe;
        OpsOptions ops = {.threads = 1 + i, .isa = isas[i]};
        if (!ops_open(&probe, ops, &error)) continue; // this CPU lacks it
        ops_close(&probe);
        TinyModel model;
        tiny_model_open(&model, MODEL_LLAMA, bf16, ops, 24);
        GenerationOptions options = many_options(i == 2 ? 0 : 13 + i);
        options.max_sequences = 11 + i;
        Samples samples = engine_setup_generate(&model, &options, requests, 9, NULL, &arena);
        if (!first.count) first = samples;
        engine_setup_same(&first, &samples);
        tiny_model_close(&model);
    }
    arena_close(&arena);
}

// Requests that come while others are walked, as a rank takes them over: the same answers. A cache that preempts, and one that does not.
static void test_requests_that_come_later(void **state) {
    (void)state;
    static const int64_t pages[] = {0, 13};
    Error error;
    TinyModel model;
    Arena arena = {0};
    EngineRequest requests[MANY];
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    many_requests(requests, &arena);
    GenerationOptions options = many_options(0);
    Samples together = engine_setup_generate(&model, &options, requests, MANY, NULL, &arena);
    for (int i = 0; i < 2; i++) {
        options = many_options(pages[i]);
        options.max_sequences = 5;
        Engine *engine = engine_setup_open(&model, &options);
        assert_true(engine_start(engine, requests, i, engine_setup_run, &error));
        int next = i, idle = 0;
        for (bool more = true; more; more = engine_step(engine) || next < MANY)
            for (; next < MANY && engine_idles(engine); idle++)
                assert_true(engine_add(engine, &requests[next++], &error));
        assert_true(idle > 10);
        Samples samples;
        engine_collect(engine, &samples, &arena);
        engine_setup_same(&together, &samples);
        assert_false(engine_add(engine, &requests[3], &error));
        assert_non_null(strstr(error.text, "prompt 9 is asked for twice"));
        EngineRequest empty = {.prompt = 1000, .samples = 1};
        assert_false(engine_add(engine, &empty, &error));
        engine_close(engine);
    }
    tiny_model_close(&model);
    arena_close(&arena);
}

// The cache holds one and a half of the longest samples. The oldest unfinished sample draws a token in every round but those
// that walk whole chunks of prompts.
static void test_the_oldest_goes_on(void **state) {
    (void)state;
    Error error;
    TinyModel model;
    Arena arena = {0};
    EngineRequest requests[MANY];
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    many_requests(requests, &arena);
    for (int i = 0; i < MANY; i++) requests[i].samples = 1;
    GenerationOptions options = many_options(13);
    options.ignore_eos = true;
    Engine *engine = engine_setup_open(&model, &options);
    assert_true(engine_start(engine, requests, MANY, engine_setup_run, &error));
    int64_t oldest = 0, before = 0, rounds = 0, idle = 0;
    for (bool more = true; more; rounds++) {
        more = engine_step(engine);
        int64_t count = engine_answer(engine, oldest, 0).count;
        idle = count == before ? idle + 1 : 0;
        assert_true(idle < 3);
        before = count;
        if (count < 100) continue;
        if (++oldest == MANY) break;
        before = engine_answer(engine, oldest, 0).count;
        idle = -1;
    }
    assert_true(rounds < 100 * MANY);
    assert_true(engine_counts(engine).preemptions > 0);
    engine_close(engine);
    tiny_model_close(&model);
    arena_close(&arena);
}

// More samples are under way than could be if each held pages for all that it may come to.
static void test_pages_are_taken_as_they_are_needed(void **state) {
    (void)state;
    Error error;
    TinyModel model;
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    GenerationOptions options = many_options(18); // two samples of 140 tokens
    Engine *engine = engine_setup_open(&model, &options);
    int32_t ids[9][10] = {{0}};
    EngineRequest requests[9];
    for (int32_t i = 0; i < 9; i++) {
        ids[i][0] = i;
        requests[i] = (EngineRequest){.ids = ids[i], .count = 10, .prompt = i, .samples = 1};
    }
    assert_true(engine_start(engine, requests, 9, engine_setup_run, &error));
    while (engine_counts(engine).prompt_tokens < 90) assert_true(engine_step(engine));
    EngineCounts counts = engine_counts(engine);
    assert_int_equal(counts.answer_tokens, 6 + 9); // six prompts end in the first chunk; then all are under way
    assert_int_equal(counts.pages - counts.free_pages, 9);
    engine_close(engine);
    tiny_model_close(&model);
}

static void test_what_cannot_fit_alone_is_refused(void **state) {
    (void)state;
    Error error;
    TinyModel model;
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    int32_t ids[TINY_POSITIONS] = {0};
    for (int64_t pages = 1; pages <= 9; pages++) {
        GenerationOptions options = many_options(pages);
        Engine *engine = engine_setup_open(&model, &options);
        int64_t longest = engine_longest_prompt(engine);
        EngineRequest request = {.ids = ids, .count = longest, .prompt = 31, .samples = 3};
        if (longest) {
            assert_true(engine_start(engine, &request, 1, engine_setup_run, &error));
            while (engine_step(engine)) continue;
        }
        request.count++;
        assert_false(engine_start(engine, &request, 1, engine_setup_run, &error));
        assert_non_null(strstr(error.text, "prompt 31"));
        assert_non_null(strstr(error.text, longest == 139 ? "max_model_len 140" : "whet.kv_cache_tokens gives"));
        // 100 new tokens, of which the last is not stored; at most 140 in all.
        assert_int_equal(longest, pages == 9 ? 139 : pages * KV_PAGE_TOKENS > 100 ? pages * KV_PAGE_TOKENS - 99 : 0);
        engine_close(engine);
    }
    tiny_model_close(&model);
}

// Schedules do not depend on the device: on plan the same samples lose their seats, and the same memory is taken.
static void test_plan_has_the_same_schedule(void **state) {
    (void)state;
    TinyModel models[2];
    EngineCounts counts[2];
    Arena arena = {0};
    EngineRequest requests[MANY];
    many_requests(requests, &arena);
    GenerationOptions options = many_options(31);
    options.ignore_eos = true;
    for (int i = 0; i < 2; i++) {
        tiny_model_open(&models[i], MODEL_LLAMA, bf16,
                        (OpsOptions){.threads = 1, .device = i ? DEVICE_PLAN : DEVICE_CPU}, ROWS);
        models[i].ops.device.ledger.record = true;
        engine_setup_generate(&models[i], &options, requests, MANY, &counts[i], &arena);
    }
    assert_memory_equal(&counts[0], &counts[1], sizeof counts[0]);
    assert_true(counts[0].preemptions > 0);
    const Ledger *real = &models[0].ops.device.ledger, *planned = &models[1].ops.device.ledger;
    assert_int_equal(real->event_count, planned->event_count);
    for (size_t i = 0; i < real->event_count; i++) {
        assert_int_equal(real->events[i].tag, planned->events[i].tag);
        assert_int_equal(real->events[i].bytes, planned->events[i].bytes);
    }
    for (int i = 0; i < 2; i++) tiny_model_close(&models[i]);
    arena_close(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_preempted_and_resumed_is_undisturbed),
        cmocka_unit_test(test_preemption_on_teams_and_instruction_sets),
        cmocka_unit_test(test_requests_that_come_later),
        cmocka_unit_test(test_the_oldest_goes_on),
        cmocka_unit_test(test_pages_are_taken_as_they_are_needed),
        cmocka_unit_test(test_what_cannot_fit_alone_is_refused),
        cmocka_unit_test(test_plan_has_the_same_schedule),
    };
    return cmocka_run_group_tests_name("scheduler", tests, NULL, NULL);
}
