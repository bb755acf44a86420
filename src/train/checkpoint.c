#include "train/checkpoint.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "model/safetensors.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WEIGHTS_FOLDER "policy/weights/model"
#define WEIGHTS WEIGHTS_FOLDER "/model.safetensors"
#define OPTIMIZER_FOLDER "policy/optimizer/optim"
#define OPTIMIZER OPTIMIZER_FOLDER "/optimizer.safetensors"

static SafetensorsEntry entry_of(const Parameter *parameter, const Tensor *flat, const char *name) {
    SafetensorsEntry entry = {.name = name, .type = SAFETENSORS_F32, .rank = parameter->vector ? 1 : 2};
    Tensor view = shard_view(flat, parameter);
    entry.shape[0] = parameter->rows;
    if (!parameter->vector) entry.shape[1] = parameter->cols;
    entry.data = view.data;
    return entry;
}

static bool save_weights(const CheckpointSave *save, const char *aside, Arena *arena, Error *error) {
    const ParameterTable *table = save->shards->table;
    SafetensorsEntry *entries = arena_array(arena, SafetensorsEntry, table->count);
    for (int i = 0; i < table->count; i++)
        entries[i] = entry_of(&table->items[i], &save->shards->weight[table->items[i].unit], table->items[i].name);
    json_t *metadata = json_pack("{s:s}", "format", "pt"), *config = architecture_to_json(save->architecture);
    bool good = safetensors_write(arena_format(arena, "%s/" WEIGHTS, aside), entries, table->count, metadata, error) &&
                jsonio_write(config, arena_format(arena, "%s/" WEIGHTS_FOLDER "/config.json", aside), error);
    json_decref(metadata);
    json_decref(config);
    return good;
}

static bool save_optimizer(const CheckpointSave *save, const char *aside, Arena *arena, Error *error) {
    const ParameterTable *table = save->shards->table;
    SafetensorsEntry *entries = arena_array(arena, SafetensorsEntry, 2 * table->count);
    for (int i = 0; i < table->count; i++) {
        const Parameter *parameter = &table->items[i];
        entries[2 * i] = entry_of(parameter, &save->shards->moment1[parameter->unit],
                                  arena_format(arena, "exp_avg.%s", parameter->name));
        entries[2 * i + 1] = entry_of(parameter, &save->shards->moment2[parameter->unit],
                                      arena_format(arena, "exp_avg_sq.%s", parameter->name));
    }
    json_t *metadata = json_object();
    json_object_set_new(metadata, "step", json_sprintf("%lld", (long long)save->shards->step));
    bool good =
        safetensors_write(arena_format(arena, "%s/" OPTIMIZER, aside), entries, 2 * table->count, metadata, error);
    json_decref(metadata);
    return good;
}

// Notes the digest of folder/name in info["files"], so that a damaged file is found before it is trained on.
static bool note_digest(json_t *files, const char *folder, const char *name, Arena *arena, Error *error) {
    char hex[DIGEST_HEX];
    if (!digest_file(hex, arena_format(arena, "%s/%s", folder, name), error)) return false;
    json_object_set_new(files, name, json_string(hex));
    return true;
}

static bool write_all(const CheckpointSave *save, const char *aside, Arena *arena, Error *error) {
    json_t *files = json_object();
    json_object_set_new(save->info, "files", files);
    if (!file_make_folders(arena_format(arena, "%s/" WEIGHTS_FOLDER, aside), error) ||
        !save_weights(save, aside, arena, error) || !note_digest(files, aside, WEIGHTS, arena, error))
        return false;
    if (save->optimizer &&
        (!file_make_folders(arena_format(arena, "%s/" OPTIMIZER_FOLDER, aside), error) ||
         !save_optimizer(save, aside, arena, error) || !note_digest(files, aside, OPTIMIZER, arena, error)))
        return false;
    const char *folders[] = {"", "/policy", "/policy/weights", "/policy/optimizer"};
    if (!file_write(arena_format(arena, "%s/config.yaml", aside), save->config, strlen(save->config), error) ||
        !jsonio_write(save->info, arena_format(arena, "%s/training_info.json", aside), error))
        return false;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *folder = arena_format(arena, "%s%s", aside, folders[i]);
        if (file_is_folder(folder) && !file_sync(folder, error)) return false;
    }
    return true;
}

