// Data sets by their recipe: where questions come from, what stands around them, which are held out, and what is refused.
#include "base/file.h"
#include "base/strbuf.h"
#include "text/dataset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static Arena arena;
static Error error;
static char folder[64];

static const char *path(const char *name) {
    return arena_format(&arena, "%s/%s", folder, name);
}

static const char *put(const char *name, const char *text) {
    if (!file_write(path(name), text, strlen(text), &error)) fail_msg("%s", error.text);
    return path(name);
}

static DatasetOptions file_options(const char *name) {
    return (DatasetOptions){.key = "data.train",
                            .dataset_name = path(name),
                            .env_name = "math",
                            .extract_answer = true,
                            .seed = 42};
}

static DatasetOptions arithmetic_options(double held_out) {
    DatasetOptions options = file_options("");
    options.dataset_name = "arithmetic";
    options.split_validation_size = held_out;
    options.arithmetic = (ArithmeticOptions){1, "+", 10, 99, 1, 9};
    return options;
}

static Dataset open_set(const DatasetOptions *options) {
    Dataset set;
    if (!dataset_open(&set, options, DATASET_COMPARED, &arena, &error)) fail_msg("%s", error.text);
    return set;
}

static void refused(const DatasetOptions *options, const char *message) {
    Dataset set;
    if (dataset_open(&set, options, DATASET_COMPARED, &arena, &error)) fail_msg("not refused: %s", message);
    if (!strstr(error.text, message)) fail_msg("'%s' does not say '%s'", error.text, message);
    dataset_close(&set);
}

static DatasetQuestion ask(const Dataset *set, DatasetPart part, int64_t index) {
    DatasetQuestion question;
    if (!dataset_question(&question, set, part, index, &arena, &error)) fail_msg("%s", error.text);
    return question;
}

static void expect_question(const Dataset *set, int64_t index, const char *messages, const char *gold) {
    DatasetQuestion q = ask(set, DATASET_REST, index);
    char *text = json_dumps(q.messages, JSON_COMPACT);
    assert_string_equal(text, messages);
    free(text);
    if (gold) assert_non_null(q.gold);
    if (gold) assert_string_equal(q.gold, gold);
    if (!gold) assert_null(q.gold);
    json_t *last = json_array_get(q.messages, json_array_size(q.messages) - 1);
    assert_string_equal(q.prompt, json_string_value(json_object_get(last, "content")));
    dataset_question_close(&q);
}

static void test_rows(void **state) {
    (void)state;
    put("a.jsonl", "{\"input\":\"x\",\"output\":\"1\"}\n{\"input\":\"y\",\"output\":2,\"n\":3}\n"
                   "{\"input\":\"z\",\"output\":2.5}\n{\"input\":\"w\",\"output\":145.0}\n");
    DatasetOptions options = file_options("a.jsonl");
    Dataset set = open_set(&options);
    assert_int_equal(dataset_count(&set, DATASET_REST), 4);
    expect_question(&set, 0, "[{\"role\":\"user\",\"content\":\"x\"}]", "1");
    expect_question(&set, 1, "[{\"role\":\"user\",\"content\":\"y\"}]", "2");
    expect_question(&set, 2, "[{\"role\":\"user\",\"content\":\"z\"}]", "2.5");
    expect_question(&set, 3, "[{\"role\":\"user\",\"content\":\"w\"}]", "145.0");
    DatasetQuestion q = ask(&set, DATASET_REST, 1);
    assert_int_equal(json_integer_value(json_object_get(q.row, "n")), 3);
    dataset_question_close(&q);
    dataset_close(&set);
    put("keys.csv", "Q,A\n\"a, b\",7\n");
    options = file_options("keys.csv");
    options.input_key = "Q", options.output_key = "A";
    set = open_set(&options);
    expect_question(&set, 0, "[{\"role\":\"user\",\"content\":\"a, b\"}]", "7");
    dataset_close(&set);
}

