// GGUF files: block formats by hand, typed access, and files that lie.
#include "base/file.h"
#include "device/dtype.h"
#include "model/gguf.h"
#include "model/safetensors.h"
#include "support/gguf_build.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], path[96];

static int setup(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/whet-test-gguf-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/x.gguf", folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    Error error;
    return file_remove_tree(folder, &error) ? 0 : -1;
}

// --- formats

static void put_half(uint8_t *at, float value) {
    uint16_t half = dtype_to_f16(value);
    memcpy(at, &half, sizeof half);
}

static void test_blocks_by_hand(void **state) {
    (void)state;
    uint8_t block[40];
    float out[32];
    put_half(block + 1, -0.5f); // everything one byte off: nothing need be aligned
    for (int i = 0; i < 32; i++) block[3 + i] = (uint8_t)(int8_t)(i * 8 - 128);
    assert_true(dequantize(out, block + 1, WEIGHT_Q8_0, 32));
    for (int i = 0; i < 32; i++) assert_true(out[i] == -0.5f * (float)(i * 8 - 128));
    for (int i = 0; i < 16; i++) block[3 + i] = (uint8_t)(i | (15 - i) << 4);
    assert_true(dequantize(out, block + 1, WEIGHT_Q4_0, 32));
    for (int i = 0; i < 16; i++) {
        assert_true(out[i] == -0.5f * (float)(i - 8));
        assert_true(out[16 + i] == -0.5f * (float)(7 - i));
    }
    put_half(block + 3, 3);
    for (int i = 0; i < 16; i++) block[5 + i] = (uint8_t)(i | (15 - i) << 4);
    assert_true(dequantize(out, block + 1, WEIGHT_Q4_1, 32));
    for (int i = 0; i < 16; i++) {
        assert_true(out[i] == -0.5f * (float)i + 3);
        assert_true(out[16 + i] == -0.5f * (float)(15 - i) + 3);
    }
    put_half(block + 1, INFINITY);
    assert_false(dequantize(out, block + 1, WEIGHT_Q4_0, 32));
}

static void test_every_half(void **state) {
    (void)state;
    Arena arena = {0};
    uint16_t *halves = arena_array(&arena, uint16_t, 65536);
    float *out = arena_array(&arena, float, 65536);
    for (int i = 0; i < 65536; i++) halves[i] = (uint16_t)i;
    assert_false(dequantize(out, halves, WEIGHT_F16, 65536));
    for (int i = 0; i < 65536; i++) assert_int_equal(dtype_bits(out[i]), dtype_bits(dtype_from_f16((uint16_t)i)));
    assert_false(dequantize(out, halves, WEIGHT_BF16, 65536));
    for (int i = 0; i < 65536; i++) assert_int_equal(dtype_bits(out[i]), (uint32_t)i << 16);
    assert_true(dequantize(out, halves, WEIGHT_BF16, 0x7f80));
    assert_false(dequantize(out, halves, WEIGHT_BF16, 0x7f81));
    arena_close(&arena);
}

static const SafetensorsEntry *quants_entry(const Safetensors *quants, const char *format, const char *part) {
    char name[32];
    snprintf(name, sizeof name, "%s.%s", format, part);
    const SafetensorsEntry *entry = safetensors_find(quants, name);
    if (!entry) fail_msg("%s is not in quants.safetensors", name);
    return entry;
}

