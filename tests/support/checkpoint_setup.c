#include "support/checkpoint_setup.h"

#include "base/file.h"
#include "support/family.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

Architecture checkpoint_setup_architecture(ModelFamily family, int64_t hidden, int64_t intermediate) {
    Architecture architecture = {.vocab_size = 40,
                                 .hidden_size = hidden,
                                 .intermediate_size = intermediate,
                                 .layer_count = 2,
                                 .query_heads = 2,
                                 .kv_heads = 1,
                                 .head_dim = 8,
                                 .max_positions = 64,
                                 .rms_norm_eps = 1e-5f,
                                 .tied_head = family == MODEL_LLAMA,
                                 .bos_id = -1,
                                 .eos_ids = {2},
                                 .eos_count = 1};
    family_apply(&architecture, family);
    return architecture;
}

int checkpoint_setup_open(void **state) {
    static CheckpointSetup setup;
    Error error;
    setup = (CheckpointSetup){.architecture = checkpoint_setup_architecture(MODEL_QWEN2, 16, 24)};
    bool memory = access("/dev/shm", W_OK) == 0;
    char *folder = arena_format(&setup.arena, "%s/whet-test-checkpoint-XXXXXX", memory ? "/dev/shm" : "/tmp");
    setup.folder = mkdtemp(folder);
    if (!setup.folder || !ops_open(&setup.ops, (OpsOptions){.threads = 1}, &error)) return -1;
    parameters_open(&setup.table, &setup.architecture);
    shard_open(&setup.shards, &setup.ops, &setup.table);
    shard_open(&setup.loaded, &setup.ops, &setup.table);
    *state = &setup;
    return 0;
}

int checkpoint_setup_close(void **state) {
    CheckpointSetup *setup = *state;
    Error error;
    shard_close(&setup->shards);
    shard_close(&setup->loaded);
    parameters_close(&setup->table);
    ops_close(&setup->ops);
    bool good = file_remove_tree(setup->folder, &error);
    arena_close(&setup->arena);
    return good ? 0 : -1;
}

static float value_of(int mark, int column, const Parameter *parameter, int64_t i) {
    return (float)mark + (float)((i + 7 * column + 13 * (int)parameter->role + 3 * parameter->unit) % 101) / 128;
}

static Tensor *column_of(Shards *shards, int column) {
    return column == 0 ? shards->weight : column == 1 ? shards->moment1 : shards->moment2;
}

static void fill(Shards *shards, int mark) {
    shards->step = mark;
    for (int i = 0; i < shards->table->count; i++)
        for (int column = 0; column < 3; column++) {
            const Parameter *parameter = &shards->table->items[i];
            float *values = shard_view(&column_of(shards, column)[parameter->unit], parameter).data;
            for (int64_t k = 0; k < parameter->rows * parameter->cols; k++)
                values[k] = value_of(mark, column, parameter, k);
        }
}

bool checkpoint_setup_save(CheckpointSetup *setup, int64_t step, int mark, double metric, bool optimizer,
                           Error *error) {
    json_t *info = json_pack("{s:i}", "mark", mark);
    if (!isnan(metric)) json_object_set_new(info, "val:accuracy", json_real(metric));
    fill(&setup->shards, mark);
    CheckpointSave save = {.folder = setup->folder,
                           .step = step,
                           .shards = &setup->shards,
                           .architecture = &setup->architecture,
                           .optimizer = optimizer,
                           .info = info,
                           .config = "grpo:\n  seed: 42\n"};
    bool good = checkpoint_save(&save, error);
    json_decref(info);
    return good;
}

int checkpoint_setup_mark(CheckpointSetup *setup, int64_t step, Error *error) {
    json_t *info;
    bool optimizer;
    Shards *shards = &setup->loaded;
    fill(shards, -1);
    if (!checkpoint_load(shards, NULL, setup->folder, step, &info, &optimizer, error)) return 0;
    int mark = (int)json_integer_value(json_object_get(info, "mark"));
    json_decref(info);
    if (shards->step != (optimizer ? mark : -1))
        return error_set(error, "step_%lld: mark %d, AdamW step %lld", (long long)step, mark, (long long)shards->step);
    for (int i = 0; i < shards->table->count; i++)
        for (int column = 0; column < (optimizer ? 3 : 1); column++) {
            const Parameter *parameter = &shards->table->items[i];
            const float *values = shard_view(&column_of(shards, column)[parameter->unit], parameter).data;
            for (int64_t k = 0; k < parameter->rows * parameter->cols; k++)
                if (values[k] != value_of(mark, column, parameter, k))
                    return error_set(error, "step_%lld: mark %d, but column %d of %s holds %g", (long long)step, mark,
                                     column, parameter->name, (double)values[k]);
        }
    return mark;
}

const char *checkpoint_setup_path(CheckpointSetup *setup, const char *name) {
    return arena_format(&setup->arena, "%s/%s", setup->folder, name);
}

const char *checkpoint_setup_names(CheckpointSetup *setup) {
    struct dirent **entries;
    int count = scandir(setup->folder, &entries, NULL, alphasort);
    const char *names = "";
    for (int i = 0; i < count; i++) {
        if (strcmp(entries[i]->d_name, ".") && strcmp(entries[i]->d_name, ".."))
            names = arena_format(&setup->arena, "%s%s ", names, entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    return names;
}
