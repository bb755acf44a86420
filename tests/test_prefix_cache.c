// Pages are found by what they hold, and sequences that share them get the bits that they get without.
#include "rollout/page_pool.h"
#include "rollout/prefix_cache.h"
#include "support/engine_setup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// ---- the table

static void page_of(int32_t ids[KV_PAGE_TOKENS], int32_t first) {
    for (int32_t i = 0; i < KV_PAGE_TOKENS; i++) ids[i] = first * 100 + i;
}

static void test_a_page_is_its_ids_and_all_before_it(void **state) {
    (void)state;
    Arena arena = {0};
    PrefixCache cache = prefix_cache_open(&arena, 8);
    int32_t a[KV_PAGE_TOKENS], b[KV_PAGE_TOKENS];
    page_of(a, 1);
    page_of(b, 2);
    assert_int_equal(prefix_cache_find(&cache, 0, a), NO_PAGE);
    uint64_t first = prefix_cache_add(&cache, 5, 0, a), second = prefix_cache_add(&cache, 6, first, b);
    assert_int_equal(prefix_cache_find(&cache, 0, a), 5);
    assert_int_equal(prefix_cache_find(&cache, first, b), 6);
    assert_int_equal(prefix_cache_find(&cache, 0, b), NO_PAGE); // the same ids, but behind others
    assert_int_equal(prefix_cache_find(&cache, second, b), NO_PAGE);
    b[KV_PAGE_TOKENS - 1]++;
    assert_int_equal(prefix_cache_find(&cache, first, b), NO_PAGE);
    // The same content once more: the page that is known stands for it.
    assert_int_equal(prefix_cache_add(&cache, 7, 0, a), first);
    assert_int_equal(cache.serials[7], 0);
    // What followed a forgotten page is not found behind a new one with the same ids.
    prefix_cache_forget(&cache, 5);
    prefix_cache_forget(&cache, 5);
    assert_int_equal(prefix_cache_find(&cache, 0, a), NO_PAGE);
    uint64_t again = prefix_cache_add(&cache, 7, 0, a);
    assert_true(again != first);
    b[KV_PAGE_TOKENS - 1]--;
    assert_int_equal(prefix_cache_find(&cache, again, b), NO_PAGE);
    assert_int_equal(prefix_cache_find(&cache, first, b), 6);
    prefix_cache_clear(&cache);
    assert_int_equal(prefix_cache_find(&cache, 0, a), NO_PAGE);
    assert_true(prefix_cache_add(&cache, 6, 0, b) > again); // numbers are not used twice
    arena_close(&arena);
}

// Entries come and go in some order; every one that is there is found, and no other.
static void test_many_entries(void **state) {
    (void)state;
    enum { PAGES = 37, ROUNDS = 3000 };
    Arena arena = {0};
    PrefixCache cache = prefix_cache_open(&arena, PAGES);
    int32_t content[PAGES]; // of each page; -1: none
    for (int i = 0; i < PAGES; i++) content[i] = -1;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t words[4];
        rng_words(words, 3, RNG_TEST_WEIGHTS, (RngCounter){.token = round});
        int32_t page = (int32_t)(words[0] % PAGES), wanted = (int32_t)(words[1] % 100), ids[KV_PAGE_TOKENS],
                holder = NO_PAGE;
        page_of(ids, wanted);
        for (int32_t i = 0; i < PAGES; i++)
            if (content[i] == wanted) holder = i;
        assert_int_equal(prefix_cache_find(&cache, 9, ids), holder);
        prefix_cache_forget(&cache, page);
        content[page] = -1;
        if (holder == page) holder = NO_PAGE;
        uint64_t serial = prefix_cache_add(&cache, page, 9, ids);
        if (holder == NO_PAGE) content[page] = wanted;
        assert_true(serial == cache.serials[holder == NO_PAGE ? page : holder]);
    }
    arena_close(&arena);
}

// ---- the engine

enum { REQUESTS = 6, HEADER = 53 }; // 3 full pages and a part