// Blocks of random bytes and odd scales against gguf-py, bit by bit (tests/data/gguf/README.md): all at once, and each alone at
// an odd address.
static void test_blocks_against_gguf_py(void **state) {
    (void)state;
    Safetensors quants;
    Error error;
    if (!safetensors_open(&quants, "tests/data/gguf/quants.safetensors", &error)) fail_msg("%s", error.text);
    for (WeightFormat format = WEIGHT_Q8_0; format < WEIGHT_FORMAT_COUNT; format++) {
        const char *name = dequantize_name(format);
        const SafetensorsEntry *stored = quants_entry(&quants, name, "stored");
        const uint32_t *expected = quants_entry(&quants, name, "values")->data;
        int64_t blocks = stored->shape[0], block = dequantize_block(format), odd = 0;
        assert_int_equal(stored->shape[1], dequantize_block_bytes(format));
        float out[24 * 256], alone[256];
        uint8_t moved[256];
        assert_true(blocks * block <= 24 * 256 && stored->shape[1] < 256);
        assert_false(
            dequantize(out, stored->data, format, blocks * block)); // an infinity and a NaN are among the scales
        for (int64_t b = 0; b < blocks; b++) {
            memcpy(moved + 1, (const uint8_t *)stored->data + b * stored->shape[1], (size_t)stored->shape[1]);
            bool finite = dequantize(alone, moved + 1, format, block), all = true;
            for (int64_t i = 0; i < block; i++) {
                int64_t at = b * block + i;
                bool nan = (expected[at] & 0x7fffffff) > 0x7f800000;
                all = all && (expected[at] & 0x7f800000) != 0x7f800000;
                if ((nan ? !isnan(out[at]) : dtype_bits(out[at]) != expected[at]) ||
                    (nan ? !isnan(alone[i]) : dtype_bits(alone[i]) != expected[at]))
                    fail_msg("%s: block %d, value %d: %08x, alone %08x, expected %08x", name, (int)b, (int)i,
                             dtype_bits(out[at]), dtype_bits(alone[i]), expected[at]);
            }
            assert_int_equal(finite, all);
            odd += !all;
        }
        assert_in_range(odd, 2, 4);
    }
    safetensors_close(&quants);
}

// --- containers

static void expect_bad(const char *what, bool opened, const Error *error, const char *first, const char *second) {
    if (opened) fail_msg("accepted: %s", what);
    if (!strstr(error->text, first) || !strstr(error->text, second) || strncmp(error->text, path, strlen(path)) != 0)
        fail_msg("%s: '%s' lacks '%s' or '%s'", what, error->text, first, second);
    for (const char *at = error->text; *at; at++)
        if ((unsigned char)*at < 0x20) fail_msg("%s: not one line: '%s'", what, error->text);
}

static void bad_file(GgufBuild *b, const char *first, const char *second) {
    gguf_build_finish(b, path);
    Gguf file;
    Error error;
    bool opened = gguf_open(&file, path, &error);
    expect_bad(first, opened, &error, first, second);
}

