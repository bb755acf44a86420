// Checkpoints: equal bits after a round trip, what is refused, which folders count, which are kept. What a kill or a full
// disk leaves behind is in test_checkpoint_faults.c.
#include "base/digest.h"
#include "base/file.h"
#include "model/model_file.h"
#include "model/safetensors.h"
#include "support/checkpoint_setup.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define WEIGHTS "policy/weights/model/model.safetensors"
#define OPTIMIZER "policy/optimizer/optim/optimizer.safetensors"

static void save(CheckpointSetup *setup, int64_t step, int mark) {
    Error error;
    if (!checkpoint_setup_save(setup, step, mark, (double)NAN, true, &error)) fail_msg("%s", error.text);
}

static void has_mark(CheckpointSetup *setup, int64_t step, int mark) {
    Error error = {.text = "another mark"};
    if (checkpoint_setup_mark(setup, step, &error) != mark) fail_msg("step_%lld: %s", (long long)step, error.text);
}

static void latest_is(CheckpointSetup *setup, int64_t step) {
    Error error;
    int64_t found = -1;
    if (!checkpoint_latest(&found, setup->folder, &error)) fail_msg("%s", error.text);
    assert_int_equal(found, step);
}

static void says(const Error *error, const char *words) {
    if (!strstr(error->text, words)) fail_msg("\"%s\" does not say \"%s\"", error->text, words);
    assert_null(strchr(error->text, '\n'));
}

// Step 1 is refused with these words, and nothing of the shards changes.
static void refused(CheckpointSetup *setup, const char *words) {
    Error error = {.text = ""};
    json_t *info = (json_t *)setup;
    bool optimizer;
    Shards *shards = &setup->loaded;
    StrBuf before = {0}, after = {0};
    for (int round = 0; round < 2; round++) {
        StrBuf *bits = round ? &after : &before;
        if (round) assert_false(checkpoint_load(shards, NULL, setup->folder, 1, &info, &optimizer, &error));
        strbuf_append(bits, &shards->step, sizeof shards->step);
        for (int unit = 0; unit < shards->table->unit_count; unit++) {
            strbuf_append(bits, shards->weight[unit].data, tensor_bytes(&shards->weight[unit]));
            strbuf_append(bits, shards->moment1[unit].data, tensor_bytes(&shards->moment1[unit]));
            strbuf_append(bits, shards->moment2[unit].data, tensor_bytes(&shards->moment2[unit]));
        }
    }
    assert_null(info);
    says(&error, words);
    assert_int_equal(before.length, after.length);
    assert_memory_equal(before.text, after.text, before.length);
    strbuf_close(&before);
    strbuf_close(&after);
}

static void write_text(CheckpointSetup *setup, const char *name, const char *text) {
    Error error;
    if (!file_write(checkpoint_setup_path(setup, name), text, strlen(text), &error)) fail_msg("%s", error.text);
}

static void make_folder(CheckpointSetup *setup, const char *name) {
    Error error;
    if (!file_make_folders(checkpoint_setup_path(setup, name), &error)) fail_msg("%s", error.text);
}

// ---- round trips

