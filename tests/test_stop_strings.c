// Stop strings: found in the decoded text wherever tokens begin and end, and the answer ends with the token that completes one.
#include "support/engine_setup.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// 131 tokens: all texts of one to four letters of "ab/", then a special token and single bytes.
enum { LETTERS = 120, SPECIAL = LETTERS, BYTE_C3, BYTE_A9, BYTE_82, BLANK, FILLERS };

static Tokenizer *open_tokenizer(void) {
    static char texts[TINY_VOCABULARY][8];
    static const char *tokens[TINY_VOCABULARY];
    int32_t types[TINY_VOCABULARY];
    int count = 0;
    for (int length = 1, number = 3; length <= 4; length++, number *= 3)
        for (int i = 0; i < number; i++, count++)
            for (int k = 0, rest = i; k < length; k++, rest /= 3) texts[count][k] = "ab/"[rest % 3];
    static const char *const others[] = {"<end>", "Ã", "©", "Ĥ",
                                         "Ġ"}; // bytes C3, A9, 82 and the blank as GPT-2 writes them
    for (int i = 0; i < 5; i++) memcpy(texts[SPECIAL + i], others[i], strlen(others[i]) + 1);
    for (int i = FILLERS; i < TINY_VOCABULARY; i++) memcpy(texts[i], (char[]){'x', (char)('a' + i - FILLERS), 0}, 3);
    for (int i = 0; i < TINY_VOCABULARY; i++) {
        tokens[i] = texts[i];
        types[i] = i == SPECIAL ? 3 : 1;
    }
    TokenizerTables tables = {.token_count = TINY_VOCABULARY,
                              .tokens = tokens,
                              .types = types,
                              .pre = "gpt-2",
                              .bos_id = -1,
                              .eos_id = -1,
                              .pad_id = -1};
    Error error;
    Tokenizer *tokenizer;
    if (!tokenizer_open_tables(&tokenizer, &tables, "letters", &error)) fail_msg("%s", error.text);
    return tokenizer;
}

static void open_stops(StopStrings *stops, const Tokenizer *tokenizer, int count, const char *const *texts,
                       Arena *arena) {
    Error error;
    GenerationOptions options = {.stop_string_count = count};
    for (int i = 0; i < count; i++) options.stop_strings[i] = texts[i];
    if (!stop_strings_open(stops, &options, tokenizer, arena, &error)) fail_msg("%s", error.text);
}

// ---- one answer

// What push has to return, from the whole text so far, special tokens included.
static int brute(const Tokenizer *tokenizer, int count, const char *const *texts, const int32_t *ids, int64_t before) {
    StrBuf old = {0}, all = {0};
    tokenizer_decode(tokenizer, &old, ids, (size_t)before, false);
    tokenizer_decode(tokenizer, &all, ids, (size_t)before + 1, false);
    int found = -1;
    size_t first_end = SIZE_MAX;
    for (int i = 0; i < count; i++) {
        const char *at = all.length ? strstr(all.text, texts[i]) : NULL;
        if (!at) continue;
        size_t end = (size_t)(at - all.text) + strlen(texts[i]);
        if (end < first_end || (end == first_end && strlen(texts[i]) > strlen(texts[found])))
            first_end = end, found = i;
    }
    strbuf_close(&old);
    strbuf_close(&all);
    return found;
}

