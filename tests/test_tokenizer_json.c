// tokenizer.json: what is read, what is refused, and what a damaged file does.
#include "base/file.h"
#include "base/strbuf.h"
#include "text/tokenizer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

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

// Parts of a small tokenizer.json that a test may replace; NULL: as below.
typedef struct Parts {
    const char *top, *normalizer, *pre_tokenizer, *post_processor, *decoder, *model, *merges, *added, *config;
} Parts;

static const char *or_else(const char *part, const char *fallback) {
    return part ? part : fallback;
}

static void write_parts(StrBuf *json, const Parts *parts) {
    strbuf_format(json, "{\"version\": \"1.0\", %s \"normalizer\": %s, ", or_else(parts->top, ""),
                  or_else(parts->normalizer, "null"));
    strbuf_format(json, "\"pre_tokenizer\": %s, \"post_processor\": %s, \"decoder\": %s, ",
                  or_else(parts->pre_tokenizer, "{\"type\": \"ByteLevel\", \"add_prefix_space\": false}"),
                  or_else(parts->post_processor, "null"), or_else(parts->decoder, "{\"type\": \"ByteLevel\"}"));
    strbuf_format(json, "\"added_tokens\": [%s], \"model\": {\"type\": \"BPE\", %s \"merges\": [%s], \"vocab\": {",
                  or_else(parts->added, ""), or_else(parts->model, ""),
                  or_else(parts->merges, "\"l l\", [\"h\", \"e\"]"));
    strbuf_puts(json, "\"ll\": 7, \"he\": 8, \"h\": 1, \"e\": 2, \"l\": 3, \"o\": 4, \"\\u0120\": 5, \"1\": 6}}}");
}

static bool open_parts(Tokenizer **tokenizer, const Parts *parts, Error *error) {
    char folder[] = "/tmp/whet-test-tokenizer-XXXXXX";
    assert_non_null(mkdtemp(folder));
    Arena arena = {0};
    Error unexpected;
    StrBuf json = {0};
    write_parts(&json, parts);
    assert_true(file_write(arena_format(&arena, "%s/tokenizer.json", folder), json.text, json.length, &unexpected));
    const char *config = or_else(parts->config, "{}");
    assert_true(
        file_write(arena_format(&arena, "%s/tokenizer_config.json", folder), config, strlen(config), &unexpected));
    bool good = tokenizer_open_folder(tokenizer, folder, error);
    assert_true(file_remove_tree(folder, &unexpected));
    strbuf_close(&json);
    arena_close(&arena);
    return good;
}

static Tokenizer *opened(const Parts *parts) {
    Tokenizer *tokenizer = NULL;
    Error error = {{0}};
    if (!open_parts(&tokenizer, parts, &error)) fail_msg("%s", error.text);
    return tokenizer;
}

static void test_a_small_json_is_read(void **state) {
    (void)state;
    Tokenizer *tokenizer = opened(&(Parts){
        .added = "{\"id\": 10, \"content\": \"<s>\", \"special\": true}, {\"id\": 1, \"content\": \"h\"}",
        .config = "{\"eos_token\": {\"content\": \"<s>\"}, \"pad_token\": \"o\", \"bos_token\": null, "
                  "\"unk_token\": \"<unk>\", \"cls_token\": {\"content\": \"he\"}, \"sep_token\": null}",
    });
    assert_string_equal(encoded(tokenizer, "hello <s>"), "1 2 7 4 5 10"); // h is an added token: it does not merge
    assert_string_equal(encoded(tokenizer, "z"), "");
    assert_int_equal(tokenizer_eos(tokenizer), 10);
    assert_int_equal(tokenizer_pad(tokenizer), 4);
    assert_int_equal(tokenizer_bos(tokenizer), -1);
    assert_string_equal(tokenizer_named(tokenizer, "eos_token"), "<s>");
    assert_string_equal(tokenizer_named(tokenizer, "unk_token"), "<unk>"); // for templates: need not be a token
    assert_string_equal(tokenizer_named(tokenizer, "cls_token"), "he");
    assert_null(tokenizer_named(tokenizer, "bos_token"));
    assert_null(tokenizer_named(tokenizer, "sep_token"));
    assert_int_equal(tokenizer_size(tokenizer), 11);
    assert_true(tokenizer_is_special(tokenizer, 10) && !tokenizer_is_special(tokenizer, 1));
    tokenizer_close(tokenizer);
}

