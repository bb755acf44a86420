// Rows of data files: what each format holds, where its records stand, and what is wrong with those that cannot be read.
#include "text/records.h"

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

static const char *put(const char *name, const char *text, size_t size) {
    const char *path = arena_format(&arena, "%s/%s", folder, name);
    if (!file_write(path, text, size, &error)) fail_msg("%s", error.text);
    return path;
}

// All rows as one JSON text, or the error without the folder.
static const char *rows_of(const char *name, const char *text, size_t size) {
    Records records;
    json_t *rows = json_array(), *row;
    const char *path = put(name, text, size);
    bool good = records_open(&records, path, &arena, &error);
    for (int64_t i = 0; good && i < records.count; i++) {
        good = records_row(&row, &records, i, &error);
        if (good) json_array_append_new(rows, row);
    }
    records_close(&records);
    char *dump = json_dumps(rows, JSON_COMPACT);
    const char *result = good ? arena_string(&arena, dump) : error.text + strlen(folder) + 1;
    free(dump);
    json_decref(rows);
    return result;
}

static void expect(const char *name, const char *text, const char *rows) {
    const char *found = rows_of(name, text, strlen(text));
    if (strncmp(found, rows, strlen(rows)) || (*rows == '[' && strcmp(found, rows)))
        fail_msg("%s of '%s': %s, not %s", name, text, found, rows);
}

static void test_formats(void **state) {
    (void)state;
    expect("a.jsonl", "{\"a\":1}\n\n  \r\n{\"a\":\"\\u00e9\\n\"}\r\n{\"b\":[]}",
           "[{\"a\":1},{\"a\":\"é\\n\"},{\"b\":[]}]");
    expect("a.ndjson", "\xef\xbb\xbf{\"a\":1}", "[{\"a\":1}]");
    expect("a.json", " \n[ {\"a\": \"],{\\\"\"} ,\n{\"b\":[1,[2],{}]}\n] \n",
           "[{\"a\":\"],{\\\"\"},{\"b\":[1,[2],{}]}]");
    expect("b.json", "{\"a\":1}\n{\"a\":2}\n", "[{\"a\":1},{\"a\":2}]");
    expect("a.csv", "q,a\r\nx,1\r\n\"a \"\"b\"\", c\nd\",\n,\"\"\n",
           "[{\"q\":\"x\",\"a\":\"1\"},{\"q\":\"a \\\"b\\\", c\\nd\",\"a\":\"\"},{\"q\":\"\",\"a\":\"\"}]");
    expect("b.csv", "\xef\xbb\xbfq\n\n1\n\"2\"", "[{\"q\":\"1\"},{\"q\":\"2\"}]");
    expect("a.txt", "one\r\n\n two \nthree", "[{\"text\":\"one\"},{\"text\":\" two \"},{\"text\":\"three\"}]");
}

