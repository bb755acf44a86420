#include "run/export_weights.h"

#include "base/jsonio.h"
#include "base/log.h"
#include "device/dtype.h"

#include <math.h>

typedef struct Export {
    const char *folder;
    const ModelFile *file;
    const ParameterTable *table;
    SafetensorsType type;
    Arena arena;
    SafetensorsEntry *entries; // [table->count] in the table's order
    int *shard;                // [table->count] of each
    int shard_count;
    Progress progress;
    int64_t done; // elements
} Export;

static void plan(Export *export, int64_t max_shard) {
    const ParameterTable *table = export->table;
    int64_t held = 0;
    export->entries = arena_array(&export->arena, SafetensorsEntry, table->count);
    export->shard = arena_array(&export->arena, int, table->count);
    export->shard_count = 1;
    for (int i = 0; i < table->count; i++) {
        const Parameter *p = &table->items[i];
        int64_t bytes = p->rows * p->cols * (int64_t)safetensors_type_size(export->type);
        if (held && held + bytes > max_shard) export->shard_count++, held = 0;
        held += bytes;
        export->shard[i] = export->shard_count - 1;
        export->entries[i] = (SafetensorsEntry){.name = p->name,
                                                .type = export->type,
                                                .rank = p->vector ? 1 : 2,
                                                .shape = {p->rows, p->cols}};
    }
}

static const char *shard_name(Export *export, int shard) {
    if (export->shard_count == 1) return "model.safetensors";
    return arena_format(&export->arena, "model-%05d-of-%05d.safetensors", shard + 1, export->shard_count);
}

// Rounds to the type; false when a finite value becomes infinite.
static bool round_row(uint16_t *out, const float *row, int64_t count, SafetensorsType type) {
    bool good = true;
    for (int64_t i = 0; i < count; i++) {
        out[i] = type == SAFETENSORS_BF16 ? dtype_to_bf16(row[i]) : dtype_to_f16(row[i]);
        good = good && !(type == SAFETENSORS_F16 ? (out[i] & 0x7c00) == 0x7c00 : (out[i] & 0x7f80) == 0x7f80);
    }
    return good;
}

static bool write_parameter(Export *export, SafetensorsWriter *writer, const Parameter *p, Error *error) {
    Arena arena = {0};
    // A vector is one row of model_file_read_row for each element; it is small, and read at once.
    int64_t rows = p->vector ? 1 : p->rows, count = p->vector ? p->rows : p->cols;
    float *row = arena_array(&arena, float, count);
    uint16_t *rounded = arena_array(&arena, uint16_t, count);
    bool good = true;
    for (int64_t r = 0; r < rows && good; r++) {
        if (p->vector)
            good = model_file_read(export->file, p, row, error);
        else
            good = model_file_read_row(export->file, p, r, row) || model_file_not_finite(export->file, p, error);
        if (!good) break;
        if (export->type == SAFETENSORS_F32)
            good = safetensors_put(writer, row, (size_t)count * sizeof *row, error);
        else if (!round_row(rounded, row, count, export->type))
            good = error_set(error, "tensor %s: a value is beyond the range of %s", p->name,
                             safetensors_type_name(export->type));
        else
            good = safetensors_put(writer, rounded, (size_t)count * sizeof *rounded, error);
        export->done += count;
        progress_update(&export->progress, export->done);
    }
    model_file_leave(export->file, p);
    arena_close(&arena);
    return good;
}

static bool write_shard(Export *export, int shard, Error *error) {
    int first = 0, count = 0;
    while (export->shard[first] != shard) first++;
    while (first + count < export->table->count && export->shard[first + count] == shard) count++;
    json_t *metadata = json_pack("{s:s}", "format", "pt");
    SafetensorsWriter writer;
    const char *path = arena_format(&export->arena, "%s/%s", export->folder, shard_name(export, shard));
    bool good = safetensors_begin(&writer, path, export->entries + first, count, metadata, error);
    for (int i = first; i < first + count && good; i++)
        good = write_parameter(export, &writer, &export->table->items[i], error);
    good = good && safetensors_end(&writer, error);
    if (!good) safetensors_abandon(&writer);
    json_decref(metadata);
    return good;
}

static bool write_index(Export *export, Error *error) {
    if (export->shard_count == 1) return true;
    json_t *map = json_object();
    for (int i = 0; i < export->table->count; i++)
        json_object_set_new(map, export->entries[i].name, json_string(shard_name(export, export->shard[i])));
    json_t *index =
        json_pack("{s:{s:I}, s:o}", "metadata", "total_size",
                  (json_int_t)(export->table->total * (int64_t)safetensors_type_size(export->type)), "weight_map", map);
    bool good =
        jsonio_write(index, arena_format(&export->arena, "%s/model.safetensors.index.json", export->folder), error);
    json_decref(index);
    return good;
}

bool export_weights(const char *folder, const ModelFile *file, SafetensorsType type, int64_t max_shard, Error *error) {
    Export export = {.folder = folder, .file = file, .table = model_file_parameters(file), .type = type};
    plan(&export, max_shard);
    progress_begin(&export.progress, "exporting", export.table->total);
    bool good = true;
    for (int shard = 0; shard < export.shard_count && good; shard++) good = write_shard(&export, shard, error);
    progress_end(&export.progress);
    good = good && write_index(&export, error);
    arena_close(&export.arena);
    return good;
}