static void test_typed_access(void **state) {
    (void)state;
    GgufBuild b = {0};
    Error error;
    static const struct {
        const char *key;
        GgufType type;
        size_t size;
        uint64_t bits;
        int64_t expected;
    } integers[] = {
        {"u8", GGUF_U8, 1, 200, 200},
        {"i8", GGUF_I8, 1, 0xff, -1},
        {"u16", GGUF_U16, 2, 60000, 60000},
        {"i16", GGUF_I16, 2, 0xfffe, -2},
        {"u32", GGUF_U32, 4, 4000000000, 4000000000},
        {"i32", GGUF_I32, 4, 0xfffffffd, -3},
        {"u64", GGUF_U64, 8, 1ull << 62, 1ll << 62},
        {"i64", GGUF_I64, 8, ~0ull, -1},
    };
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        gguf_build_value(&b, integers[i].key, integers[i].type, &integers[i].bits, integers[i].size);
    uint64_t huge = ~0ull;
    double real = 0.1;
    gguf_build_value(&b, "huge", GGUF_U64, &huge, 8);
    gguf_build_value(&b, "f64", GGUF_F64, &real, 8);
    gguf_build_f32(&b, "f32", 1.5f);
    gguf_build_value(&b, "yes", GGUF_BOOL, "\1", 1);
    gguf_build_text(&b, "text", "hello");
    gguf_build_texts(&b, "texts", 3, (const char *const[]){"a", "", "long one"});
    gguf_build_texts(&b, "none", 0, NULL);
    gguf_build_finish(&b, path);

    Gguf file;
    Arena arena = {0};
    int64_t integer, count;
    double number;
    bool flag;
    const char *text, *const *texts;
    const int32_t *list;
    if (!gguf_open(&file, path, &error)) fail_msg("%s", error.text);
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        assert_true(gguf_integer_or(&integer, &file, integers[i].key, 0, &error));
        assert_int_equal(integer, integers[i].expected);
        assert_true(gguf_real_or(&number, &file, integers[i].key, 0, &error));
        assert_true(number == (double)integers[i].expected);
    }
    assert_true(gguf_real_or(&number, &file, "f64", 0, &error) && number == 0.1);
    assert_true(gguf_real_or(&number, &file, "f32", 0, &error) && number == 1.5);
    assert_true(gguf_real_or(&number, &file, "absent", 7, &error) && number == 7);
    assert_true(gguf_flag_or(&flag, &file, "yes", false, &error) && flag);
    assert_true(gguf_text_or(&text, &file, "text", NULL, &arena, &error));
    assert_string_equal(text, "hello");
    assert_true(gguf_texts(&texts, &count, &file, "texts", &arena, &error));
    assert_int_equal(count, 3);
    assert_string_equal(texts[1], "");
    assert_string_equal(texts[2], "long one");
    assert_true(gguf_texts(&texts, &count, &file, "none", &arena, &error) && count == 0);
    assert_true(gguf_integers(&list, &count, &file, "absent", &arena, &error) && count == 0 && !list);

    expect_bad("huge", gguf_integer_or(&integer, &file, "huge", 0, &error), &error, "key huge", "integer");
    expect_bad("text", gguf_integer_or(&integer, &file, "text", 0, &error), &error, "key text is of type string",
               "integer");
    expect_bad("texts", gguf_real_or(&number, &file, "texts", 0, &error), &error, "an array of string", "number");
    expect_bad("u8", gguf_flag_or(&flag, &file, "u8", 0, &error), &error, "uint8", "bool");
    expect_bad("u8", gguf_text_or(&text, &file, "u8", NULL, &arena, &error), &error, "uint8", "a string");
    expect_bad("text", gguf_texts(&texts, &count, &file, "text", &arena, &error), &error, "string", "array of strings");
    expect_bad("texts", gguf_integers(&list, &count, &file, "texts", &arena, &error), &error, "string",
               "array of integers");
    gguf_close(&file);
    arena_close(&arena);
}

static const uint64_t shape_2x2[2] = {2, 2}, shape_64[1] = {64};
static const float four[4] = {1, 2, 3, 4};

