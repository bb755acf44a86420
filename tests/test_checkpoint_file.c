// Checkpoints on many ranks: the bytes of one, whatever divides the model; read by any other number and division; each rank writes its
// own part alone, and all learn of what one could not do.
// ranks: 1 2 3 4
#include "base/digest.h"
#include "base/file.h"
#include "comm/mesh.h"
#include "model/tensor_share.h"
#include "support/family.h"
#include "support/ranked_test.h"
#include "train/checkpoint.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#define WEIGHTS "policy/weights/model/model.safetensors"
#define OPTIMIZER "policy/optimizer/optim/optimizer.safetensors"

static Comm world;
static char folder[64];

// One rank's part of a model.
typedef struct Part {
    Ops ops;
    Architecture whole, share;
    Mesh mesh;
    ParameterTable table;
    Shards shards;
} Part;

// tensor: ranks that share the model; 0: one rank has all of it.
static void part_open(Part *part, ModelFamily family, int tensor) {
    Error error;
    *part = (Part){.whole = {.vocab_size = 2700, // no multiple of what ranks take of it
                             .hidden_size = 96,
                             .intermediate_size = 88,
                             .layer_count = 2,
                             .query_heads = 8,
                             .kv_heads = 2, // of four ranks two hold the same
                             .head_dim = 8,
                             .max_positions = 64,
                             .rms_norm_eps = 1e-5f,
                             .tied_head = family == MODEL_LLAMA,
                             .bos_id = -1}};
    family_apply(&part->whole, family);
    Comm self = comm_self();
    if (!ops_open(&part->ops, (OpsOptions){.threads = 1}, &error) ||
        !mesh_open(&part->mesh, tensor ? &world : &self, tensor ? tensor : 1, &part->ops.device, &error) ||
        !tensor_share_open(&part->share, &part->whole, part->mesh.tensor.rank, part->mesh.tensor.size, 0, "ranks",
                           &error))
        fail_msg("%s", error.text);
    parameters_open(&part->table, &part->share);
    shard_open_ranks(&part->shards, &part->ops, &part->table,
                     (ShardOptions){.comm = &part->mesh.data, .piece_rows = 512});
}

static void part_close(Part *part) {
    shard_close(&part->shards);
    parameters_close(&part->table);
    mesh_close(&part->mesh);
    ops_close(&part->ops);
}

static float *column_of(Shards *shards, int column, int unit) {
    Tensor *const columns[] = {shards->weight, shards->moment1, shards->moment2};
    return columns[column][unit].data;
}

// Of an element, by its place in the whole model.
static float value_of(int column, const Parameter *p, int64_t i) {
    int64_t row = i / p->cols, col = i % p->cols;
    if (row >= p->real_rows) return 0;
    int64_t place = (p->first_row + row) * p->whole_cols + p->first_col + col;
    return (float)(place * 31 % 65521 + 7 * p->unit + (int)p->role) + (float)(column + 1) / 8;
}

// Fills this rank's elements, or counts those that differ.
static int64_t visit(Part *part, bool fill, float change) {
    int64_t differing = 0;
    for (int i = 0; i < part->table.count; i++) {
        const Parameter *p = &part->table.items[i];
        for (int slice = 0; slice < part->shards.units[p->unit].slice_count; slice++) {
            ShardPart own = shard_part(&part->shards, p, slice);
            for (int column = 0; column < 3; column++)
                for (int64_t k = 0; k < own.count; k++) {
                    float *value = column_of(&part->shards, column, p->unit) + own.local + k;
                    float wanted = value_of(column, p, own.first + k);
                    if (fill) *value = wanted + (wanted == 0 ? 0 : change);
                    differing += *value != wanted;
                }
        }
    }
    return differing;
}

static bool save(Part *part, const char *where, int64_t step, Error *error) {
    json_t *info = json_pack("{s:i}", "mark", 3);
    visit(part, true, 0);
    part->shards.step = 17;
    CheckpointSave save = {.folder = where,
                           .step = step,
                           .shards = &part->shards,
                           .architecture = &part->whole,
                           .ranks = &part->mesh.world,
                           .optimizer = true,
                           .info = info,
                           .config = "a: 1\n"};
    bool good = checkpoint_save(&save, error);
    json_decref(info);
    return good;
}

static bool load(Part *part, const char *where, int64_t step, Error *error) {
    json_t *info;
    bool optimizer;
    visit(part, true, 1);
    part->shards.step = 0;
    if (!checkpoint_load(&part->shards, &part->mesh.world, where, step, &info, &optimizer, error)) {
        assert_null(info);
        return false;
    }
    assert_true(optimizer);
    assert_int_equal(part->shards.step, 17);
    assert_int_equal(json_integer_value(json_object_get(info, "mark")), 3);
    json_decref(info);
    return true;
}

static void same_bytes(const char *name) {
    Arena arena = {0};
    char *text[2];
    size_t size[2];
    Error error;
    for (int i = 0; i < 2; i++)
        if (!file_read(&text[i], &size[i], &arena,
                       arena_format(&arena, "%s/%s/step_2/%s", folder, i ? "many" : "one", name), &error))
            fail_msg("%s", error.text);
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(text[0], text[1], size[0]);
    arena_close(&arena);
}

static const ModelFamily families[] = {MODEL_LLAMA, MODEL_QWEN2, MODEL_QWEN3};