static void test_conversations(void **state) {
    (void)state;
    put("m.jsonl",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":\"1\"}]}\n"
        "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"a\"},{\"role\":"
        "\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"assistant\",\"content\":"
        "\"2\"}]}\n");
    put("p.txt", "Solve {}!\n");
    put("s.txt", "be brief\r\n");
    DatasetOptions options = file_options("m.jsonl");
    Dataset set = open_set(&options);
    expect_question(&set, 0, "[{\"role\":\"user\",\"content\":\"x\"}]", "1");
    dataset_close(&set);
    options.prompt_file = path("p.txt"), options.system_prompt_file = path("s.txt");
    set = open_set(&options);
    expect_question(
        &set, 0, "[{\"role\":\"system\",\"content\":\"be brief\\n\"},{\"role\":\"user\",\"content\":\"Solve x!\\n\"}]",
        "1");
    expect_question(&set, 1,
                    "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"a\"},{\"role\":"
                    "\"assistant\",\"content\":\"b\"},{\"role\":\"user\",\"content\":\"Solve c!\\n\"}]",
                    "2");
    dataset_close(&set);
    // A command may judge without a right answer.
    put("n.jsonl", "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}\n");
    options = file_options("n.jsonl");
    refused(&options, "n.jsonl:1: no right answer, which the reward of env_name 'math' compares with");
    if (!dataset_open(&set, &options, DATASET_ASKED, &arena, &error)) fail_msg("%s", error.text);
    expect_question(&set, 0, "[{\"role\":\"user\",\"content\":\"x\"}]", NULL);
    dataset_close(&set);
}

static void test_gsm8k(void **state) {
    (void)state;
    setenv("WHET_CACHE", folder, 1);
    DatasetOptions options = file_options("");
    options.dataset_name = "openai/gsm8k";
    refused(&options, "/data/gsm8k/train.jsonl is not there; `whet pull gsm8k` fetches it");
    assert_true(file_make_folders(path("data/gsm8k"), &error));
    put("data/gsm8k/train.jsonl", "{\"question\":\"q\",\"answer\":\"so\\n####  1,200 \"}\n"
                                  "{\"question\":\"r\",\"answer\":\"so #### 5 #### 6\"}\n");
    put("data/gsm8k/test.jsonl", "{\"question\":\"t\",\"answer\":\"so\"}\n");
    Dataset set = open_set(&options);
    expect_question(&set, 0, "[{\"role\":\"user\",\"content\":\"q\"}]", "1,200");
    expect_question(&set, 1, "[{\"role\":\"user\",\"content\":\"r\"}]", "5");
    dataset_close(&set);
    options.validates = true;
    refused(&options, "test.jsonl:1: no right answer behind ####, which");
    options.split = "valid";
    refused(&options, "data.train.split: 'valid' of gsm8k; choose train or test");
    unsetenv("WHET_CACHE");
}

// Sets that NeMo-RL's recipes name: rows with their publisher's keys, in the cache.
static void test_named_rows(void **state) {
    (void)state;
    setenv("WHET_CACHE", folder, 1);
    DatasetOptions options = file_options("unused.jsonl");
    options.dataset_name = "OpenMathInstruct-2";
    refused(&options,
            "data/OpenMathInstruct-2/train.jsonl is not there; its rows are those of nvidia/OpenMathInstruct-2, "
            "as JSON lines with problem and expected_answer; its publisher has Parquet files");
    assert_true(file_make_folders(path("data/OpenMathInstruct-2"), &error));
    put("data/OpenMathInstruct-2/train.jsonl", "{\"problem\":\"x\",\"expected_answer\":\"1\"}\n");
    Dataset set = open_set(&options);
    expect_question(&set, 0, "[{\"role\":\"user\",\"content\":\"x\"}]", "1");
    dataset_close(&set);
    unsetenv("WHET_CACHE");
}

static void put_published(DatasetOptions *options, const char *name, const char *rows) {
    setenv("WHET_CACHE", folder, 1);
    *options = file_options("unused.jsonl");
    options->dataset_name = name;
    const char *in = arena_format(&arena, "data/%s", name);
    assert_true(file_make_folders(path(in), &error));
    put(arena_format(&arena, "%s/train.jsonl", in), rows);
}