static void test_headers_that_lie(void **state) {
    (void)state;
    GgufBuild empty = {0};
    Gguf file;
    Error error;
    static const struct {
        uint32_t version;
        uint64_t tensors, values;
        const char *first, *second;
    } cases[] = {
        {1, 0, 0, "version 1", "2 or 3"},
        {4, 0, 0, "version 4", "2 or 3"},
        {0x03000000, 0, 0, "big-endian", "version 3"},
        {0x01000000, 0, 0, "big-endian", "little-endian"},
        {3, 1, 0, "1 tensors", "more than"},
        {3, 0, 1, "1 keys", "more than"},
        {3, ~0ull, 0, "18446744073709551615 tensors", "more than"},
        {3, 0, ~0ull, "18446744073709551615 keys", "more than"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_build_write_as(&empty, path, cases[i].version, cases[i].tensors, cases[i].values);
        bool opened = gguf_open(&file, path, &error);
        expect_bad(cases[i].first, opened, &error, cases[i].first, cases[i].second);
    }
    assert_true(file_write(path, "GGML", 4, &error));
    expect_bad("magic", gguf_open(&file, path, &error), &error, "not a GGUF", "");
    assert_true(file_write(path, "", 0, &error));
    expect_bad("empty", gguf_open(&file, path, &error), &error, "not a GGUF", "");
}

static void put_key(GgufBuild *b, const char *key, uint32_t type) {
    gguf_build_put_text(&b->values, key);
    gguf_build_put_u32(&b->values, type);
    b->value_count++;
    gguf_build_text(b, "z", "some bytes behind it, so that the number of keys is believed");
}

static void test_values_that_lie(void **state) {
    (void)state;
    static const uint64_t lengths[] = {1000, 1ull << 40, 1ull << 63, ~0ull, ~0ull - 7};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        GgufBuild b = {0};
        gguf_build_value(&b, "long", GGUF_STRING, &lengths[i], 8);
        bad_file(&b, "key long", "beyond the end");
        for (uint32_t type = GGUF_U8; type < GGUF_TYPE_COUNT; type++) {
            if (type == GGUF_ARRAY) continue;
            b = (GgufBuild){0};
            gguf_build_value(&b, "list", GGUF_ARRAY, &type, 4);
            gguf_build_put_u64(&b.values, lengths[i]);
            bad_file(&b, "key list", "beyond the end");
        }
        b = (GgufBuild){0};
        gguf_build_put_u64(&b.values, lengths[i]);
        b.value_count = 1;
        gguf_build_text(&b, "z", "behind");
        bad_file(&b, "name of key 0", "beyond the end");
    }
    GgufBuild b = {0};
    put_key(&b, "odd", GGUF_TYPE_COUNT);
    bad_file(&b, "key odd", "unknown type 13");
    b = (GgufBuild){0};
    uint32_t nested = GGUF_ARRAY;
    gguf_build_value(&b, "nest", GGUF_ARRAY, &nested, 4);
    gguf_build_put_u64(&b.values, 1);
    bad_file(&b, "key nest", "arrays of arrays");
    b = (GgufBuild){0};
    gguf_build_u32(&b, "twice", 1);
    gguf_build_u32(&b, "once", 1);
    gguf_build_u32(&b, "twice", 2);
    bad_file(&b, "key twice", "there twice");
    b = (GgufBuild){0};
    gguf_build_u32(&b, "", 1);
    bad_file(&b, "name of key 0", "0 bytes");
    b = (GgufBuild){0};
    gguf_build_put_u64(&b.values, 3);
    strbuf_append(&b.values, "a\0b", 3);
    put_key(&b, "", 0);
    b.value_count = 1;
    bad_file(&b, "name of key 0", "0 byte");
    b = (GgufBuild){0};
    put_key(&b, "line\nbreak\x1b[2J", 99);
    bad_file(&b, "key line break", "unknown type 99");
    static const uint32_t alignments[] = {0, 3, 48, 1u << 17, ~0u};
    for (int i = 0; i < 5; i++) {
        b = (GgufBuild){0};
        gguf_build_u32(&b, "general.alignment", alignments[i]);
        bad_file(&b, "general.alignment", "power of two");
    }
    b = (GgufBuild){0};
    gguf_build_text(&b, "general.alignment", "32");
    bad_file(&b, "general.alignment", "integer");
}

static void add_raw_tensor(GgufBuild *b, const char *name, uint32_t rank, const uint64_t *shape, uint32_t type,
                           uint64_t offset) {
    gguf_build_put_text(&b->tensors, name);
    gguf_build_put_u32(&b->tensors, rank);
    for (uint32_t i = 0; i < rank && i < 8; i++) gguf_build_put_u64(&b->tensors, shape[i]);
    gguf_build_put_u32(&b->tensors, type);
    gguf_build_put_u64(&b->tensors, offset);
    b->tensor_count++;
    if (!b->data.length)
        for (int i = 0; i < 256; i++) strbuf_putc(&b->data, 0);
}