static void the_bytes_are_those_of_one_rank(void **state) {
    (void)state;
    char one[80], many[80];
    Error error;
    snprintf(one, sizeof one, "%s/one", folder);
    snprintf(many, sizeof many, "%s/many", folder);
    for (int f = 0; f < 3; f++) {
        Part part;
        part_open(&part, families[f], 0);
        if (!world.rank && !save(&part, one, 2, &error)) fail_msg("%s", error.text);
        part_close(&part);
        for (int tensor = 1; tensor <= 4; tensor *= 2) {
            if (world.size % tensor) continue;
            part_open(&part, families[f], tensor);
            if (!save(&part, many, 2, &error)) fail_msg("%s", error.text);
            static const char *const names[] = {WEIGHTS, OPTIMIZER, "training_info.json", "config.yaml"};
            for (int i = 0; i < 4; i++) same_bytes(names[i]);
            if (!load(&part, one, 2, &error)) fail_msg("%s", error.text);
            assert_int_equal(visit(&part, false, 0), 0);
            part_close(&part);
        }
        part_open(&part, families[f], 0); // every rank alone
        if (!load(&part, many, 2, &error)) fail_msg("%s", error.text);
        assert_int_equal(visit(&part, false, 0), 0);
        part_close(&part);
        comm_any(&world, false); // before the next is written
    }
}

static int64_t written(void) {
    long long count = -1;
    FILE *file = fopen("/proc/self/io", "r");
    if (file && fscanf(file, "rchar: %*d wchar: %lld", &count) != 1) count = -1;
    if (file) fclose(file);
    return count;
}

static void a_rank_writes_its_part_alone(void **state) {
    (void)state;
    Part part;
    Error error;
    part_open(&part, MODEL_QWEN3, 1);
    int64_t own = 0, before = written();
    for (int unit = 0; unit < part.table.unit_count; unit++) own += part.shards.units[unit].own;
    if (!save(&part, folder, 1, &error)) fail_msg("%s", error.text);
    int64_t bytes = written() - before, header = world.rank ? 0 : 1 << 15;
    part_close(&part);
    if (before < 0) skip();
    assert_in_range(bytes, own * 12 - 4096, own * 12 + header + 4096); // without the gaps between parameters
}

static void damage_anywhere_is_found_by_all(void **state) {
    (void)state;
    Part part;
    Error error;
    char path[128];
    snprintf(path, sizeof path, "%s/step_4/" OPTIMIZER, folder);
    part_open(&part, MODEL_QWEN2, world.size % 2 ? 1 : 2);
    if (!save(&part, folder, 4, &error)) fail_msg("%s", error.text);
    FILE *file = world.rank ? NULL : fopen(path, "r+b");
    for (int64_t at = 4000; at < 5 * DIGEST_PIECE; at += DIGEST_PIECE) {
        for (int round = 0; round < 2; round++) { // spoils a byte and mends it
            if (file) {
                fseek(file, at, SEEK_SET);
                int byte = fgetc(file);
                fseek(file, at, SEEK_SET);
                fputc(byte ^ 64, file);
                fflush(file);
            }
            comm_any(&world, false);
            bool good = load(&part, folder, 4, &error);
            comm_any(&world, false);
            if (good != (round == 1)) fail_msg("byte %lld: %s", (long long)at, good ? "not found" : error.text);
            if (!good) assert_non_null(strstr(error.text, "optimizer.safetensors: damaged: digest "));
        }
    }
    if (file) fclose(file);
    // One that sees no such folder.
    bool last = world.rank == world.size - 1;
    assert_false(load(&part, last ? "/nowhere" : folder, 4, &error));
    assert_non_null(strstr(error.text, "/nowhere/step_4/training_info.json: cannot open"));
    if (world.size > 1) assert_true(!strncmp(error.text, "rank ", 5));
    part_close(&part);
}

static void all_learn_that_one_cannot_write(void **state) {
    (void)state;
    Part part;
    Error error;
    char aside[96], place[96];
    struct rlimit limit;
    snprintf(aside, sizeof aside, "%s/tmp_step_5", folder);
    snprintf(place, sizeof place, "%s/step_5", folder);
    part_open(&part, MODEL_LLAMA, 1);
    getrlimit(RLIMIT_FSIZE, &limit);
    rlim_t before = limit.rlim_cur;
    signal(SIGXFSZ, SIG_IGN);
    if (world.rank == world.size - 1) {
        limit.rlim_cur = 1 << 16;
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    bool good = save(&part, folder, 5, &error);
    limit.rlim_cur = before;
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_DFL);
    comm_any(&world, false);
    assert_false(good);
    assert_non_null(strstr(error.text, "checkpoint of step 5 was not saved: "));
    assert_non_null(strstr(error.text, "model.safetensors: cannot write: File too large"));
    assert_false(file_exists(aside) || file_exists(place));
    comm_any(&world, false);
    if (!save(&part, folder, 5, &error) || !load(&part, folder, 5, &error)) fail_msg("%s", error.text);
    assert_int_equal(visit(&part, false, 0), 0);
    part_close(&part);
}

static int make_folder(void **state) {
    (void)state;
    if (!world.rank) {
        snprintf(folder, sizeof folder, "/tmp/whet-test-checkpoint-file-XXXXXX");
        if (!mkdtemp(folder)) return -1;
    }
    comm_broadcast(&world, folder, sizeof folder, 0);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    Error error;
    comm_any(&world, false);
    return world.rank || file_remove_tree(folder, &error) ? 0 : -1;
}

int main(void) {
    if (!ranked_test_open(&world)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bytes_are_those_of_one_rank),
        cmocka_unit_test(a_rank_writes_its_part_alone),
        cmocka_unit_test(damage_anywhere_is_found_by_all),
        cmocka_unit_test(all_learn_that_one_cannot_write),
    };
    int failed = cmocka_run_group_tests(tests, make_folder, remove_folder);
    comm_close_world(&world);
    return failed;
}
