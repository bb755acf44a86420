#include "model/gguf.h"

#include <inttypes.h>
#include <string.h>

// Far over any model; what is allotted for a damaged count stays small.
enum {
    MAX_VALUES = 1 << 16,
    MAX_TENSORS = 1 << 18,
    MAX_NAME = 1 << 16,
    MAX_ALIGNMENT = 1 << 16,
    MAX_ELEMENTS = 1 << 25
};

static const struct {
    const char *name;
    size_t size; // 0: no fixed size
} value_types[GGUF_TYPE_COUNT] = {
    [GGUF_U8] = {"uint8", 1},      [GGUF_I8] = {"int8", 1},     [GGUF_U16] = {"uint16", 2},  [GGUF_I16] = {"int16", 2},
    [GGUF_U32] = {"uint32", 4},    [GGUF_I32] = {"int32", 4},   [GGUF_F32] = {"float32", 4}, [GGUF_BOOL] = {"bool", 1},
    [GGUF_STRING] = {"string", 0}, [GGUF_ARRAY] = {"array", 0}, [GGUF_U64] = {"uint64", 8},  [GGUF_I64] = {"int64", 8},
    [GGUF_F64] = {"float64", 8},
};

// ggml's numbers of tensor types. What is known by name only has format -1 and the nearest one that is read.
static const struct {
    uint32_t number;
    int format;
    const char *name;
    WeightFormat nearest;
} tensor_types[] = {
    {0, WEIGHT_F32, "F32", 0},           {1, WEIGHT_F16, "F16", 0},           {2, WEIGHT_Q4_0, "Q4_0", 0},
    {3, WEIGHT_Q4_1, "Q4_1", 0},         {4, -1, "Q4_2", WEIGHT_Q4_0},        {5, -1, "Q4_3", WEIGHT_Q4_1},
    {6, WEIGHT_Q5_0, "Q5_0", 0},         {7, WEIGHT_Q5_1, "Q5_1", 0},         {8, WEIGHT_Q8_0, "Q8_0", 0},
    {9, -1, "Q8_1", WEIGHT_Q8_0},        {10, WEIGHT_Q2_K, "Q2_K", 0},        {11, WEIGHT_Q3_K, "Q3_K", 0},
    {12, WEIGHT_Q4_K, "Q4_K", 0},        {13, WEIGHT_Q5_K, "Q5_K", 0},        {14, WEIGHT_Q6_K, "Q6_K", 0},
    {15, -1, "Q8_K", WEIGHT_Q8_0},       {16, -1, "IQ2_XXS", WEIGHT_Q2_K},    {17, -1, "IQ2_XS", WEIGHT_Q2_K},
    {18, -1, "IQ3_XXS", WEIGHT_Q3_K},    {19, -1, "IQ1_S", WEIGHT_Q2_K},      {20, -1, "IQ4_NL", WEIGHT_Q4_0},
    {21, -1, "IQ3_S", WEIGHT_Q3_K},      {22, -1, "IQ2_S", WEIGHT_Q2_K},      {23, -1, "IQ4_XS", WEIGHT_Q4_K},
    {24, -1, "I8", WEIGHT_F32},          {25, -1, "I16", WEIGHT_F32},         {26, -1, "I32", WEIGHT_F32},
    {27, -1, "I64", WEIGHT_F32},         {28, -1, "F64", WEIGHT_F32},         {29, -1, "IQ1_M", WEIGHT_Q2_K},
    {30, WEIGHT_BF16, "BF16", 0},        {31, -1, "Q4_0_4_4", WEIGHT_Q4_0},   {32, -1, "Q4_0_4_8", WEIGHT_Q4_0},
    {33, -1, "Q4_0_8_8", WEIGHT_Q4_0},   {34, -1, "TQ1_0", WEIGHT_Q2_K},      {35, -1, "TQ2_0", WEIGHT_Q2_K},
    {36, -1, "IQ4_NL_4_4", WEIGHT_Q4_0}, {37, -1, "IQ4_NL_4_8", WEIGHT_Q4_0}, {38, -1, "IQ4_NL_8_8", WEIGHT_Q4_0},
    {39, -1, "MXFP4", WEIGHT_Q4_0},      {40, -1, "NVFP4", WEIGHT_Q4_0},      {41, -1, "Q1_0", WEIGHT_Q2_K},
};

// What is left to read of the map.
typedef struct Cursor {
    const uint8_t *at;
    size_t left;
} Cursor;

