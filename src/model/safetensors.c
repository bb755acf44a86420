#include "model/safetensors.h"

#include "base/strbuf.h"
#include "device/dtype.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The Rust reader's bound too: a longer header is a lie or an attack.
enum { MAX_HEADER = 100000000, MAX_TENSORS = 1 << 18, DATA_ALIGNMENT = 64, CHUNK = 16384 };

static const struct {
    const char *name;
    size_t size;
} types[SAFETENSORS_TYPE_COUNT] = {
    [SAFETENSORS_F64] = {"F64", 8},   [SAFETENSORS_F32] = {"F32", 4}, [SAFETENSORS_F16] = {"F16", 2},
    [SAFETENSORS_BF16] = {"BF16", 2}, [SAFETENSORS_I64] = {"I64", 8}, [SAFETENSORS_I32] = {"I32", 4},
    [SAFETENSORS_I16] = {"I16", 2},   [SAFETENSORS_I8] = {"I8", 1},   [SAFETENSORS_U64] = {"U64", 8},
    [SAFETENSORS_U32] = {"U32", 4},   [SAFETENSORS_U16] = {"U16", 2}, [SAFETENSORS_U8] = {"U8", 1},
    [SAFETENSORS_BOOL] = {"BOOL", 1},
};

const char *safetensors_type_name(SafetensorsType type) {
    CHECK(type < SAFETENSORS_TYPE_COUNT, "type %d", (int)type);
    return types[type].name;
}

size_t safetensors_type_size(SafetensorsType type) {
    CHECK(type < SAFETENSORS_TYPE_COUNT, "type %d", (int)type);
    return types[type].size;
}

static bool refuse(const Safetensors *file, const char *name, const char *what, Error *error) {
    return error_set(error, "%s: tensor %.200s: %s", file->path, name, what);
}

static bool read_type(SafetensorsEntry *entry, const Safetensors *file, const json_t *value, Error *error) {
    const char *name = json_string_value(value);
    if (!name) return refuse(file, entry->name, "dtype is missing or no string", error);
    for (int i = 0; i < SAFETENSORS_TYPE_COUNT; i++) {
        if (strcmp(name, types[i].name) != 0) continue;
        entry->type = (SafetensorsType)i;
        return true;
    }
    return error_set(error, "%s: tensor %.200s: unknown dtype '%.40s'", file->path, entry->name, name);
}

static bool read_shape(SafetensorsEntry *entry, const Safetensors *file, const json_t *value, Error *error) {
    if (!json_is_array(value)) return refuse(file, entry->name, "shape is missing or no list", error);
    size_t rank = json_array_size(value);
    if (rank > SAFETENSORS_MAX_RANK)
        return error_set(error, "%s: tensor %.200s: %zu dimensions, at most %d are read", file->path, entry->name, rank,
                         SAFETENSORS_MAX_RANK);
    entry->rank = (int)rank;
    entry->count = 1;
    for (size_t i = 0; i < rank; i++) {
        const json_t *extent = json_array_get(value, i);
        if (!json_is_integer(extent) || json_integer_value(extent) < 0)
            return refuse(file, entry->name, "shape holds something else than integers from 0 up", error);
        entry->shape[i] = json_integer_value(extent);
        if (__builtin_mul_overflow(entry->count, entry->shape[i], &entry->count))
            return refuse(file, entry->name, "shape has more elements than a file can hold", error);
    }
    return true;
}

static bool read_offsets(SafetensorsEntry *entry, const Safetensors *file, const json_t *value, size_t data_start,
                         Error *error) {
    const json_t *first = json_array_get(value, 0), *last = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(first) || !json_is_integer(last))
        return refuse(file, entry->name, "data_offsets is no list of two integers", error);
    json_int_t begin = json_integer_value(first), end = json_integer_value(last);
    json_int_t available = (json_int_t)(file->map.size - data_start), bytes;
    if (begin < 0 || end < begin || end > available)
        return error_set(error,
                         "%s: tensor %.200s: data_offsets [%" JSON_INTEGER_FORMAT ", %" JSON_INTEGER_FORMAT
                         "] do not lie in the file's %" JSON_INTEGER_FORMAT " bytes of data",
                         file->path, entry->name, begin, end, available);
    if (__builtin_mul_overflow((json_int_t)entry->count, (json_int_t)types[entry->type].size, &bytes) ||
        end - begin != bytes)
        return error_set(error,
                         "%s: tensor %.200s: %" JSON_INTEGER_FORMAT
                         " bytes of data, but dtype %s and shape ask for %" PRId64 " elements of %zu",
                         file->path, entry->name, end - begin, types[entry->type].name, entry->count,
                         types[entry->type].size);
    entry->data = file->map.data + data_start + begin;
    return true;
}