static void test_tensors_that_lie(void **state) {
    (void)state;
    static const struct {
        uint32_t rank;
        uint64_t shape[8];
        uint32_t type;
        uint64_t offset;
        const char *second;
    } cases[] = {
        {0, {0}, 0, 0, "0 dimensions"},
        {5, {1, 1, 1, 1, 1}, 0, 0, "5 dimensions"},
        {~0u, {1, 1, 1, 1, 1, 1, 1, 1}, 0, 0, "4294967295 dimensions"},
        {1, {0}, 0, 0, "dimension 0 is 0"},
        {2, {4, ~0ull}, 0, 0, "dimension 1 is 18446744073709551615"},
        {2, {1ull << 32, 1ull << 32}, 0, 0, "dimension 1 is 4294967296"},
        {2, {1ull << 31, 1ull << 31}, 0, 0, "beyond the end"},
        {1, {1ull << 62}, 0, 0, "beyond the end"},
        {1, {1ull << 40}, 0, 0, "do not lie"},
        {1, {64}, 12, 0, "not whole blocks of Q4_K"},
        {1, {256}, 16, 0, "IQ2_XXS (type 16), which is not read; nearest: Q2_K"},
        {1, {256}, 15, 0, "Q8_K (type 15), which is not read; nearest: Q8_0"},
        {1, {256}, 35, 0, "TQ2_0 (type 35), which is not read; nearest: Q2_K"},
        {1, {256}, 39, 0, "MXFP4 (type 39), which is not read; nearest: Q4_0"},
        {1, {64}, 28, 0, "F64 (type 28), which is not read; nearest: F32"},
        {1, {64}, 42, 0, "unknown format (type 42), expected one of F32"},
        {1, {64}, 999, 0, "type 999"},
        {1, {33}, 2, 0, "not whole blocks of Q4_0"},
        {1, {4}, 0, 1, "multiple of 32"},
        {1, {4}, 0, 256, "do not lie"},
        {1, {4}, 0, 1ull << 63, "do not lie"},
        {1, {4}, 0, ~0ull - 31, "do not lie"},
        {1, {65}, 0, 0, "do not lie"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        GgufBuild b = {0};
        add_raw_tensor(&b, "odd", cases[i].rank, cases[i].shape, cases[i].type, cases[i].offset);
        bad_file(&b, "tensor odd", cases[i].second);
    }
    GgufBuild b = {0};
    add_raw_tensor(&b, "a", 1, shape_64, 0, 0);
    add_raw_tensor(&b, "b", 1, shape_64, 1, 128);
    bad_file(&b, "tensors a and b", "overlap");
    b = (GgufBuild){0};
    add_raw_tensor(&b, "a", 2, shape_2x2, 0, 0);
    add_raw_tensor(&b, "a", 2, shape_2x2, 0, 32);
    bad_file(&b, "tensor a", "there twice");
    b = (GgufBuild){0};
    gguf_build_tensor(&b, "a", 2, shape_2x2, 0, four, sizeof four);
    strbuf_clear(&b.data);
    bad_file(&b, "tensor a", "do not lie");
}

// A sparse file stands for one that is as large as it says.
static void test_arrays_beyond_reason(void **state) {
    (void)state;
    GgufBuild b = {0};
    uint32_t type = GGUF_STRING;
    Gguf file;
    Error error;
    gguf_build_value(&b, "list", GGUF_ARRAY, &type, 4);
    gguf_build_put_u64(&b.values, 1ull << 36);
    gguf_build_finish(&b, path);
    assert_int_equal(truncate(path, 1ll << 40), 0);
    expect_bad("list", gguf_open(&file, path, &error), &error, "key list: 68719476736 elements", "at most");
}

// --- files in parts

static const char *part_path(int number, int count) {
    static char name[4][128];
    char *out = name[number % 4];
    snprintf(out, sizeof name[0], "%s/m-%05d-of-%05d.gguf", folder, number, count);
    return out;
}

// Part `number` (from 1) of 3, with one tensor of the name (NULL: none) that holds 1, 2, 3, 4 plus ten times the number.
static void write_part(int number, const char *tensor, uint32_t no, uint32_t count, uint32_t total) {
    GgufBuild b = {0};
    float values[4];
    for (int i = 0; i < 4; i++) values[i] = four[i] + (float)(10 * number);
    uint16_t no16 = (uint16_t)no, count16 = (uint16_t)count;
    gguf_build_value(&b, "split.no", GGUF_U16, &no16, 2);
    gguf_build_value(&b, "split.count", GGUF_U16, &count16, 2);
    if (number == 1) gguf_build_value(&b, "split.tensors.count", GGUF_I32, &total, 4);
    if (number == 1) gguf_build_text(&b, "general.name", "whole");
    if (tensor) gguf_build_tensor(&b, tensor, 2, shape_2x2, 0, values, sizeof values);
    gguf_build_finish(&b, part_path(number, 3));
}

static void write_parts(void) {
    write_part(1, NULL, 0, 3, 2);
    write_part(2, "z", 1, 3, 0);
    write_part(3, "a", 2, 3, 0);
}

static void bad_parts(const char *first, const char *second) {
    Gguf file;
    Error error;
    if (gguf_open(&file, part_path(1, 3), &error)) fail_msg("accepted, expected '%s'", first);
    if (!strstr(error.text, first) || !strstr(error.text, second))
        fail_msg("'%s' lacks '%s' or '%s'", error.text, first, second);
    gguf_close(&file);
}

static void test_parts_of_a_file_are_one(void **state) {
    (void)state;
    Gguf file;
    Error error;
    write_parts();
    if (!gguf_open(&file, part_path(1, 3), &error)) fail_msg("%s", error.text);
    assert_int_equal(file.tensor_count, 2);
    assert_non_null(gguf_find(&file, "general.name"));
    assert_true(((const float *)gguf_tensor(&file, "z")->data)[1] == 22);
    assert_true(((const float *)gguf_tensor(&file, "a")->data)[3] == 34);
    gguf_close(&file);
    gguf_close(&file);
}

static void test_parts_that_do_not_fit(void **state) {
    (void)state;
    Error error;
    Gguf file;
    write_parts();
    assert_false(gguf_open(&file, part_path(2, 3), &error));
    assert_non_null(strstr(error.text, "part 2 of 3; give the first, whose name ends in -00001-of-00003.gguf"));
    assert_int_equal(rename(part_path(1, 3), path), 0);
    assert_false(gguf_open(&file, path, &error));
    assert_non_null(strstr(error.text, "expected a name that ends in -00001-of-00003.gguf"));
    write_part(1, NULL, 0, 3, 3);
    bad_parts("hold 2 tensors", "split.tensors.count is 3");
    write_part(1, "a", 0, 3, 3);
    bad_parts("tensor a", "there twice");
    write_part(1, NULL, 0, 3, 2);
    write_part(3, "a", 1, 3, 0);
    bad_parts("m-00003-of-00003.gguf: split.no and split.count are 1 and 3", "expected 2 and 3");
    write_part(3, "a", 2, 4, 0);
    bad_parts("m-00003-of-00003.gguf", "are 2 and 4");
    assert_int_equal(unlink(part_path(3, 3)), 0);
    bad_parts("m-00003-of-00003.gguf", "cannot open");
    assert_int_equal(symlink(part_path(1, 3), part_path(3, 3)), 0);
    bad_parts("m-00003-of-00003.gguf", "are 0 and 3");
    write_part(1, NULL, 0, 60000, 2);
    bad_parts("split.count is 60000", "at most 4096");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_against_gguf_py),
        IN_FOLDER(test_blocks_by_hand),
        IN_FOLDER(test_every_half),
        IN_FOLDER(test_typed_access),
        IN_FOLDER(test_parts_of_a_file_are_one),
        IN_FOLDER(test_arrays_beyond_reason),
        IN_FOLDER(test_parts_that_do_not_fit),
        IN_FOLDER(test_headers_that_lie),
        IN_FOLDER(test_values_that_lie),
        IN_FOLDER(test_tensors_that_lie),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
