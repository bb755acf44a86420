#include "train/checkpoint.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/log.h"
#include "train/checkpoint_file.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WEIGHTS_FOLDER "policy/weights/model"
#define WEIGHTS WEIGHTS_FOLDER "/model.safetensors"
#define OPTIMIZER_FOLDER "policy/optimizer/optim"
#define OPTIMIZER OPTIMIZER_FOLDER "/optimizer.safetensors"

static CheckpointColumns weight_columns(const Shards *shards) {
    return (CheckpointColumns){.count = 1, .items = {{"", shards->weight}}};
}

static CheckpointColumns moment_columns(const Shards *shards) {
    return (CheckpointColumns){.count = 2, .items = {{"exp_avg.", shards->moment1}, {"exp_avg_sq.", shards->moment2}}};
}

// ---- saving

static bool make_folders(const CheckpointSave *save, const char *aside, Arena *arena, Error *error) {
    return file_make_folders(save->folder, error) && file_remove_tree(aside, error) &&
           file_make_folders(arena_format(arena, "%s/" WEIGHTS_FOLDER, aside), error) &&
           (!save->optimizer || file_make_folders(arena_format(arena, "%s/" OPTIMIZER_FOLDER, aside), error));
}

// Writes aside/name and notes its digest in info["files"], so that a damaged file is found before it is trained on.
static bool save_file(const CheckpointSave *save, Comm *ranks, const char *aside, const char *name,
                      CheckpointColumns columns, json_t *metadata, Arena *arena, Error *error) {
    char hex[DIGEST_HEX];
    const char *path = arena_format(arena, "%s/%s", aside, name);
    bool good = checkpoint_file_save(path, ranks, save->shards, columns, metadata, error) &&
                checkpoint_file_digest(hex, path, ranks, error);
    if (good)
        json_object_set_new(json_object_get(save->info, "files"), name,
                            json_pack("{s:s, s:i}", "digest", hex, "piece_bytes", DIGEST_PIECE));
    json_decref(metadata);
    return good;
}

static bool save_files(const CheckpointSave *save, Comm *ranks, const char *aside, Arena *arena, Error *error) {
    if (!save_file(save, ranks, aside, WEIGHTS, weight_columns(save->shards), json_pack("{s:s}", "format", "pt"), arena,
                   error))
        return false;
    if (!save->optimizer) return true;
    json_t *step = json_sprintf("%lld", (long long)save->shards->step);
    return save_file(save, ranks, aside, OPTIMIZER, moment_columns(save->shards), json_pack("{s:o}", "step", step),
                     arena, error);
}

// What is not the shards', and every folder synced.
static bool write_rest(const CheckpointSave *save, const char *aside, Arena *arena, Error *error) {
    json_t *config = architecture_to_json(save->architecture);
    json_object_set_new(config, "torch_dtype", json_string("float32"));
    bool good = jsonio_write(config, arena_format(arena, "%s/" WEIGHTS_FOLDER "/config.json", aside), error);
    json_decref(config);
    if (!good || !file_write(arena_format(arena, "%s/config.yaml", aside), save->config, strlen(save->config), error) ||
        !jsonio_write(save->info, arena_format(arena, "%s/training_info.json", aside), error))
        return false;
    const char *folders[] = {
        "", "/policy", "/policy/weights", "/" WEIGHTS_FOLDER, "/policy/optimizer", "/" OPTIMIZER_FOLDER};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const char *folder = arena_format(arena, "%s%s", aside, folders[i]);
        if (file_is_folder(folder) && !file_sync(folder, error)) return false;
    }
    return true;
}

// Puts aside where a step_N stands already. Where the file system cannot exchange two names (network file systems),
// there is no step_N for a moment between two renames; the old one is removed last.
static bool replace(const char *aside, const char *place, const char *old, Error *error) {
    Error ignored;
    if (file_exchange(aside, place, error)) return true;
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return false;
    if (!file_remove_tree(old, error) || !file_rename(place, old, error)) return false;
    if (!file_rename(aside, place, error)) {
        file_rename(old, place, &ignored);
        return false;
    }
    file_remove_tree(old, &ignored);
    return true;
}

