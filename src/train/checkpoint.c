#include "train/checkpoint.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/int64.h"
#include "base/log.h"
#include "model/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WEIGHTS_FOLDER "policy/weights/model"
#define WEIGHTS WEIGHTS_FOLDER "/model.safetensors"
#define OPTIMIZER_FOLDER "policy/optimizer/optim"
#define OPTIMIZER OPTIMIZER_FOLDER "/optimizer.safetensors"

// What a file holds of each parameter: `prefix` and the parameter's name ↔ arrays of the shards.
typedef struct Column {
    const char *prefix;
    Tensor *arrays; // [units]
} Column;

static SafetensorsEntry *entries_of(const Shards *shards, const Column *columns, int count, Arena *arena) {
    const ParameterTable *table = shards->table;
    SafetensorsEntry *entries = arena_array(arena, SafetensorsEntry, count * table->count);
    for (int i = 0; i < table->count; i++) {
        const Parameter *parameter = &table->items[i];
        for (int column = 0; column < count; column++) {
            SafetensorsEntry *entry = &entries[i * count + column];
            *entry = (SafetensorsEntry){.name = arena_format(arena, "%s%s", columns[column].prefix, parameter->name),
                                        .type = SAFETENSORS_F32,
                                        .rank = parameter->vector ? 1 : 2};
            entry->shape[0] = parameter->whole_rows;
            if (!parameter->vector) entry->shape[1] = parameter->whole_cols;
            if (shard_whole(shards)) entry->data = shard_view(&columns[column].arrays[parameter->unit], parameter).data;
        }
    }
    return entries;
}

// A file that is written while slices come in from all ranks. writer NULL: another rank writes, or this one no longer can.
typedef struct Stream {
    SafetensorsWriter *writer;
    Shards *shards;
    Comm *tensor;           // NULL: the shards are of the whole model
    ParameterTable *tables; // [tensor->size] of all shares
    Error *error;
} Stream;

static void put(Stream *stream, const float *data, int64_t count) {
    if (!stream->writer || safetensors_put(stream->writer, data, (size_t)count * sizeof *data, stream->error)) return;
    safetensors_abandon(stream->writer);
    stream->writer = NULL;
}

// The parameter of which this rank has its share: joined from all shares, row by row.
static void put_shares(Stream *stream, const Parameter *parameter, const float *own) {
    if (!stream->tensor || parameters_is_norm(parameter->role)) {
        put(stream, own, parameter->rows * parameter->cols);
        return;
    }
    int ranks = stream->tensor->size;
    int64_t count = parameter->rows * parameter->cols;
    Device *device = &stream->shards->ops->device;
    Tensor all = DEVICE_TENSOR_RAW(device, MEMORY_COMMUNICATION, DTYPE_F32, ranks, count);
    float *parts = all.data;
    bool across = parameter->cols < parameter->whole_cols;
    memcpy(parts + stream->tensor->rank * count, own, (size_t)count * sizeof *own);
    comm_all_gather(stream->tensor, parts, (size_t)count * sizeof *own);
    for (int64_t row = 0; row < (across ? parameter->rows : 1); row++)
        for (int rank = 0; rank < ranks; rank++) {
            const Parameter *part = parameters_find(&stream->tables[rank], parameter->unit, parameter->role);
            int64_t rows = across ? 1 : part->real_rows;
            if (part->counts) put(stream, parts + rank * count + row * part->cols, rows * part->cols);
        }
    device_release(device, &all);
}