static bool take(void *out, Cursor *cursor, size_t size) {
    if (cursor->left < size) return false;
    memcpy(out, cursor->at, size);
    cursor->at += size;
    cursor->left -= size;
    return true;
}

static bool skip(Cursor *cursor, uint64_t size) {
    if (cursor->left < size) return false;
    cursor->at += size;
    cursor->left -= (size_t)size;
    return true;
}

static bool skip_text(Cursor *cursor) {
    uint64_t length;
    return take(&length, cursor, sizeof length) && skip(cursor, length);
}

static bool cut_short(const Gguf *file, const char *what, const char *name, Error *error) {
    return error_set(error, "%s: %s %.200s: its length goes beyond the end of the file (cut short or damaged)",
                     file->path, what, name);
}

// A key or tensor name, copied.
static bool take_name(const char **out, Gguf *file, Cursor *cursor, const char *what, int64_t number, Error *error) {
    uint64_t length;
    if (!take(&length, cursor, sizeof length) || length > cursor->left)
        return error_set(error, "%s: name of %s %" PRId64 " goes beyond the end of the file (cut short or damaged)",
                         file->path, what, number);
    if (length == 0 || length > MAX_NAME || memchr(cursor->at, 0, (size_t)length))
        return error_set(error, "%s: name of %s %" PRId64 " has %" PRIu64 " bytes or holds a 0 byte", file->path, what,
                         number, length);
    *out = arena_bytes(&file->arena, cursor->at, (size_t)length);
    return skip(cursor, length);
}

static bool take_type(GgufType *type, const Gguf *file, Cursor *cursor, const char *key, Error *error) {
    uint32_t number;
    if (!take(&number, cursor, sizeof number)) return cut_short(file, "key", key, error);
    if (number >= GGUF_TYPE_COUNT)
        return error_set(error, "%s: key %.200s: unknown type %" PRIu32 " of value", file->path, key, number);
    *type = (GgufType)number;
    return true;
}

static bool read_value(GgufValue *value, Gguf *file, Cursor *cursor, int64_t number, Error *error) {
    uint64_t count = 1;
    if (!take_name(&value->key, file, cursor, "key", number, error) ||
        !take_type(&value->type, file, cursor, value->key, error))
        return false;
    if (value->type == GGUF_ARRAY) {
        value->array = true;
        if (!take_type(&value->type, file, cursor, value->key, error)) return false;
        if (value->type == GGUF_ARRAY)
            return error_set(error, "%s: key %.200s: arrays of arrays are not read", file->path, value->key);
        if (!take(&count, cursor, sizeof count)) return cut_short(file, "key", value->key, error);
    }
    value->data = cursor->at;
    size_t least = value->type == GGUF_STRING ? sizeof(uint64_t) : value_types[value->type].size;
    if (count > cursor->left / least) return cut_short(file, "key", value->key, error);
    if (count > MAX_ELEMENTS)
        return error_set(error, "%s: key %.200s: %" PRIu64 " elements, expected at most %d", file->path, value->key,
                         count, MAX_ELEMENTS);
    value->count = (int64_t)count;
    if (value->type != GGUF_STRING) return skip(cursor, count * least);
    for (uint64_t i = 0; i < count; i++)
        if (!skip_text(cursor)) return cut_short(file, "key", value->key, error);
    return true;
}

static bool set_format(GgufTensor *tensor, const Gguf *file, uint32_t number, Error *error) {
    for (size_t i = 0; i < sizeof tensor_types / sizeof *tensor_types; i++) {
        if (tensor_types[i].number != number) continue;
        if (tensor_types[i].format < 0)
            return error_set(
                error, "%s: tensor %.200s is stored as %s (type %" PRIu32 "), which is not read; nearest: %s",
                file->path, tensor->name, tensor_types[i].name, number, dequantize_name(tensor_types[i].nearest));
        tensor->format = (WeightFormat)tensor_types[i].format;
        return true;
    }
    return error_set(error,
                     "%s: tensor %.200s is stored in an unknown format (type %" PRIu32 "), expected one of F32, "
                     "F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K",
                     file->path, tensor->name, number);
}

