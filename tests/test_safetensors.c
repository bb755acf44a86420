// Safetensors: what is written is read back, foreign files, and files that lie.
#include "base/file.h"
#include "base/rng.h"
#include "base/strbuf.h"
#include "device/dtype.h"
#include "model/safetensors.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], path[96];

static int setup(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/whet-test-safetensors-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    Error error;
    return file_remove_tree(folder, &error) ? 0 : -1;
}

static void write_raw(const void *data, size_t size) {
    Error error;
    if (!file_write(path, data, size, &error)) fail_msg("%s", error.text);
}

// A file of a header (with ' for ") and zeros behind it; length: what the first 8 bytes say, -1 for the truth.
static void write_file(const char *header, int64_t length, size_t data_bytes) {
    StrBuf out = {0};
    uint64_t told = length < 0 ? strlen(header) : (uint64_t)length;
    strbuf_append(&out, &told, sizeof told);
    for (const char *at = header; *at; at++) strbuf_putc(&out, *at == '\'' ? '"' : *at);
    for (size_t i = 0; i < data_bytes; i++) strbuf_putc(&out, 0);
    write_raw(out.text, out.length);
    strbuf_close(&out);
}

static void open_good(Safetensors *file) {
    Error error;
    if (!safetensors_open(file, path, &error)) fail_msg("%s", error.text);
}

static void open_bad(const char *what, const char *first, const char *second) {
    Safetensors file;
    Error error;
    if (safetensors_open(&file, path, &error)) fail_msg("accepted: %s", what);
    if (!strstr(error.text, first) || !strstr(error.text, second) || strncmp(error.text, path, strlen(path)) != 0)
        fail_msg("%s: '%s' lacks '%s' or '%s'", what, error.text, first, second);
    for (const char *at = error.text; *at; at++)
        if ((unsigned char)*at < 0x20) fail_msg("%s: not one line: '%s'", what, error.text);
}

static const float floats[6] = {1, -2.5f, 3e-8f, 65519, 1e30f, -0.0f};
static const int32_t ints[3] = {-1, 0, INT32_MAX};
static const int64_t longs[2] = {INT64_MIN, 7};
static const uint8_t bytes[5] = {0, 1, 2, 254, 255};

static int write_sample(const json_t *metadata) {
    const SafetensorsEntry entries[] = {
        {.name = "bytes", .type = SAFETENSORS_U8, .rank = 1, .shape = {5}, .data = bytes},
        {.name = "half \"quoted\" é",
         .type = SAFETENSORS_F16,
         .rank = 2,
         .shape = {3, 2},
         .data = floats,
         .from_float = true},
        {.name = "floats", .type = SAFETENSORS_F32, .rank = 3, .shape = {1, 2, 3}, .data = floats},
        {.name = "ints", .type = SAFETENSORS_I32, .rank = 1, .shape = {3}, .data = ints},
        {.name = "scalar", .type = SAFETENSORS_F32, .rank = 0, .data = floats + 1, .from_float = true},
        {.name = "longs", .type = SAFETENSORS_I64, .rank = 1, .shape = {2}, .data = longs},
        {.name = "empty", .type = SAFETENSORS_F32, .rank = 2, .shape = {0, 4}, .data = floats},
        {.name = "brain", .type = SAFETENSORS_BF16, .rank = 1, .shape = {6}, .data = floats, .from_float = true},
    };
    Error error;
    int count = sizeof entries / sizeof *entries;
    if (!safetensors_write(path, entries, count, metadata, &error)) fail_msg("%s", error.text);
    return count;
}

static const SafetensorsEntry *require(const Safetensors *file, const char *name, SafetensorsType type, int64_t count) {
    const SafetensorsEntry *entry = NULL;
    Error error;
    if (!safetensors_require(&entry, file, name, type, count, &error)) fail_msg("%s", error.text);
    return entry;
}