// A parameter of the root, slice by slice of one share after the other.
static void put_slices(Stream *stream, const Parameter *parameter, const Tensor *array) {
    Shards *shards = stream->shards;
    const ShardUnit *unit = &shards->units[parameter->unit];
    int64_t begin = parameter->offset;
    int ranks = stream->tensor ? stream->tensor->size : 1;
    for (int rank = 0; rank < ranks; rank++) {
        bool own = ranks == 1 || rank == stream->tensor->rank;
        const Parameter *part =
            ranks == 1 ? parameter : parameters_find(&stream->tables[rank], parameter->unit, parameter->role);
        int64_t end = begin + (part->counts ? part->real_rows * part->cols : 0);
        for (int slice = 0; slice < unit->slice_count; slice++) {
            const ShardSlice *of = &unit->slices[slice];
            int64_t first = int64_larger(begin, of->first), last = int64_smaller(end, of->first + of->count);
            if (first >= last) continue;
            Tensor flat = own ? shard_gather(shards, array, parameter->unit, slice, DTYPE_F32)
                              : DEVICE_TENSOR_RAW(&shards->ops->device, MEMORY_GATHERED_UNIT, DTYPE_F32, of->count);
            if (ranks > 1) comm_broadcast(stream->tensor, flat.data, (size_t)of->count * sizeof(float), rank);
            put(stream, (const float *)flat.data + (first - of->first), last - first);
            shard_release(shards, &flat);
        }
    }
}

// The unit's parameters in order, the columns of each: no more is gathered at a time than one block and one of its matrices, or a
// slice of the root.
static void stream_unit(Stream *stream, int unit, const Column *columns, int count) {
    Shards *shards = stream->shards;
    const ParameterTable *table = shards->table;
    bool block = unit + 1 < table->unit_count;
    Tensor flat[2];
    for (int column = 0; block && column < count; column++)
        flat[column] = shard_gather(shards, &columns[column].arrays[unit], unit, SHARD_ALL, DTYPE_F32);
    for (int i = 0; i < table->count; i++) {
        const Parameter *parameter = &table->items[i];
        for (int column = 0; parameter->unit == unit && column < count; column++) {
            if (block)
                put_shares(stream, parameter, (const float *)flat[column].data + parameter->offset);
            else
                put_slices(stream, parameter, &columns[column].arrays[unit]);
        }
    }
    for (int column = 0; block && column < count; column++) shard_release(shards, &flat[column]);
}

static void open_tables(Stream *stream, const Architecture *share, Arena *arena) {
    stream->tables = arena_array(arena, ParameterTable, stream->tensor->size);
    for (int rank = 0; rank < stream->tensor->size; rank++) {
        Architecture other = *share;
        other.rank = rank;
        parameters_open(&stream->tables[rank], &other);
    }
}

// Writes the file; path NULL: helps those that do.
static bool save_file(const CheckpointSave *save, const char *path, const Column *columns, int count,
                      const json_t *metadata, Arena *arena, Error *error) {
    Shards *shards = save->shards;
    SafetensorsEntry *entries = entries_of(shards, columns, count, arena);
    int64_t total = (int64_t)count * shards->table->count;
    bool shared = save->tensor && save->tensor->size > 1;
    if (shard_whole(shards) && !shared) return !path || safetensors_write(path, entries, total, metadata, error);
    SafetensorsWriter writer;
    Stream stream = {.shards = shards, .error = error, .tensor = shared ? save->tensor : NULL};
    if (shared) open_tables(&stream, save->share, arena);
    if (path && safetensors_begin(&writer, path, entries, total, metadata, error)) stream.writer = &writer;
    for (int unit = 0; unit < shards->table->unit_count; unit++) stream_unit(&stream, unit, columns, count);
    for (int rank = 0; shared && rank < save->tensor->size; rank++) parameters_close(&stream.tables[rank]);
    return !path || (stream.writer && safetensors_end(&writer, error));
}

static bool save_weights(const CheckpointSave *save, const char *aside, Arena *arena, Error *error) {
    const Column columns[] = {{"", save->shards->weight}};
    json_t *metadata = json_pack("{s:s}", "format", "pt"), *config = architecture_to_json(save->architecture);
    json_object_set_new(config, "torch_dtype", json_string("float32"));
    const char *path = aside ? arena_format(arena, "%s/" WEIGHTS, aside) : NULL;
    bool good =
        save_file(save, path, columns, 1, metadata, arena, error) &&
        (!aside || jsonio_write(config, arena_format(arena, "%s/" WEIGHTS_FOLDER "/config.json", aside), error));
    json_decref(metadata);
    json_decref(config);
    return good;
}