bool checkpoint_save(const CheckpointSave *save, Error *error) {
    CHECK(save->step > 0, "step %lld", (long long)save->step);
    Arena arena = {0};
    Error ignored;
    Comm self = comm_self(), *ranks = save->ranks ? save->ranks : &self;
    bool first = ranks->rank == 0;
    const char *aside = arena_format(&arena, "%s/tmp_step_%lld", save->folder, (long long)save->step);
    const char *old = arena_format(&arena, "%s/old_step_%lld", save->folder, (long long)save->step);
    const char *place = arena_format(&arena, "%s/step_%lld", save->folder, (long long)save->step);
    json_object_set_new(save->info, "files", json_object());
    bool good = comm_agree(ranks, !first || make_folders(save, aside, &arena, error), error) &&
                save_files(save, ranks, aside, &arena, error);
    bool named = good;
    if (good && first)
        named = write_rest(save, aside, &arena, error) &&
                (file_exists(place) ? replace(aside, place, old, error) : file_rename(aside, place, error));
    good = good && comm_agree(ranks, named, error);
    if (first) file_remove_tree(aside, &ignored); // what failed, or what was replaced
    if (!good) error_prefix(error, "checkpoint of step %lld was not saved: ", (long long)save->step);
    arena_close(&arena);
    return good;
}

// ---- which there are

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

// ---- loading

// Whether place/name has the digest that is noted. Those of older checkpoints are of the whole file, a string.
static bool check_digest(const json_t *info, const char *place, const char *name, Comm *ranks, Arena *arena,
                         Error *error) {
    char hex[DIGEST_HEX];
    const char *path = arena_format(arena, "%s/%s", place, name);
    const json_t *entry = json_object_get(json_object_get(info, "files"), name);
    bool pieces = json_integer_value(json_object_get(entry, "piece_bytes")) == DIGEST_PIECE;
    const char *noted = json_string_value(pieces ? json_object_get(entry, "digest") : entry);
    if (!noted) return error_set(error, "%s/training_info.json: no digest of %s", place, name);
    bool good = pieces ? checkpoint_file_digest(hex, path, ranks, error)
                       : comm_agree(ranks, digest_file(hex, path, error), error);
    if (!good) return false;
    return !strcmp(hex, noted) ||
           error_set(error, "%s: damaged: digest %s, training_info.json has %s", path, hex, noted);
}

bool checkpoint_check_weights(const json_t *info, const char *place, Error *error) {
    Arena arena = {0};
    Comm self = comm_self();
    bool good = check_digest(info, place, WEIGHTS, &self, &arena, error);
    arena_close(&arena);
    return good;
}

// Opens the file of a checkpoint when its digest is the one noted and it holds the columns of every parameter, no more.
static bool open_file(Safetensors *file, const json_t *info, const char *place, const char *name, Comm *ranks,
                      const ParameterTable *table, CheckpointColumns columns, Arena *arena, Error *error) {
    const char *path = arena_format(arena, "%s/%s", place, name);
    return check_digest(info, place, name, ranks, arena, error) &&
           comm_agree(ranks, checkpoint_file_open(file, path, table, columns, error), error);
}

static bool read_step(int64_t *step, const Safetensors *file, Error *error) {
    const char *text = safetensors_metadata(file, "step");
    errno = 0;
    bool digits = text && *text && strspn(text, "0123456789") == strlen(text);
    *step = digits ? strtoll(text, NULL, 10) : 0;
    return (digits && !errno) || error_set(error, "%s: metadata 'step' is no count", file->path);
}