#define NUMINA(problem, answer, type, valid)                                                                           \
    "{\"problem\":\"" problem "\",\"answer\":\"" answer "\",\"question_type\":\"" type                                 \
    "\",\"problem_is_valid\":\"Yes\",\"solution_is_valid\":\"" valid "\"}\n"

static void test_marked_rows(void **state) {
    (void)state;
    DatasetOptions options;
    put_published(&options, "NuminaMath-1.5",
                  NUMINA("a", " Proof ", "math-word-problem", "Yes") NUMINA("b", "2", "proof", "Yes")
                      NUMINA("c", "3", "MCQ", "Yes") NUMINA("d", "notfound", "MCQ", "Yes")
                          NUMINA("e", "5", "MCQ", "Incomplete") NUMINA("f", "proofs", "MCQ", "Yes"));
    static const struct {
        bool verifiable_only, require_valid;
        const char *asked;
    } cases[] = {{true, true, "cf"}, {true, false, "cef"}, {false, true, "abcdf"}, {false, false, "abcdef"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        options.verifiable_only = cases[i].verifiable_only, options.require_valid = cases[i].require_valid;
        Dataset set = open_set(&options);
        assert_int_equal(dataset_count(&set, DATASET_REST), strlen(cases[i].asked));
        for (int64_t q = 0; q < dataset_count(&set, DATASET_REST); q++) {
            DatasetQuestion question = ask(&set, DATASET_REST, q);
            assert_true(question.prompt[0] == cases[i].asked[q] && !question.prompt[1]);
            dataset_question_close(&question);
        }
        dataset_close(&set);
    }
    put_published(&options, "NuminaMath-1.5", NUMINA("a", "proof", "proof", "Yes"));
    options.verifiable_only = true;
    refused(&options, "train.jsonl: no questions of 1 records; verifiable_only and require_valid say which");
    unsetenv("WHET_CACHE");
}

// Every way from the root to a leaf; lines are those of the file all the same.
static void test_trees(void **state) {
    (void)state;
    DatasetOptions options;
    static const char tree[] =
        "{\"prompt\":{\"role\":\"prompter\",\"text\":\"q\",\"replies\":["
        "{\"role\":\"assistant\",\"text\":\"a\",\"replies\":[]},"
        "{\"role\":\"assistant\",\"text\":\"b\",\"replies\":[{\"role\":\"prompter\",\"text\":\"c\",\"replies\":["
        "{\"role\":\"assistant\",\"text\":\"d\"},{\"role\":\"assistant\",\"text\":\"e\",\"replies\":null}]}]}]}}\n";
    static const char lonely[] = "{\"prompt\":{\"role\":\"prompter\",\"text\":\"alone\",\"replies\":[]}}\n";
    put_published(&options, "open_assistant", arena_format(&arena, "%s%s%s", lonely, tree, tree));
    Dataset set = open_set(&options);
    assert_int_equal(dataset_count(&set, DATASET_REST), 6);
    static const char second[] = "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"b\"},{"
                                 "\"role\":\"user\",\"content\":\"c\"}]";
    for (int64_t first = 0; first < 6; first += 3) {
        expect_question(&set, first, "[{\"role\":\"user\",\"content\":\"q\"}]", "a");
        expect_question(&set, first + 1, second, "d");
        expect_question(&set, first + 2, second, "e");
    }
    dataset_close(&set);
    put_published(&options, "open_assistant",
                  arena_format(&arena, "%s{\"prompt\":{\"role\":\"bot\",\"text\":\"q\"}}\n", tree));
    refused(&options,
            "train.jsonl:2: a message of the tree: expected an object with the text \"text\" and the \"role\"");
    unsetenv("WHET_CACHE");
}

static void test_folders(void **state) {
    (void)state;
    assert_true(file_make_folders(path("set"), &error));
    put("set/train.jsonl", "{\"input\":\"x\",\"output\":1}\n");
    put("set/extra.csv", "input,output\ny,2\n");
    DatasetOptions options = file_options("set");
    Dataset set = open_set(&options);
    expect_question(&set, 0, "[{\"role\":\"user\",\"content\":\"x\"}]", "1");
    dataset_close(&set);
    options.split = "extra", options.dataset_name = "ResponseDataset", options.data_path = path("set");
    set = open_set(&options);
    expect_question(&set, 0, "[{\"role\":\"user\",\"content\":\"y\"}]", "2");
    dataset_close(&set);
    options.split = NULL, options.validates = true;
    refused(&options, "set has no test.jsonl, .json, .csv or .txt");
    put("set/train.csv", "input,output\ny,2\n");
    options.validates = false;
    refused(&options, "data.train.split: both ");
    options.split = "extra", options.data_path = path("set/train.jsonl");
    refused(&options, "data.train.split: 'extra', but ");
}

static void test_what_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *line, *message;
    } cases[] = {
        {"{\"output\":1}", "x.jsonl:1: no \"input\" (input_key); the row has \"output\""},
        {"{\"input\":5,\"output\":1}", "x.jsonl:1: \"input\" is no text"},
        {"{\"input\":\"x\"}", "x.jsonl:1: no right answer"},
        {"{\"input\":\"x\",\"output\":null}", "x.jsonl:1: no right answer"},
        {"{\"input\":\"x\",\"output\":[1]}", "x.jsonl:1: \"output\" is neither a text nor a number"},
        {"{\"messages\":3}", "x.jsonl:1: \"messages\" is no list"},
        {"{\"messages\":[]}", "x.jsonl:1: messages: there is nothing to answer"},
        {"{\"messages\":[{\"role\":\"assistant\",\"content\":\"x\"}]}",
         "x.jsonl:1: messages: there is nothing to answer"},
        {"{\"messages\":[{\"role\":\"user\"}]}", "x.jsonl:1: messages[0]: expected an object with the texts"},
        {"{\"messages\":[\"x\"]}", "x.jsonl:1: messages[0]: expected"},
        {"{}", "the row has nothing"},
        {"oops", "x.jsonl:1: not valid JSON"},
    };
    DatasetOptions options = file_options("x.jsonl");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put("x.jsonl", cases[i].line);
        refused(&options, cases[i].message);
    }
    options = file_options("nowhere.jsonl");
    refused(&options, "data.train.dataset_name: there is no file or folder /tmp/");
    options.dataset_name = "clevr-cogent";
    refused(&options, "data.train.dataset_name: 'clevr-cogent' is not here; there are arithmetic, gsm8k, and any file");
    options.dataset_name = "gsmk8";
    refused(&options, "'gsmk8' is not here (did you mean 'gsm8k'?)");
    options.data_path = "x.jsonl"; // does not hide the wrong name
    refused(&options, "'gsmk8' is not here (did you mean 'gsm8k'?)");
    options.data_path = NULL;
    options.dataset_name = "ResponseDataset";
    refused(&options, "data.train.data_path: ResponseDataset needs one");
    options.dataset_name = "gsm8k", options.data_path = "x";
    refused(&options, "data.train.data_path: 'x' belongs to dataset_name ResponseDataset, not to 'gsm8k'");
    put("x.jsonl", "{\"input\":\"x\",\"output\":1}");
    options = file_options("x.jsonl");
    options.prompt_file = "none.txt";
    refused(&options, "data.train.prompt_file: none.txt: cannot open");
    options.prompt_file = NULL, options.system_prompt_file = "none.txt";
    refused(&options, "data.train.system_prompt_file: none.txt: cannot open");
    options = file_options("x.jsonl");
    options.system_key = "persona";
    refused(&options, "data.train.system_key: no row of /tmp/");
    put("x.jsonl", "{\"input\":\"x\",\"output\":1}\n{\"input\":\"y\",\"output\":2,\"persona\":\"p\"}");
    Dataset set = open_set(&options);
    dataset_close(&set);
    options.system_key = NULL, options.output_key = "gold";
    assert_false(dataset_open(&set, &options, DATASET_ASKED, &arena, &error));
    assert_non_null(strstr(error.text, "data.train.output_key: no row of /tmp/"));
    dataset_close(&set);
    options = arithmetic_options(810);
    refused(&options, "data.train.split_validation_size: 810 leaves no training question of the 810 there are");
    options = arithmetic_options(1.5);
    refused(&options, "data.train.split_validation_size: 1.5 is neither a share below 1 nor a whole number");
    options = arithmetic_options(0);
    options.arithmetic.left_min = 100;
    refused(&options, "data.train.left: [100, 99]: expected the least number first");
}