static bool save_optimizer(const CheckpointSave *save, const char *aside, Arena *arena, Error *error) {
    const Column columns[] = {{"exp_avg.", save->shards->moment1}, {"exp_avg_sq.", save->shards->moment2}};
    json_t *metadata = json_object();
    json_object_set_new(metadata, "step", json_sprintf("%lld", (long long)save->shards->step));
    const char *path = aside ? arena_format(arena, "%s/" OPTIMIZER, aside) : NULL;
    bool good = save_file(save, path, columns, 2, metadata, arena, error);
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

static bool write_all(const CheckpointSave *save, bool ready, const char *aside, Arena *arena, Error *error) {
    json_t *files = json_object();
    json_object_set_new(save->info, "files", files);
    // The other ranks send their parts whatever has become of this one's files.
    bool good = ready && file_make_folders(arena_format(arena, "%s/" WEIGHTS_FOLDER, aside), error);
    good = save_weights(save, good ? aside : NULL, arena, error) && good &&
           note_digest(files, aside, WEIGHTS, arena, error);
    if (save->optimizer) {
        good = good && file_make_folders(arena_format(arena, "%s/" OPTIMIZER_FOLDER, aside), error);
        good = save_optimizer(save, good ? aside : NULL, arena, error) && good &&
               note_digest(files, aside, OPTIMIZER, arena, error);
    }
    if (!good) return false;
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

// A rank that does not write.
static void send_parts(const CheckpointSave *save) {
    Arena arena = {0};
    Error ignored;
    save_weights(save, NULL, &arena, &ignored);
    if (save->optimizer) save_optimizer(save, NULL, &arena, &ignored);
    arena_close(&arena);
}

bool checkpoint_save(const CheckpointSave *save, Error *error) {
    if (shard_comm(save->shards)->rank || (save->tensor && save->tensor->rank)) {
        send_parts(save);
        return true;
    }
    CHECK(save->step > 0, "step %lld", (long long)save->step);
    Arena arena = {0};
    Error ignored;
    const char *aside = arena_format(&arena, "%s/tmp_step_%lld", save->folder, (long long)save->step);
    const char *old = arena_format(&arena, "%s/old_step_%lld", save->folder, (long long)save->step);
    const char *place = arena_format(&arena, "%s/step_%lld", save->folder, (long long)save->step);
    bool good = file_make_folders(save->folder, error) && file_remove_tree(aside, error);
    good = write_all(save, good, aside, &arena, error);
    good = good && (file_exists(place) ? replace(aside, place, old, error) : file_rename(aside, place, error));
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

bool checkpoint_check_weights(const json_t *info, const char *place, Error *error) {
    Arena arena = {0};
    bool good = check_digest(info, place, WEIGHTS, &arena, error);
    arena_close(&arena);
    return good;
}

static const SafetensorsEntry *find_tensor(const Safetensors *file, const Column *column, const Parameter *parameter) {
    char name[sizeof parameter->name + 16];
    snprintf(name, sizeof name, "%s%s", column->prefix, parameter->name);
    return safetensors_find(file, name);
}

static bool check_tensor(const Safetensors *file, const Column *column, const Parameter *parameter, Arena *arena,
                         Error *error) {
    const SafetensorsEntry *entry;
    const char *name = arena_format(arena, "%s%s", column->prefix, parameter->name);
    int64_t count = parameter->whole_rows * parameter->whole_cols;
    if (!safetensors_require(&entry, file, name, SAFETENSORS_F32, count, error)) return false;
    bool fits = entry->rank == (parameter->vector ? 1 : 2) && entry->shape[0] == parameter->whole_rows &&
                (parameter->vector || entry->shape[1] == parameter->whole_cols);
    if (fits) return true;
    const char *shape = "";
    for (int i = 0; i < entry->rank; i++)
        shape = arena_format(arena, "%s%s%lld", shape, i ? ", " : "", (long long)entry->shape[i]);
    return error_set(error, "%s: tensor %s has shape [%s], the model has [%lld, %lld]", file->path, name, shape,
                     (long long)parameter->whole_rows, (long long)parameter->whole_cols);
}

// Opens the file of a checkpoint when its digest is the one noted and it holds the columns of every parameter, no more.
static bool open_file(Safetensors *file, const json_t *info, const char *place, const char *name,
                      const ParameterTable *table, const Column *columns, int count, Arena *arena, Error *error) {
    if (!check_digest(info, place, name, arena, error) ||
        !safetensors_open(file, arena_format(arena, "%s/%s", place, name), error))
        return false;
    if (file->count != (int64_t)table->count * count)
        return error_set(error, "%s: %lld tensors, the model has %lld; is it the checkpoint of another model?",
                         file->path, (long long)file->count, (long long)table->count * count);
    for (int i = 0; i < table->count; i++)
        for (int column = 0; column < count; column++)
            if (!check_tensor(file, &columns[column], &table->items[i], arena, error)) return false;
    return true;
}

// Elements of a share out of the whole tensor; those behind a vocabulary are zeros.
static void copy_elements(float *to, const float *from, const Parameter *parameter, ShardPart part) {
    int64_t cols = parameter->cols;
    for (int64_t at = part.first, end = part.first + part.count; at < end;) {
        int64_t row = at / cols, count = int64_smaller((row + 1) * cols, end) - at;
        int64_t first = (parameter->first_row + row) * parameter->whole_cols + parameter->first_col + at % cols;
        if (row < parameter->real_rows)
            memcpy(to, from + first, (size_t)count * sizeof *to);
        else
            memset(to, 0, (size_t)count * sizeof *to);
        at += count;
        to += count;
    }
}

static void copy_file(const Safetensors *file, const Shards *shards, const Column *columns, int count) {
    for (int i = 0; i < shards->table->count; i++)
        for (int column = 0; column < count; column++) {
            const Parameter *parameter = &shards->table->items[i];
            const float *from = find_tensor(file, &columns[column], parameter)->data;
            float *to = columns[column].arrays[parameter->unit].data;
            for (int slice = 0; slice < shards->units[parameter->unit].slice_count; slice++) {
                ShardPart part = shard_part(shards, parameter, slice);
                copy_elements(to + part.local, from, parameter, part);
            }
        }
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

bool checkpoint_load(Shards *shards, const char *folder, int64_t step, json_t **info, bool *optimizer, Error *error) {
    Arena arena = {0};
    Safetensors weights = {0}, moments = {0};
    const Column weight_columns[] = {{"", shards->weight}};
    const Column moment_columns[] = {{"exp_avg.", shards->moment1}, {"exp_avg_sq.", shards->moment2}};
    const ParameterTable *table = shards->table;
    int64_t adamw_step = shards->step;
    const char *place = arena_format(&arena, "%s/step_%lld", folder, (long long)step);
    bool good = checkpoint_info(info, folder, step, error) &&
                open_file(&weights, *info, place, WEIGHTS, table, weight_columns, 1, &arena, error);
    *optimizer = good && json_object_get(json_object_get(*info, "files"), OPTIMIZER);
    if (*optimizer)
        good = open_file(&moments, *info, place, OPTIMIZER, table, moment_columns, 2, &arena, error) &&
               read_step(&adamw_step, &moments, error);
    if (good) {
        copy_file(&weights, shards, weight_columns, 1);
        if (*optimizer) copy_file(&moments, shards, moment_columns, 2);
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