static void test_every_bit_comes_back(void **state) {
    CheckpointSetup *setup = *state;
    Shards *from = &setup->shards, *to = &setup->loaded;
    uint32_t word = 7;
    Error error;
    for (int optimizer = 1; optimizer >= 0; optimizer--) {
        for (int unit = 0; unit < from->table->unit_count; unit++)
            for (int64_t i = 0; i < from->table->unit_sizes[unit]; i++) { // NaNs, infinities, subnormals too
                ((uint32_t *)from->weight[unit].data)[i] = word = word * 1664525 + 1013904223;
                ((uint32_t *)from->moment1[unit].data)[i] = word = word * 1664525 + 1013904223;
                ((uint32_t *)from->moment2[unit].data)[i] = word = word * 1664525 + 1013904223;
                ((uint32_t *)to->weight[unit].data)[i] = ((uint32_t *)to->moment1[unit].data)[i] = 0;
                ((uint32_t *)to->moment2[unit].data)[i] = 0;
            }
        from->step = (INT64_C(1) << 53) + 1; // more than a double holds
        to->step = 0;
        json_t *info = json_pack("{s:i, s:s}", "total_steps", 3, "note", "é");
        CheckpointSave save = {.folder = setup->folder,
                               .step = 3,
                               .shards = from,
                               .architecture = &setup->architecture,
                               .optimizer = optimizer,
                               .info = info,
                               .config = ""};
        if (!checkpoint_save(&save, &error)) fail_msg("%s", error.text);
        json_decref(info);
        bool had = !optimizer;
        if (!checkpoint_load(to, NULL, setup->folder, 3, &info, &had, &error)) fail_msg("%s", error.text);
        assert_int_equal(had, optimizer);
        assert_int_equal(json_integer_value(json_object_get(info, "total_steps")), 3);
        assert_string_equal(json_string_value(json_object_get(info, "note")), "é");
        json_decref(info);
        assert_int_equal(to->step, optimizer ? from->step : 0);
        for (int i = 0; i < from->table->count; i++) {
            const Parameter *p = &from->table->items[i];
            size_t bytes = (size_t)(p->rows * p->cols) * sizeof(float);
            assert_memory_equal(shard_view(&from->weight[p->unit], p).data, shard_view(&to->weight[p->unit], p).data,
                                bytes);
            const uint32_t *moment1 = shard_view(&to->moment1[p->unit], p).data;
            const uint32_t *moment2 = shard_view(&to->moment2[p->unit], p).data;
            if (optimizer) {
                assert_memory_equal(shard_view(&from->moment1[p->unit], p).data, moment1, bytes);
                assert_memory_equal(shard_view(&from->moment2[p->unit], p).data, moment2, bytes);
            }
            for (size_t k = 0; !optimizer && k < bytes / 4; k++) assert_true(moment1[k] == 0 && moment2[k] == 0);
        }
    }
}

static void test_layout_is_a_model_that_opens(void **state) {
    CheckpointSetup *setup = *state;
    Error error;
    char *text, hex[DIGEST_HEX];
    uint8_t digest[DIGEST_SIZE];
    json_t *info, *config;
    ModelFile *file;
    save(setup, 20, 5);
    assert_string_equal(checkpoint_setup_names(setup), "step_20 ");
    if (!file_read(&text, NULL, &setup->arena, checkpoint_setup_path(setup, "step_20/config.yaml"), &error))
        fail_msg("%s", error.text);
    assert_string_equal(text, "grpo:\n  seed: 42\n");
    assert_true(jsonio_read(&info, checkpoint_setup_path(setup, "step_20/training_info.json"), &error));
    const char *const names[] = {WEIGHTS, OPTIMIZER};
    for (int i = 0; i < 2; i++) {
        const char *name = arena_format(&setup->arena, "step_20/%s", names[i]);
        const json_t *noted = json_object_get(json_object_get(info, "files"), names[i]);
        size_t size;
        assert_true(file_read(&text, &size, &setup->arena, checkpoint_setup_path(setup, name), &error));
        assert_true(size < DIGEST_PIECE);
        digest_piece(digest, text, size);
        digest_bytes(hex, digest, sizeof digest);
        assert_string_equal(json_string_value(json_object_get(noted, "digest")), hex);
        assert_int_equal(json_integer_value(json_object_get(noted, "piece_bytes")), DIGEST_PIECE);
    }
    json_decref(info);
    assert_true(jsonio_read(&config, checkpoint_setup_path(setup, "step_20/policy/weights/model/config.json"), &error));
    const char *dtype = json_string_value(json_object_get(config, "torch_dtype"));
    assert_true(dtype && !strcmp(dtype, "float32"));
    json_decref(config);
    if (!model_file_open(&file, checkpoint_setup_path(setup, "step_20/policy/weights/model"), &error))
        fail_msg("%s", error.text);
    assert_memory_equal(model_file_architecture(file), &setup->architecture, sizeof setup->architecture);
    for (int unit = 0; unit < setup->table.unit_count; unit++) {
        float *values = setup->loaded.weight[unit].data;
        if (!model_file_read_unit(file, &setup->table, unit, values, &error)) fail_msg("%s", error.text);
    }
    for (int i = 0; i < setup->table.count; i++) {
        const Parameter *p = &setup->table.items[i];
        assert_memory_equal(shard_view(&setup->shards.weight[p->unit], p).data,
                            shard_view(&setup->loaded.weight[p->unit], p).data, (size_t)(p->rows * p->cols) * 4);
    }
    model_file_close(file);
}