static void test_round_trip(void **state) {
    (void)state;
    json_t *metadata = json_pack("{s:s, s:s}", "format", "pt", "step", "12");
    int count = write_sample(metadata);
    json_decref(metadata);
    Safetensors file;
    open_good(&file);
    assert_int_equal(file.count, count);
    assert_string_equal(safetensors_metadata(&file, "step"), "12");
    assert_null(safetensors_metadata(&file, "none"));
    assert_memory_equal(require(&file, "floats", SAFETENSORS_F32, 6)->data, floats, sizeof floats);
    assert_int_equal(require(&file, "floats", SAFETENSORS_F32, -1)->shape[2], 3);
    assert_memory_equal(require(&file, "ints", SAFETENSORS_I32, 3)->data, ints, sizeof ints);
    assert_memory_equal(require(&file, "longs", SAFETENSORS_I64, 2)->data, longs, sizeof longs);
    assert_memory_equal(require(&file, "bytes", SAFETENSORS_U8, 5)->data, bytes, sizeof bytes);
    assert_memory_equal(require(&file, "scalar", SAFETENSORS_F32, 1)->data, floats + 1, sizeof *floats);
    assert_int_equal(require(&file, "empty", SAFETENSORS_F32, 0)->rank, 2);
    const uint16_t *half = require(&file, "half \"quoted\" é", SAFETENSORS_F16, 6)->data;
    const uint16_t *brain = require(&file, "brain", SAFETENSORS_BF16, 6)->data;
    for (int i = 0; i < 6; i++) {
        assert_int_equal(half[i], dtype_to_f16(floats[i]));
        assert_int_equal(brain[i], dtype_to_bf16(floats[i]));
    }
    const SafetensorsEntry *entry = NULL;
    Error error;
    assert_false(safetensors_require(&entry, &file, "floats", SAFETENSORS_BF16, 6, &error));
    assert_non_null(strstr(error.text, "BF16"));
    assert_false(safetensors_require(&entry, &file, "floats", SAFETENSORS_F32, 7, &error));
    assert_non_null(strstr(error.text, "expected 7"));
    assert_false(safetensors_require(&entry, &file, "flats", SAFETENSORS_F32, 6, &error));
    assert_non_null(strstr(error.text, "flats is missing"));
    safetensors_close(&file);
    safetensors_close(&file);
}

static void test_layout(void **state) {
    (void)state;
    write_sample(NULL);
    Safetensors file;
    open_good(&file);
    uint64_t length;
    memcpy(&length, file.map.data, sizeof length);
    assert_int_equal((length + 8) % 64, 0);
    assert_null(file.metadata);
    for (int64_t i = 0; i < file.count; i++)
        assert_int_equal((uintptr_t)file.entries[i].data % safetensors_type_size(file.entries[i].type), 0);
    assert_ptr_equal(safetensors_find(&file, "longs")->data, file.map.data + 8 + length);
    safetensors_close(&file);
}

// More than one piece of the rounding buffer.
static void test_long_tensor_is_rounded_in_pieces(void **state) {
    (void)state;
    enum { COUNT = 40001 };
    Arena arena = {0};
    float *values = arena_array(&arena, float, COUNT);
    for (int i = 0; i < COUNT; i++) values[i] = (float)i * 1.001f;
    SafetensorsEntry entry = {.name = "x", .type = SAFETENSORS_BF16, .rank = 1, .shape = {COUNT}, .data = values};
    entry.from_float = true;
    Error error;
    assert_true(safetensors_write(path, &entry, 1, NULL, &error));
    Safetensors file;
    open_good(&file);
    const uint16_t *stored = require(&file, "x", SAFETENSORS_BF16, COUNT)->data;
    for (int i = 0; i < COUNT; i++) assert_int_equal(stored[i], dtype_to_bf16(values[i]));
    safetensors_close(&file);
    arena_close(&arena);
}