// Prompts that begin with the same tokens and go on differently, the last one shorter than the rest of it.
static void header_requests(EngineRequest requests[REQUESTS], Arena *arena) {
    for (int32_t i = 0; i < REQUESTS; i++) {
        int32_t count = i == REQUESTS - 1 ? 48 : HEADER + i * 5, *ids = arena_array(arena, int32_t, count);
        for (int32_t t = 0; t < count; t++) ids[t] = (t < HEADER ? t * 7 + 1 : t * 3 + i * 29) % TINY_VOCABULARY;
        requests[i] = (EngineRequest){.ids = ids, .count = count, .prompt = i, .samples = 1 + i % 3};
    }
}

static GenerationOptions header_options(bool caching) {
    GenerationOptions options = engine_setup_options();
    options.max_length = 110;
    options.enable_prefix_caching = caching;
    return options;
}

static void test_requests_share_their_beginning(void **state) {
    (void)state;
    for (int i = 0; i < 2 * PRECISIONS; i++) {
        TinyModel model;
        Arena arena = {0};
        tiny_model_open(&model, (ModelFamily)(i % FAMILY_COUNT), precisions[i / 2], one_thread, ROWS);
        EngineRequest requests[REQUESTS];
        EngineCounts counts;
        header_requests(requests, &arena);
        int64_t prompt_tokens = 0;
        for (int r = 0; r < REQUESTS; r++) prompt_tokens += requests[r].count;
        GenerationOptions options = header_options(false);
        Samples own = engine_setup_generate(&model, &options, requests, REQUESTS, &counts, &arena);
        assert_int_equal(counts.prompt_tokens, prompt_tokens);
        assert_int_equal(counts.cached_tokens, 0);
        static const int64_t chunks[] = {1, 16, 64, 1000};
        for (int c = 0; c < 4; c++) {
            options = header_options(true);
            options.prefill_chunk = chunks[c];
            Samples shared = engine_setup_generate(&model, &options, requests, REQUESTS, &counts, &arena);
            engine_setup_same(&own, &shared);
            // All but the first find three pages; the last one's third page is walked for the row to draw from.
            assert_int_equal(counts.cached_tokens, 16 * (3 * (REQUESTS - 1) - 1));
            assert_int_equal(counts.prompt_tokens, prompt_tokens - counts.cached_tokens);
        }
        tiny_model_close(&model);
        arena_close(&arena);
    }
}

// A second run walks of the same prompts what does not fill a page.
static void test_pages_stay_for_the_next_run(void **state) {
    (void)state;
    TinyModel model;
    Arena arena = {0};
    tiny_model_open(&model, MODEL_LLAMA, bf16, one_thread, ROWS);
    EngineRequest requests[REQUESTS];
    header_requests(requests, &arena);
    GenerationOptions options = header_options(true);
    Engine *engine = engine_setup_open(&model, &options);
    Samples first = engine_setup_run_on(engine, requests, REQUESTS, &arena);
    Samples second = engine_setup_run_on(engine, requests, REQUESTS, &arena);
    engine_setup_same(&first, &second);
    int64_t cached = 0;
    for (int i = 0; i < REQUESTS; i++) cached += (requests[i].count - 1) / KV_PAGE_TOKENS * KV_PAGE_TOKENS;
    assert_int_equal(engine_counts(engine).cached_tokens, cached);
    // A run that is broken off leaves what it has walked, and nothing half done.
    Error error;
    assert_true(engine_start(engine, requests, REQUESTS, engine_setup_run, &error));
    for (int i = 0; i < 3; i++) engine_step(engine);
    Samples third = engine_setup_run_on(engine, requests, REQUESTS, &arena);
    engine_setup_same(&first, &third);
    engine_close(engine);
    tiny_model_close(&model);
    arena_close(&arena);
}

