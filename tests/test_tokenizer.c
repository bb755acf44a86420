// Tokenizers: merging, added tokens, decoding whole and in a stream, and the files they come from.
#include "base/strbuf.h"
#include "text/detokenize.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// ---- a small vocabulary: the 256 bytes, then what each test adds

typedef struct Small {
    Arena arena;
    const char *tokens[300];
    int32_t types[300];
    const char *merges[32];
    TokenizerTables tables;
} Small;

static int32_t small_add(Small *small, const char *text, int32_t type) {
    int32_t id = small->tables.token_count++;
    small->tokens[id] = arena_string(&small->arena, text);
    small->types[id] = type;
    return id;
}

// missing: a byte that gets no token, or -1.
static void small_open(Small *small, const char *pre, int missing) {
    *small = (Small){.tables = {.pre = pre, .bos_id = -1, .eos_id = -1, .pad_id = -1, .unknown_id = -1}};
    small->tables.add_bos = small->tables.add_eos = 0;
    small->tables.tokens = small->tokens;
    small->tables.types = small->types;
    small->tables.merges = small->merges;
    for (int byte = 0; byte < 256; byte++) {
        char text[5] = {0};
        vocabulary_put_byte(text, (uint8_t)byte);
        small_add(small, byte == missing ? "missing" : text, 1);
    }
}

// "a b": the merge, and the token it makes.
static int32_t small_merge(Small *small, const char *line) {
    small->merges[small->tables.merge_count++] = arena_string(&small->arena, line);
    char *together = arena_string(&small->arena, line), *blank = strchr(together, ' ');
    memmove(blank, blank + 1, strlen(blank));
    return small_add(small, together, 1);
}

static Tokenizer *small_build(Small *small) {
    Tokenizer *tokenizer = NULL;
    Error error = {{0}};
    if (!tokenizer_open_tables(&tokenizer, &small->tables, "small.gguf", &error)) fail_msg("%s", error.text);
    arena_close(&small->arena); // everything was copied
    return tokenizer;
}

static void assert_refused(Small *small, const char *expected) {
    Tokenizer *tokenizer = NULL;
    Error error = {{0}};
    assert_false(tokenizer_open_tables(&tokenizer, &small->tables, "small.gguf", &error));
    assert_null(tokenizer);
    assert_string_equal(error.text, expected);
    arena_close(&small->arena);
}

// The ids as "1 2 3".
static const char *encoded_size(const Tokenizer *tokenizer, const char *text, size_t size, bool add_special) {
    static char out[1024];
    TokenList ids = {0};
    Error error;
    assert_true(tokenizer_encode(tokenizer, &ids, text, size, add_special, &error));
    out[0] = 0;
    for (size_t i = 0; i < ids.count; i++) {
        size_t used = strlen(out);
        snprintf(out + used, sizeof out - used, "%s%d", i ? " " : "", ids.ids[i]);
    }
    bpe_list_close(&ids);
    return out;
}

static const char *encoded(const Tokenizer *tokenizer, const char *text) {
    return encoded_size(tokenizer, text, strlen(text), false);
}

static void test_lowest_rank_merges_first_and_leftmost(void **state) {
    (void)state;
    Small small;
    small_open(&small, "gpt-2", -1);
    int32_t aa = small_merge(&small, "a a"), ab = small_merge(&small, "a b"), aab = small_merge(&small, "aa b");
    assert_true(aa == 256 && ab == 257 && aab == 258);
    Tokenizer *tokenizer = small_build(&small);
    assert_string_equal(encoded(tokenizer, ""), "");
    assert_string_equal(encoded(tokenizer, "b"), "98");
    assert_string_equal(encoded(tokenizer, "aaa"), "256 97");
    assert_string_equal(encoded(tokenizer, "aab"), "258");
    assert_string_equal(encoded(tokenizer, "aaab"), "256 257"); // not a, aab: aa is merged first, then a b
    assert_string_equal(encoded(tokenizer, "aaaab"), "256 258");
    assert_string_equal(encoded(tokenizer, "ab ab"), "257 32 257"); // pieces do not merge with each other
    assert_string_equal(encoded_size(tokenizer, "a\0a", 3, false), "97 0 97");
    assert_string_equal(encoded(tokenizer, "\xFF\xE4"), "255 228"); // not UTF-8: bytes as they are
    tokenizer_close(tokenizer);
}

