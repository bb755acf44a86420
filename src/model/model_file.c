#include "model/model_file.h"

#include "base/file.h"
#include "model/dequantize.h"
#include "model/gguf.h"
#include "model/gguf_model.h"
#include "model/hub_folder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

// Where a parameter's bytes lie.
typedef struct Source {
    const uint8_t *data;
    WeightFormat format;
    bool interleaved; // rows of a head, as gguf_model_interleaved says
} Source;

struct ModelFile {
    Arena arena;
    const char *path;
    HubFolder folder; // closed when the model is a GGUF file
    Gguf gguf;        // closed when it is a folder
    Architecture architecture;
    ParameterTable table;
    Source *sources;      // by position in table.items
    ChatSource templates; // of a GGUF
};

static bool weight_format(WeightFormat *format, SafetensorsType type) {
    switch (type) {
    case SAFETENSORS_F32: *format = WEIGHT_F32; return true;
    case SAFETENSORS_F16: *format = WEIGHT_F16; return true;
    case SAFETENSORS_BF16: *format = WEIGHT_BF16; return true;
    default: return false;
    }
}

static const char *show_shape(char text[96], const int64_t *shape, int rank) {
    int used = snprintf(text, 96, "[");
    for (int i = 0; i < rank && used < 90; i++)
        used += snprintf(text + used, 96 - (size_t)used, "%s%" PRId64, i ? ", " : "", shape[i]);
    if (used < 95) snprintf(text + used, 96 - (size_t)used, "]");
    return text;
}

