// Model folders: random models written and read back, shards, storage types, chat templates and stop ids, refusals.
#include "base/file.h"
#include "base/jsonio.h"
#include "base/rng.h"
#include "device/dtype.h"
#include "model/model_file.h"
#include "model/random_model.h"
#include "model/safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct Fixture {
    Arena arena;
    const char *folder; // a random model of tiny()
} Fixture;

static Architecture tiny(void) {
    return (Architecture){
        .family = MODEL_QWEN2,
        .vocab_size = 24,
        .hidden_size = 20,
        .intermediate_size = 28,
        .layer_count = 2,
        .query_heads = 4,
        .kv_heads = 2,
        .head_dim = 6,
        .max_positions = 64,
        .rms_norm_eps = 1e-6f,
        .qkv_bias = true,
        .rope = {.theta = 10000, .factor = 1},
        .bos_id = -1,
        .eos_ids = {3},
        .eos_count = 1,
    };
}

static int setup(void **state) {
    static Fixture fixture;
    static char folder[64];
    fixture = (Fixture){.folder = folder};
    snprintf(folder, sizeof folder, "/tmp/whet-test-model-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    Architecture architecture = tiny();
    Error error;
    *state = &fixture;
    return random_model_write(folder, &architecture, 7, 0.1, &error) ? 0 : -1;
}

static int teardown(void **state) {
    Fixture *fixture = *state;
    Error error;
    arena_close(&fixture->arena);
    return file_remove_tree(fixture->folder, &error) ? 0 : -1;
}

static const char *in_folder(Fixture *fixture, const char *name) {
    return arena_format(&fixture->arena, "%s/%s", fixture->folder, name);
}

static void write_text(Fixture *fixture, const char *name, const char *text) {
    Error error;
    if (!file_write(in_folder(fixture, name), text, strlen(text), &error)) fail_msg("%s", error.text);
}

static ModelFile *open_good(Fixture *fixture) {
    ModelFile *file;
    Error error;
    if (!model_file_open(&file, fixture->folder, &error)) fail_msg("%s", error.text);
    return file;
}

// Opening must fail with a line that holds both words.
static void open_bad(Fixture *fixture, const char *first, const char *second) {
    ModelFile *file;
    Error error;
    if (model_file_open(&file, fixture->folder, &error)) fail_msg("accepted, expected '%s'", first);
    assert_null(file);
    if (!strstr(error.text, first) || !strstr(error.text, second) || strchr(error.text, '\n'))
        fail_msg("'%s' lacks '%s' or '%s'", error.text, first, second);
}

static void set_config(Fixture *fixture, const char *key, json_t *value) {
    json_t *config;
    Error error;
    const char *path = in_folder(fixture, "config.json");
    assert_true(jsonio_read(&config, path, &error));
    json_object_set_new(config, key, value);
    assert_true(jsonio_write(config, path, &error));
    json_decref(config);
}

static float *read_all(Fixture *fixture, const ModelFile *file) {
    const ParameterTable *table = model_file_parameters(file);
    float *values = arena_array(&fixture->arena, float, table->total), *at = values;
    Error error;
    for (int i = 0; i < table->count; i++) {
        if (!model_file_read(file, &table->items[i], at, &error)) fail_msg("%s", error.text);
        at += table->items[i].rows * table->items[i].cols;
    }
    return values;
}

static void test_random_model_round_trip(void **state) {
    Fixture *fixture = *state;
    ModelFile *file = open_good(fixture);
    Architecture wanted = tiny();
    const Architecture *found = model_file_architecture(file);
    assert_int_equal(found->family, wanted.family);
    assert_int_equal(found->head_dim, wanted.head_dim);
    assert_int_equal(found->kv_heads, wanted.kv_heads);
    const ParameterTable *table = model_file_parameters(file);
    const float *values = read_all(fixture, file);

    Safetensors raw;
    Error error;
    if (!safetensors_open(&raw, in_folder(fixture, "model.safetensors"), &error)) fail_msg("%s", error.text);
    assert_int_equal(raw.count, table->count);
    assert_string_equal(safetensors_metadata(&raw, "format"), "pt");
    double sum = 0, squares = 0;
    int64_t plain = 0;
    for (int i = 0; i < table->count; i++) {
        const Parameter *item = &table->items[i];
        int64_t count = item->rows * item->cols;
        const SafetensorsEntry *entry;
        if (!safetensors_require(&entry, &raw, item->name, SAFETENSORS_F32, count, &error)) fail_msg("%s", error.text);
        assert_memory_equal(entry->data, values, sizeof *values * (size_t)count);
        bool norm = strstr(item->name, "norm") != NULL;
        for (int64_t j = 0; j < count; j++) {
            assert_true(fabsf(values[j] - (norm ? 1 : 0)) < 0.6f);
            if (norm) continue;
            sum += (double)values[j], squares += (double)values[j] * (double)values[j], plain++;
        }
        values += count;
    }
    double deviation = sqrt(squares / (double)plain);
    assert_true(fabs(deviation - 0.1) < 0.1 * 4 / sqrt(2.0 * (double)plain));
    assert_true(fabs(sum / (double)plain) < 0.1 * 4 / sqrt((double)plain));
    safetensors_close(&raw);
    model_file_close(file);
}

static void test_random_model_is_a_function_of_the_seed(void **state) {
    Fixture *fixture = *state;
    char first[33], again[33], other[33];
    Architecture architecture = tiny();
    Error error;
    ModelFile *file = open_good(fixture);
    model_file_digest(file, first);
    model_file_close(file);
    assert_true(random_model_write(fixture->folder, &architecture, 7, 0.1, &error));
    file = open_good(fixture);
    model_file_digest(file, again);
    model_file_close(file);
    assert_true(random_model_write(fixture->folder, &architecture, 8, 0.1, &error));
    file = open_good(fixture);
    model_file_digest(file, other);
    model_file_close(file);
    assert_int_equal(strlen(first), 32);
    assert_string_equal(first, again);
    assert_string_not_equal(first, other);
}

// Rewrites the model's tensors of names for which pick is true (all when NULL) into another file, in another type.
static void rewrite(Fixture *fixture, const char *to, SafetensorsType type, bool (*pick)(const char *name),
                    const SafetensorsEntry *more) {
    Safetensors from;
    Error error;
    if (!safetensors_open(&from, in_folder(fixture, "original.safetensors"), &error)) fail_msg("%s", error.text);
    SafetensorsEntry *entries = arena_array(&fixture->arena, SafetensorsEntry, from.count + 1);
    int64_t count = 0;
    for (int64_t i = 0; i < from.count; i++) {
        if (pick && !pick(from.entries[i].name)) continue;
        entries[count] = from.entries[i];
        entries[count].from_float = true;
        entries[count++].type = type;
    }
    if (more) entries[count++] = *more;
    if (!safetensors_write(in_folder(fixture, to), entries, count, NULL, &error)) fail_msg("%s", error.text);
    safetensors_close(&from);
}

static void move_original(Fixture *fixture) {
    assert_int_equal(rename(in_folder(fixture, "model.safetensors"), in_folder(fixture, "original.safetensors")), 0);
}

static void test_units_are_read_into_their_flat_arrays(void **state) {
    Fixture *fixture = *state;
    ModelFile *file = open_good(fixture);
    const ParameterTable *table = model_file_parameters(file);
    const float *values = read_all(fixture, file);
    Error error;
    for (int unit = 0; unit < table->unit_count; unit++) {
        float *flat = arena_array(&fixture->arena, float, table->unit_sizes[unit]);
        assert_true(model_file_read_unit(file, table, unit, flat, &error));
        for (int i = 0; i < table->count; i++) {
            const Parameter *item = &table->items[i];
            int64_t count = item->rows * item->cols;
            if (item->unit != unit) continue;
            assert_memory_equal(flat + item->offset, values, sizeof *values * (size_t)count);
            memset(flat + item->offset, 0, sizeof *values * (size_t)count);
            values += count;
        }
        for (int64_t i = 0; i < table->unit_sizes[unit]; i++) assert_true(flat[i] == 0); // gaps
    }
    model_file_close(file);
}

static bool no_head(const char *name) {
    return strcmp(name, "lm_head.weight") != 0;
}

static void test_values_that_are_not_finite_are_refused(void **state) {
    Fixture *fixture = *state;
    float *values = arena_array(&fixture->arena, float, 24 * 20), out[24 * 20];
    move_original(fixture);
    for (int i = 0; i < 2; i++) {
        values[24 * 20 - 1] = i ? NAN : -INFINITY;
        SafetensorsEntry more = {.name = "lm_head.weight", .type = SAFETENSORS_F32, .rank = 2, .shape = {24, 20}};
        more.data = values;
        rewrite(fixture, "model.safetensors", SAFETENSORS_F32, no_head, &more);
        ModelFile *file = open_good(fixture);
        Error error;
        assert_false(
            model_file_read(file, parameters_find(model_file_parameters(file), 2, PARAMETER_HEAD), out, &error));
        assert_non_null(strstr(error.text, "lm_head.weight holds a value that is not finite"));
        model_file_close(file);
    }
}

static void test_half_types(void **state) {
    Fixture *fixture = *state;
    ModelFile *file = open_good(fixture);
    int64_t total = model_file_parameters(file)->total;
    const float *full = read_all(fixture, file);
    model_file_close(file);
    move_original(fixture);
    for (int bf16 = 0; bf16 < 2; bf16++) {
        rewrite(fixture, "model.safetensors", bf16 ? SAFETENSORS_BF16 : SAFETENSORS_F16, NULL, NULL);
        file = open_good(fixture);
        const float *half = read_all(fixture, file);
        for (int64_t i = 0; i < total; i++) {
            float expected = bf16 ? dtype_from_bf16(dtype_to_bf16(full[i])) : dtype_from_f16(dtype_to_f16(full[i]));
            assert_true(half[i] == expected);
        }
        model_file_close(file);
    }
}

static bool in_first(const char *name) {
    return strstr(name, "layers.0") != NULL;
}

static bool in_second(const char *name) {
    return !in_first(name);
}

static void write_index(Fixture *fixture, const char *odd, const char *odd_file) {
    Safetensors from;
    Error error;
    assert_true(safetensors_open(&from, in_folder(fixture, "original.safetensors"), &error));
    json_t *map = json_object();
    for (int64_t i = 0; i < from.count; i++)
        json_object_set_new(map, from.entries[i].name,
                            json_string(in_first(from.entries[i].name) ? "a.safetensors" : "b.safetensors"));
    if (odd && odd_file) json_object_set_new(map, odd, json_string(odd_file));
    if (odd && !odd_file) json_object_del(map, odd);
    json_t *index = json_pack("{s:o}", "weight_map", map);
    assert_true(jsonio_write(index, in_folder(fixture, "model.safetensors.index.json"), &error));
    json_decref(index);
    safetensors_close(&from);
}

static void test_shards(void **state) {
    Fixture *fixture = *state;
    char whole[33], sharded[33];
    ModelFile *file = open_good(fixture);
    model_file_digest(file, whole);
    model_file_close(file);
    move_original(fixture);
    open_bad(fixture, "model.safetensors.index.json", "neither");
    rewrite(fixture, "a.safetensors", SAFETENSORS_F32, in_first, NULL);
    rewrite(fixture, "b.safetensors", SAFETENSORS_F32, in_second, NULL);
    write_index(fixture, NULL, NULL);
    file = open_good(fixture);
    model_file_digest(file, sharded);
    model_file_close(file);
    assert_string_equal(whole, sharded);

    write_index(fixture, "model.norm.weight", "../b.safetensors");
    open_bad(fixture, "model.norm.weight", "file in the folder");
    write_index(fixture, "model.norm.weight", "a.safetensors");
    open_bad(fixture, "model.norm.weight", "not in a.safetensors");
    write_index(fixture, "model.norm.weight", "c.safetensors");
    open_bad(fixture, "c.safetensors", "cannot open");
    write_index(fixture, "model.norm.weight", NULL);
    open_bad(fixture, "model.norm.weight", "not in weight_map");
    write_text(fixture, "model.safetensors.index.json", "{\"weight_map\": []}");
    open_bad(fixture, "weight_map", "missing or empty");
}

static void test_tensors_must_fit_the_table(void **state) {
    Fixture *fixture = *state;
    move_original(fixture);
    rewrite(fixture, "model.safetensors", SAFETENSORS_F32, no_head, NULL);
    open_bad(fixture, "lm_head.weight is missing", "tie_word_embeddings");
    float zeros[24 * 20] = {0};
    SafetensorsEntry more = {.name = "lm_head.weight", .type = SAFETENSORS_F32, .rank = 2, .shape = {20, 24}};
    more.data = zeros;
    rewrite(fixture, "model.safetensors", SAFETENSORS_F32, no_head, &more);
    open_bad(fixture, "shape [20, 24]", "expected [24, 20]");
    more = (SafetensorsEntry){.name = "lm_head.weight", .type = SAFETENSORS_I32, .rank = 2, .shape = {24, 20}};
    more.data = zeros;
    rewrite(fixture, "model.safetensors", SAFETENSORS_F32, no_head, &more);
    open_bad(fixture, "dtype I32", "F32, F16 or BF16");
    more = (SafetensorsEntry){.name = "model.layers.2.mlp.up_proj.weight", .type = SAFETENSORS_F32, .data = zeros};
    rewrite(fixture, "model.safetensors", SAFETENSORS_F32, NULL, &more);
    open_bad(fixture, "model.layers.2.mlp.up_proj.weight", "qwen2 model of 2 layers");
    more.name = "model.layers.0.self_attn.rotary_emb.inv_freq";
    rewrite(fixture, "model.safetensors", SAFETENSORS_F32, NULL, &more);
    model_file_close(open_good(fixture));
    set_config(fixture, "num_hidden_layers", json_integer(1));
    open_bad(fixture, "model.layers.1.", "1 layers");
}

static void test_head_beside_a_tied_embedding(void **state) {
    Fixture *fixture = *state;
    move_original(fixture);
    set_config(fixture, "tie_word_embeddings", json_true());
    rewrite(fixture, "model.safetensors", SAFETENSORS_F32, NULL, NULL);
    open_bad(fixture, "lm_head.weight differs", "tie_word_embeddings");
    Safetensors raw;
    Error error;
    assert_true(safetensors_open(&raw, in_folder(fixture, "original.safetensors"), &error));
    SafetensorsEntry head = *safetensors_find(&raw, "model.embed_tokens.weight");
    head.name = "lm_head.weight";
    rewrite(fixture, "model.safetensors", SAFETENSORS_F32, no_head, &head);
    safetensors_close(&raw);
    ModelFile *file = open_good(fixture);
    assert_true(model_file_architecture(file)->tied_head);
    model_file_close(file);
}

static void test_chat_template_and_stop_ids(void **state) {
    Fixture *fixture = *state;
    int32_t ids[8];
    ModelFile *file = open_good(fixture);
    assert_int_equal(model_file_chat_templates(file)->count, 0);
    assert_int_equal(model_file_stop_ids(file, ids, 8), 1);
    assert_int_equal(ids[0], 3);
    model_file_close(file);

    write_text(fixture, "generation_config.json", "{\"eos_token_id\": [3, 5]}");
    write_text(fixture, "tokenizer_config.json",
               "{\"chat_template\": \"first\", \"eos_token\": {\"content\": \"<e>\"},"
               " \"added_tokens_decoder\": {\"4\": {\"content\": \"<x>\"}, \"9\": {\"content\": \"<e>\"}}}");
    file = open_good(fixture);
    assert_string_equal(chat_source_find(model_file_chat_templates(file), "default")->text, "first");
    assert_int_equal(model_file_stop_ids(file, ids, 8), 3);
    assert_true(ids[0] == 3 && ids[1] == 5 && ids[2] == 9);
    assert_int_equal(model_file_stop_ids(file, ids, 2), 2);
    model_file_close(file);

    write_text(fixture, "tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"tools\", \"template\": \"no\"},"
               " {\"name\": \"default\", \"template\": \"second\"}]}");
    file = open_good(fixture);
    assert_string_equal(chat_source_find(model_file_chat_templates(file), "default")->text, "second");
    model_file_close(file);

    write_text(fixture, "chat_template.jinja", "third\n");
    file = open_good(fixture);
    assert_string_equal(chat_source_find(model_file_chat_templates(file), "default")->text, "third\n");
    model_file_close(file);

    write_text(fixture, "generation_config.json", "{\"eos_token_id\": 24}");
    open_bad(fixture, "generation_config.json", "eos_token_id 24");
    write_text(fixture, "generation_config.json", "{");
    open_bad(fixture, "generation_config.json", "not valid JSON");
    write_text(fixture, "generation_config.json", "[{\"eos_token_id\": 3}]");
    open_bad(fixture, "generation_config.json", "a list, expected a JSON object");
    write_text(fixture, "generation_config.json", "{}");
    write_text(fixture, "tokenizer_config.json", "[]");
    open_bad(fixture, "tokenizer_config.json", "a list, expected a JSON object");
}

// Damaged JSON files either open or end in a line that names a file of the folder.
static void damage(Fixture *fixture, const char *name, uint32_t seed) {
    char *text;
    size_t size;
    Error error;
    const char *path = in_folder(fixture, name);
    assert_true(file_read(&text, &size, &fixture->arena, path, &error));
    int refused = 0;
    for (uint32_t variant = 0; variant < 1000; variant++) {
        uint32_t words[4];
        rng_words(words, seed, RNG_TEST_WEIGHTS, (RngCounter){.step = variant});
        char *at = text + words[0] % size, old = *at;
        *at = variant % 2 ? (char)(old ^ (1 << words[1] % 8)) : "09.-[]{}\",:en"[words[1] % 14];
        FILE *out = fopen(path, "r+b");
        assert_non_null(out);
        assert_int_equal(fwrite(text, 1, size, out), size);
        assert_int_equal(fclose(out), 0);
        ModelFile *file;
        if (model_file_open(&file, fixture->folder, &error)) {
            read_all(fixture, file);
            model_file_close(file);
        } else {
            refused++;
            if (!strstr(error.text, fixture->folder)) fail_msg("'%s' does not name the folder", error.text);
        }
        *at = old;
    }
    assert_true(refused > 300);
    assert_true(file_write(path, text, size, &error));
}

static void test_damaged_json(void **state) {
    Fixture *fixture = *state;
    damage(fixture, "config.json", 31);
    move_original(fixture);
    rewrite(fixture, "a.safetensors", SAFETENSORS_F32, in_first, NULL);
    rewrite(fixture, "b.safetensors", SAFETENSORS_F32, in_second, NULL);
    write_index(fixture, NULL, NULL);
    damage(fixture, "model.safetensors.index.json", 32);
    model_file_close(open_good(fixture));
}

static void test_config_overrides(void **state) {
    const Fixture *fixture = *state;
    ModelFile *file;
    Error error;
    const char *changes = "{\"max_position_embeddings\":32,\"rope_theta\":5000.0,\"hidden_size\":20}";
    if (!model_file_open_changed(&file, fixture->folder, changes, &error)) fail_msg("%s", error.text);
    assert_int_equal(model_file_architecture(file)->max_positions, 32);
    assert_true(model_file_architecture(file)->rope.theta == 5000);
    model_file_close(file);
    static const struct {
        const char *overrides, *message;
    } cases[] = {
        {"{\"max_position_embedings\":32}", "policy.hf_config_overrides.max_position_embedings: changes nothing"},
        {"{\"router_aux_loss_coef\":0.0}", "policy.hf_config_overrides.router_aux_loss_coef: changes nothing"},
        {"{\"hidden_act\":\"gelu\"}", "policy.hf_config_overrides.hidden_act: "},
        {"{\"vocab_size\":25}", "24"}, // the weights have another shape
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_false(model_file_open_changed(&file, fixture->folder, cases[i].overrides, &error));
        if (!strstr(error.text, cases[i].message)) fail_msg("'%s' is not in: %s", cases[i].message, error.text);
    }
}

static void test_paths_without_a_model(void **state) {
    Fixture *fixture = *state;
    ModelFile *file;
    Error error;
    assert_false(model_file_open(&file, in_folder(fixture, "nowhere"), &error));
    assert_non_null(strstr(error.text, "nowhere"));
    unlink(in_folder(fixture, "model.safetensors"));
    open_bad(fixture, "model.safetensors", "neither");
    write_text(fixture, "pytorch_model.bin", "");
    open_bad(fixture, "pytorch_model.bin", "convert");
    unlink(in_folder(fixture, "config.json"));
    open_bad(fixture, "config.json", "No such file");
    model_file_close(NULL);
}

#define WITH_MODEL(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_MODEL(test_random_model_round_trip),
        WITH_MODEL(test_random_model_is_a_function_of_the_seed),
        WITH_MODEL(test_units_are_read_into_their_flat_arrays),
        WITH_MODEL(test_values_that_are_not_finite_are_refused),
        WITH_MODEL(test_half_types),
        WITH_MODEL(test_shards),
        WITH_MODEL(test_tensors_must_fit_the_table),
        WITH_MODEL(test_head_beside_a_tied_embedding),
        WITH_MODEL(test_chat_template_and_stop_ids),
        WITH_MODEL(test_config_overrides),
        WITH_MODEL(test_damaged_json),
        WITH_MODEL(test_paths_without_a_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