static void test_an_existing_step_is_replaced(void **state) {
    CheckpointSetup *setup = *state;
    Error error;
    save(setup, 4, 1);
    write_text(setup, "step_4/note", "of the old one");
    save(setup, 4, 2);
    has_mark(setup, 4, 2);
    assert_false(file_exists(checkpoint_setup_path(setup, "step_4/note")));
    assert_true(
        checkpoint_setup_save(setup, 4, 3, (double)NAN, false, &error)); // without moments: none of the old stay
    has_mark(setup, 4, 3);
    assert_false(file_exists(checkpoint_setup_path(setup, "step_4/policy/optimizer")));
    write_text(setup, "step_5", "a file in the way");
    save(setup, 5, 4);
    has_mark(setup, 5, 4);
    make_folder(setup, "tmp_step_6/policy/weights/model/model.safetensors"); // left by another save, in the way
    make_folder(setup, "step_6/policy");
    save(setup, 6, 5);
    has_mark(setup, 6, 5);
    assert_string_equal(checkpoint_setup_names(setup), "step_4 step_5 step_6 ");
}

static void test_the_folder_is_made(void **state) {
    CheckpointSetup *setup = *state;
    const char *folder = setup->folder;
    setup->folder = checkpoint_setup_path(setup, "results/run");
    latest_is(setup, 0);
    save(setup, 1, 9);
    latest_is(setup, 1);
    has_mark(setup, 1, 9);
    setup->folder = folder;
    assert_string_equal(checkpoint_setup_names(setup), "results ");
}

// ---- which folders count

static void test_latest_counts_by_number_and_ignores_junk(void **state) {
    CheckpointSetup *setup = *state;
    Error error;
    latest_is(setup, 0);
    const char *const junk[] = {"step_x",
                                "step_",
                                "step_007",
                                "step_0",
                                "step_-3",
                                "step_1e3",
                                "step_10.bak",
                                "step_11 ",
                                "step_ 12",
                                "step_+13",
                                "tmp_step_14",
                                "STEP_15",
                                "old_step_16",
                                "xstep_17",
                                "step_99999999999999999999",
                                "step_9223372036854775807"};
    for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) {
        make_folder(setup, junk[i]);
        write_text(setup, arena_format(&setup->arena, "%s/training_info.json", junk[i]), "{}");
    }
    make_folder(setup, "step_30"); // not complete
    write_text(setup, "step_31", "no folder");
    latest_is(setup, 0);
    save(setup, 9, 1);
    latest_is(setup, 9);
    save(setup, 10, 2);
    latest_is(setup, 10);
    save(setup, 8, 3);
    latest_is(setup, 10);
    for (int64_t step = 100; step < 140; step++) { // more than one block of the list, in no order
        const char *name = arena_format(&setup->arena, "step_%lld", (long long)(step * 37 % 40 + 100));
        make_folder(setup, name);
        write_text(setup, arena_format(&setup->arena, "%s/training_info.json", name), "{}");
    }
    latest_is(setup, 139);
    int64_t step = -1;
    assert_false(checkpoint_latest(&step, checkpoint_setup_path(setup, "step_31"), &error));
    says(&error, "step_31: not a folder");
    assert_int_equal(step, 0);
}