// Sizes and format; *offset is the place that the file gives, counted from the start of the data.
static bool read_tensor(GgufTensor *tensor, uint64_t *offset, Gguf *file, Cursor *cursor, int64_t number,
                        Error *error) {
    uint32_t rank, type;
    if (!take_name(&tensor->name, file, cursor, "tensor", number, error)) return false;
    if (!take(&rank, cursor, sizeof rank)) return cut_short(file, "tensor", tensor->name, error);
    if (rank < 1 || rank > GGUF_MAX_RANK)
        return error_set(error, "%s: tensor %.200s has %" PRIu32 " dimensions, expected 1..%d", file->path,
                         tensor->name, rank, GGUF_MAX_RANK);
    tensor->rank = (int)rank;
    int64_t count = 1;
    for (int i = 0; i < GGUF_MAX_RANK; i++) {
        tensor->shape[i] = 1;
        if (i >= tensor->rank) continue;
        if (!take(&tensor->shape[i], cursor, sizeof *tensor->shape))
            return cut_short(file, "tensor", tensor->name, error);
        if (tensor->shape[i] < 1 || __builtin_mul_overflow(count, tensor->shape[i], &count))
            return error_set(error, "%s: tensor %.200s: dimension %d is %" PRIu64 ": zero or too large", file->path,
                             tensor->name, i, (uint64_t)tensor->shape[i]);
    }
    if (!take(&type, cursor, sizeof type) || !take(offset, cursor, sizeof *offset))
        return cut_short(file, "tensor", tensor->name, error);
    if (!set_format(tensor, file, type, error)) return false;
    int64_t block = dequantize_block(tensor->format), bytes;
    if (tensor->shape[0] % block)
        return error_set(error, "%s: tensor %.200s: rows of %" PRId64 " values are not whole blocks of %s", file->path,
                         tensor->name, tensor->shape[0], dequantize_name(tensor->format));
    if (__builtin_mul_overflow(count / block, (int64_t)dequantize_block_bytes(tensor->format), &bytes))
        return cut_short(file, "tensor", tensor->name, error);
    tensor->bytes = (size_t)bytes;
    return true;
}

static int by_key(const void *left, const void *right) {
    return strcmp(((const GgufValue *)left)->key, ((const GgufValue *)right)->key);
}

static int by_name(const void *left, const void *right) {
    return strcmp(((const GgufTensor *)left)->name, ((const GgufTensor *)right)->name);
}

static int by_data(const void *left, const void *right) {
    const uint8_t *a = ((const GgufTensor *)left)->data, *b = ((const GgufTensor *)right)->data;
    return (a > b) - (a < b);
}

static bool sort_tensors(Gguf *file, Error *error) {
    GgufTensor *tensors = file->tensors;
    qsort(tensors, (size_t)file->tensor_count, sizeof *tensors, by_name);
    for (int64_t i = 1; i < file->tensor_count; i++)
        if (!strcmp(tensors[i - 1].name, tensors[i].name))
            return error_set(error, "%s: tensor %.200s is there twice", file->path, tensors[i].name);
    return true;
}

static bool check_tensors(Gguf *file, Error *error) {
    GgufTensor *tensors = file->tensors;
    qsort(tensors, (size_t)file->tensor_count, sizeof *tensors, by_data);
    for (int64_t i = 1; i < file->tensor_count; i++)
        if ((const uint8_t *)tensors[i - 1].data + tensors[i - 1].bytes > (const uint8_t *)tensors[i].data)
            return error_set(error, "%s: tensors %.200s and %.200s overlap", file->path, tensors[i - 1].name,
                             tensors[i].name);
    return sort_tensors(file, error);
}

static bool read_values(Gguf *file, Cursor *cursor, Error *error) {
    file->values = arena_array(&file->arena, GgufValue, file->value_count);
    for (int64_t i = 0; i < file->value_count; i++)
        if (!read_value(&file->values[i], file, cursor, i, error)) return false;
    qsort(file->values, (size_t)file->value_count, sizeof *file->values, by_key);
    for (int64_t i = 1; i < file->value_count; i++)
        if (!strcmp(file->values[i - 1].key, file->values[i].key))
            return error_set(error, "%s: key %.200s is there twice", file->path, file->values[i].key);
    return true;
}

static bool read_alignment(uint64_t *alignment, const Gguf *file, Error *error) {
    int64_t value;
    if (!gguf_integer_or(&value, file, "general.alignment", 32, error)) return false;
    if (value < 1 || value > MAX_ALIGNMENT || (value & (value - 1)))
        return error_set(error, "%s: key general.alignment is %" PRId64 ", expected a power of two up to %d",
                         file->path, value, MAX_ALIGNMENT);
    *alignment = (uint64_t)value;
    return true;
}

