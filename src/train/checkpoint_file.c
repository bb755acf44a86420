#include "train/checkpoint_file.h"

#include "base/int64.h"

#include <stdio.h>
#include <string.h>

static SafetensorsEntry *entries_of(const ParameterTable *table, CheckpointColumns columns, Arena *arena) {
    SafetensorsEntry *entries = arena_array(arena, SafetensorsEntry, columns.count * table->count), *entry = entries;
    for (int i = 0; i < table->count; i++)
        for (int column = 0; column < columns.count; column++, entry++) {
            const Parameter *parameter = &table->items[i];
            *entry =
                (SafetensorsEntry){.name = arena_format(arena, "%s%s", columns.items[column].prefix, parameter->name),
                                   .type = SAFETENSORS_F32,
                                   .rank = parameter->vector ? 1 : 2,
                                   .shape = {parameter->whole_rows, parameter->whole_cols}};
        }
    return entries;
}

static const SafetensorsEntry *find_tensor(const Safetensors *file, const CheckpointColumn *column,
                                           const Parameter *parameter) {
    char name[sizeof parameter->name + 16];
    snprintf(name, sizeof name, "%s%s", column->prefix, parameter->name);
    return safetensors_find(file, name);
}

// Elements of a part that lie next to each other in the file too.
typedef struct Stretch {
    int64_t local, count; // in the arrays
    int64_t place;        // in the tensor; below 0: in none, behind a vocabulary
} Stretch;

// Those from the part's element `done` on.
static Stretch next_stretch(const Parameter *parameter, ShardPart part, int64_t done) {
    int64_t cols = parameter->cols, first = part.first + done, row = first / cols, real = parameter->real_rows * cols;
    Stretch stretch = {.local = part.local + done, .count = part.count - done, .place = -1};
    if (first >= real) return stretch;
    int64_t end = cols < parameter->whole_cols ? (row + 1) * cols : real;
    stretch.count = int64_smaller(stretch.count, end - first);
    stretch.place = (parameter->first_row + row) * parameter->whole_cols + parameter->first_col + first % cols;
    return stretch;
}

// ---- writing

static bool write_tensor(FileParts *parts, int64_t start, const Shards *shards, const Parameter *parameter,
                         const float *from, Error *error) {
    for (int slice = 0; slice < shards->units[parameter->unit].slice_count; slice++) {
        ShardPart part = shard_part(shards, parameter, slice);
        for (int64_t done = 0; done < part.count;) {
            Stretch stretch = next_stretch(parameter, part, done);
            size_t bytes = (size_t)stretch.count * sizeof *from;
            int64_t at = start + stretch.place * (int64_t)sizeof *from;
            if (stretch.place >= 0 && !file_parts_put(parts, from + stretch.local, bytes, at, error)) return false;
            done += stretch.count;
        }
    }
    return true;
}

static bool write_own(const char *path, const Shards *shards, CheckpointColumns columns, Error *error) {
    Safetensors file;
    FileParts parts;
    Error ignored;
    if (!checkpoint_file_open(&file, path, shards->table, columns, error)) return false;
    bool good = file_parts_open(&parts, path, error), opened = good;
    for (int i = 0; good && i < shards->table->count; i++)
        for (int column = 0; good && column < columns.count; column++) {
            const Parameter *parameter = &shards->table->items[i];
            const SafetensorsEntry *entry = find_tensor(&file, &columns.items[column], parameter);
            int64_t start = (const uint8_t *)entry->data - file.map.data;
            if (parameter->counts)
                good = write_tensor(&parts, start, shards, parameter,
                                    columns.items[column].arrays[parameter->unit].data, error);
        }
    if (opened) good = file_parts_close(&parts, good ? error : &ignored) && good;
    safetensors_close(&file);
    return good;
}

bool checkpoint_file_save(const char *path, Comm *ranks, const Shards *shards, CheckpointColumns columns,
                          const json_t *metadata, Error *error) {
    Arena arena = {0};
    const ParameterTable *table = shards->table;
    bool made = ranks->rank || safetensors_make(path, entries_of(table, columns, &arena),
                                                (int64_t)columns.count * table->count, metadata, error);
    arena_close(&arena);
    return comm_agree(ranks, made, error) && comm_agree(ranks, write_own(path, shards, columns, error), error);
}