// ---- what is refused

static void test_every_flipped_byte_is_found(void **state) {
    CheckpointSetup *setup = *state;
    Error error;
    save(setup, 1, 3);
    const char *const names[] = {WEIGHTS, OPTIMIZER};
    for (int i = 0; i < 2; i++) {
        const char *name = arena_format(&setup->arena, "step_1/%s", names[i]);
        char *text;
        size_t size;
        assert_true(file_read(&text, &size, &setup->arena, checkpoint_setup_path(setup, name), &error));
        for (size_t at = 0; at < size; at = at + size / 23 < size - 1 || at == size - 1 ? at + size / 23 : size - 1) {
            text[at] ^= (char)(1 << at % 8);
            assert_true(file_write(checkpoint_setup_path(setup, name), text, size, &error));
            refused(setup, i ? "optimizer.safetensors: damaged" : "model.safetensors: damaged");
            text[at] ^= (char)(1 << at % 8);
        }
        assert_true(file_write(checkpoint_setup_path(setup, name), text, size - 1, &error));
        refused(setup, "damaged: digest ");
        assert_true(file_write(checkpoint_setup_path(setup, name), "", 0, &error));
        refused(setup, "damaged: digest 99aa06d3014798d86001c324468d497f");
        unlink(checkpoint_setup_path(setup, name));
        refused(setup, arena_format(&setup->arena, "%s: cannot open: No such file", name));
        assert_true(file_write(checkpoint_setup_path(setup, name), text, size, &error));
        has_mark(setup, 1, 3);
    }
}

static void test_damaged_info_is_refused(void **state) {
    CheckpointSetup *setup = *state;
    refused(setup, "step_1/training_info.json: cannot open: No such file");
    save(setup, 1, 3);
    const struct {
        const char *text, *words;
    } cases[] = {{"", "training_info.json: empty"},
                 {"{\"mark\": 3", "training_info.json:1: not valid JSON"},
                 {"[]", "training_info.json: expected an object"},
                 {"7", "training_info.json:1: not valid JSON"},
                 {"{}", "training_info.json: no digest of "},
                 {"{\"files\": []}", "training_info.json: no digest of "},
                 {"{\"files\": {\"" WEIGHTS "\": 5}}", "training_info.json: no digest of "},
                 {"{\"files\": {\"" WEIGHTS "\": {\"digest\": \"\"}}}", "training_info.json: no digest of "},
                 {"{\"files\": {\"" WEIGHTS "\": {\"digest\": \"\", \"piece_bytes\": 1048576}}}",
                  "model.safetensors: damaged: digest "},
                 {"{\"files\": {\"" WEIGHTS "\": \"\"}}", "model.safetensors: damaged: digest "}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_text(setup, "step_1/training_info.json", cases[i].text);
        refused(setup, cases[i].words);
    }
}

// Replaces a file of step_1 and notes its digest, as a hostile writer would; in the way of older checkpoints, of the whole file.
static void forge(CheckpointSetup *setup, const char *name, const SafetensorsEntry *entries, int64_t count,
                  const char *step) {
    Error error;
    char hex[DIGEST_HEX];
    json_t *info = NULL, *metadata = step ? json_pack("{s:s}", "step", step) : NULL;
    const char *path = arena_format(&setup->arena, "%s/step_1/%s", setup->folder, name);
    const char *info_path = checkpoint_setup_path(setup, "step_1/training_info.json");
    assert_true(safetensors_write(path, entries, count, metadata, &error));
    assert_true(digest_file(hex, path, &error) && jsonio_read(&info, info_path, &error));
    json_object_set_new(json_object_get(info, "files"), name, json_string(hex));
    assert_true(jsonio_write(info, info_path, &error));
    json_decref(info);
    json_decref(metadata);
}