bool checkpoint_save(const CheckpointSave *save, Error *error) {
    Arena arena = {0};
    Error ignored;
    const char *aside = arena_format(&arena, "%s/tmp_step_%lld", save->folder, (long long)save->step);
    const char *place = arena_format(&arena, "%s/step_%lld", save->folder, (long long)save->step);
    bool good = file_make_folders(save->folder, error) && file_remove_tree(aside, error) &&
                write_all(save, aside, &arena, error);
    good = good && (file_exists(place) ? file_exchange(aside, place, error) : file_rename(aside, place, error));
    file_remove_tree(aside, &ignored); // what failed, or what was replaced
    if (!good) error_prefix(error, "checkpoint of step %lld was not saved: ", (long long)save->step);
    arena_close(&arena);
    return good;
}

// The number of a name "<before>N", or -1: digits only, no leading zero.
static int64_t step_of(const char *name, const char *before) {
    size_t length = strlen(before);
    if (strncmp(name, before, length) || name[length] < '1' || name[length] > '9') return -1;
    char *end;
    long long step = strtoll(name + length, &end, 10);
    return *end || step == INT64_MAX ? -1 : step;
}

// All N with a folder step_N that holds training_info.json, ascending.
static int64_t list_steps(int64_t **steps, const char *folder, Arena *arena, Error *error) {
    DIR *open = file_is_folder(folder) ? opendir(folder) : NULL;
    if (!open) {
        if (!file_exists(folder)) return 0;
        error_set(error, "%s: not a folder that can be read", folder);
        return -1;
    }
    int64_t count = 0, capacity = 16;
    *steps = arena_array(arena, int64_t, capacity);
    for (struct dirent *entry; (entry = readdir(open));) {
        int64_t step = step_of(entry->d_name, "step_");
        if (step < 0 || !file_exists(arena_format(arena, "%s/%s/training_info.json", folder, entry->d_name))) continue;
        if (count == capacity) {
            int64_t *more = arena_array(arena, int64_t, 2 * capacity);
            memcpy(more, *steps, (size_t)count * sizeof *more);
            *steps = more;
            capacity *= 2;
        }
        int64_t at = count++;
        for (; at && (*steps)[at - 1] > step; at--) (*steps)[at] = (*steps)[at - 1];
        (*steps)[at] = step;
    }
    closedir(open);
    return count;
}

bool checkpoint_latest(int64_t *step, const char *folder, Error *error) {
    Arena arena = {0};
    int64_t *steps = NULL, count = list_steps(&steps, folder, &arena, error);
    *step = count > 0 ? steps[count - 1] : 0;
    arena_close(&arena);
    return count >= 0;
}

static bool check_digest(const json_t *info, const char *place, const char *name, Arena *arena, Error *error) {
    char hex[DIGEST_HEX];
    const char *path = arena_format(arena, "%s/%s", place, name);
    const char *noted = json_string_value(json_object_get(json_object_get(info, "files"), name));
    if (!noted) return error_set(error, "%s/training_info.json: no digest of %s", place, name);
    if (!digest_file(hex, path, error)) return false;
    return !strcmp(hex, noted) ||
           error_set(error, "%s: damaged: digest %s, training_info.json has %s", path, hex, noted);
}

static bool load_tensor(const Safetensors *file, const Parameter *parameter, Tensor *flat, const char *prefix,
                        Arena *arena, Error *error) {
    const SafetensorsEntry *entry;
    const char *name = arena_format(arena, "%s%s", prefix, parameter->name);
    int64_t count = parameter->rows * parameter->cols;
    if (!safetensors_require(&entry, file, name, SAFETENSORS_F32, count, error)) return false;
    Tensor view = shard_view(flat, parameter);
    memcpy(view.data, entry->data, (size_t)count * sizeof(float));
    return true;
}