static void test_writing_fails_cleanly(void **state) {
    (void)state;
    write_sample(NULL);
    SafetensorsEntry entry = {.name = "x", .type = SAFETENSORS_F32, .rank = 1, .shape = {1}, .data = floats};
    Error error;
    char nowhere[128];
    snprintf(nowhere, sizeof nowhere, "%s/no/x.safetensors", folder);
    assert_false(safetensors_write(nowhere, &entry, 1, NULL, &error));
    assert_non_null(strstr(error.text, nowhere));
    // A limit on file sizes stands for a full disk: the old file stays, and nothing beside it.
    struct rlimit old, small = {.rlim_cur = 10};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    bool wrote = safetensors_write(path, &entry, 1, NULL, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_false(wrote);
    assert_non_null(strstr(error.text, "cannot write"));
    char aside[128];
    snprintf(aside, sizeof aside, "%s.tmp", path);
    assert_false(file_exists(aside));
    Safetensors file;
    open_good(&file);
    assert_int_equal(file.count, 8);
    safetensors_close(&file);
}

// The Python library leaves a header without padding when it likes, and older ones any length: data may be unaligned.
static void test_foreign_files(void **state) {
    (void)state;
    Safetensors file;
    Error error;
    write_file("{'a':{'dtype':'F32','shape':[2],'data_offsets':[0,8]}}  ", -1, 8);
    open_good(&file);
    assert_int_equal(file.count, 1);
    safetensors_close(&file);
    write_file("{'a':{'data_offsets':[0,8],'shape':[2],'dtype':'F32','more':1}}  ", -1, 8);
    open_good(&file);
    const SafetensorsEntry *entry = NULL;
    assert_int_equal((uintptr_t)safetensors_find(&file, "a")->data % 4, 1);
    assert_false(safetensors_require(&entry, &file, "a", SAFETENSORS_F32, 2, &error));
    assert_non_null(strstr(error.text, "not aligned"));
    safetensors_close(&file);
    write_file("{}", -1, 0);
    open_good(&file);
    assert_int_equal(file.count, 0);
    assert_null(safetensors_find(&file, "a"));
    safetensors_close(&file);
    write_file(
        "{'b':{'dtype':'F32','shape':[0],'data_offsets':[0,0]},'a':{'dtype':'F32','shape':[1],'data_offsets':[0,4]},"
        "'__metadata__':{}}",
        -1, 4);
    open_good(&file);
    assert_int_equal(file.count, 2);
    safetensors_close(&file);
}

#define A(dtype, shape, offsets) "{'a':{'dtype':'" dtype "','shape':" shape ",'data_offsets':" offsets "}}"

static void test_files_that_lie(void **state) {
    (void)state;
    static const struct {
        const char *header;
        int64_t length;
        size_t data;
        const char *first, *second;
    } cases[] = {
        {"", 0, 0, "not valid JSON", ""},
        {"[]", -1, 0, "no JSON object", ""},
        {"{", -1, 0, "not valid JSON", ""},
        {A("F32", "[1]", "[0,4]"), 1000, 4, "header length 1000", "bytes"},
        {A("F32", "[1]", "[0,4]"), INT64_MAX, 4, "header length", "bytes"},
        {A("F32", "[1]", "[0,4]"), 10, 4, "not valid JSON", ""},
        {"{'a':1}", -1, 4, "tensor a", "no object"},
        {"{'__metadata__':3}", -1, 0, "__metadata__", "no object"},
        {"{'__metadata__':{'k':3}}", -1, 0, "__metadata__: k", "no string"},
        {"{'a':{'shape':[1],'data_offsets':[0,4]}}", -1, 4, "tensor a", "dtype"},
        {A("F31", "[1]", "[0,4]"), -1, 4, "tensor a", "F31"},
        {A("F32", "1", "[0,4]"), -1, 4, "tensor a", "shape"},
        {A("F32", "[-1]", "[0,4]"), -1, 4, "tensor a", "from 0 up"},
        {A("F32", "[1.5]", "[0,4]"), -1, 4, "tensor a", "integers"},
        {A("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), -1, 4, "tensor a", "9 dimensions"},
        {A("F32", "[4294967296,4294967296]", "[0,4]"), -1, 4, "tensor a", "more elements"},
        {A("F32", "[4611686018427387904]", "[0,0]"), -1, 4, "tensor a", "elements of 4"},
        {A("F32", "[99999999999999999999]", "[0,4]"), -1, 4, "not valid JSON", "integer"},
        {A("F32", "[1]", "[0,8]"), -1, 4, "tensor a", "do not lie"},
        {A("F32", "[1]", "[4,0]"), -1, 4, "tensor a", "do not lie"},
        {A("F32", "[1]", "[-4,0]"), -1, 4, "tensor a", "do not lie"},
        {A("F32", "[1]", "[9223372036854775804,9223372036854775807]"), -1, 4, "tensor a", "do not lie"},
        {A("F32", "[1]", "[0]"), -1, 4, "tensor a", "two integers"},
        {A("F32", "[1]", "{}"), -1, 4, "tensor a", "two integers"},
        {A("F32", "[1]", "['0','4']"), -1, 4, "tensor a", "two integers"},
        {A("F32", "[2]", "[0,4]"), -1, 4, "tensor a", "2 elements of 4"},
        {A("F32", "[1]", "[0,4]"), -1, 5, "1 bytes behind the last tensor", ""},
        {A("F32", "[1]", "[4,8]"), -1, 8, "tensor a", "behind a gap"},
        {"{'a':{'dtype':'U8','shape':[4],'data_offsets':[0,4]},'b':{'dtype':'U8','shape':[4],'data_offsets':[2,6]}}",
         -1, 6, "tensor b", "overlaps"},
        {"{'a':{'dtype':'U8','shape':[4],'data_offsets':[0,4]},'b':{'dtype':'U8','shape':[4],'data_offsets':[0,4]}}",
         -1, 4, "overlaps", "another tensor"},
        {"{'a':{'dtype':'U8','shape':[1],'data_offsets':[0,1]},'a':{'dtype':'U8','shape':[1],'data_offsets':[1,2]}}",
         -1, 2, "not valid JSON", "duplicate"},
        {"{'a\\nb\\u001b[2J':{'dtype':'XX'}}", -1, 0, "tensor a b", "XX"},
        {"{'a\\u0000b':{'dtype':'XX'}}", -1, 0, "not valid JSON", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(cases[i].header, cases[i].length, cases[i].data);
        open_bad(cases[i].header, cases[i].first, cases[i].second);
    }
    StrBuf many = {0};
    strbuf_puts(&many, "{'a':[0");
    for (int i = 0; i < 5000000; i++) strbuf_puts(&many, ",0");
    strbuf_puts(&many, "]}");
    write_file(many.text, -1, 0);
    open_bad("more values than the entries of a model's tensors", "header has 5000003 brackets",
             "each of 262144 tensors");
    strbuf_close(&many);
    write_raw("1234567", 7);
    open_bad("seven bytes", "7 bytes", "too short");
    write_raw("", 0);
    open_bad("an empty file", "0 bytes", "too short");
}

static void test_deep_nesting(void **state) {
    (void)state;
    StrBuf out = {0};
    uint64_t depth = 200000;
    strbuf_append(&out, &depth, sizeof depth);
    for (uint64_t i = 0; i < depth; i++) strbuf_putc(&out, '[');
    write_raw(out.text, out.length);
    open_bad("deep nesting", "not valid JSON", "depth");
    strbuf_close(&out);
}

static void test_a_very_long_name(void **state) {
    (void)state;
    StrBuf out = {0};
    strbuf_puts(&out, "{'");
    for (int i = 0; i < 100000; i++) strbuf_putc(&out, 'n');
    strbuf_puts(&out, "':{'dtype':'XX'}}");
    write_file(out.text, -1, 0);
    open_bad("long name", "nnn", "unknown dtype 'XX'");
    strbuf_close(&out);
}

static void read_every_byte(const Safetensors *file) {
    volatile uint8_t sum = 0;
    for (int64_t i = 0; i < file->count; i++) {
        const SafetensorsEntry *entry = &file->entries[i];
        const uint8_t *at = entry->data;
        for (size_t j = 0; j < (size_t)entry->count * safetensors_type_size(entry->type); j++)
            sum = (uint8_t)(sum + at[j]);
    }
}

static void test_every_truncation_is_refused(void **state) {
    (void)state;
    Arena arena = {0};
    char *whole;
    size_t size;
    Error error;
    write_sample(NULL);
    assert_true(file_read(&whole, &size, &arena, path, &error));
    for (size_t length = size; length-- > 0;) {
        Safetensors file;
        assert_int_equal(truncate(path, (off_t)length), 0);
        if (safetensors_open(&file, path, &error)) fail_msg("accepted when cut to %zu of %zu bytes", length, size);
    }
    arena_close(&arena);
}

// Damaged files either open, and then every tensor lies in the map, or end in a line.
static void test_flipped_bits(void **state) {
    (void)state;
    Arena arena = {0};
    char *whole;
    size_t size;
    Error error;
    write_sample(NULL);
    assert_true(file_read(&whole, &size, &arena, path, &error));
    int opened = 0, refused = 0;
    for (uint32_t variant = 0; variant < 3000; variant++) {
        char *copy = whole;
        uint32_t flips = 1 + variant % 4, places[4][4];
        for (uint32_t i = 0; i < flips; i++) {
            rng_words(places[i], 11, RNG_TEST_WEIGHTS, (RngCounter){.step = variant, .token = i});
            copy[places[i][0] % size] ^= (char)(1 << places[i][1] % 8);
        }
        FILE *out = fopen(path, "r+b");
        assert_non_null(out);
        assert_int_equal(fwrite(copy, 1, size, out), size);
        assert_int_equal(fclose(out), 0);
        Safetensors file;
        if (safetensors_open(&file, path, &error)) {
            read_every_byte(&file);
            safetensors_close(&file);
            opened++;
        } else {
            refused++;
            assert_null(strchr(error.text, '\n'));
        }
        for (uint32_t i = 0; i < flips; i++) copy[places[i][0] % size] ^= (char)(1 << places[i][1] % 8);
    }
    assert_true(opened > 100 && refused > 1000);
    arena_close(&arena);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_round_trip),
        IN_FOLDER(test_layout),
        IN_FOLDER(test_long_tensor_is_rounded_in_pieces),
        IN_FOLDER(test_writing_fails_cleanly),
        IN_FOLDER(test_foreign_files),
        IN_FOLDER(test_files_that_lie),
        IN_FOLDER(test_deep_nesting),
        IN_FOLDER(test_a_very_long_name),
        IN_FOLDER(test_every_truncation_is_refused),
        IN_FOLDER(test_flipped_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