static void test_tensors_that_do_not_fit_are_refused(void **state) {
    CheckpointSetup *setup = *state;
    Error error;
    Safetensors weights, moments;
    save(setup, 1, 3);
    assert_true(safetensors_open(&weights, checkpoint_setup_path(setup, "step_1/" WEIGHTS), &error));
    assert_true(safetensors_open(&moments, checkpoint_setup_path(setup, "step_1/" OPTIMIZER), &error));
    int64_t count = weights.count, twice = moments.count;
    SafetensorsEntry *entries = arena_array(&setup->arena, SafetensorsEntry, twice + 1);
    const SafetensorsEntry *down = safetensors_find(&weights, "model.layers.1.mlp.down_proj.weight");
    int64_t at = down - weights.entries;

    memcpy(entries, weights.entries, (size_t)count * sizeof *entries);
    forge(setup, WEIGHTS, entries, count - 1, NULL);
    refused(setup, "model.safetensors: 26 tensors, the model has 27");
    entries[count] = (SafetensorsEntry){.name = "more", .type = SAFETENSORS_F32, .rank = 1, .data = ""};
    forge(setup, WEIGHTS, entries, count + 1, NULL);
    refused(setup, "model.safetensors: 28 tensors, the model has 27");
    entries[at].name = "model.layers.9.mlp.down_proj.weight";
    forge(setup, WEIGHTS, entries, count, NULL);
    refused(setup, "tensor model.layers.1.mlp.down_proj.weight is missing");
    entries[at] = *down;
    entries[at].shape[0] = down->shape[1], entries[at].shape[1] = down->shape[0]; // as many elements
    forge(setup, WEIGHTS, entries, count, NULL);
    refused(setup, "tensor model.layers.1.mlp.down_proj.weight has shape [24, 16], the model has [16, 24]");
    entries[at].rank = 1, entries[at].shape[0] = 24 * 16;
    forge(setup, WEIGHTS, entries, count, NULL);
    refused(setup, "tensor model.layers.1.mlp.down_proj.weight has shape [384], the model has [16, 24]");
    entries[at] = *down;
    entries[at].type = SAFETENSORS_I32;
    forge(setup, WEIGHTS, entries, count, NULL);
    refused(setup, "tensor model.layers.1.mlp.down_proj.weight holds 384 of I32, expected 384 of F32");
    forge(setup, WEIGHTS, weights.entries, count, NULL);
    has_mark(setup, 1, 3);

    // The weights fit: still nothing of them may be taken when the moments do not.
    memcpy(entries, moments.entries, (size_t)twice * sizeof *entries);
    const char *const steps[] = {NULL, "", "x", "3x", "-1", " 3", "+3", "3.0", "0x3", "9223372036854775808"};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        forge(setup, OPTIMIZER, entries, twice, steps[i]);
        refused(setup, "optimizer.safetensors: metadata 'step' is no count");
    }
    forge(setup, OPTIMIZER, entries, twice - 1, "3");
    refused(setup, "optimizer.safetensors: 53 tensors, the model has 54");
    entries[twice - 1].name = "exp_avg_sq.else";
    forge(setup, OPTIMIZER, entries, twice, "3");
    refused(setup, "tensor exp_avg_sq.");
    forge(setup, OPTIMIZER, moments.entries, twice, "3");
    has_mark(setup, 1, 3);
    safetensors_close(&weights);
    safetensors_close(&moments);
}