static void test_prompt_files(void **state) {
    (void)state;
    PromptFile prompt;
    static const struct {
        const char *text, *filled, *message;
    } cases[] = {
        {"{}", "q", NULL},
        {"a {0} b\r\n", "a q b\n", NULL},
        {"{{x}} \\boxed{{{}}}", "{x} \\boxed{q}", NULL},
        {"no slot", NULL, "p.txt: no slot {} for the question"},
        {"", NULL, "p.txt: no slot {}"},
        {"{}\n{}", NULL, "p.txt:2: a second slot {}"},
        {"{question}", NULL, "p.txt:1: a brace { that begins no slot"},
        {"{:>3}", NULL, "p.txt:1: a brace { that begins no slot"},
        {"\n\n{} }", NULL, "p.txt:3: a brace } alone"},
        {"{", NULL, "p.txt:1: a brace { that begins"},
        {"{}\n\xff", NULL, "p.txt:2: not UTF-8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name = put("p.txt", cases[i].text);
        bool good = prompt_file_open(&prompt, name, &arena, &error);
        if (good != !cases[i].message || (!good && !strstr(error.text, cases[i].message)))
            fail_msg("'%s': %s", cases[i].text, good ? "read" : error.text);
        if (good) assert_string_equal(prompt_file_fill(&prompt, "q", &arena), cases[i].filled);
    }
    assert_string_equal(prompt_file_fill(&(PromptFile){0}, "q {}", &arena), "q {}");
}

// ---- parts

static void test_parts_divide_the_questions(void **state) {
    (void)state;
    DatasetOptions options = arithmetic_options(0.05), other = options;
    Dataset set = open_set(&options), again = open_set(&options);
    other.seed = 43;
    Dataset changed = open_set(&other);
    assert_int_equal(dataset_count(&set, DATASET_HELD_OUT), 41); // of 810, rounded up
    assert_int_equal(dataset_count(&set, DATASET_REST), 769);
    bool seen[100][10] = {0};
    int same = 0, sorted = 0;
    int last = 0;
    for (int part = 0; part < 2; part++)
        for (int64_t i = 0; i < dataset_count(&set, (DatasetPart)part); i++) {
            int left, right;
            DatasetQuestion q = ask(&set, (DatasetPart)part, i), twin = ask(&again, (DatasetPart)part, i);
            assert_int_equal(sscanf(q.prompt, "What is %d + %d?", &left, &right), 2);
            assert_int_equal(strtol(q.gold, NULL, 10), left + right);
            assert_false(seen[left][right]);
            seen[left][right] = true;
            sorted += left > last, last = left;
            assert_string_equal(q.prompt, twin.prompt);
            DatasetQuestion moved = ask(&changed, (DatasetPart)part, i);
            same += part == DATASET_HELD_OUT && !strcmp(q.prompt, moved.prompt);
            dataset_question_close(&q), dataset_question_close(&twin), dataset_question_close(&moved);
        }
    assert_true(same < 4 && sorted < 500);
    dataset_close(&set), dataset_close(&again), dataset_close(&changed);
}

static void test_rows_of_a_file_keep_their_order_until_some_are_held_out(void **state) {
    (void)state;
    StrBuf text = {0};
    for (int i = 0; i < 100; i++) strbuf_format(&text, "{\"input\":\"%d\",\"output\":%d}\n", i, i);
    put("f.jsonl", text.text);
    strbuf_close(&text);
    DatasetOptions options = file_options("f.jsonl");
    Dataset set = open_set(&options);
    for (int i = 0; i < 100; i++) {
        DatasetQuestion q = ask(&set, DATASET_REST, i);
        assert_int_equal(strtol(q.prompt, NULL, 10), i);
        dataset_question_close(&q);
    }
    assert_int_equal(strlen(set.digest), 32);
    dataset_close(&set);
    options.split_validation_size = 10;
    set = open_set(&options);
    bool seen[100] = {0};
    for (int part = 0; part < 2; part++)
        for (int64_t i = 0; i < dataset_count(&set, (DatasetPart)part); i++) {
            DatasetQuestion q = ask(&set, (DatasetPart)part, i);
            long number = strtol(q.prompt, NULL, 10);
            assert_false(seen[number]);
            seen[number] = true;
            dataset_question_close(&q);
        }
    assert_int_equal(dataset_count(&set, DATASET_HELD_OUT), 10);
    dataset_close(&set);
}

static int setup(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/whet-dataset-%d", (int)getpid());
    return file_make_folders(folder, &error) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    file_remove_tree(folder, &error);
    arena_close(&arena);
    return 0;
}

// What a row of a file is as a lesson: the conversation as JSON.
static const char *lesson(DatasetOptions options, const char *rows) {
    Dataset set;
    DatasetQuestion q;
    put("lesson.jsonl", rows);
    options.dataset_name = path("lesson.jsonl");
    if (!dataset_open(&set, &options, DATASET_LEARNED, &arena, &error)) return error.text;
    q = ask(&set, DATASET_REST, 0);
    char *text = json_dumps(q.messages, JSON_COMPACT);
    const char *result = arena_string(&arena, text);
    free(text);
    dataset_question_close(&q);
    dataset_close(&set);
    return result;
}

static void test_lessons(void **state) {
    (void)state;
    DatasetOptions plain = file_options("lesson.jsonl"), options = plain;
    assert_string_equal(lesson(plain, "{\"input\":\"q\",\"output\":4}\n"),
                        "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"4\"}]");
    options.system_key = "sys", options.system_prompt = "be brief";
    assert_string_equal(lesson(options, "{\"input\":\"q\",\"output\":\"a\",\"sys\":\"s\"}\n"),
                        "[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"q\"},"
                        "{\"role\":\"assistant\",\"content\":\"a\"}]");
    // The prompt file goes around what the user says first; calls of tools need no content.
    options = plain;
    put("p.txt", "<{}>");
    options.prompt_file = path("p.txt"), options.chat_key = "talk";
    assert_string_equal(
        lesson(options, "{\"talk\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"tool_calls\":[1]},"
                        "{\"role\":\"tool\",\"content\":\"t\"},{\"role\":\"user\",\"content\":\"b\"}]}\n"),
        "[{\"role\":\"user\",\"content\":\"<a>\"},{\"role\":\"assistant\",\"tool_calls\":[1]},"
        "{\"role\":\"tool\",\"content\":\"t\"},{\"role\":\"user\",\"content\":\"b\"}]");
    assert_non_null(strstr(lesson(options, "{\"messages\":[]}\n"), "lesson.jsonl:1: no \"talk\" (chat_key)"));
    assert_non_null(strstr(lesson(plain, "{\"messages\":[{\"role\":\"user\"}]}\n"),
                           "lesson.jsonl:1: messages: none is the assistant's"));
    assert_non_null(
        strstr(lesson(plain, "{\"messages\":[{\"role\":\"user\",\"content\":[]}]}\n"), "messages[0]: expected"));
    options = plain;
    options.input_key = "a.1.b", options.output_key = "c.d";
    assert_string_equal(lesson(options, "{\"a\":[0,{\"b\":\"q\"}],\"c\":{\"d\":\"x\"}}\n"),
                        "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"x\"}]");
    assert_non_null(strstr(lesson(options, "{\"a\":[0],\"c\":{\"d\":\"x\"}}\n"), "no \"a.1.b\" (input_key)"));
    assert_string_equal(lesson(options, "{\"a.1.b\":\"w\",\"c.d\":\"y\"}\n"), // a key with dots is a key
                        "[{\"role\":\"user\",\"content\":\"w\"},{\"role\":\"assistant\",\"content\":\"y\"}]");
}

static void test_squad_and_whole_solutions(void **state) {
    (void)state;
    setenv("WHET_CACHE", folder, 1);
    assert_true(file_make_folders(path("data/squad"), &error) && file_make_folders(path("data/gsm8k"), &error));
    put("data/squad/train.jsonl", "{\"context\":\"c\",\"question\":\"q\",\"answers\":{\"text\":[\"a\",\"b\"]}}\n");
    put("data/gsm8k/train.jsonl", "{\"question\":\"q\",\"answer\":\"so\\n#### 4\"}\n");
    static const char *const wanted[] = {
        "[{\"role\":\"system\",\"content\":\"c\"},{\"role\":\"user\",\"content\":\"q\"},"
        "{\"role\":\"assistant\",\"content\":\"a\"}]",
        "[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"so\\n#### 4\"}]"};
    for (int i = 0; i < 2; i++) {
        DatasetOptions options = file_options("");
        Dataset set;
        options.dataset_name = i ? "gsm8k" : "squad";
        options.extract_answer = false;
        if (!dataset_open(&set, &options, DATASET_LEARNED, &arena, &error)) fail_msg("%s", error.text);
        DatasetQuestion q = ask(&set, DATASET_REST, 0);
        char *text = json_dumps(q.messages, JSON_COMPACT);
        assert_string_equal(text, wanted[i]);
        free(text);
        dataset_question_close(&q);
        dataset_close(&set);
    }
    unsetenv("WHET_CACHE");
}

static void test_some_rows_and_several_passes(void **state) {
    (void)state;
    put("n.jsonl", "{\"input\":\"0\",\"output\":0}\n{\"input\":\"1\",\"output\":1}\n{\"input\":\"2\",\"output\":2}\n"
                   "{\"input\":\"3\",\"output\":3}\n{\"input\":\"4\",\"output\":4}\n");
    DatasetOptions options = file_options("n.jsonl");
    options.repeat = 3;
    Dataset set = open_set(&options);
    assert_int_equal(dataset_count(&set, DATASET_REST), 15);
    for (int i = 0; i < 15; i++) {
        DatasetQuestion q = ask(&set, DATASET_REST, i);
        assert_int_equal(q.gold[0] - '0', i % 5);
        dataset_question_close(&q);
    }
    dataset_close(&set);
    options.max_samples = 2;
    set = open_set(&options);
    assert_int_equal(dataset_count(&set, DATASET_REST), 6);
    char first[6];
    for (int i = 0; i < 6; i++) {
        DatasetQuestion q = ask(&set, DATASET_REST, i);
        first[i] = q.gold[0];
        assert_int_equal(first[i], first[i % 2]);
        dataset_question_close(&q);
    }
    assert_true(first[0] != first[1]);
    dataset_close(&set);
    options.split_validation_size = 1;
    refused(&options, "data.train.repeat: 3 with split_validation_size 1 would train on questions that are held out");
    options.split_validation_size = 0, options.max_samples = 0, options.repeat = 1000000000;
    refused(&options, "data.train.repeat: 1000000000 times 5 questions");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_conversations),
        cmocka_unit_test(test_gsm8k),
        cmocka_unit_test(test_named_rows),
        cmocka_unit_test(test_marked_rows),
        cmocka_unit_test(test_trees),
        cmocka_unit_test(test_lessons),
        cmocka_unit_test(test_squad_and_whole_solutions),
        cmocka_unit_test(test_some_rows_and_several_passes),
        cmocka_unit_test(test_folders),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_prompt_files),
        cmocka_unit_test(test_parts_divide_the_questions),
        cmocka_unit_test(test_rows_of_a_file_keep_their_order_until_some_are_held_out),
    };
    return cmocka_run_group_tests_name("dataset", tests, setup, teardown);
}