static int by_name(const void *left, const void *right) {
    return strcmp(((const SafetensorsEntry *)left)->name, ((const SafetensorsEntry *)right)->name);
}

static int by_data(const void *left, const void *right) {
    const SafetensorsEntry *a = left, *b = right;
    if (a->data != b->data) return a->data < b->data ? -1 : 1;
    return (a->count > b->count) - (a->count < b->count); // empty tensors first
}

// Every byte of the data belongs to exactly one tensor, as the format asks.
static bool check_cover(const Safetensors *file, size_t data_start, Error *error) {
    qsort(file->entries, (size_t)file->count, sizeof *file->entries, by_data);
    const uint8_t *at = file->map.data + data_start;
    for (int64_t i = 0; i < file->count; i++) {
        const SafetensorsEntry *entry = &file->entries[i];
        if (entry->data != at)
            return refuse(file, entry->name,
                          (const uint8_t *)entry->data < at ? "its data overlaps another tensor's"
                                                            : "its data begins behind a gap",
                          error);
        at += (size_t)entry->count * types[entry->type].size;
    }
    if (at != file->map.data + file->map.size)
        return error_set(error, "%s: %zu bytes behind the last tensor's data", file->path,
                         (size_t)(file->map.data + file->map.size - at));
    return true;
}

static bool read_metadata(Safetensors *file, json_t *value, Error *error) {
    const char *key;
    json_t *text;
    if (!json_is_object(value)) return error_set(error, "%s: __metadata__ is no object", file->path);
    json_object_foreach(value, key, text) if (!json_is_string(text)) return error_set(
        error, "%s: __metadata__: %.200s is no string", file->path, key);
    file->metadata = json_incref(value);
    return true;
}

static bool read_entries(Safetensors *file, json_t *header, size_t data_start, Error *error) {
    const char *name;
    json_t *value;
    file->entries = arena_array(&file->arena, SafetensorsEntry, json_object_size(header));
    json_object_foreach(header, name, value) {
        if (!strcmp(name, "__metadata__")) {
            if (!read_metadata(file, value, error)) return false;
            continue;
        }
        SafetensorsEntry *entry = &file->entries[file->count++];
        entry->name = arena_string(&file->arena, name);
        if (!json_is_object(value)) return refuse(file, name, "its header entry is no object", error);
        if (!read_type(entry, file, json_object_get(value, "dtype"), error) ||
            !read_shape(entry, file, json_object_get(value, "shape"), error) ||
            !read_offsets(entry, file, json_object_get(value, "data_offsets"), data_start, error))
            return false;
    }
    if (!check_cover(file, data_start, error)) return false;
    qsort(file->entries, (size_t)file->count, sizeof *file->entries, by_name);
    return true;
}

// Before a parser takes minutes for millions of values: a tensor's entry has some ten of these, with many dimensions more.
static bool check_marks(const Safetensors *file, const char *text, size_t length, Error *error) {
    enum { OF_A_TENSOR = 16 };
    int64_t marks = 0;
    for (const char *at = text; at < text + length; at++) marks += *at == '{' || *at == '[' || *at == ':' || *at == ',';
    return marks <= (int64_t)OF_A_TENSOR * MAX_TENSORS ||
           error_set(error,
                     "%s: header has %" PRId64
                     " brackets, colons and commas; expected at most %d for each of %d tensors",
                     file->path, marks, OF_A_TENSOR, MAX_TENSORS);
}

static bool read_header(Safetensors *file, Error *error) {
    uint64_t length;
    if (file->map.size < sizeof length)
        return error_set(error, "%s: %zu bytes are too short for a safetensors file", file->path, file->map.size);
    memcpy(&length, file->map.data, sizeof length);
    if (length > file->map.size - sizeof length || length > MAX_HEADER)
        return error_set(error,
                         "%s: header length %" PRIu64 ", but the file has %zu bytes (cut short, or not safetensors)",
                         file->path, length, file->map.size);
    json_error_t where;
    const char *text = (const char *)file->map.data + sizeof length;
    if (!check_marks(file, text, (size_t)length, error)) return false;
    json_t *header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &where);
    if (!header) return error_set(error, "%s: header is not valid JSON: %s", file->path, where.text);
    bool good = json_is_object(header) ? read_entries(file, header, sizeof length + (size_t)length, error)
                                       : error_set(error, "%s: header is no JSON object", file->path);
    json_decref(header);
    return good;
}