static void test_what_is_wrong(void **state) {
    (void)state;
    static const struct {
        const char *name, *text, *message;
    } cases[] = {
        {"x.jsonl", "", "x.jsonl: empty"},
        {"x.jsonl", "\n \n", "x.jsonl: no row"},
        {"x.json", "[]", "x.json: no row"},
        {"x.csv", "a,b\n", "x.csv: no row"},
        {"x.jsonl", "{\"a\":1}\n{\"a\":", "x.jsonl:2: not valid JSON: "},
        {"x.jsonl", "{\"a\":1} x\n", "x.jsonl:1: not valid JSON: "},
        {"x.jsonl", "\n\n[1]\n", "x.jsonl:3: expected an object"},
        {"x.jsonl", "{\"a\":1,\"a\":2}", "x.jsonl:1: not valid JSON: duplicate object key"},
        {"x.jsonl", "{\"a\":\"\xff\"}", "x.jsonl:1: not valid JSON: "},
        {"x.jsonl", "{\"a\":\"\\u0000\"}", "x.jsonl:1: not valid JSON: "},
        {"x.jsonl", "{\"a\":NaN}", "x.jsonl:1: not valid JSON: "},
        {"x.jsonl", "{\"a\":123456789012345678901234567890}", "x.jsonl:1: not valid JSON: too big integer"},
        {"x.json", "[{\"a\":1},\n\n{\"a\":2}", "x.json:3: the list does not end"},
        {"x.json", "[{\"a\":1},\n]", "x.json:2: an element is missing"},
        {"x.json", "[{\"a\":1}\n]\n{}", "x.json:3: text behind the list"},
        {"x.json", "[{\"a\":1},\n{\"a\":\n oops}]", "x.json:3: not valid JSON: "},
        {"x.json", "[1]", "x.json:1: expected an object"},
        {"x.csv", "a,b\n1,2\n\n1\n", "x.csv:4: 1 fields; the first record names 2 columns"},
        {"x.csv", "a,b\n\"x\ny\",2\n1,2,3\n", "x.csv:4: 3 fields"},
        {"x.csv", "a,b\n1,\"2\n", "x.csv:2: a quote is open at the end of the file"},
        {"x.csv", "a,b\n1,2\"\n", "x.csv:2: a quote within a field"},
        {"x.csv", "a,b\n1,\"2\"3\n", "x.csv:2: text behind a closing quote"},
        {"x.csv", "a,a\n1,2\n", "x.csv:1: column \"a\" is there twice"},
        {"x.csv", "a,\n1,2\n", "x.csv:1: column 2 has no name"},
        {"x.csv", "a\n\xff\n", "x.csv:2: not UTF-8 in column \"a\""},
        {"x.txt", "ok\n\xc3\n", "x.txt:2: not UTF-8"},
        {"x.tsv", "a", "x.tsv: expected a name that ends in .jsonl, .json, .csv or .txt"},
        {"x.parquet", "a", "x.parquet: not read; write it as JSON lines first"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        expect(cases[i].name, cases[i].text, cases[i].message);
    }
    assert_string_equal(rows_of("x.jsonl", "{}\n{\0}\n", 8), "x.jsonl:2: a 0 byte");
    assert_string_equal(rows_of("x.csv", "a\n1\0\n", 6), "x.csv:2: a 0 byte");
    assert_string_equal(rows_of("x.csv", "a\0\n1\n", 6), "x.csv:1: a 0 byte");
    assert_string_equal(rows_of("x.txt", "a\n\0\n", 4), "x.txt:2: a 0 byte");
}

static void test_long_records_and_deep_values(void **state) {
    (void)state;
    size_t size = RECORDS_LONGEST + 8;
    char *text = arena_alloc(&arena, size + 16);
    memset(text, 'x', size);
    memcpy(text, "{}\n", 3);
    assert_string_equal(rows_of("x.jsonl", text, size),
                        "x.jsonl:2: a record of 16777221 bytes; expected at most 16777216");
    memset(text, '[', size);
    memcpy(text, "{\"a\":", 5);
    assert_non_null(strstr(rows_of("x.jsonl", text, 100000), "x.jsonl:1: not valid JSON: "));
    assert_string_equal(rows_of("x.json", text + 5, 100000), "x.json:1: the list does not end");
}

static void test_a_file_that_is_written_to(void **state) {
    (void)state;
    Records records;
    json_t *row;
    const char *path = put("w.jsonl", "{\"a\":1}\n{\"a\":2}\n", 16);
    if (!records_open(&records, path, &arena, &error)) fail_msg("%s", error.text);
    assert_int_equal(records.count, 2);
    assert_int_equal(records_line(&records, 1), 2);
    put("w.jsonl", "{\"b\":1}\n{\"b\":2}\n", 16); // replaced: the file that was opened is still there
    assert_true(records_row(&row, &records, 1, &error));
    assert_int_equal(json_integer_value(json_object_get(row, "a")), 2);
    json_decref(row);
    records_close(&records);
    if (!records_open(&records, path, &arena, &error)) fail_msg("%s", error.text);
    FILE *file = fopen(path, "a");
    fputs("{}\n", file);
    fclose(file);
    assert_false(records_row(&row, &records, 0, &error));
    assert_non_null(strstr(error.text, "w.jsonl: was written to while this run reads it"));
    records_close(&records);
}

static int setup(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/whet-records-%d", (int)getpid());
    return file_make_folders(folder, &error) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    file_remove_tree(folder, &error);
    arena_close(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_what_is_wrong),
        cmocka_unit_test(test_long_records_and_deep_values),
        cmocka_unit_test(test_a_file_that_is_written_to),
    };
    return cmocka_run_group_tests_name("records", tests, setup, teardown);
}