// Each turn of a chat begins with all turns before it, answers included: their pages were written by decoding.
static void test_turns_of_a_chat(void **state) {
    (void)state;
    for (int precision = 0; precision < PRECISIONS; precision++) {
        TinyModel model;
        Arena arena = {0};
        tiny_model_open(&model, MODEL_QWEN2, precisions[precision], one_thread, ROWS);
        GenerationOptions options = header_options(true), without = header_options(false);
        options.ignore_eos = without.ignore_eos = true;
        options.max_length = without.max_length = TINY_POSITIONS;
        Engine *engine = engine_setup_open(&model, &options);
        int32_t chat[TINY_POSITIONS] = {1, 2, 3, 4, 5};
        int64_t count = 5;
        for (int turn = 0; turn < 5; turn++) {
            EngineRequest request = {.ids = chat, .count = count, .samples = 2};
            Samples samples = engine_setup_run_on(engine, &request, 1, &arena);
            Samples plain = engine_setup_generate(&model, &without, &request, 1, NULL, &arena);
            engine_setup_same(&samples, &plain);
            // All but the last token of the answer and what was added is known; whole pages of it are found.
            int64_t known = turn ? count - 4 : 0;
            assert_int_equal(engine_counts(engine).cached_tokens, known / KV_PAGE_TOKENS * KV_PAGE_TOKENS);
            memcpy(chat, samples.ids + samples.offset[1], (size_t)(count + 20) * sizeof *chat);
            count += 20;
            for (int i = 0; i < 3; i++) chat[count++] = 90 + turn * 3 + i;
        }
        engine_close(engine);
        tiny_model_close(&model);
        arena_close(&arena);
    }
}

// Weights that are loaded anew make all pages void, and only then.
static void test_new_weights_forget(void **state) {
    (void)state;
    TinyModel model;
    Arena arena = {0};
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    EngineRequest requests[REQUESTS];
    header_requests(requests, &arena);
    GenerationOptions options = header_options(true);
    Engine *engine = engine_setup_open(&model, &options);
    Samples before = engine_setup_run_on(engine, requests, REQUESTS, &arena);
    for (int unit = 0; unit < model.table.unit_count; unit++) {
        Tensor flat =
            DEVICE_TENSOR_RAW(&model.ops.device, MEMORY_WEIGHT_SHARD, DTYPE_F32, model.table.unit_sizes[unit]);
        float *weights = flat.data;
        tiny_model_weights(&model.table, unit, weights);
        for (int64_t i = 0; i < flat.size[0]; i += 3) weights[i] *= 1.5f;
        resident_load_unit(&model.resident, unit, &flat);
        device_release(&model.ops.device, &flat);
    }
    Samples after = engine_setup_run_on(engine, requests, REQUESTS, &arena);
    assert_int_equal(engine_counts(engine).cached_tokens, 16 * (3 * (REQUESTS - 1) - 1)); // of this run alone
    Samples fresh = engine_setup_generate(&model, &options, requests, REQUESTS, NULL, &arena);
    engine_setup_same(&after, &fresh);
    assert_memory_not_equal(after.generation_logprobs + HEADER, before.generation_logprobs + HEADER, 40);
    engine_close(engine);
    tiny_model_close(&model);
    arena_close(&arena);
}

// A cache that holds less than what is asked for in turn: the oldest pages go, and nobody is the wiser.
static void test_old_pages_make_room(void **state) {
    (void)state;
    TinyModel model;
    Arena arena = {0};
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    GenerationOptions options = header_options(true), without = header_options(false);
    options.kv_cache_tokens = 9 * KV_PAGE_TOKENS;
    Engine *engine = engine_setup_open(&model, &options);
    static const int32_t order[] = {0, 1, 0, 2, 1, 0, 3, 3, 2, 0, 1, 2, 3, 0};
    int64_t cached = 0;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        int32_t ids[70];
        for (int32_t t = 0; t < 70; t++)
            ids[t] = (t * 5 + order[i] * (t < 20 ? 0 : 11)) % TINY_VOCABULARY; // one page alike
        EngineRequest request = {.ids = ids, .count = 70, .prompt = order[i], .samples = 2};
        Samples samples = engine_setup_run_on(engine, &request, 1, &arena);
        cached += engine_counts(engine).cached_tokens;
        Samples plain = engine_setup_generate(&model, &without, &request, 1, NULL, &arena);
        engine_setup_same(&samples, &plain);
    }
    assert_true(cached > 13 * 16); // more than the page that all have in common
    engine_close(engine);
    tiny_model_close(&model);
    arena_close(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_page_is_its_ids_and_all_before_it),
        cmocka_unit_test(test_many_entries),
        cmocka_unit_test(test_requests_share_their_beginning),
        cmocka_unit_test(test_pages_stay_for_the_next_run),
        cmocka_unit_test(test_turns_of_a_chat),
        cmocka_unit_test(test_new_weights_forget),
        cmocka_unit_test(test_old_pages_make_room),
    };
    return cmocka_run_group_tests_name("prefix_cache", tests, NULL, NULL);
}