static void test_a_byte_without_a_token_is_dropped(void **state) {
    (void)state;
    Small small;
    small_open(&small, "gpt-2", 4);
    small_merge(&small, "! !");
    Tokenizer *tokenizer = small_build(&small);
    assert_string_equal(encoded(tokenizer, "!\x04!"), "256");
    assert_string_equal(encoded(tokenizer, "\x04"), "");
    assert_string_equal(encoded(tokenizer, "\x04!"), "33");
    tokenizer_close(tokenizer);
}

static void test_added_tokens_are_cut_out_first(void **state) {
    (void)state;
    Small small;
    small_open(&small, "qwen2", -1);
    int32_t end = small_add(&small, "<|end|>", 3), longer = small_add(&small, "<|end|>>", 4);
    int32_t think = small_add(&small, "<think>", 4);
    small_add(&small, "[PAD]", 5);
    small.tables.eos_id = end;
    small_merge(&small, "< |");
    Tokenizer *tokenizer = small_build(&small);
    assert_true(end == 256 && longer == 257 && think == 258);
    assert_string_equal(encoded(tokenizer, "a<|end|>b"), "97 256 98");
    assert_string_equal(encoded(tokenizer, "<|end|>><|end|>"), "257 256");
    assert_string_equal(encoded(tokenizer, "<|<|end|>"), "260 256");
    assert_string_equal(encoded(tokenizer, "<|end|"), "260 101 110 100 124");
    assert_string_equal(encoded(tokenizer, "<think>"), "258");
    assert_string_equal(encoded(tokenizer, "[PAD]"), "91 80 65 68 93"); // unused: no token at all
    // NFC does not reach across an added token: e, token, acute.
    assert_string_equal(encoded(tokenizer, "e<|end|>\u0301"), "101 256 204 129");
    assert_string_equal(encoded(tokenizer, "e\u0301"), "195 169");
    StrBuf text = {0};
    const int32_t ids[] = {97, 256, 258, 98, 259, 5000, -7};
    tokenizer_decode(tokenizer, &text, ids, 7, false);
    assert_string_equal(text.text, "a<|end|><think>b");
    strbuf_clear(&text);
    tokenizer_decode(tokenizer, &text, ids, 7, true);
    assert_string_equal(text.text, "a<think>b");
    strbuf_close(&text);
    assert_int_equal(tokenizer_eos(tokenizer), 256);
    assert_int_equal(tokenizer_bos(tokenizer), -1);
    assert_int_equal(tokenizer_id(tokenizer, "<think>"), 258);
    assert_int_equal(tokenizer_id(tokenizer, "nowhere"), -1);
    assert_string_equal(tokenizer_token_text(tokenizer, 32), "\u0120");
    assert_null(tokenizer_token_text(tokenizer, 259));
    assert_null(tokenizer_token_text(tokenizer, -1));
    assert_int_equal(tokenizer_size(tokenizer), 261);
    tokenizer_close(tokenizer);
}

static void test_bos_is_added_once(void **state) {
    (void)state;
    Small small;
    small_open(&small, "smollm", -1);
    small.tables.bos_id = small_add(&small, "<s>", 3);
    small.tables.add_bos = true;
    Tokenizer *tokenizer = small_build(&small);
    assert_string_equal(encoded_size(tokenizer, "a", 1, true), "256 97");
    assert_string_equal(encoded_size(tokenizer, "a", 1, false), "97");
    assert_string_equal(encoded_size(tokenizer, "<s>a", 4, true), "256 97");
    assert_string_equal(encoded_size(tokenizer, "<s><s>a", 7, true), "256 256 97");
    assert_string_equal(encoded_size(tokenizer, "", 0, true), "256");
    TokenList ids = {0};
    Error error;
    bpe_list_append(&ids, 256); // what stands before in the list is another text
    assert_true(tokenizer_encode(tokenizer, &ids, "a", 1, true, &error));
    assert_int_equal(ids.count, 3);
    bpe_list_close(&ids);
    tokenizer_close(tokenizer);
}