static void test_another_model_is_refused(void **state) {
    CheckpointSetup *setup = *state;
    save(setup, 1, 3);
    const Architecture others[] = {checkpoint_setup_architecture(MODEL_LLAMA, 16, 24),
                                   checkpoint_setup_architecture(MODEL_QWEN2, 16, 32)};
    const char *const words[] = {
        "model.safetensors: 27 tensors, the model has 20; is it the checkpoint of another model?",
        "tensor model.layers.0.mlp.gate_proj.weight holds 384 of F32, expected 512 of F32"};
    for (int i = 0; i < 2; i++) {
        Shards kept = setup->loaded;
        ParameterTable table;
        parameters_open(&table, &others[i]);
        shard_open(&setup->loaded, &setup->ops, &table);
        refused(setup, words[i]);
        shard_close(&setup->loaded);
        parameters_close(&table);
        setup->loaded = kept;
    }
}

static void test_a_folder_that_cannot_be_written(void **state) {
    CheckpointSetup *setup = *state;
    const char *folder = setup->folder;
    Error error;
    write_text(setup, "file", "x");
    const char *const names[] = {"file", "file/below"};
    for (int i = 0; i < 2; i++) {
        setup->folder = arena_format(&setup->arena, "%s/%s", folder, names[i]);
        assert_false(checkpoint_setup_save(setup, 7, 1, (double)NAN, true, &error));
        says(&error, "checkpoint of step 7 was not saved: ");
        says(&error, setup->folder);
    }
    char deep[5000];
    memset(deep, 'a', sizeof deep);
    deep[sizeof deep - 1] = 0;
    setup->folder = deep;
    assert_false(checkpoint_setup_save(setup, 7, 1, (double)NAN, true, &error));
    says(&error, "checkpoint of step 7 was not saved: ");
    setup->folder = folder;
    if (geteuid() == 0) return; // whom no mode keeps out; a read-only mount is in test_checkpoint_faults.c
    assert_int_equal(chmod(folder, 0555), 0);
    assert_false(checkpoint_setup_save(setup, 7, 1, (double)NAN, true, &error));
    assert_int_equal(chmod(folder, 0755), 0);
    says(&error, "Permission denied");
    assert_string_equal(checkpoint_setup_names(setup), "file ");
}

// ---- which are kept

typedef struct Kept {
    int64_t keep;
    const char *metric;
    bool higher;
    double values[6]; // of steps 5, 10, 15, 20, 25, 100; NaN: no metric
    const char *names;
    int64_t period, latest; // save_period, ft_keep_latest_k
} Kept;

static bool retain(CheckpointSetup *setup, const char *name, int64_t keep, const char *metric, Error *error) {
    const CheckpointRetention retention = {.save_period = 1,
                                           .keep_top_k = keep,
                                           .metric = metric,
                                           .higher_is_better = true};
    return checkpoint_retain(name ? checkpoint_setup_path(setup, name) : setup->folder, &retention, error);
}