static void test_a_template_puts_tokens_around_a_text(void **state) {
    (void)state;
    Tokenizer *tokenizer = opened(&(Parts){
        .added = "{\"id\": 10, \"content\": \"<s>\", \"special\": true}",
        .config = "{\"bos_token\": \"<s>\"}",
        .post_processor = "{\"type\": \"Sequence\", \"processors\": [{\"type\": \"ByteLevel\"}, {\"type\": "
                          "\"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": \"<s>\"}}, {\"Sequence\": "
                          "{\"id\": \"A\"}}, {\"SpecialToken\": {\"id\": \"o\"}}], \"pair\": [], \"special_tokens\": "
                          "{\"<s>\": {\"ids\": [10]}, \"o\": {\"ids\": [4]}}}]}",
    });
    assert_string_equal(encoded_size(tokenizer, "he", 2, true), "10 8 4");
    assert_string_equal(encoded_size(tokenizer, "<s>he", 5, true), "10 8 4");
    assert_string_equal(encoded_size(tokenizer, "he", 2, false), "8");
    tokenizer_close(tokenizer);
}

static void test_normalized_added_tokens_are_found_after_nfc(void **state) {
    (void)state;
    const char *added = "{\"id\": 10, \"content\": \"h\\u00e9\", \"normalized\": true}, "
                        "{\"id\": 11, \"content\": \"l\\u00e9\", \"normalized\": false}";
    Tokenizer *tokenizer = opened(&(Parts){.normalizer = "{\"type\": \"NFC\"}", .added = added});
    assert_string_equal(encoded(tokenizer, "he\u0301le\u0301l\u00E9"), "10 3 11"); // U+0301 has no bytes here
    tokenizer_close(tokenizer);
    // And they decode to the normalized text.
    added = "{\"id\": 10, \"content\": \"\u0344q\", \"normalized\": true}, "
            "{\"id\": 11, \"content\": \"\u0344x\", \"normalized\": false}";
    tokenizer = opened(&(Parts){.normalizer = "{\"type\": \"NFC\"}", .added = added});
    StrBuf text = {0};
    tokenizer_decode(tokenizer, &text, (const int32_t[]){10, 11}, 2, false);
    assert_string_equal(text.text, "\u0308\u0301q\u0344x");
    strbuf_close(&text);
    tokenizer_close(tokenizer);
}

// Whitespace that a token before took along is not found again: one that has nothing left is not there.
static void test_added_tokens_that_take_whitespace_along(void **state) {
    (void)state;
    Parts parts = {.added = "{\"id\": 9, \"content\": \"\\t\", \"lstrip\": true, \"rstrip\": true},"
                            "{\"id\": 10, \"content\": \"<r>\", \"rstrip\": true},"
                            "{\"id\": 11, \"content\": \"<l>\", \"lstrip\": true},"
                            "{\"id\": 12, \"content\": \"\\n\"}"};
    Tokenizer *tokenizer;
    Error error = {{0}};
    assert_true(open_parts(&tokenizer, &parts, &error));
    assert_string_equal(encoded(tokenizer, "h\t\t\te"), "1 9 2");
    assert_string_equal(encoded(tokenizer, "h \t \te"), "1 9 2");
    assert_string_equal(encoded(tokenizer, "<r>\t\te"), "10 2");
    assert_string_equal(encoded(tokenizer, "<r> \th"), "10 1");
    assert_string_equal(encoded(tokenizer, "<r>  <l>e"), "10 11 2");
    assert_string_equal(encoded(tokenizer, "h <l>\t e"), "1 11 9 2");
    assert_string_equal(encoded(tokenizer, "<r>\n\ne"), "10 12 12 2"); // found all the same
    tokenizer_close(tokenizer);
}

static void test_missing_bytes_become_the_unknown_token(void **state) {
    (void)state;
    Tokenizer *tokenizer = opened(&(Parts){.model = "\"unk_token\": \"o\","});
    assert_string_equal(encoded(tokenizer, "hzzl"), "1 4 4 3");
    tokenizer_close(tokenizer);
    tokenizer = opened(&(Parts){.model = "\"unk_token\": \"o\", \"fuse_unk\": true,"});
    assert_string_equal(encoded(tokenizer, "hzzl"), "1 4 3");
    tokenizer_close(tokenizer);
}