static bool read_tensors(Gguf *file, Cursor *cursor, Error *error) {
    uint64_t alignment = 1;
    if (!read_alignment(&alignment, file, error)) return false;
    file->tensors = arena_array(&file->arena, GgufTensor, file->tensor_count);
    uint64_t *offsets = arena_array(&file->arena, uint64_t, file->tensor_count);
    for (int64_t i = 0; i < file->tensor_count; i++)
        if (!read_tensor(&file->tensors[i], &offsets[i], file, cursor, i, error)) return false;
    uint64_t start = file->map.size - cursor->left;
    start = (start + alignment - 1) / alignment * alignment;
    uint64_t available = start < file->map.size ? file->map.size - start : 0;
    for (int64_t i = 0; i < file->tensor_count; i++) {
        GgufTensor *tensor = &file->tensors[i];
        if (offsets[i] % alignment || offsets[i] > available || tensor->bytes > available - offsets[i])
            return error_set(error,
                             "%s: tensor %.200s: %zu bytes at offset %" PRIu64 " do not lie in the file's %" PRIu64
                             " bytes of data, or not at a multiple of %" PRIu64 " (cut short or damaged)",
                             file->path, tensor->name, tensor->bytes, offsets[i], available, alignment);
        tensor->data = file->map.data + start + offsets[i];
    }
    return check_tensors(file, error);
}

static bool read_all(Gguf *file, Error *error) {
    Cursor cursor = {.at = file->map.data, .left = file->map.size};
    char magic[4];
    uint32_t version;
    uint64_t tensors, values;
    if (!take(magic, &cursor, sizeof magic) || memcmp(magic, "GGUF", sizeof magic) != 0)
        return error_set(error, "%s: not a GGUF file", file->path);
    if (!take(&version, &cursor, sizeof version)) return error_set(error, "%s: GGUF header cut short", file->path);
    if (version && !(version & 0xffff))
        return error_set(error, "%s: a big-endian GGUF file (version %" PRIu32 "), expected a little-endian one",
                         file->path, __builtin_bswap32(version));
    if (version != 2 && version != 3)
        return error_set(error, "%s: GGUF version %" PRIu32 ", expected 2 or 3", file->path, version);
    if (!take(&tensors, &cursor, sizeof tensors) || !take(&values, &cursor, sizeof values))
        return error_set(error, "%s: GGUF header cut short", file->path);
    // The smallest key and tensor take 13 and 33 bytes.
    if (values > MAX_VALUES || values > cursor.left / 13)
        return error_set(error, "%s: %" PRIu64 " keys are more than the file can hold", file->path, values);
    if (tensors > MAX_TENSORS || tensors > cursor.left / 33)
        return error_set(error, "%s: %" PRIu64 " tensors are more than the file can hold", file->path, tensors);
    file->value_count = (int64_t)values;
    file->tensor_count = (int64_t)tensors;
    return read_values(file, &cursor, error) && read_tensors(file, &cursor, error);
}

static bool open_part(Gguf *file, const char *path, Error *error) {
    *file = (Gguf){0};
    file->path = arena_string(&file->arena, path);
    return file_map(&file->map, path, error) && read_all(file, error);
}

// The place of a file in a split model; count 1 for one that is whole.
static bool read_split(int64_t *number, int64_t *count, const Gguf *file, Error *error) {
    if (!gguf_integer_or(number, file, "split.no", 0, error) || !gguf_integer_or(count, file, "split.count", 1, error))
        return false;
    if (*count > GGUF_MAX_PARTS)
        return error_set(error, "%s: key split.count is %" PRId64 ", expected at most %d", file->path, *count,
                         GGUF_MAX_PARTS);
    return true;
}

// Puts the tensors of all parts into one list, by name.
static bool join_tensors(Gguf *file, Error *error) {
    int64_t total = file->tensor_count, expected;
    for (int i = 0; i < file->part_count; i++) total += file->parts[i].tensor_count;
    if (!gguf_integer_or(&expected, file, "split.tensors.count", total, error)) return false;
    if (expected != total)
        return error_set(error, "%s: the %d parts hold %" PRId64 " tensors, but key split.tensors.count is %" PRId64,
                         file->path, file->part_count + 1, total, expected);
    GgufTensor *tensors = arena_array(&file->arena, GgufTensor, total), *end = tensors;
    memcpy(end, file->tensors, sizeof *tensors * (size_t)file->tensor_count);
    end += file->tensor_count;
    for (int i = 0; i < file->part_count; end += file->parts[i++].tensor_count)
        memcpy(end, file->parts[i].tensors, sizeof *tensors * (size_t)file->parts[i].tensor_count);
    file->tensors = tensors;
    file->tensor_count = total;
    return sort_tensors(file, error);
}