bool safetensors_open(Safetensors *file, const char *path, Error *error) {
    *file = (Safetensors){0};
    file->path = arena_string(&file->arena, path);
    if (file_map(&file->map, path, error) && read_header(file, error)) return true;
    safetensors_close(file);
    return false;
}

void safetensors_close(Safetensors *file) {
    json_decref(file->metadata);
    file_unmap(&file->map);
    arena_close(&file->arena);
    *file = (Safetensors){0};
}

const SafetensorsEntry *safetensors_find(const Safetensors *file, const char *name) {
    SafetensorsEntry key = {.name = name};
    return file->count ? bsearch(&key, file->entries, (size_t)file->count, sizeof key, by_name) : NULL;
}

const char *safetensors_metadata(const Safetensors *file, const char *key) {
    return json_string_value(json_object_get(file->metadata, key));
}

bool safetensors_require(const SafetensorsEntry **entry, const Safetensors *file, const char *name,
                         SafetensorsType type, int64_t count, Error *error) {
    const SafetensorsEntry *found = safetensors_find(file, name);
    if (!found) return error_set(error, "%s: tensor %.200s is missing", file->path, name);
    if (found->type != type || (count >= 0 && found->count != count))
        return error_set(error, "%s: tensor %.200s holds %" PRId64 " of %s, expected %" PRId64 " of %s", file->path,
                         name, found->count, types[found->type].name, count >= 0 ? count : found->count,
                         types[type].name);
    if ((uintptr_t)found->data % types[type].size) return refuse(file, name, "its data is not aligned", error);
    *entry = found;
    return true;
}

// --- writing

static int64_t element_count(const SafetensorsEntry *entry) {
    int64_t count = 1;
    CHECK(entry->rank >= 0 && entry->rank <= SAFETENSORS_MAX_RANK, "%s: rank %d", entry->name, entry->rank);
    for (int i = 0; i < entry->rank; i++)
        CHECK(entry->shape[i] >= 0 && !__builtin_mul_overflow(count, entry->shape[i], &count), "%s: shape",
              entry->name);
    CHECK(count <= INT64_MAX / 16, "%s: %" PRId64 " elements", entry->name, count);
    return count;
}

static int64_t data_bytes(const SafetensorsEntry *entries, int64_t count) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < count; i++) bytes += element_count(&entries[i]) * (int64_t)types[entries[i].type].size;
    return bytes;
}

