// Weights that go from a file straight into panels are those that a unit's flat array makes.
#include "base/file.h"
#include "model/random_model.h"
#include "model/resident.h"
#include "model/safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// Wider than one stripe of reading, with rows of one vocabulary page short of whole panels.
static Architecture wide(bool tied) {
    return (Architecture){
        .family = MODEL_QWEN2,
        .vocab_size = 1100,
        .hidden_size = 40,
        .intermediate_size = 1030,
        .layer_count = 2,
        .query_heads = 4,
        .kv_heads = 2,
        .head_dim = 6,
        .max_positions = 64,
        .rms_norm_eps = 1e-6f,
        .tied_head = tied,
        .qkv_bias = true,
        .rope = {.theta = 10000, .factor = 1},
        .bos_id = -1,
        .eos_count = 0,
    };
}

typedef struct Loaded {
    Ops ops;
    Resident resident;
} Loaded;

static void open_walk(Loaded *loaded, const ModelFile *file, DType compute, int threads) {
    Error error;
    PrecisionPolicy policy = {.compute = compute, .output = compute};
    if (!ops_open(&loaded->ops, (OpsOptions){.threads = threads}, &error)) fail_msg("%s", error.text);
    resident_open(&loaded->resident, &loaded->ops, model_file_architecture(file), model_file_parameters(file), NULL,
                  policy, MEMORY_ROLLOUT_WEIGHTS, 4, 16);
}

static void close_walk(Loaded *loaded) {
    resident_close(&loaded->resident);
    ops_close(&loaded->ops);
}

static void load_units(Loaded *loaded, const ModelFile *file) {
    const ParameterTable *table = model_file_parameters(file);
    Error error;
    for (int unit = 0; unit < table->unit_count; unit++) {
        Tensor flat = DEVICE_TENSOR(&loaded->ops.device, MEMORY_SCRATCH, DTYPE_F32, table->unit_sizes[unit]);
        if (!model_file_read_unit(file, table, unit, flat.data, &error)) fail_msg("%s", error.text);
        resident_load_unit(&loaded->resident, unit, &flat);
        device_release(&loaded->ops.device, &flat);
    }
}

static void same(const Tensor *one, const Tensor *other) {
    assert_int_equal(!one->data, !other->data);
    if (!one->data) return;
    assert_int_equal(one->dtype, other->dtype);
    assert_int_equal(tensor_bytes(one), tensor_bytes(other));
    assert_memory_equal(one->data, other->data, tensor_bytes(one));
}

static void same_weight(const LinearWeight *one, const LinearWeight *other) {
    assert_int_equal(one->n, other->n);
    assert_int_equal(one->k, other->k);
    same(&one->panels, &other->panels);
}

static void same_weights(const Resident *one, const Resident *other) {
    for (int64_t layer = 0; layer < one->architecture->layer_count; layer++) {
        const BlockWeights *a = &one->blocks[layer], *b = &other->blocks[layer];
        same_weight(&a->qkv, &b->qkv);
        same_weight(&a->o, &b->o);
        same_weight(&a->gate_up, &b->gate_up);
        same_weight(&a->down, &b->down);
        same(&a->qkv_bias_C, &b->qkv_bias_C);
        same(&a->input_norm_D, &b->input_norm_D);
        same(&a->middle_norm_D, &b->middle_norm_D);
    }
    same(&one->embedding_VD, &other->embedding_VD);
    same(&one->final_norm_D, &other->final_norm_D);
    same_weight(&one->head, &other->head);
}

static void test_a_file_loads_as_its_units_do(void **state) {
    (void)state;
    static const DType dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    char folder[] = "/tmp/whet-test-resident-XXXXXX";
    Error error;
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 6; i++) {
        Architecture architecture = wide(i % 2);
        ModelFile *file;
        Loaded direct, by_unit;
        if (!random_model_write(folder, &architecture, 5, 0.1, &error) || !model_file_open(&file, folder, &error))
            fail_msg("%s", error.text);
        open_walk(&direct, file, dtypes[i / 2], 1 + i % 3);
        open_walk(&by_unit, file, dtypes[i / 2], 1);
        load_units(&by_unit, file);
        for (int again = 0; again < 2; again++) { // the second load replaces the first
            if (!resident_load_file(&direct.resident, file, &error)) fail_msg("%s", error.text);
            same_weights(&direct.resident, &by_unit.resident);
        }
        close_walk(&direct);
        close_walk(&by_unit);
        model_file_close(file);
    }
    assert_true(file_remove_tree(folder, &error));
}

// A NaN in the last row of the head, which lies behind whole stripes, and one in a norm.
static void test_values_that_are_not_finite_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"lm_head.weight", "model.norm.weight", "model.layers.1.self_attn.k_proj.weight",
                                        "model.layers.0.self_attn.v_proj.bias"};
    char folder[] = "/tmp/whet-test-resident-XXXXXX", path[96];
    Error error;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    for (int i = 0; i < 4; i++) {
        Architecture architecture = wide(false);
        Safetensors written;
        assert_true(random_model_write(folder, &architecture, 5, 0.1, &error));
        assert_true(safetensors_open(&written, path, &error));
        const SafetensorsEntry *entry = safetensors_find(&written, names[i]);
        size_t offset = (size_t)((const uint8_t *)entry->data - written.map.data) + 4 * (size_t)(entry->count - 1);
        safetensors_close(&written);
        FILE *stream = fopen(path, "r+");
        float nan = NAN;
        assert_true(stream && !fseek(stream, (long)offset, SEEK_SET) && fwrite(&nan, sizeof nan, 1, stream) == 1);
        assert_int_equal(fclose(stream), 0);
        ModelFile *file;
        Loaded direct;
        assert_true(model_file_open(&file, folder, &error));
        open_walk(&direct, file, i % 2 ? DTYPE_BF16 : DTYPE_F32, 2);
        assert_false(resident_load_file(&direct.resident, file, &error));
        if (!strstr(error.text, names[i]) || !strstr(error.text, "not finite")) fail_msg("%s", error.text);
        close_walk(&direct);
        model_file_close(file);
    }
    assert_true(file_remove_tree(folder, &error));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_file_loads_as_its_units_do),
                                       cmocka_unit_test(test_values_that_are_not_finite_are_refused)};
    return cmocka_run_group_tests_name("resident", tests, NULL, NULL);
}