static void test_known_ways_to_split_in_gguf(void **state) {
    (void)state;
    static const struct {
        const char *pre, *expected;
    } cases[] = {
        // 256 "11": digits kept together; 257 "!\n": Qwen and Llama keep them together; 258 "abc": no merge makes it.
        {"smollm", "49 49 97 98 99 33 10"}, {"qwen2", "49 49 97 98 99 257"}, {"gpt-2", "256 97 98 99 33 10"},
        {"default", "256 97 98 99 33 10"},  {"llama-bpe", "256 258 257"},    {"llama3", "256 258 257"},
        {"smaug-bpe", "256 97 98 99 257"},  {"tekken", "49 49 258 257"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Small small;
        small_open(&small, cases[i].pre, -1);
        small_merge(&small, "1 1");
        small_merge(&small, "! \u010A");
        small_add(&small, "abc", 1);
        Tokenizer *tokenizer = small_build(&small);
        assert_string_equal(encoded(tokenizer, "11abc!\n"), cases[i].expected);
        tokenizer_close(tokenizer);
    }
}

// ---- SentencePiece: a small vocabulary with scores

typedef struct Piece {
    const char *text;
    float score;
    int32_t type;
} Piece;

static Tokenizer *pieces_build(const Piece *pieces, int32_t count, bool prefix) {
    const char *tokens[64];
    float scores[64];
    int32_t types[64];
    for (int32_t i = 0; i < count; i++)
        tokens[i] = pieces[i].text, scores[i] = pieces[i].score, types[i] = pieces[i].type;
    TokenizerTables tables = {.sentencepiece = true,
                              .token_count = count,
                              .tokens = tokens,
                              .scores = scores,
                              .types = types,
                              .bos_id = 1,
                              .eos_id = 2,
                              .pad_id = -1,
                              .unknown_id = 0,
                              .add_bos = -1,
                              .add_eos = -1,
                              .add_space_prefix = prefix};
    Tokenizer *tokenizer = NULL;
    Error error = {{0}};
    if (!tokenizer_open_tables(&tokenizer, &tables, "small.gguf", &error)) fail_msg("%s", error.text);
    return tokenizer;
}

static const char *decoded(const Tokenizer *tokenizer, const int32_t *ids, size_t count, bool skip) {
    static char out[256];
    StrBuf text = {0}, joined = {0};
    DetokenizeState state = {.tokenizer = tokenizer, .skip_special = skip};
    strbuf_clear(&text), strbuf_clear(&joined);
    tokenizer_decode(tokenizer, &text, ids, count, skip);
    for (size_t i = 0; i < count; i++) detokenize_push(&state, &joined, ids[i]);
    detokenize_flush(&state, &joined);
    assert_string_equal(text.text, joined.text);
    assert_in_range(text.length, 0, sizeof out - 1);
    memcpy(out, text.text, text.length + 1);
    detokenize_close(&state), strbuf_close(&text), strbuf_close(&joined);
    return out;
}

static void test_sentencepiece_makes_the_best_scored_token_first(void **state) {
    (void)state;
    enum { NORMAL = 1, UNKNOWN, CONTROL, USER, UNUSED, BYTE };
    static const Piece pieces[] = {
        {"<unk>", 0, UNKNOWN}, {"<s>", 0, CONTROL},     {"</s>", 0, CONTROL},
        {"<0xC3>", 0, BYTE},   {"<0xA9>", 0, BYTE},     {"\u2581", -9, NORMAL},
        {"a", -9, NORMAL},     {"b", -9, NORMAL},       {"c", -9, NORMAL},
        {"ab", -2, NORMAL},    {"bc", -1, NORMAL},      {"abc", -5, NORMAL},
        {"aa", -3, NORMAL},    {"\u2581a", -4, NORMAL}, {"\u2581\u2581", -4, NORMAL},
        {"[x]", 0, USER},      {"x\u00E9", -1, NORMAL},
    };
    Tokenizer *tokenizer = pieces_build(pieces, sizeof pieces / sizeof *pieces, true);
    assert_string_equal(encoded(tokenizer, "cabc"), "5 8 11"); // bc (-1) before ab (-2), then a + bc
    assert_string_equal(encoded(tokenizer, "abc"), "13 10");   // bc, then the blank and a (-4) before a and bc (-5)
    assert_string_equal(encoded(tokenizer, "aaa"), "5 12 6");  // of equal ones the leftmost
    assert_string_equal(encoded(tokenizer, "a ab"), "13 5 9");
    assert_string_equal(encoded(tokenizer, "  a"), "14 13");
    assert_string_equal(encoded(tokenizer, "\u00E9"), "5 3 4"); // bytes
    assert_string_equal(encoded(tokenizer, "x\u00E9"), "5 16"); // made of characters that are no tokens themselves
    assert_string_equal(encoded(tokenizer, "x"), "5 0");        // no byte token either
    assert_string_equal(encoded(tokenizer, "a[x]b<s>c"), "13 15 5 7 1 5 8");
    assert_string_equal(encoded(tokenizer, "<0xC3>"), "5 0 0 0 0 0 0"); // the token's text is no token of the text
    assert_string_equal(encoded_size(tokenizer, "a", 1, true), "1 13");
    assert_string_equal(encoded_size(tokenizer, "<s>a", 4, true), "1 13");
    assert_string_equal(encoded_size(tokenizer, "", 0, true), "1");
    assert_string_equal(decoded(tokenizer, (const int32_t[]){1, 13, 14, 11}, 4, false), "<s> a  abc");
    assert_string_equal(decoded(tokenizer, (const int32_t[]){1, 13, 14, 11, 2}, 5, true), "a  abc");
    assert_string_equal(decoded(tokenizer, (const int32_t[]){13, 3, 4, 5, 3, 6}, 6, false), "a\u00E9 \uFFFDa");
    assert_string_equal(decoded(tokenizer, (const int32_t[]){3, 4, 3}, 3, false), "\uFFFD\uFFFD\uFFFD");
    tokenizer_close(tokenizer);
    tokenizer = pieces_build(pieces, sizeof pieces / sizeof *pieces, false);
    assert_string_equal(encoded(tokenizer, "abc a"), "11 13");
    assert_string_equal(decoded(tokenizer, (const int32_t[]){13, 14, 11}, 3, false), " a  abc");
    tokenizer_close(tokenizer);
}

static void test_bad_tables_are_refused(void **state) {
    (void)state;
    Small small;
#define KNOWN_PRES                                                                                                     \
    "expected one of: smollm, qwen2, deepseek-r1-qwen, gpt-2, default, llama-bpe, llama3, llama-v3, smaug-bpe, tekken"
    small_open(&small, "qwen35", -1);
    assert_refused(&small, "small.gguf: tokenizer.ggml.pre is \"qwen35\", " KNOWN_PRES);
    small_open(&small, NULL, -1);
    assert_refused(&small, "small.gguf: tokenizer.ggml.pre is missing, " KNOWN_PRES);
    small_open(&small, "gpt-2", -1);
    small_add(&small, "a", 1);
    assert_refused(&small, "small.gguf: token \"a\" has the ids 97 and 256");
    small_open(&small, "gpt-2", -1);
    small_add(&small, "", 1);
    assert_refused(&small, "small.gguf: token 256 is empty");
    small_open(&small, "gpt-2", -1);
    small.merges[small.tables.merge_count++] = "a b";
    assert_refused(&small, "small.gguf: merge 0: the token \"ab\" is not in the vocabulary");
    small_open(&small, "gpt-2", -1);
    small.merges[small.tables.merge_count++] = "a bc";
    assert_refused(&small, "small.gguf: merge 0: the token \"bc\" is not in the vocabulary");
    small_open(&small, "gpt-2", -1);
    small.merges[small.tables.merge_count++] = "ab";
    assert_refused(&small, "small.gguf: merge 0: expected two tokens with one blank between, found \"ab\"");
    small_open(&small, "gpt-2", -1);
    small.tables.eos_id = 256;
    assert_refused(&small, "small.gguf: the EOS id is 256, but no token has this id (there are 256 ids)");
    small_open(&small, "gpt-2", -1);
    small.tables.add_bos = true;
    assert_refused(&small, "small.gguf: a BOS token is to be added, but none is named");
    small_open(&small, "gpt-2", -1);
    small.tables.token_count = 0;
    assert_refused(&small, "small.gguf: 0 tokens, expected 1 to 4194304");
    small_open(&small, "gpt-2", -1);
    small.tables.merge_count = -5;
    assert_refused(&small, "small.gguf: -5 merges, expected 0 to 4194304");
}

// Whatever the bytes, the tokens' bytes joined are the text (where NFC is a step: the normalized text).
static void test_any_bytes_come_back(void **state) {
    (void)state;
    static const char *const pres[] = {"smollm", "qwen2", "gpt-2", "llama3"};
    uint32_t chance = 7;
    for (size_t p = 0; p < sizeof pres / sizeof *pres; p++) {
        Small small;
        small_open(&small, pres[p], -1);
        small_add(&small, "<s>", 3);
        small_merge(&small, "a a");
        small_merge(&small, "\u00CC \u0123"); // the bytes of U+0301
        Tokenizer *tokenizer = small_build(&small);
        for (int round = 0; round < 2000; round++) {
            static const char *const parts[] = {"a",  "e\xCC\x81", "\xCC\x81", "<s>",  "<s",     "1",      " ",
                                                "\n", "\xE4",      "\xBD",     "\xFF", "\u4F60", "\u0661", "'s"};
            StrBuf text = {0}, expected = {0}, found = {0};
            for (int i = 0; i < 12; i++) {
                chance = chance * 1664525 + 1013904223;
                strbuf_puts(&text, parts[(chance >> 16) % (sizeof parts / sizeof *parts)]);
            }
            TokenList ids = {0};
            Error error;
            assert_true(tokenizer_encode(tokenizer, &ids, text.text, text.length, true, &error));
            for (size_t i = 0; i < ids.count; i++) {
                size_t size;
                const char *bytes = tokenizer_token_bytes(tokenizer, ids.ids[i], &size);
                strbuf_append(&found, bytes, size);
            }
            if (strcmp(pres[p], "qwen2"))
                strbuf_append(&expected, text.text, text.length);
            else
                unicode_normalize(&expected, text.text, text.length, UNICODE_NFC);
            assert_string_equal(found.text, expected.text);
            strbuf_close(&text), strbuf_close(&expected), strbuf_close(&found), bpe_list_close(&ids);
        }
        tokenizer_close(tokenizer);
    }
}

// One piece of a million letters: quadratic merging would take minutes.
static void test_a_long_piece_is_quick(void **state) {
    (void)state;
    enum { LETTERS = 1 << 20 };
    Small small;
    small_open(&small, "gpt-2", -1);
    small_merge(&small, "a a");
    small_merge(&small, "aa aa");
    small_merge(&small, "aaaa aaaa");
    Tokenizer *tokenizer = small_build(&small);
    StrBuf text = {0}, back = {0};
    for (int i = 0; i < LETTERS + 1; i++) strbuf_putc(&text, 'a');
    TokenList ids = {0};
    Error error;
    assert_true(tokenizer_encode(tokenizer, &ids, text.text, text.length, false, &error));
    assert_int_equal(ids.count, LETTERS / 8 + 1);
    tokenizer_decode(tokenizer, &back, ids.ids, ids.count, false);
    assert_string_equal(back.text, text.text);
    strbuf_close(&text), strbuf_close(&back), bpe_list_close(&ids);
    tokenizer_close(tokenizer);
}

// ---- streaming

static void test_streamed_pieces_join_to_the_decoded_text(void **state) {
    (void)state;
    Small small;
    small_open(&small, "gpt-2", -1);
    int32_t special = small_add(&small, "<s>", 3);
    Tokenizer *tokenizer = small_build(&small);
    uint32_t chance = 1;
    for (int round = 0; round < 3000; round++) {
        static const uint8_t bytes[] = {'a', 0x80, 0xA0, 0xBF, 0x90, 0xC3, 0xE0, 0xE4, 0xED, 0xF0, 0xF4, 0xFF};
        DetokenizeState stream = {.tokenizer = tokenizer, .skip_special = round % 2};
        int32_t ids[12];
        StrBuf joined = {0}, whole = {0};
        for (int i = 0; i < 12; i++) {
            chance = chance * 1664525 + 1013904223;
            uint32_t pick = (chance >> 16) % 14;
            ids[i] = pick < 12 ? bytes[pick] : pick == 12 ? special : 9999;
            size_t before = joined.length;
            detokenize_push(&stream, &joined, ids[i]);
            for (size_t at = before; at < joined.length;) {
                Utf8Step step = utf8_step(joined.text + at, joined.length - at);
                assert_int_equal(step.kind, UTF8_GOOD);
                at += step.size;
            }
        }
        detokenize_flush(&stream, &joined);
        assert_int_equal(stream.held, 0);
        detokenize_close(&stream);
        tokenizer_decode(tokenizer, &whole, ids, 12, round % 2);
        assert_string_equal(joined.text, whole.text);
        strbuf_close(&joined), strbuf_close(&whole);
    }
    tokenizer_close(tokenizer);
}

static void test_a_character_is_shown_when_its_last_byte_comes(void **state) {
    (void)state;
    Small small;
    small_open(&small, "gpt-2", -1);
    int32_t special = small_add(&small, "<s>", 3);
    Tokenizer *tokenizer = small_build(&small);
    DetokenizeState stream = {.tokenizer = tokenizer, .skip_special = true};
    StrBuf text = {0};
    strbuf_clear(&text);
    detokenize_push(&stream, &text, 0xE4);
    detokenize_push(&stream, &text, special); // skipped, so the character goes on behind it
    detokenize_push(&stream, &text, 0xBD);
    assert_string_equal(text.text, "");
    detokenize_push(&stream, &text, 0xA0);
    assert_string_equal(text.text, "\u4F60");
    detokenize_push(&stream, &text, 0xF0);
    detokenize_push(&stream, &text, 0x9F);
    detokenize_flush(&stream, &text);
    assert_string_equal(text.text, "\u4F60\uFFFD");
    detokenize_close(&stream);
    strbuf_close(&text);
    tokenizer_close(tokenizer);
}

// ---- the whole tokenizer of SmolLM2, in several threads

enum { THREADS = 4 };
static const char shared_text[] = "<|im_start|>user\nWhat is 17 * 23?\u4F60\u597D \U0001F600<|im_end|>\n";

typedef struct Job {
    const Tokenizer *tokenizer;
    TokenList ids;
    bool good;
} Job;

static void *encode_often(void *argument) {
    Job *job = argument;
    Error error;
    job->good = true;
    for (int i = 0; i < 200; i++) {
        bpe_list_cut(&job->ids, 0);
        job->good &= tokenizer_encode(job->tokenizer, &job->ids, shared_text, sizeof shared_text - 1, true, &error);
    }
    return NULL;
}

static void test_threads_share_a_tokenizer(void **state) {
    (void)state;
    Tokenizer *tokenizer;
    Error error = {{0}};
    if (!tokenizer_open_folder(&tokenizer, "tests/data/text/tokenizers/smollm2", &error)) fail_msg("%s", error.text);
    assert_int_equal(tokenizer_size(tokenizer), 49152);
    assert_int_equal(tokenizer_bos(tokenizer), 1);
    assert_int_equal(tokenizer_eos(tokenizer), 2);
    pthread_t threads[THREADS];
    Job jobs[THREADS] = {0};
    for (int i = 0; i < THREADS; i++) {
        jobs[i].tokenizer = tokenizer;
        assert_int_equal(pthread_create(&threads[i], NULL, encode_often, &jobs[i]), 0);
    }
    StrBuf text = {0};
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_true(jobs[i].good);
        strbuf_clear(&text);
        tokenizer_decode(tokenizer, &text, jobs[i].ids.ids, jobs[i].ids.count, false);
        assert_string_equal(text.text, shared_text);
        bpe_list_close(&jobs[i].ids);
    }
    strbuf_close(&text);
    tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lowest_rank_merges_first_and_leftmost),
        cmocka_unit_test(test_a_byte_without_a_token_is_dropped),
        cmocka_unit_test(test_added_tokens_are_cut_out_first),
        cmocka_unit_test(test_bos_is_added_once),
        cmocka_unit_test(test_known_ways_to_split_in_gguf),
        cmocka_unit_test(test_sentencepiece_makes_the_best_scored_token_first),
        cmocka_unit_test(test_bad_tables_are_refused),
        cmocka_unit_test(test_any_bytes_come_back),
        cmocka_unit_test(test_a_long_piece_is_quick),
        cmocka_unit_test(test_streamed_pieces_join_to_the_decoded_text),
        cmocka_unit_test(test_a_character_is_shown_when_its_last_byte_comes),
        cmocka_unit_test(test_threads_share_a_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