static void test_retention(void **state) {
    CheckpointSetup *setup = *state;
    const double none = (double)NAN;
    const char *all = "step_10 step_100 step_15 step_20 step_25 step_5 ";
    const Kept cases[] = {
        {-1, "val:accuracy", true, {.1, .2, .3, .4, .5, .6}, all, 1, 0},
        {6, "val:accuracy", true, {.1, .2, .3, .4, .5, .6}, all, 1, 0},
        {INT64_MAX, NULL, true, {.1, .2, .3, .4, .5, .6}, all, 1, 0},
        {2, NULL, true, {.9, .8, .7, .6, .5, .4}, "step_100 step_25 ", 1, 0},
        {1, NULL, true, {.9, .8, .7, .6, .5, .4}, "step_100 ", 1, 0},
        {0, NULL, true, {.9, .8, .7, .6, .5, .4}, "step_100 ", 1, 0},
        {0, "val:accuracy", true, {.9, .8, .7, .6, .5, .4}, "step_100 ", 1, 0},
        {1,
         "val:accuracy",
         true,
         {.9, .8, .7, .6, .5, .4},
         "step_100 step_5 ",
         1,
         0}, // the best, and the newest always
        {2, "val:accuracy", true, {.9, .8, .95, .6, .5, .4}, "step_100 step_15 step_5 ", 1, 0},
        {2, "val:accuracy", false, {.9, .8, .95, .6, .5, .4}, "step_100 step_25 ", 1, 0},
        {3, "val:accuracy", false, {-2, .8, .95, .6, .5, 7}, "step_100 step_20 step_25 step_5 ", 1, 0},
        {2, "val:accuracy", true, {.5, .5, .5, .5, .5, .1}, "step_100 step_20 step_25 ", 1, 0}, // ties: the newer
        {2, "val:accuracy", true, {.5, .5, .5, .5, .5, .5}, "step_100 step_25 ", 1, 0},
        {2, "val:accuracy", true, {.5, none, -3, none, none, none}, "step_100 step_15 step_5 ", 1, 0}, // missing: worst
        {2, "val:accuracy", false, {.5, none, 9, none, none, none}, "step_100 step_15 step_5 ", 1, 0},
        {3, "val:accuracy", true, {.5, none, none, none, none, none}, "step_100 step_25 step_5 ", 1, 0},
        {2, "another", true, {.9, .8, .7, .6, .5, .4}, "step_100 step_25 ", 1, 0},
        {2, "mark", true, {none, none, none, none, none, none}, "step_10 step_100 step_5 ", 1, 0}, // 6, 5, … 1
        // Only steps that save_period divides are candidates, however good the others are; the newest stays always.
        {1, "val:accuracy", true, {.9, .2, .8, .3, .7, .1}, "step_100 step_20 ", 10, 0},
        {3, "val:accuracy", true, {.9, .2, .8, .3, .7, .1}, "step_10 step_100 step_20 ", 10, 0},
        {1, NULL, true, {.9, .8, .7, .6, .5, .4}, "step_100 ", 50, 0},
        {2, NULL, true, {.9, .8, .7, .6, .5, .4}, "step_100 step_20 ", 20, 0},
        {-1, "val:accuracy", true, {.9, .8, .7, .6, .5, .4}, "step_10 step_100 step_20 ", 10, 0},
        {1, "val:accuracy", true, {.9, .8, .7, .6, .5, .4}, "step_100 ", 7, 0}, // none is one
        // The newest of all stay besides.
        {1, "val:accuracy", true, {.9, .2, .8, .3, .7, .1}, "step_100 step_20 step_25 ", 10, 2},
        {1, "val:accuracy", true, {.9, .8, .7, .6, .5, .4}, "step_10 step_100 step_20 step_25 ", 10, 3},
        {-1, NULL, true, {.9, .8, .7, .6, .5, .4}, "step_10 step_100 step_20 step_25 ", 10, 2},
        {1, NULL, true, {.9, .8, .7, .6, .5, .4}, all, 10, 99},
    };
    const int64_t steps[] = {5, 10, 15, 20, 25, 100};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        Error error;
        for (int i = 0; i < 6; i++)
            if (!checkpoint_setup_save(setup, steps[i], 6 - i, cases[c].values[i], false, &error))
                fail_msg("%s", error.text);
        const CheckpointRetention retention = {.save_period = cases[c].period,
                                               .keep_top_k = cases[c].keep,
                                               .metric = cases[c].metric,
                                               .higher_is_better = cases[c].higher,
                                               .ft_keep_latest_k = cases[c].latest};
        if (!checkpoint_retain(setup->folder, &retention, &error)) fail_msg("%s", error.text);
        const char *names = checkpoint_setup_names(setup);
        if (strcmp(names, cases[c].names) != 0) fail_msg("case %zu kept %s", c, names);
        latest_is(setup, 100);
    }
}