static json_t *describe(const SafetensorsEntry *entry, int64_t begin, int64_t end) {
    json_t *shape = json_array();
    for (int i = 0; i < entry->rank; i++) json_array_append_new(shape, json_integer(entry->shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", types[entry->type].name, "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
}

// Length and text of the header, blanks behind it so that the data is aligned.
static void build_header(StrBuf *out, const SafetensorsEntry *entries, int64_t count, const json_t *metadata) {
    json_t *header = json_object();
    if (metadata) {
        const char *key;
        json_t *value;
        json_object_foreach((json_t *)(uintptr_t)metadata, key, value)
            CHECK(json_is_string(value), "metadata %s is no string", key);
        json_object_set_new(header, "__metadata__", json_deep_copy(metadata));
    }
    int64_t offset = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t end = offset + element_count(&entries[i]) * (int64_t)types[entries[i].type].size;
        CHECK(!json_object_get(header, entries[i].name), "tensor %s twice", entries[i].name);
        CHECK(!json_object_set_new(header, entries[i].name, describe(&entries[i], offset, end)), "name %s",
              entries[i].name);
        offset = end;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    CHECK(text, "header of %" PRId64 " tensors", count);
    uint64_t used = sizeof used + strlen(text), padding = (DATA_ALIGNMENT - used % DATA_ALIGNMENT) % DATA_ALIGNMENT;
    uint64_t length = strlen(text) + padding;
    strbuf_append(out, &length, sizeof length);
    strbuf_puts(out, text);
    for (uint64_t i = 0; i < padding; i++) strbuf_putc(out, ' ');
    free(text);
    json_decref(header);
}

// Makes a file that holds the header of entries, *size bytes; *descriptor is below 0 when it could not be opened. errno says why not.
static bool begin_file(int *descriptor, size_t *size, const char *path, const SafetensorsEntry *entries, int64_t count,
                       const json_t *metadata) {
    StrBuf header = {0};
    build_header(&header, entries, count, metadata);
    *size = header.length;
    *descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    bool good = *descriptor >= 0 && file_put(*descriptor, header.text, header.length, -1);
    strbuf_close(&header);
    return good;
}

static bool cannot_write(SafetensorsWriter *writer, Error *error) {
    error_set(error, "%s: cannot write: %s", writer->path, strerror(errno));
    safetensors_abandon(writer);
    return false;
}

bool safetensors_begin(SafetensorsWriter *writer, const char *path, const SafetensorsEntry *entries, int64_t count,
                       const json_t *metadata, Error *error) {
    *writer = (SafetensorsWriter){.path = path, .descriptor = -1};
    int length = snprintf(writer->aside, sizeof writer->aside, "%s.tmp", path);
    if (length < 0 || (size_t)length >= sizeof writer->aside) return error_set(error, "%s: path too long", path);
    size_t size;
    writer->left = data_bytes(entries, count);
    return begin_file(&writer->descriptor, &size, writer->aside, entries, count, metadata) ||
           cannot_write(writer, error);
}

bool safetensors_put(SafetensorsWriter *writer, const void *data, size_t size, Error *error) {
    writer->left -= (int64_t)size;
    CHECK(writer->left >= 0, "%s: more data than its header says", writer->path);
    return file_put(writer->descriptor, data, size, -1) || cannot_write(writer, error);
}

bool safetensors_end(SafetensorsWriter *writer, Error *error) {
    CHECK(writer->left == 0, "%s: %" PRId64 " bytes of data are missing", writer->path, writer->left);
    if (fsync(writer->descriptor)) return cannot_write(writer, error);
    int descriptor = writer->descriptor;
    writer->descriptor = -1;
    if (close(descriptor)) return cannot_write(writer, error);
    return file_rename(writer->aside, writer->path, error);
}

void safetensors_abandon(SafetensorsWriter *writer) {
    if (writer->descriptor < 0) return;
    close(writer->descriptor);
    unlink(writer->aside);
    writer->descriptor = -1;
}

bool safetensors_make(const char *path, const SafetensorsEntry *entries, int64_t count, const json_t *metadata,
                      Error *error) {
    int descriptor;
    size_t size;
    bool good = begin_file(&descriptor, &size, path, entries, count, metadata) &&
                ftruncate(descriptor, (off_t)size + data_bytes(entries, count)) == 0;
    if (!good) error_set(error, "%s: cannot write: %s", path, strerror(errno));
    if (descriptor >= 0 && close(descriptor) && good)
        good = error_set(error, "%s: cannot write: %s", path, strerror(errno));
    return good;
}

// fp32 rounded to a 16-bit type, piece by piece.
static bool put_rounded(SafetensorsWriter *writer, const SafetensorsEntry *entry, int64_t count, Error *error) {
    CHECK(entry->type == SAFETENSORS_BF16 || entry->type == SAFETENSORS_F16, "%s: fp32 as %s", entry->name,
          types[entry->type].name);
    const float *from = entry->data;
    uint16_t piece[CHUNK];
    for (int64_t at = 0; at < count; at += CHUNK) {
        int64_t now = count - at < CHUNK ? count - at : CHUNK;
        for (int64_t i = 0; i < now; i++)
            piece[i] = entry->type == SAFETENSORS_BF16 ? dtype_to_bf16(from[at + i]) : dtype_to_f16(from[at + i]);
        if (!safetensors_put(writer, piece, sizeof *piece * (size_t)now, error)) return false;
    }
    return true;
}

static bool put_entry(SafetensorsWriter *writer, const SafetensorsEntry *entry, Error *error) {
    int64_t elements = element_count(entry);
    if (entry->from_float && entry->type != SAFETENSORS_F32) return put_rounded(writer, entry, elements, error);
    return safetensors_put(writer, entry->data, (size_t)elements * types[entry->type].size, error);
}

bool safetensors_write(const char *path, const SafetensorsEntry *entries, int64_t count, const json_t *metadata,
                       Error *error) {
    Arena arena = {0};
    SafetensorsEntry *order = arena_array(&arena, SafetensorsEntry, count);
    int64_t ordered = 0;
    for (size_t size = 8; size >= 1; size /= 2)
        for (int64_t i = 0; i < count; i++)
            if (safetensors_type_size(entries[i].type) == size) order[ordered++] = entries[i];
    SafetensorsWriter writer;
    bool good = safetensors_begin(&writer, path, order, count, metadata, error);
    for (int64_t i = 0; i < count && good; i++) good = put_entry(&writer, &order[i], error);
    good = good && safetensors_end(&writer, error);
    arena_close(&arena);
    return good;
}