static bool open_parts(Gguf *file, Error *error) {
    int64_t number, count, part_number, part_count;
    if (!read_split(&number, &count, file, error)) return false;
    if (count <= 1) return true;
    if (number != 0)
        return error_set(error,
                         "%s: part %" PRId64 " of %" PRId64 "; give the first, whose name ends in -00001-of-%05" PRId64
                         ".gguf",
                         file->path, number + 1, count, count);
    const char *end = arena_format(&file->arena, "-00001-of-%05" PRId64 ".gguf", count);
    size_t length = strlen(file->path), tail = strlen(end), stem = length > tail ? length - tail : 0;
    if (!stem || strcmp(file->path + stem, end) != 0)
        return error_set(error,
                         "%s: the first of %" PRId64 " parts; expected a name that ends in %s, with the others "
                         "beside it",
                         file->path, count, end);
    file->parts = arena_array(&file->arena, Gguf, count - 1);
    for (int64_t i = 1; i < count; i++) {
        Gguf *part = &file->parts[file->part_count++];
        const char *path =
            arena_format(&file->arena, "%.*s-%05" PRId64 "-of-%05" PRId64 ".gguf", (int)stem, file->path, i + 1, count);
        if (!open_part(part, path, error) || !read_split(&part_number, &part_count, part, error)) return false;
        if (part_number != i || part_count != count)
            return error_set(error,
                             "%s: split.no and split.count are %" PRId64 " and %" PRId64 ", expected %" PRId64
                             " and %" PRId64,
                             path, part_number, part_count, i, count);
    }
    return join_tensors(file, error);
}

bool gguf_open(Gguf *file, const char *path, Error *error) {
    if (open_part(file, path, error) && open_parts(file, error)) return true;
    gguf_close(file);
    return false;
}

void gguf_close(Gguf *file) {
    for (int i = 0; i < file->part_count; i++) gguf_close(&file->parts[i]);
    file_unmap(&file->map);
    arena_close(&file->arena);
    *file = (Gguf){0};
}

const GgufValue *gguf_find(const Gguf *file, const char *key) {
    GgufValue wanted = {.key = key};
    return file->value_count ? bsearch(&wanted, file->values, (size_t)file->value_count, sizeof wanted, by_key) : NULL;
}

const GgufTensor *gguf_tensor(const Gguf *file, const char *name) {
    GgufTensor wanted = {.name = name};
    return file->tensor_count ? bsearch(&wanted, file->tensors, (size_t)file->tensor_count, sizeof wanted, by_name)
                              : NULL;
}

// --- typed access

static bool wrong_kind(const Gguf *file, const GgufValue *value, const char *expected, Error *error) {
    return error_set(error, "%s: key %.200s is %s%s, expected %s", file->path, value->key,
                     value->array ? "an array of " : "of type ", value_types[value->type].name, expected);
}

// Element i as an integer; false when it is none or beyond an int64.
static bool integer_at(int64_t *out, const GgufValue *value, int64_t i) {
    const uint8_t *at = (const uint8_t *)value->data + (size_t)i * value_types[value->type].size;
    uint64_t bits = 0;
    memcpy(&bits, at, value_types[value->type].size);
    switch (value->type) {
    case GGUF_U8:
    case GGUF_U16:
    case GGUF_U32:
    case GGUF_U64: *out = (int64_t)bits; return bits <= INT64_MAX;
    case GGUF_I8: *out = (int8_t)bits; return true;
    case GGUF_I16: *out = (int16_t)bits; return true;
    case GGUF_I32: *out = (int32_t)bits; return true;
    case GGUF_I64: *out = (int64_t)bits; return true;
    default: return false;
    }
}

bool gguf_integer_or(int64_t *out, const Gguf *file, const char *key, int64_t fallback, Error *error) {
    const GgufValue *value = gguf_find(file, key);
    *out = fallback;
    return !value || (!value->array && integer_at(out, value, 0)) || wrong_kind(file, value, "an integer", error);
}