static void test_retention_touches_nothing_else(void **state) {
    CheckpointSetup *setup = *state;
    Error error;
    assert_true(retain(setup, "none", 1, NULL, &error));
    make_folder(setup, "outside/policy");
    write_text(setup, "outside/training_info.json", "{}");
    assert_int_equal(symlink(checkpoint_setup_path(setup, "outside"), checkpoint_setup_path(setup, "step_1")), 0);
    save(setup, 2, 2);
    save(setup, 3, 3);
    write_text(setup, "step_2/training_info.json", "{\"val:accuracy\": \"high\""); // damaged: counts as missing
    make_folder(setup, "tmp_step_2/policy/weights");
    make_folder(setup, "tmp_step_77");
    make_folder(setup, "old_step_78/policy");
    write_text(setup, "tmp_step_8", "a file");
    const char *const junk[] = {"tmp_step_x", "old_step_", "step_x", "step_10.bak", "step_007", "step_30"};
    for (size_t i = 0; i < sizeof junk / sizeof *junk; i++) make_folder(setup, junk[i]);
    if (!retain(setup, NULL, -1, "val:accuracy", &error)) fail_msg("%s", error.text);
    assert_string_equal(checkpoint_setup_names(setup),
                        "old_step_ outside step_007 step_1 step_10.bak step_2 step_3 step_30 step_x "
                        "tmp_step_x ");
    if (!retain(setup, NULL, 1, "val:accuracy", &error)) fail_msg("%s", error.text);
    assert_string_equal(checkpoint_setup_names(setup),
                        "old_step_ outside step_007 step_10.bak step_3 step_30 step_x tmp_step_x ");
    assert_true(file_exists(checkpoint_setup_path(setup, "outside/policy")));
    has_mark(setup, 3, 3);
    write_text(setup, "file", "x");
    assert_false(retain(setup, "file", 1, NULL, &error));
    says(&error, "file: not a folder");
}

// ---- digests

static void test_digests(void **state) {
    CheckpointSetup *setup = *state;
    Error error;
    char hex[DIGEST_HEX];
    const struct {
        const char *text, *hex; // of xxHash's XXH3_128bits
    } cases[] = {{"", "99aa06d3014798d86001c324468d497f"},
                 {"a", "a96faf705af16834e6c632b61e964e1f"},
                 {"abc", "06b05ab6733a618578af5f94892f3950"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        digest_bytes(hex, cases[i].text, strlen(cases[i].text));
        assert_string_equal(hex, cases[i].hex);
        write_text(setup, "file", cases[i].text);
        assert_true(digest_file(hex, checkpoint_setup_path(setup, "file"), &error));
        assert_string_equal(hex, cases[i].hex);
    }
    digest_bytes(hex, NULL, 0);
    assert_string_equal(hex, cases[0].hex);
    assert_false(digest_file(hex, checkpoint_setup_path(setup, "absent"), &error));
    says(&error, "absent: cannot open: No such file");
    assert_false(digest_file(hex, setup->folder, &error));
    says(&error, "not a regular file");
}

#define CHECKPOINT_TEST(test) cmocka_unit_test_setup_teardown(test, checkpoint_setup_open, checkpoint_setup_close)

int main(void) {
    const struct CMUnitTest tests[] = {
        CHECKPOINT_TEST(test_every_bit_comes_back),
        CHECKPOINT_TEST(test_layout_is_a_model_that_opens),
        CHECKPOINT_TEST(test_an_existing_step_is_replaced),
        CHECKPOINT_TEST(test_the_folder_is_made),
        CHECKPOINT_TEST(test_latest_counts_by_number_and_ignores_junk),
        CHECKPOINT_TEST(test_every_flipped_byte_is_found),
        CHECKPOINT_TEST(test_damaged_info_is_refused),
        CHECKPOINT_TEST(test_tensors_that_do_not_fit_are_refused),
        CHECKPOINT_TEST(test_another_model_is_refused),
        CHECKPOINT_TEST(test_a_folder_that_cannot_be_written),
        CHECKPOINT_TEST(test_retention),
        CHECKPOINT_TEST(test_retention_touches_nothing_else),
        CHECKPOINT_TEST(test_digests),
    };
    return cmocka_run_group_tests_name("checkpoint", tests, NULL, NULL);
}
