// Shares of tensor-parallel ranks: every number of a model's file lies in the share of exactly one rank that counts it, copies
// are equal, what lies beyond the vocabulary is zero; what cannot be divided is refused by name.
#include "base/file.h"
#include "model/model_file.h"
#include "model/random_model.h"
#include "model/tensor_share.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static Architecture model_of(int64_t heads, int64_t kv_heads, int64_t ffn, int64_t vocabulary) {
    return (Architecture){.family = MODEL_QWEN2,
                          .vocab_size = vocabulary,
                          .hidden_size = heads * 8,
                          .intermediate_size = ffn,
                          .layer_count = 2,
                          .query_heads = heads,
                          .kv_heads = kv_heads,
                          .head_dim = 8,
                          .max_positions = 32,
                          .rms_norm_eps = 1e-6f,
                          .qkv_bias = true,
                          .rope = {.theta = 10000, .factor = 1},
                          .bos_id = -1};
}

// Adds the share's numbers to what was found of each parameter: counted[i] how often, and checks them.
static void look_through(const ModelFile *file, const Architecture *share, const Parameter *whole, const float *values,
                         int *counted) {
    ParameterTable table;
    parameters_open(&table, share);
    const Parameter *part = parameters_find(&table, whole->unit, whole->role);
    assert_non_null(part);
    assert_int_equal(part->whole_rows, whole->rows);
    assert_int_equal(part->whole_cols, whole->cols);
    float *read = calloc((size_t)(part->rows * part->cols), sizeof *read);
    Error error;
    assert_true(model_file_read(file, part, read, &error));
    for (int64_t i = 0; i < part->rows * part->cols; i++) {
        int64_t row = i / part->cols, at = (part->first_row + row) * whole->cols + part->first_col + i % part->cols;
        if (row >= part->real_rows) {
            assert_true(read[i] == 0);
            continue;
        }
        assert_true(at < whole->rows * whole->cols && read[i] == values[at]);
        counted[at] += part->counts;
    }
    free(read);
    parameters_close(&table);
}

static void check_ranks(const ModelFile *file, int ranks) {
    const Architecture *whole = model_file_architecture(file);
    const ParameterTable *table = model_file_parameters(file);
    Error error;
    for (int p = 0; p < table->count; p++) {
        const Parameter *item = &table->items[p];
        size_t count = (size_t)(item->rows * item->cols);
        float *values = calloc(count, sizeof *values);
        int *counted = calloc(count, sizeof *counted);
        assert_true(model_file_read(file, item, values, &error));
        for (int rank = 0; rank < ranks; rank++) {
            Architecture share;
            if (!tensor_share_open(&share, whole, rank, ranks, 0, "tp", &error)) fail_msg("%s", error.text);
            look_through(file, &share, item, values, counted);
        }
        for (size_t i = 0; i < count; i++)
            if (counted[i] != 1)
                fail_msg("%s of %d ranks: element %zu lies in %d shares", item->name, ranks, i, counted[i]);
        free(values);
        free(counted);
    }
}

static void test_numbers(void **state) {
    (void)state;
    static const struct {
        int64_t heads, kv_heads, ffn, vocabulary;
        bool tied;
        int ranks[4];
    } models[] = {{8, 2, 48, 2100, false, {1, 2, 4, 8}},
                  {4, 4, 24, 512, true, {1, 2, 4}},
                  {9, 3, 27, 1600, true, {1, 3, 9}}};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        char folder[] = "/tmp/whet_share_XXXXXX";
        Error error;
        ModelFile *file;
        assert_non_null(mkdtemp(folder));
        Architecture a = model_of(models[m].heads, models[m].kv_heads, models[m].ffn, models[m].vocabulary);
        a.tied_head = models[m].tied;
        assert_true(random_model_write(folder, &a, 11, 0.1, &error));
        if (!model_file_open(&file, folder, &error)) fail_msg("%s", error.text);
        for (int i = 0; i < 4 && models[m].ranks[i]; i++) check_ranks(file, models[m].ranks[i]);
        model_file_close(file);
        assert_true(file_remove_tree(folder, &error));
    }
}

static void test_segments(void **state) {
    (void)state;
    static const struct {
        int64_t heads, kv_heads, ffn;
        int segments;
    } models[] = {{9, 3, 1536, 1},   // SmolLM2-135M
                  {12, 2, 8960, 4},  // Qwen2.5-1.5B
                  {14, 2, 4864, 2},  // Qwen2.5-0.5B
                  {64, 8, 29568, 8}, // Qwen2.5-72B
                  {24, 3, 8192, 1}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        Architecture a = model_of(models[i].heads, models[i].kv_heads, models[i].ffn, 1000);
        assert_int_equal(tensor_share_segments(&a), models[i].segments);
    }
    Architecture a = model_of(12, 2, 8960, 151936), share;
    Error error;
    assert_true(tensor_share_open(&share, &a, 1, 2, 0, "tp", &error));
    assert_int_equal(share.segments, 2);
    assert_int_equal(share.vocab_size, 150 * 512); // of 297 blocks, in four segments of 75
    assert_int_equal(tensor_share_vocabulary_first(&share), 150 * 512);
    assert_int_equal(tensor_share_vocabulary_count(&share), 151936 - 150 * 512);
    assert_true(tensor_share_open(&share, &a, 0, 2, 2, "tp", &error));
    assert_int_equal(share.segments, 1);
}

static void test_refusals(void **state) {
    (void)state;
    Architecture a = model_of(12, 2, 8960, 1000), share;
    Error error;
    static const struct {
        int ranks, segments;
        const char *say;
    } wrong[] = {{3, 0, "tp: 3 does not divide 12 query heads, 2 key/value heads, intermediate_size 8960"},
                 {8, 0, "possible are 1, 2, 4"},
                 {4, 2, "whet.tensor_segments: 2 cannot be shared by the 4 ranks of tp; 4 can"},
                 {2, 5, "whet.tensor_segments: 5 segments of at most 16 do not divide 12 query heads"},
                 {1, -1, "whet.tensor_segments: -1"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_false(tensor_share_open(&share, &a, 0, wrong[i].ranks, wrong[i].segments, "tp", &error));
        if (!strstr(error.text, wrong[i].say)) fail_msg("%s: %s", wrong[i].say, error.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_segments),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("tensor_share", tests, NULL, NULL);
}