static bool load_file(Shards *shards, const char *path, bool optimizer, Arena *arena, Error *error) {
    Safetensors file = {0};
    bool good = safetensors_open(&file, path, error);
    int64_t wanted = shards->table->count * (optimizer ? 2 : 1);
    if (good && file.count != wanted)
        good = error_set(error, "%s: %lld tensors, the model has %lld; is it the checkpoint of another model?", path,
                         (long long)file.count, (long long)wanted);
    for (int i = 0; good && i < shards->table->count; i++) {
        const Parameter *parameter = &shards->table->items[i];
        int unit = parameter->unit;
        if (optimizer)
            good = load_tensor(&file, parameter, &shards->moment1[unit], "exp_avg.", arena, error) &&
                   load_tensor(&file, parameter, &shards->moment2[unit], "exp_avg_sq.", arena, error);
        else
            good = load_tensor(&file, parameter, &shards->weight[unit], "", arena, error);
    }
    if (good && optimizer) {
        const char *step = safetensors_metadata(&file, "step");
        char *end = NULL;
        shards->step = step ? strtoll(step, &end, 10) : -1;
        if (!step || *end || shards->step < 0) good = error_set(error, "%s: metadata 'step' is no count", path);
    }
    safetensors_close(&file);
    return good;
}

bool checkpoint_load(Shards *shards, const char *folder, int64_t step, json_t **info, bool *optimizer, Error *error) {
    Arena arena = {0};
    const char *place = arena_format(&arena, "%s/step_%lld", folder, (long long)step);
    const char *weights = arena_format(&arena, "%s/" WEIGHTS, place);
    const char *moments = arena_format(&arena, "%s/" OPTIMIZER, place);
    bool good = jsonio_read(info, arena_format(&arena, "%s/training_info.json", place), error);
    good =
        good && check_digest(*info, place, WEIGHTS, &arena, error) && load_file(shards, weights, false, &arena, error);
    *optimizer = good && json_object_get(json_object_get(*info, "files"), OPTIMIZER);
    good = good && (!*optimizer || (check_digest(*info, place, OPTIMIZER, &arena, error) &&
                                    load_file(shards, moments, true, &arena, error)));
    if (!good) {
        json_decref(*info);
        *info = NULL;
    }
    arena_close(&arena);
    return good;
}

static double metric_of(const char *folder, int64_t step, const char *metric, bool higher_is_better, Arena *arena) {
    Error ignored;
    json_t *info;
    double value = NAN;
    if (jsonio_read(&info, arena_format(arena, "%s/step_%lld/training_info.json", folder, (long long)step), &ignored)) {
        json_t *number = json_object_get(info, metric);
        if (json_is_number(number)) value = json_number_value(number);
        json_decref(info);
    }
    return isnan(value) ? -INFINITY : higher_is_better ? value : -value;
}

static bool remove_leftovers(const char *folder, Arena *arena, Error *error) {
    DIR *open = opendir(folder);
    bool good = true;
    for (struct dirent *entry; open && good && (entry = readdir(open));)
        if (step_of(entry->d_name, "tmp_step_") >= 0)
            good = file_remove_tree(arena_format(arena, "%s/%s", folder, entry->d_name), error);
    if (open) closedir(open);
    return good;
}

bool checkpoint_retain(const char *folder, int64_t keep, const char *metric, bool higher_is_better, Error *error) {
    Arena arena = {0};
    int64_t *steps = NULL, count = list_steps(&steps, folder, &arena, error);
    bool good = count >= 0 && remove_leftovers(folder, &arena, error);
    double *worth = arena_array(&arena, double, count > 0 ? count : 1);
    for (int64_t i = 0; i < count; i++)
        worth[i] = metric ? metric_of(folder, steps[i], metric, higher_is_better, &arena) : (double)i;
    for (int64_t i = 0; good && keep >= 0 && i < count - 1; i++) { // the newest stays always
        int64_t better = 0;
        for (int64_t j = 0; j < count; j++) better += worth[j] > worth[i] || (worth[j] == worth[i] && j > i);
        if (better < keep) continue;
        log_verbose("removing checkpoint step_%lld", (long long)steps[i]);
        good = file_remove_tree(arena_format(&arena, "%s/step_%lld", folder, (long long)steps[i]), error);
    }
    arena_close(&arena);
    return good;
}