static void test_every_token_against_the_whole_text(void **state) {
    (void)state;
    static const char *const texts[] = {"abab", "ab/", "/a/b/a", "aaaa", "é", "b<end>", "//", "baab/b", "a"};
    Tokenizer *tokenizer = open_tokenizer();
    for (uint32_t trial = 0; trial < 400; trial++) {
        Arena arena = {0};
        StopStrings stops;
        StopState at = {0};
        uint32_t words[4];
        rng_words(words, 1, RNG_TEST_WEIGHTS, (RngCounter){.step = trial});
        int first = (int)(words[0] % 8), count = 1 + (int)(words[1] % (uint32_t)(8 - first));
        open_stops(&stops, tokenizer, count, texts + first, &arena);
        int32_t ids[40];
        int found = -1;
        for (int64_t t = 0; t < 40 && found < 0; t++) {
            rng_words(words, 2, RNG_TEST_WEIGHTS, (RngCounter){.step = trial, .token = (uint32_t)t});
            // Short tokens, and the special and the byte tokens, more often than not.
            ids[t] = (int32_t)(words[0] % 4   ? words[1] % 12
                               : words[1] % 2 ? SPECIAL + words[2] % 4
                                              : words[2] % LETTERS);
            found = stop_strings_push(&stops, &at, ids[t]);
            assert_int_equal(found, brute(tokenizer, count, texts + first, ids, t));
            if (found < 0) continue;
            StrBuf cut = {0}, all = {0};
            stop_strings_text(&stops, &cut, ids, t + 1, found);
            tokenizer_decode(tokenizer, &all, ids, (size_t)t + 1, true);
            // The cut text is the beginning of the whole one and has no stop string in it.
            bool special = false; // between them two halves could meet
            for (int64_t k = 0; k <= t; k++) special = special || ids[k] == SPECIAL;
            for (int i = 0; i < count; i++)
                if (cut.length && !special) assert_null(strstr(cut.text, texts[first + i]));
            size_t same = 0;
            while (same < cut.length && cut.text[same] == all.text[same]) same++;
            assert_true(same == cut.length || (unsigned char)cut.text[same] == 0xef); // a character that was cut off
            strbuf_close(&cut);
            strbuf_close(&all);
        }
        arena_close(&arena);
    }
    tokenizer_close(tokenizer);
}

static void assert_cut(const Tokenizer *tokenizer, const char *stop, const int32_t *ids, int64_t count,
                       const char *text) {
    Arena arena = {0};
    StopStrings stops;
    StopState at = {0};
    StrBuf shown = {0};
    open_stops(&stops, tokenizer, 1, &stop, &arena);
    for (int64_t t = 0; t < count; t++)
        assert_int_equal(stop_strings_push(&stops, &at, ids[t]), t == count - 1 ? 0 : -1);
    stop_strings_text(&stops, &shown, ids, count, 0);
    strbuf_puts(&shown, "");
    assert_string_equal(shown.text, text);
    strbuf_close(&shown);
    arena_close(&arena);
}

// ids of the one-letter tokens: a 0, b 1, / 2; "ab" is 3 + 0 + 3·1.
static void test_cuts(void **state) {
    (void)state;
    Tokenizer *tokenizer = open_tokenizer();
    assert_cut(tokenizer, "b/", (int32_t[]){0, 1, 2}, 3, "a");
    assert_cut(tokenizer, "b", (int32_t[]){0, 2, 3 + 3}, 3, "a/a"); // in the middle of a token, whose rest is not shown
    assert_cut(tokenizer, "a", (int32_t[]){3 + 3}, 1, "");
    assert_cut(tokenizer, "é", (int32_t[]){0, BYTE_C3, BYTE_A9}, 3, "a");
    assert_cut(tokenizer, "a<end>", (int32_t[]){1, 0, SPECIAL}, 3, "b"); // special tokens count and are not shown
    assert_cut(tokenizer, "a", (int32_t[]){1, SPECIAL, 0}, 3, "b");
    tokenizer_close(tokenizer);
}

static void test_what_may_become_a_stop_string_is_held(void **state) {
    (void)state;
    static const char *const texts[] = {"abab/", "/b"};
    Tokenizer *tokenizer = open_tokenizer();
    Arena arena = {0};
    StopStrings stops;
    StopState at = {0};
    open_stops(&stops, tokenizer, 2, texts, &arena);
    static const int32_t ids[] = {2, 0, 1, 0, 1, 0, 1, 1, 2}, held[] = {1, 1, 2, 3, 4, 3, 4, 0, 1};
    for (int i = 0; i < 9; i++) {
        assert_int_equal(stop_strings_push(&stops, &at, ids[i]), -1);
        assert_int_equal(stop_strings_held(&stops, &at), held[i]);
    }
    arena_close(&arena);
    tokenizer_close(tokenizer);
}