static void test_what_is_not_understood_is_refused(void **state) {
    (void)state;
    static const struct {
        Parts parts;
        const char *expected;
    } cases[] = {
        {{.normalizer = "{\"type\": \"Lowercase\"}"},
         "normalizer Lowercase is not supported (known: NFC, NFD, Prepend,"},
        {{.normalizer = "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFKC\"}]}"}, "normalizer NFKC"},
        {{.pre_tokenizer = "{\"type\": \"Punctuation\"}"}, "pre_tokenizer Punctuation is not supported"},
        {{.pre_tokenizer = "null"}, "decoder ByteLevel does not go with a pre_tokenizer without ByteLevel"},
        {{.pre_tokenizer = "{\"type\": \"Digits\"}"}, "decoder ByteLevel does not go with"},
        {{.pre_tokenizer = "{\"type\": \"Split\", \"behavior\": \"Gone\"}"}, "behavior Gone"},
        {{.pre_tokenizer = "{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Text\": \" \"}}"},
         "expected a pattern of kind String or Regex"},
        {{.pre_tokenizer = "{\"type\": \"Split\", \"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"\\\\bx\"}}"},
         "pre_tokenizer Split: the regex has \"\\b\" at byte 0"},
        {{.pre_tokenizer = "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"last\"}"},
         "prepend_scheme last is not known"},
        {{.pre_tokenizer = "{\"type\": \"Metaspace\", \"replacement\": \"_\", \"prepend_scheme\": \"first\", "
                           "\"add_prefix_space\": false}"},
         "prepend_scheme disagree"},
        {{.post_processor = "{\"type\": \"BertProcessing\"}"}, "post_processor BertProcessing is not supported"},
        {{.decoder = "null"}, "decoder null does not go with a pre_tokenizer with ByteLevel"},
        {{.decoder = "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Fuse\"}, {\"type\": \"ByteLevel\"}]}"},
         "decoder ByteLevel behind another decoder"},
        {{.decoder = "{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 1}"}, "a stop other than 0"},
        {{.decoder = "{\"type\": \"Replace\", \"content\": \" \", \"pattern\": {\"Regex\": \"a\"}}"}, "kind String"},
        {{.decoder = "{\"type\": \"WordPiece\"}"}, "decoder WordPiece"},
        {{.model = "\"dropout\": 0.1,"}, "dropout is not supported"},
        {{.model = "\"byte_fallback\": 1,"}, "byte_fallback must be true or false"},
        {{.model = "\"ignore_merges\": 3,"}, "ignore_merges must be true or false"},
        {{.model = "\"end_of_word_suffix\": \"</w>\","}, "end_of_word_suffix is not supported"},
        {{.model = "\"unk_token\": \"<unk>\","}, "unk_token \"<unk>\" is not in the vocabulary"},
        {{.model = "\"droput\": null,"}, "model: unknown key \"droput\", did you mean \"dropout\"?"},
        {{.top = "\"truncate\": 1,"}, "unknown key \"truncate\""},
        {{.merges = "\"h o\""}, "merge 0: the token \"ho\" is not in the vocabulary"},
        {{.merges = "[\"h\"]"}, "merge 0: expected"},
        {{.merges = "7"}, "merge 0: expected"},
        {{.added = "{\"id\": 3, \"content\": \"<s>\"}"}, "id 3 has the tokens \"l\" and \"<s>\""},
        {{.added = "{\"id\": 9, \"content\": \"l\"}"}, "token \"l\" has the ids 3 and 9"},
        {{.added = "{\"id\": -1, \"content\": \"<s>\"}"}, "expected an id from 0 to"},
        {{.added = "{\"id\": 99999999999, \"content\": \"<s>\"}"}, "expected an id from 0 to"},
        {{.added = "{\"id\": 9, \"content\": \"\"}"}, "token 9 is empty"},
        {{.added = "{\"id\": 9}"}, "entry 0 has no content"},
        {{.added = "7"}, "entry 0 has no content"},
        {{.added = "{\"id\": 9, \"content\": \"<s>\", \"rstrip\": 1}"}, "added token \"<s>\": rstrip must be"},
        {{.config = "{\"eos_token\": \"</s>\"}"}, "eos_token \"</s>\" is no token of tokenizer.json"},
        {{.config = "{\"mask_token\": 5}"}, "mask_token must be a string"},
        {{.config = "{\"eos_token\": 5}"}, "eos_token must be a string"},
        {{.config = "{\"add_bos_token\": 1}"}, "add_bos_token must be true or false"},
        {{.config = "{\"clean_up_tokenization_spaces\": true, "
                    "\"clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output\": true}"},
         "even_though_it_will_corrupt_output = true is not supported"},
        {{.config = "[["}, "not valid JSON"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Tokenizer *tokenizer = NULL;
        Error error = {{0}};
        assert_false(open_parts(&tokenizer, &cases[i].parts, &error));
        assert_null(tokenizer);
        if (!strstr(error.text, cases[i].expected)) fail_msg("%s: \"%s\" missing", error.text, cases[i].expected);
        if (!strstr(error.text, "/tokenizer")) fail_msg("%s: names no file", error.text);
    }
}

// Limits that keep the time and memory a hostile file can take in bounds.
static void test_too_long_tokens_are_refused(void **state) {
    (void)state;
    char merge[6000] = {0}, added[2000] = {0}, normalized[3000] = {0};
    memset(merge, 'h', 4097);
    StrBuf text = {0};
    strbuf_format(&text, "[\"h\", \"%s\"]", merge);
    Tokenizer *tokenizer;
    Error error = {{0}};
    assert_false(open_parts(&tokenizer, &(Parts){.merges = text.text}, &error));
    assert_non_null(strstr(error.text, "merge 0: a token of 4098 bytes, 4096 is the most"));
    memset(added, 'x', 1025);
    strbuf_clear(&text);
    strbuf_format(&text, "{\"id\": 9, \"content\": \"%s\"}", added);
    assert_false(open_parts(&tokenizer, &(Parts){.added = text.text}, &error));
    assert_non_null(strstr(error.text, "the added token 9 has 1025 bytes, 1024 is the most"));
    for (int i = 0; i < 250; i++) strcat(normalized, "\U0001D160"); // NFC makes three characters of each
    strbuf_clear(&text);
    strbuf_format(&text, "{\"id\": 9, \"content\": \"%s\", \"normalized\": true}", normalized);
    Parts parts = {.normalizer = "{\"type\": \"NFC\"}", .added = text.text};
    assert_false(open_parts(&tokenizer, &parts, &error));
    assert_non_null(strstr(error.text, "the added token 9 has 3000 bytes when normalized, 1024 is the most"));
    strbuf_close(&text);
}

// Cut anywhere, a file is refused and nothing breaks; so is any file with one character changed, or else it is read.
static void test_damaged_json_never_crashes(void **state) {
    (void)state;
    char folder[] = "/tmp/whet-test-tokenizer-XXXXXX";
    assert_non_null(mkdtemp(folder));
    Arena arena = {0};
    Error error;
    const char *path = arena_format(&arena, "%s/tokenizer.json", folder);
    StrBuf json = {0};
    write_parts(&json, &(Parts){.added = "{\"id\": 9, \"content\": \"<s>\"}"});
    for (size_t size = 0; size < json.length; size += 7) {
        Tokenizer *tokenizer;
        assert_true(file_write(path, json.text, size, &error));
        assert_false(tokenizer_open_folder(&tokenizer, folder, &error));
    }
    for (size_t at = 0; at < json.length; at += 3) {
        Tokenizer *tokenizer;
        char kept = json.text[at];
        json.text[at] = "0\"[{}]:,n"[at % 9];
        assert_true(file_write(path, json.text, json.length, &error));
        if (tokenizer_open_folder(&tokenizer, folder, &error)) tokenizer_close(tokenizer);
        json.text[at] = kept;
    }
    assert_true(file_remove_tree(folder, &error));
    strbuf_close(&json);
    arena_close(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_small_json_is_read),
        cmocka_unit_test(test_a_template_puts_tokens_around_a_text),
        cmocka_unit_test(test_normalized_added_tokens_are_found_after_nfc),
        cmocka_unit_test(test_added_tokens_that_take_whitespace_along),
        cmocka_unit_test(test_missing_bytes_become_the_unknown_token),
        cmocka_unit_test(test_what_is_not_understood_is_refused),
        cmocka_unit_test(test_too_long_tokens_are_refused),
        cmocka_unit_test(test_damaged_json_never_crashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
