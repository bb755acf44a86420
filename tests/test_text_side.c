// The text side of a model as commands and training use it: where chat templates lie, what they see, and one BOS whatever the
// road of a text.
#include "base/file.h"
#include "run/inputs.h"
#include "text/chat_source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char llama2[] = "tests/data/text/tokenizers/kind_llama2/tokenizer.json";
static char folder[64];
static Arena arena;

static int begin(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/whet-test-text-side-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state) {
    (void)state;
    Error error;
    arena_close(&arena);
    return file_remove_tree(folder, &error) ? 0 : -1;
}

static void put(const char *name, const char *text) {
    Error error = {{0}};
    const char *path = arena_format(&arena, "%s/%s", folder, name), *slash = strrchr(path, '/');
    assert_true(file_make_folders(arena_format(&arena, "%.*s", (int)(slash - path), path), &error));
    if (!file_write(path, text, strlen(text), &error)) fail_msg("%s", error.text);
}

static void put_tokenizer(const char *config) {
    char *text;
    Error error = {{0}};
    if (!file_read(&text, NULL, &arena, llama2, &error)) fail_msg("%s", error.text);
    put("tokenizer.json", text);
    put("tokenizer_config.json", config);
}

// ---- where templates lie

static const char *sources(void) {
    static char out[512];
    ChatSource source = {0};
    Error error = {{0}};
    size_t used = 0;
    out[0] = 0;
    if (!chat_source_read(&source, folder, &arena, &error)) return arena_string(&arena, error.text);
    for (size_t i = 0; i < source.count; i++)
        used += (size_t)snprintf(out + used, sizeof out - used, "%s%s=%s", i ? " " : "", source.items[i].name,
                                 source.items[i].text);
    return out;
}

static void test_templates_are_found_where_transformers_looks(void **state) {
    (void)state;
    assert_string_equal(sources(), "");
    put("chat_template.json", "{\"chat_template\": \"old\"}");
    assert_string_equal(sources(), "default=old");
    put("tokenizer_config.json", "{\"chat_template\": null}");
    assert_string_equal(sources(), "default=old");
    put("tokenizer_config.json", "{\"chat_template\": \"one\"}");
    assert_string_equal(sources(), "default=one");
    put("tokenizer_config.json",
        "{\"chat_template\": [{\"name\": \"default\", \"template\": \"d\"}, {\"name\": \"rag\", "
        "\"template\": \"r\"}, {\"name\": \"tool_use\", \"template\": \"t\"}]}");
    assert_string_equal(sources(), "default=d rag=r tool_use=t");
    put("additional_chat_templates/tool_use.jinja", "T");
    put("additional_chat_templates/rag.jinja", "R");
    put("additional_chat_templates/notes.txt", "no template");
    assert_string_equal(sources(), "rag=R tool_use=T");
    put("chat_template.jinja", "D");
    assert_string_equal(sources(), "default=D rag=R tool_use=T");
}

static void test_bad_templates_are_refused(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"{\"chat_template\": 7}", "chat_template must be a text or a list"},
        {"{\"chat_template\": [{\"name\": \"x\"}]}", "entry 0 is no {name, template}"},
        {"{\"chat_template\": [{\"name\": \"x\", \"template\": \"\"}, {\"name\": \"x\", \"template\": \"\"}]}",
         "two chat templates \"x\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("tokenizer_config.json", cases[i][0]);
        if (!strstr(sources(), cases[i][1])) fail_msg("%s", sources());
        assert_non_null(strstr(sources(), "tokenizer_config.json"));
    }
}

// ---- which one is meant, and what it sees

static LoadedModel opened(const char *path, const char *wanted) {
    LoadedModel model;
    Error error = {{0}};
    if (!loaded_model_open_text(&model, path, wanted, &error)) fail_msg("%s", error.text);
    return model;
}

static const char *rendered(const LoadedModel *model, const char *variables) {
    static char out[1100];
    StrBuf text = {0};
    Error error = {{0}};
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "Hi");
    json_t *given = variables ? json_loads(variables, 0, NULL) : NULL;
    bool good = loaded_model_chat_text(model, &text, messages, given, &error);
    snprintf(out, sizeof out, "%s", good ? text.text : error.text);
    json_decref(messages);
    json_decref(given);
    strbuf_close(&text);
    return out;
}