static void test_refusals(void **state) {
    (void)state;
    Tokenizer *tokenizer = open_tokenizer();
    Arena arena = {0};
    Error error;
    StopStrings stops;
    char *longest = arena_alloc(&arena, GENERATION_LONGEST_STOP_STRING + 2);
    memset(longest, 'a', GENERATION_LONGEST_STOP_STRING + 1);
    const struct {
        const char *text, *part;
    } wrong[] = {{"", "an empty text would end every answer"},
                 {"a\xc3", "not UTF-8 at byte 1"},
                 {longest, "4097 bytes"}};
    for (int i = 0; i < 3; i++) {
        GenerationOptions options = {.stop_string_count = 2, .stop_strings = {"good", wrong[i].text}};
        assert_false(stop_strings_open(&stops, &options, tokenizer, &arena, &error));
        assert_non_null(strstr(error.text, "policy.generation.stop_strings"));
        assert_non_null(strstr(error.text, wrong[i].part));
    }
    GenerationOptions options = {.stop_string_count = 1, .stop_strings = {"good"}};
    assert_false(stop_strings_open(&stops, &options, NULL, &arena, &error));
    assert_non_null(strstr(error.text, "no tokenizer"));
    longest[GENERATION_LONGEST_STOP_STRING] = 0;
    options.stop_strings[0] = longest;
    assert_true(stop_strings_open(&stops, &options, tokenizer, &arena, &error));
    arena_close(&arena);
    tokenizer_close(tokenizer);
}

// ---- the engine

// Answers are those without stop strings, up to the token that completes the first; also when they are preempted in between.
static void test_answers_end_where_a_string_is_complete(void **state) {
    (void)state;
    static const char *const texts[] = {"bb/ab", "a/ab/", "/b<end>", "b<end>"};
    Tokenizer *tokenizer = open_tokenizer();
    TinyModel model;
    Arena arena = {0};
    Error error;
    tiny_model_open(&model, MODEL_LLAMA, bf16, one_thread, ROWS);
    GenerationOptions options = engine_setup_options();
    options.max_new_tokens = 80;
    options.max_length = 130;
    Samples endless = engine_setup_usual(&model, &options, &arena);
    EngineRequest requests[PROMPTS];
    engine_setup_requests(requests, &arena);
    options.stop_string_count = 4;
    for (int i = 0; i < 4; i++) options.stop_strings[i] = texts[i];
    EngineStops model_stops = engine_setup_stops;
    model_stops.tokenizer = tokenizer;
    for (int small = 0; small < 2; small++) {
        Engine *engine;
        options.kv_cache_tokens = small ? 16 * 9 : 0;
        assert_true(engine_open(&engine, &model.resident, &options, model_stops, &error));
        Samples samples = engine_setup_run_on(engine, requests, PROMPTS, &arena);
        assert_int_equal(engine_counts(engine).preemptions > 0, small);
        int64_t by_string = 0, by_id = 0;
        for (int64_t b = 0; b < samples.count; b++) {
            int64_t start = endless.offset[b] + endless.prompt_length[b], most = endless.offset[b + 1] - start,
                    length = 0;
            int found = -1;
            while (length < most && found < 0) found = brute(tokenizer, 4, texts, endless.ids + start, length++);
            bool stop_id = length == most && endless.finish[b] == FINISH_STOP; // goes before a string
            assert_int_equal(samples.offset[b + 1] - samples.offset[b], samples.prompt_length[b] + length);
            assert_memory_equal(samples.ids + samples.offset[b], endless.ids + endless.offset[b],
                                (size_t)(samples.prompt_length[b] + length) * sizeof *samples.ids);
            engine_setup_same_floats(samples.generation_logprobs + samples.offset[b],
                                     endless.generation_logprobs + endless.offset[b],
                                     samples.prompt_length[b] + length);
            FinishReason finish = stop_id ? FINISH_STOP : found >= 0 ? FINISH_STOP_STRING : FINISH_LENGTH;
            assert_int_equal(samples.finish[b], finish);
            assert_int_equal(samples.stopped_by[b], stop_id ? endless.stopped_by[b] : found);
            by_string += finish == FINISH_STOP_STRING, by_id += stop_id;
        }
        assert_true(by_string > 1);
        assert_true(by_id > 0);
        engine_close(engine);
    }
    tiny_model_close(&model);
    arena_close(&arena);
    tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_token_against_the_whole_text),     cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_what_may_become_a_stop_string_is_held),  cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_answers_end_where_a_string_is_complete),
    };
    return cmocka_run_group_tests_name("stop_strings", tests, NULL, NULL);
}