static bool bind_hub(Source *source, const HubFolder *folder, const Parameter *parameter, Error *error) {
    const Safetensors *shard;
    const SafetensorsEntry *entry = hub_folder_find(folder, parameter->name, &shard);
    if (!entry)
        return error_set(error, "%s: tensor %s is missing%s", folder->path, parameter->name,
                         parameter->role == PARAMETER_HEAD ? " (and tie_word_embeddings is not true)" : "");
    int64_t wanted[2] = {parameter->rows, parameter->cols};
    int rank = parameter->vector ? 1 : 2;
    if (entry->rank != rank || memcmp(entry->shape, wanted, sizeof *wanted * (size_t)rank) != 0) {
        char found[96], expected[96];
        return error_set(error, "%s: tensor %s has shape %s, expected %s", shard->path, parameter->name,
                         show_shape(found, entry->shape, entry->rank), show_shape(expected, wanted, rank));
    }
    if (!weight_format(&source->format, entry->type))
        return error_set(error, "%s: tensor %s has dtype %s, expected F32, F16 or BF16", shard->path, parameter->name,
                         safetensors_type_name(entry->type));
    source->data = entry->data;
    return true;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

// A head beside a tied embedding must be the embedding: otherwise the config or the file is wrong.
static bool check_tied_head(const HubFolder *folder, const Safetensors *shard, const SafetensorsEntry *head,
                            Error *error) {
    const SafetensorsEntry *embedding = hub_folder_find(folder, "model.embed_tokens.weight", NULL);
    bool same = embedding && head->type == embedding->type && head->count == embedding->count &&
                !memcmp(head->data, embedding->data, (size_t)head->count * safetensors_type_size(head->type));
    return same || error_set(error,
                             "%s: lm_head.weight differs from model.embed_tokens.weight, but config.json says "
                             "tie_word_embeddings true",
                             shard->path);
}

static int compare_names(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

// Names of the whole table, sorted, to tell left-over tensors.
static const char **sorted_names(Arena *arena, const ParameterTable *table) {
    const char **names = arena_array(arena, const char *, table->count);
    for (int i = 0; i < table->count; i++) names[i] = table->items[i].name;
    qsort(names, (size_t)table->count, sizeof *names, compare_names);
    return names;
}

static bool left_over(const ModelFile *file, const char *path, const char *tensor, Error *error) {
    return error_set(error, "%s: tensor %.200s does not belong to a %s model of %" PRId64 " layers%s", path, tensor,
                     architecture_family_name(file->architecture.family), file->architecture.layer_count,
                     file->architecture.tied_head ? " with a tied head" : "");
}

static bool check_extras(const ModelFile *file, const char **names, Error *error) {
    for (int s = 0; s < file->folder.shard_count; s++) {
        const Safetensors *shard = &file->folder.shards[s];
        for (int64_t i = 0; i < shard->count; i++) {
            const SafetensorsEntry *entry = &shard->entries[i];
            if (bsearch(&entry->name, names, (size_t)file->table.count, sizeof *names, compare_names)) continue;
            if (ends_with(entry->name, ".rotary_emb.inv_freq")) continue;
            if (strcmp(entry->name, "lm_head.weight") != 0) return left_over(file, shard->path, entry->name, error);
            if (!check_tied_head(&file->folder, shard, entry, error)) return false;
        }
    }
    return true;
}

static bool open_hub(ModelFile *file, const char *overrides, Error *error) {
    if (!hub_folder_open(&file->folder, file->path, overrides, error)) return false;
    file->architecture = file->folder.architecture;
    parameters_open(&file->table, &file->architecture);
    file->sources = arena_array(&file->arena, Source, file->table.count);
    for (int i = 0; i < file->table.count; i++)
        if (!bind_hub(&file->sources[i], &file->folder, &file->table.items[i], error)) return false;
    return check_extras(file, sorted_names(&file->arena, &file->table), error);
}

static bool bind_gguf(Source *source, const ModelFile *file, const Parameter *parameter, Error *error) {
    char name[64];
    gguf_model_name(name, parameter);
    const GgufTensor *tensor = gguf_tensor(&file->gguf, name);
    if (!tensor) return error_set(error, "%s: tensor %s is missing", file->path, name);
    int64_t wanted[2] = {parameter->cols, parameter->rows};
    if (parameter->vector) wanted[0] = parameter->rows;
    int rank = parameter->vector ? 1 : 2;
    if (tensor->rank != rank || memcmp(tensor->shape, wanted, sizeof *wanted * (size_t)rank) != 0) {
        char found[96], expected[96];
        return error_set(error, "%s: tensor %s has shape %s, expected %s", file->path, name,
                         show_shape(found, tensor->shape, tensor->rank), show_shape(expected, wanted, rank));
    }
    *source = (Source){.data = tensor->data, .format = tensor->format};
    source->interleaved = gguf_model_interleaved(file->architecture.family, parameter->role);
    return true;
}

static const char **sorted_gguf_names(Arena *arena, const ParameterTable *table) {
    const char **names = arena_array(arena, const char *, table->count);
    for (int i = 0; i < table->count; i++) {
        char name[64];
        gguf_model_name(name, &table->items[i]);
        names[i] = arena_string(arena, name);
    }
    qsort(names, (size_t)table->count, sizeof *names, compare_names);
    return names;
}

static bool check_gguf_extras(const ModelFile *file, const char **names, Error *error) {
    for (int64_t i = 0; i < file->gguf.tensor_count; i++) {
        const char *name = file->gguf.tensors[i].name;
        if (bsearch(&name, names, (size_t)file->table.count, sizeof *names, compare_names)) continue;
        if (!gguf_model_extra(name)) return left_over(file, file->path, name, error);
    }
    return true;
}

static bool open_gguf(ModelFile *file, Error *error) {
    if (!gguf_open(&file->gguf, file->path, error) ||
        !gguf_model_architecture(&file->architecture, &file->gguf, error) ||
        !gguf_model_chat_templates(&file->templates, &file->gguf, &file->arena, error))
        return false;
    parameters_open(&file->table, &file->architecture);
    file->sources = arena_array(&file->arena, Source, file->table.count);
    for (int i = 0; i < file->table.count; i++)
        if (!bind_gguf(&file->sources[i], file, &file->table.items[i], error)) return false;
    return check_gguf_extras(file, sorted_gguf_names(&file->arena, &file->table), error);
}

static bool open_any(ModelFile *file, const char *overrides, Error *error) {
    if (file_is_folder(file->path)) return open_hub(file, overrides, error);
    if (ends_with(file->path, ".safetensors"))
        return error_set(error, "%s: give the folder that holds it and config.json", file->path);
    if (overrides && strcmp(overrides, "{}"))
        return error_set(error, "policy.hf_config_overrides: %s is a GGUF file, which has no config.json", file->path);
    return open_gguf(file, error);
}

bool model_file_open(ModelFile **file, const char *path, Error *error) {
    return model_file_open_changed(file, path, NULL, error);
}

bool model_file_open_changed(ModelFile **file, const char *path, const char *config_overrides, Error *error) {
    Arena arena = {0};
    ModelFile *opened = arena_alloc(&arena, sizeof *opened);
    opened->arena = arena;
    opened->path = arena_string(&opened->arena, path);
    *file = NULL;
    bool good = open_any(opened, config_overrides, error);
    if (good)
        *file = opened;
    else
        model_file_close(opened);
    return good;
}

void model_file_close(ModelFile *file) {
    if (!file) return;
    hub_folder_close(&file->folder);
    gguf_close(&file->gguf);
    parameters_close(&file->table);
    Arena arena = file->arena; // it holds the object itself
    arena_close(&arena);
}

const Architecture *model_file_architecture(const ModelFile *file) {
    return &file->architecture;
}

const ParameterTable *model_file_parameters(const ModelFile *file) {
    return &file->table;
}

// The row of the file that holds a row of the parameter: row j of a head is row 2j there, row j + head_dim/2 is row 2j + 1.
static int64_t stored_row(const ModelFile *file, const Source *source, int64_t row) {
    int64_t head_dim = file->architecture.head_dim, half = head_dim / 2, in_head = row % head_dim;
    if (!source->interleaved) return row;
    return row - in_head + in_head % half * 2 + in_head / half;
}

static size_t source_bytes(const Source *source, const Parameter *parameter) {
    size_t blocks = (size_t)(parameter->whole_rows * parameter->whole_cols / dequantize_block(source->format));
    return blocks * dequantize_block_bytes(source->format);
}

static const Source *source_of(const ModelFile *file, const Parameter *parameter) {
    const Parameter *own = parameters_find(&file->table, parameter->unit, parameter->role);
    CHECK(own && own->rows == parameter->whole_rows && own->cols == parameter->whole_cols, "%s is not of this model",
          parameter->name);
    return &file->sources[own - file->table.items];
}

bool model_file_read_row(const ModelFile *file, const Parameter *parameter, int64_t row, float *out) {
    const Source *source = source_of(file, parameter);
    int64_t block = dequantize_block(source->format), cols = parameter->cols;
    size_t bytes = (size_t)(parameter->whole_cols / block) * dequantize_block_bytes(source->format);
    CHECK(row >= 0 && row < parameter->rows, "row %lld of %s", (long long)row, parameter->name);
    if (row >= parameter->real_rows) {
        memset(out, 0, (size_t)cols * sizeof *out);
        return true;
    }
    const uint8_t *data = source->data + (size_t)stored_row(file, source, parameter->first_row + row) * bytes;
    int64_t first = parameter->first_col, from = first / block * block, to = (first + cols + block - 1) / block * block;
    data += (size_t)(from / block) * dequantize_block_bytes(source->format);
    if (from == first && to == first + cols) return dequantize(out, data, source->format, cols);
    float wide[DEQUANTIZE_MOST]; // a share may begin or end within a block
    bool finite = true;
    for (int64_t at = from; at < to; at += block) {
        int64_t skipped = at < first ? first - at : 0, count = first + cols - at;
        finite &= dequantize(wide, data, source->format, block);
        data += dequantize_block_bytes(source->format);
        if (count > block) count = block;
        memcpy(out + at + skipped - first, wide + skipped, (size_t)(count - skipped) * sizeof *out);
    }
    return finite;
}

bool model_file_not_finite(const ModelFile *file, const Parameter *parameter, Error *error) {
    return error_set(error, "%s: tensor %s holds a value that is not finite", file->path, parameter->name);
}

void model_file_leave(const ModelFile *file, const Parameter *parameter) {
    const Source *source = source_of(file, parameter);
    file_map_leave(source->data, source_bytes(source, parameter));
}

bool model_file_read(const ModelFile *file, const Parameter *parameter, float *out, Error *error) {
    const Source *source = source_of(file, parameter);
    int64_t rows = parameter->rows, cols = parameter->cols;
    bool finite = true;
    bool whole = rows == parameter->whole_rows && parameter->real_rows == rows && cols == parameter->whole_cols;
    if (source->interleaved || !whole)
        for (int64_t row = 0; row < rows; row++) finite &= model_file_read_row(file, parameter, row, out + row * cols);
    else
        finite = dequantize(out, source->data, source->format, rows * cols);
    model_file_leave(file, parameter);
    return finite || model_file_not_finite(file, parameter, error);
}

bool model_file_read_unit(const ModelFile *file, const ParameterTable *table, int unit, float *flat, Error *error) {
    for (int i = 0; i < table->count; i++) {
        const Parameter *parameter = &table->items[i];
        if (parameter->unit == unit && !model_file_read(file, parameter, flat + parameter->offset, error)) return false;
    }
    return true;
}

bool model_file_tokenizer(const ModelFile *file, Tokenizer **tokenizer, Error *error) {
    if (file->gguf.path) return gguf_model_tokenizer(tokenizer, &file->gguf, error);
    return tokenizer_open_folder(tokenizer, file->path, error);
}

const ChatSource *model_file_chat_templates(const ModelFile *file) {
    return file->gguf.path ? &file->templates : &file->folder.templates;
}

int model_file_stop_ids(const ModelFile *file, int32_t *ids, int max) {
    int count = file->architecture.eos_count < max ? file->architecture.eos_count : max;
    memcpy(ids, file->architecture.eos_ids, sizeof *ids * (size_t)count);
    return count;
}

void model_file_digest(const ModelFile *file, char hex[33]) {
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    for (int i = 0; i < file->table.count; i++) {
        const Source *source = &file->sources[i];
        size_t bytes = source_bytes(source, &file->table.items[i]);
        XXH3_128bits_update(&state, source->data, bytes);
        file_map_leave(source->data, bytes);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(&state);
    snprintf(hex, 33, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64, (uint64_t)hash.low64);
}