static void test_a_template_is_chosen_by_name_tools_file_or_text(void **state) {
    (void)state;
    put_tokenizer(
        "{\"chat_template\": [{\"name\": \"default\", \"template\": \"d{{ tools|length }}\"}, {\"name\": \"rag\", "
        "\"template\": \"r\"}, {\"name\": \"tool_use\", \"template\": \"t{{ tools|length }}\"}]}");
    static const char tools[] = "{\"tools\": [{\"type\": \"function\"}]}";
    LoadedModel model = opened(folder, NULL);
    assert_string_equal(rendered(&model, "{\"tools\": []}"), "t0");
    assert_string_equal(rendered(&model, tools), "t1");
    loaded_model_close(&model);
    model = opened(folder, "rag");
    assert_string_equal(rendered(&model, tools), "r");
    loaded_model_close(&model);
    model = opened(folder, "x{{ 1 }}");
    assert_string_equal(rendered(&model, tools), "x1");
    loaded_model_close(&model);
    put("mine.jinja", "mine");
    model = opened(folder, arena_format(&arena, "%s/mine.jinja", folder));
    assert_string_equal(rendered(&model, NULL), "mine");
    loaded_model_close(&model);
    Error error = {{0}};
    assert_false(loaded_model_open_text(&model, folder, "ragg", &error));
    assert_non_null(strstr(error.text, "is 'ragg', expected 'default', 'rag', 'tool_use', a .jinja file or the text"));
    loaded_model_close(&model);
    put_tokenizer("{\"chat_template\": [{\"name\": \"rag\", \"template\": \"r\"}]}");
    assert_false(loaded_model_open_text(&model, folder, NULL, &error));
    assert_non_null(strstr(error.text, "several chat templates and none named default; choose one, such as 'rag'"));
    loaded_model_close(&model);
}

