// GGUF files (version 2 and 3, little-endian), read in place: metadata by key, tensors by name. Source: ggml's docs/gguf.md.
#pragma once
#include "base/arena.h"
#include "base/file.h"
#include "model/dequantize.h"

typedef enum GgufType { // values are the file's
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
    GGUF_TYPE_COUNT
} GgufType;

typedef struct GgufValue {
    const char *key;
    GgufType type;    // of the value, or of an array's elements
    bool array;       // its elements are no arrays themselves
    int64_t count;    // elements, 1 for a plain value
    const void *data; // first element in the map, unaligned; strings: 8 bytes of length, then the bytes
} GgufValue;

enum { GGUF_MAX_RANK = 4 };

typedef struct GgufTensor {
    const char *name;
    int rank;
    int64_t shape[GGUF_MAX_RANK]; // ggml's order: shape[0] runs fastest, a weight is [in, out]; 1 beyond rank
    WeightFormat format;
    const void *data; // in the map
    size_t bytes;
} GgufTensor;

// An open file, with the other parts of a split one. Zero-initialise or open before close.
typedef struct Gguf Gguf;
struct Gguf {
    const char *path; // of the first part
    FileMap map;
    Arena arena;
    int64_t value_count, tensor_count;
    GgufValue *values;   // by key (strcmp); those of the first part
    GgufTensor *tensors; // by name; those of all parts
    int part_count;
    Gguf *parts; // [part_count] the second part and those behind it
};

enum { GGUF_MAX_PARTS = 4096 };

// A file split in parts (split.count above 1) is opened by its first, NAME-00001-of-00003.gguf; the others lie beside it.
// Maps the file and checks everything: lengths and counts against the file's size, no key or tensor twice, tensors inside the
// file and apart from each other, only formats of dequantize.h. Refuses naming the key or tensor.
bool gguf_open(Gguf *file, const char *path, Error *error);
void gguf_close(Gguf *file);

const GgufValue *gguf_find(const Gguf *file, const char *key);     // NULL: not there
const GgufTensor *gguf_tensor(const Gguf *file, const char *name); // NULL: not there

// Typed access. An absent key gives the fallback; a value of another kind (an array too) is an error. Integers may have any
// width, reals may be integers.
bool gguf_integer_or(int64_t *out, const Gguf *file, const char *key, int64_t fallback, Error *error);
bool gguf_real_or(double *out, const Gguf *file, const char *key, double fallback, Error *error);
bool gguf_flag_or(bool *out, const Gguf *file, const char *key, bool fallback, Error *error);
bool gguf_text_or(const char **out, const Gguf *file, const char *key, const char *fallback, Arena *arena,
                  Error *error); // a copy in the arena; a 0 byte inside is an error

// Arrays; an absent key gives count 0 and NULL. Strings are copied, 0-terminated; a 0 byte inside is an error.
bool gguf_texts(const char *const **out, int64_t *count, const Gguf *file, const char *key, Arena *arena, Error *error);
bool gguf_integers(const int32_t **out, int64_t *count, const Gguf *file, const char *key, Arena *arena, Error *error);
bool gguf_floats(const float **out, int64_t *count, const Gguf *file, const char *key, Arena *arena, Error *error);