bool gguf_real_or(double *out, const Gguf *file, const char *key, double fallback, Error *error) {
    const GgufValue *value = gguf_find(file, key);
    *out = fallback;
    if (!value) return true;
    if (!value->array && value->type == GGUF_F64) {
        memcpy(out, value->data, sizeof *out);
        return true;
    }
    if (!value->array && value->type == GGUF_F32) {
        float single;
        memcpy(&single, value->data, sizeof single);
        *out = (double)single;
        return true;
    }
    int64_t integer;
    if (value->array || !integer_at(&integer, value, 0)) return wrong_kind(file, value, "a number", error);
    *out = (double)integer;
    return true;
}

bool gguf_flag_or(bool *out, const Gguf *file, const char *key, bool fallback, Error *error) {
    const GgufValue *value = gguf_find(file, key);
    *out = fallback;
    if (!value) return true;
    if (value->array || value->type != GGUF_BOOL) return wrong_kind(file, value, "a bool", error);
    *out = *(const uint8_t *)value->data != 0;
    return true;
}

// Copies count strings that lie one behind the other, 0-terminated, into one block. Their lengths were checked on opening.
static bool copy_texts(const char **out, const Gguf *file, const GgufValue *value, Arena *arena, Error *error) {
    const uint8_t *at = value->data;
    size_t total = 0;
    uint64_t length;
    for (int64_t i = 0; i < value->count; i++) {
        memcpy(&length, at, sizeof length);
        if (length && memchr(at + sizeof length, 0, (size_t)length))
            return error_set(error, "%s: key %.200s: string %" PRId64 " holds a 0 byte", file->path, value->key, i);
        at += sizeof length + length;
        total += (size_t)length + 1;
    }
    char *copy = arena_alloc(arena, total);
    at = value->data;
    for (int64_t i = 0; i < value->count; i++) {
        memcpy(&length, at, sizeof length);
        out[i] = copy;
        memcpy(copy, at + sizeof length, (size_t)length);
        copy += length + 1;
        at += sizeof length + length;
    }
    return true;
}

bool gguf_text_or(const char **out, const Gguf *file, const char *key, const char *fallback, Arena *arena,
                  Error *error) {
    const GgufValue *value = gguf_find(file, key);
    *out = fallback;
    if (!value) return true;
    if (value->array || value->type != GGUF_STRING) return wrong_kind(file, value, "a string", error);
    return copy_texts(out, file, value, arena, error);
}

bool gguf_texts(const char *const **out, int64_t *count, const Gguf *file, const char *key, Arena *arena,
                Error *error) {
    const GgufValue *value = gguf_find(file, key);
    *out = NULL;
    *count = 0;
    if (!value) return true;
    if (!value->array || value->type != GGUF_STRING) return wrong_kind(file, value, "an array of strings", error);
    const char **texts = arena_array(arena, const char *, value->count);
    if (!copy_texts(texts, file, value, arena, error)) return false;
    *out = texts;
    *count = value->count;
    return true;
}

bool gguf_integers(const int32_t **out, int64_t *count, const Gguf *file, const char *key, Arena *arena, Error *error) {
    const GgufValue *value = gguf_find(file, key);
    *out = NULL;
    *count = 0;
    if (!value) return true;
    if (!value->array || value->type == GGUF_STRING) return wrong_kind(file, value, "an array of integers", error);
    int32_t *integers = arena_array(arena, int32_t, value->count);
    for (int64_t i = 0; i < value->count; i++) {
        int64_t wide;
        if (!integer_at(&wide, value, i)) return wrong_kind(file, value, "an array of integers", error);
        if (wide < INT32_MIN || wide > INT32_MAX)
            return error_set(error, "%s: key %.200s: element %" PRId64 " is %" PRId64 ", beyond 32 bits", file->path,
                             value->key, i, wide);
        integers[i] = (int32_t)wide;
    }
    *out = integers;
    *count = value->count;
    return true;
}

bool gguf_floats(const float **out, int64_t *count, const Gguf *file, const char *key, Arena *arena, Error *error) {
    const GgufValue *value = gguf_find(file, key);
    *out = NULL;
    *count = 0;
    if (!value) return true;
    if (!value->array || value->type != GGUF_F32) return wrong_kind(file, value, "an array of floats", error);
    float *floats = arena_array(arena, float, value->count);
    if (value->count) memcpy(floats, value->data, (size_t)value->count * sizeof *floats);
    *out = floats;
    *count = value->count;
    return true;
}