// ---- digests

// Maps the file, which has the same size on all ranks.
static bool map_file(FileMap *map, const char *path, Comm *ranks, Error *error) {
    bool good = file_map(map, path, error);
    size_t size = map->size;
    comm_broadcast(ranks, &size, sizeof size, 0);
    if (good && map->size != size)
        good = error_set(error, "%s: %zu bytes, the first rank finds %zu", path, map->size, size);
    return comm_agree(ranks, good, error);
}

bool checkpoint_file_digest(char hex[DIGEST_HEX], const char *path, Comm *ranks, Error *error) {
    FileMap map = {0};
    Arena arena = {0};
    bool good = map_file(&map, path, ranks, error);
    if (good) {
        int64_t size = (int64_t)map.size, pieces = (size + DIGEST_PIECE - 1) / DIGEST_PIECE;
        int64_t share = (pieces + ranks->size - 1) / ranks->size, first = share * ranks->rank;
        uint8_t *digests = arena_array(&arena, uint8_t, share * ranks->size * DIGEST_SIZE);
        for (int64_t piece = first; piece < int64_smaller(first + share, pieces); piece++) {
            const uint8_t *at = map.data + piece * DIGEST_PIECE;
            size_t bytes = (size_t)int64_smaller(size - piece * DIGEST_PIECE, DIGEST_PIECE);
            digest_piece(digests + piece * DIGEST_SIZE, at, bytes);
            file_map_leave(at, bytes);
        }
        comm_all_gather(ranks, digests, (size_t)share * DIGEST_SIZE);
        digest_bytes(hex, digests, (size_t)pieces * DIGEST_SIZE);
    }
    file_unmap(&map);
    arena_close(&arena);
    return good;
}

// ---- reading

static bool check_tensor(const Safetensors *file, const CheckpointColumn *column, const Parameter *parameter,
                         Arena *arena, Error *error) {
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

bool checkpoint_file_open(Safetensors *file, const char *path, const ParameterTable *table, CheckpointColumns columns,
                          Error *error) {
    Arena arena = {0};
    if (!safetensors_open(file, path, error)) return false;
    int64_t expected = (int64_t)table->count * columns.count;
    bool good = file->count == expected ||
                error_set(error, "%s: %lld tensors, the model has %lld; is it the checkpoint of another model?", path,
                          (long long)file->count, (long long)expected);
    for (int i = 0; good && i < table->count; i++)
        for (int column = 0; good && column < columns.count; column++)
            good = check_tensor(file, &columns.items[column], &table->items[i], &arena, error);
    if (!good) safetensors_close(file);
    arena_close(&arena);
    return good;
}

static void load_tensor(float *to, const float *from, const Shards *shards, const Parameter *parameter) {
    for (int slice = 0; slice < shards->units[parameter->unit].slice_count; slice++) {
        ShardPart part = shard_part(shards, parameter, slice);
        for (int64_t done = 0; done < part.count;) {
            Stretch stretch = next_stretch(parameter, part, done);
            size_t bytes = (size_t)stretch.count * sizeof *to;
            if (stretch.place >= 0)
                memcpy(to + stretch.local, from + stretch.place, bytes);
            else
                memset(to + stretch.local, 0, bytes);
            done += stretch.count;
        }
    }
}

void checkpoint_file_load(const Safetensors *file, const Shards *shards, CheckpointColumns columns) {
    for (int i = 0; i < shards->table->count; i++)
        for (int column = 0; column < columns.count; column++) {
            const Parameter *parameter = &shards->table->items[i];
            const SafetensorsEntry *entry = find_tensor(file, &columns.items[column], parameter);
            load_tensor(columns.items[column].arrays[parameter->unit].data, entry->data, shards, parameter);
            file_map_leave(entry->data, (size_t)entry->count * sizeof(float));
        }
}