static void test_variables_and_time_reach_the_template(void **state) {
    (void)state;
    put_tokenizer("{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}");
    put("chat_template.jinja",
        "{{ bos_token }}{{ eos_token }} {{ enable_thinking }} {{ level }} {{ strftime_now('%Y-%m-%d %H') }}");
    LoadedModel model = opened(arena_format(&arena, "%s/tokenizer.json", folder), "default");
    Error error = {{0}};
    assert_true(loaded_model_chat_options(&model, "{\"enable_thinking\": false, \"level\": 1}", "2025-03-07", &error));
    assert_string_equal(rendered(&model, NULL), "<s></s> False 1 2025-03-07 00");
    assert_string_equal(rendered(&model, "{\"level\": [2], \"bos_token\": \"\"}"), "</s> False [2] 2025-03-07 00");
    loaded_model_close(&model);
    static const char *const bad[][3] = {{"[1]", NULL, "no JSON object"},
                                         {"{", NULL, "no JSON object"},
                                         {NULL, "yesterday", "'yesterday' is no time"},
                                         {NULL, "2025-02-30", "is no time"},
                                         {NULL, "2025-03-07T25:00:00", "is no time"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        model = opened(folder, NULL);
        assert_false(loaded_model_chat_options(&model, bad[i][0], bad[i][1], &error));
        if (!strstr(error.text, bad[i][2])) fail_msg("%s", error.text);
        loaded_model_close(&model);
    }
}

static void test_a_template_that_fails_names_its_line(void **state) {
    (void)state;
    put_tokenizer("{}");
    static const char *const cases[][2] = {
        {"\n{{ raise_exception('roles must alternate') }}",
         "chat_template.jinja:2: raise_exception: roles must alternate"},
        {"{{ 1 }}\n\n{{ nothing.at.all }}", "chat_template.jinja:3: UndefinedError: "},
        {"{{ 'a' + 1 }}", "chat_template.jinja:1: TypeError: "},
        {"{% for i in range(1000000000) %}{% endfor %}", "chat_template.jinja:1: "},
        {"{% for i in range(90000) %}{% for j in range(90000) %}{% endfor %}{% endfor %}", "LimitError: "},
        {"{{ 'x' * 1000000000 }}", "LimitError: "},
        {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", ": "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("chat_template.jinja", cases[i][0]);
        LoadedModel model = opened(folder, NULL);
        if (!strstr(rendered(&model, NULL), cases[i][1])) fail_msg("%s: %s", cases[i][0], rendered(&model, NULL));
        loaded_model_close(&model);
    }
}

// ---- one BOS

// How many BOS the ids begin with.
static int bos_count(const LoadedModel *model, const int32_t *ids, size_t count) {
    size_t i = 0;
    while (i < count && ids[i] == tokenizer_bos(model->tokenizer)) i++;
    return (int)i;
}

// On the road of `whet generate`, of `whet score` (lines) and of a question in training.
static void check_bos(const char *chat_template, int of_chats) {
    put("chat_template.jinja", chat_template);
    LoadedModel model = opened(folder, NULL);
    Architecture architecture = {.vocab_size = 1000, .max_positions = 100};
    model.architecture = &architecture;
    Error error = {{0}};
    static const struct {
        const char *text;
        bool as_chat;
    } cases[] = {{"Hi", false}, {"<s>Hi", false}, {"Hi", true}, {"<s>Hi", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Inputs inputs = {.model = &model,
                         .options = {.text_key = "prompt", .as_chat = cases[i].as_chat, .answered = true, .most = 90}};
        if (!inputs_take(&inputs, cases[i].text, strlen(cases[i].text), &arena, &error)) fail_msg("%s", error.text);
        // In a chat the user's own "<s>" stands behind the template's.
        int expected = !cases[i].as_chat ? 1 : of_chats + (i == 3);
        assert_int_equal(bos_count(&model, inputs.ids.ids, inputs.ids.count), expected);
        inputs_close(&inputs);
    }
    put("lines.jsonl",
        "{\"text\": \"Hi\"}\n{\"text\": \"<s>Hi\"}\n{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}]}\n");
    Inputs lines = {.model = &model, .options = {.text_key = "text", .most = 90}};
    if (!inputs_read(&lines, arena_format(&arena, "%s/lines.jsonl", folder), &arena, &error))
        fail_msg("%s", error.text);
    for (int64_t b = 0; b < 3; b++)
        assert_int_equal(
            bos_count(&model, lines.ids.ids + lines.offset[b], (size_t)(lines.offset[b + 1] - lines.offset[b])),
            b < 2 ? 1 : of_chats);
    inputs_close(&lines);
    TokenList ids = {0};
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "Hi");
    assert_true(loaded_model_chat_ids(&model, &ids, messages, true, &error));
    assert_int_equal(bos_count(&model, ids.ids, ids.count), of_chats);
    json_decref(messages);
    bpe_list_close(&ids);
    loaded_model_close(&model);
}

static void test_there_is_never_a_second_bos(void **state) {
    (void)state;
    put_tokenizer("{\"bos_token\": \"<s>\"}");
    check_bos("{{ bos_token }}{{ messages[0].content }}", 1);
    check_bos("<s>{{ messages[0].content }}", 1);
    check_bos("{{ messages[0].content }}", 0); // nothing is added to what a template writes
}

static void test_the_post_processor_alone_adds_tokens(void **state) {
    (void)state;
    // As transformers 5.24: ids 1, then the text, whatever the flags say.
    static const char *const configs[] = {
        "{\"bos_token\": \"<s>\"}", "{\"bos_token\": \"<s>\", \"add_bos_token\": false}",
        "{\"eos_token\": \"</s>\", \"add_eos_token\": true}", "{\"add_bos_token\": null}"};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        put_tokenizer(configs[i]);
        Tokenizer *tokenizer = NULL;
        TokenList ids = {0};
        Error error = {{0}};
        if (!tokenizer_open_folder(&tokenizer, folder, &error)) fail_msg("%s", error.text);
        assert_true(tokenizer_encode(tokenizer, &ids, "a", 1, true, &error));
        assert_int_equal(ids.count, 2);
        assert_int_equal(ids.ids[0], 1);
        bpe_list_close(&ids);
        tokenizer_close(tokenizer);
    }
}

// ---- bytes of tokens, which stop strings are looked for in

static void test_bytes_of_tokens_join_to_the_text(void **state) {
    (void)state;
    static const char *const texts[] = {"a b  c", " x\u4F60\u00E9 \U0001F600", "Hello <s>world</s>[INST] tok"};
    LoadedModel model = opened(llama2, NULL);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        TokenList ids = {0};
        StrBuf bytes = {0}, text = {0};
        Error error;
        assert_true(tokenizer_encode(model.tokenizer, &ids, texts[i], strlen(texts[i]), false, &error));
        for (size_t t = 0; t < ids.count; t++) {
            size_t size, cut = t ? 0 : tokenizer_first_cut(model.tokenizer, ids.ids[t]);
            const char *token = tokenizer_token_bytes(model.tokenizer, ids.ids[t], &size);
            strbuf_append(&bytes, token + cut, size - cut);
        }
        tokenizer_decode(model.tokenizer, &text, ids.ids, ids.count, false);
        assert_string_equal(bytes.text, text.text);
        bpe_list_close(&ids);
        strbuf_close(&bytes);
        strbuf_close(&text);
    }
    loaded_model_close(&model);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_templates_are_found_where_transformers_looks),
        TEST(test_bad_templates_are_refused),
        TEST(test_a_template_is_chosen_by_name_tools_file_or_text),
        TEST(test_variables_and_time_reach_the_template),
        TEST(test_a_template_that_fails_names_its_line),
        TEST(test_there_is_never_a_second_bos),
        TEST(test_the_post_processor_alone_adds_tokens),
        TEST(test_bytes_of_tokens_join_to_the_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