bool checkpoint_info(json_t **info, const char *folder, int64_t step, Error *error) {
    Arena arena = {0};
    const char *path = arena_format(&arena, "%s/step_%lld/training_info.json", folder, (long long)step);
    bool good = jsonio_read(info, path, error);
    if (good && !json_is_object(*info)) {
        good = error_set(error, "%s: expected an object", path);
        json_decref(*info);
        *info = NULL;
    }
    arena_close(&arena);
    return good;
}

bool checkpoint_load(Shards *shards, Comm *ranks, const char *folder, int64_t step, json_t **info, bool *optimizer,
                     Error *error) {
    Arena arena = {0};
    Safetensors weights = {0}, moments = {0};
    Comm self = comm_self();
    CheckpointColumns of_weights = weight_columns(shards), of_moments = moment_columns(shards);
    int64_t adamw_step = shards->step;
    const char *place = arena_format(&arena, "%s/step_%lld", folder, (long long)step);
    if (!ranks) ranks = &self;
    bool good = comm_agree(ranks, checkpoint_info(info, folder, step, error), error) &&
                open_file(&weights, *info, place, WEIGHTS, ranks, shards->table, of_weights, &arena, error);
    *optimizer = good && json_object_get(json_object_get(*info, "files"), OPTIMIZER);
    if (*optimizer)
        good = open_file(&moments, *info, place, OPTIMIZER, ranks, shards->table, of_moments, &arena, error) &&
               read_step(&adamw_step, &moments, error);
    if (good) {
        checkpoint_file_load(&weights, shards, of_weights);
        if (*optimizer) checkpoint_file_load(&moments, shards, of_moments);
        shards->step = adamw_step;
    } else {
        json_decref(*info);
        *info = NULL;
    }
    safetensors_close(&weights);
    safetensors_close(&moments);
    arena_close(&arena);
    return good;
}

// ---- which stay

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
        if (step_of(entry->d_name, "tmp_step_") >= 0 || step_of(entry->d_name, "old_step_") >= 0)
            good = file_remove_tree(arena_format(arena, "%s/%s", folder, entry->d_name), error);
    if (open) closedir(open);
    return good;
}

// A checkpoint loses its name before it loses a file, so that what bears the name step_N is whole.
static bool remove_step(const char *folder, int64_t step, Arena *arena, Error *error) {
    const char *old = arena_format(arena, "%s/old_step_%lld", folder, (long long)step);
    log_verbose("removing checkpoint step_%lld", (long long)step);
    return file_rename(arena_format(arena, "%s/step_%lld", folder, (long long)step), old, error) &&
           file_remove_tree(old, error);
}

// Whether the i-th of the checkpoints stays, by its worth: NAN for what is no candidate.
static bool stays(const double *worth, int64_t i, int64_t count, const CheckpointRetention *retention) {
    int64_t better = 0;
    if (i == count - 1 || count - i <= retention->ft_keep_latest_k) return true;
    if (isnan(worth[i]) || retention->keep_top_k < 0) return !isnan(worth[i]);
    for (int64_t j = 0; j < count; j++) better += worth[j] > worth[i] || (worth[j] == worth[i] && j > i);
    return better < retention->keep_top_k;
}

bool checkpoint_retain(const char *folder, const CheckpointRetention *retention, Error *error) {
    Arena arena = {0};
    int64_t *steps = NULL, count = list_steps(&steps, folder, &arena, error);
    bool good = count >= 0 && remove_leftovers(folder, &arena, error), higher = retention->higher_is_better;
    double *worth = arena_array(&arena, double, count > 0 ? count : 1);
    for (int64_t i = 0; i < count; i++) {
        worth[i] = retention->metric ? metric_of(folder, steps[i], retention->metric, higher, &arena) : (double)i;
        if (steps[i] % retention->save_period) worth[i] = (double)NAN;
    }
    for (int64_t i = 0; good && i < count; i++)
        if (!stays(worth, i, count, retention)) good = remove_step(folder, steps[i], &arena, error);
    arena_close(&arena);
    return good;
}
