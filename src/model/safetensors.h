// Safetensors files, read in place and written: 8 bytes of header length, a JSON header (name → dtype, shape, data_offsets),
// then the tensors' bytes without gaps. Little-endian, row-major. Source: the safetensors README and its Rust reader.
#pragma once
#include "base/arena.h"
#include "base/file.h"

#include <jansson.h>

typedef enum SafetensorsType {
    SAFETENSORS_F64,
    SAFETENSORS_F32,
    SAFETENSORS_F16,
    SAFETENSORS_BF16,
    SAFETENSORS_I64,
    SAFETENSORS_I32,
    SAFETENSORS_I16,
    SAFETENSORS_I8,
    SAFETENSORS_U64,
    SAFETENSORS_U32,
    SAFETENSORS_U16,
    SAFETENSORS_U8,
    SAFETENSORS_BOOL,
    SAFETENSORS_TYPE_COUNT
} SafetensorsType;

const char *safetensors_type_name(SafetensorsType type); // "BF16"
size_t safetensors_type_size(SafetensorsType type);      // bytes of one element

enum { SAFETENSORS_MAX_RANK = 8 };

typedef struct SafetensorsEntry {
    const char *name;
    SafetensorsType type;
    int rank; // 0: a scalar
    int64_t shape[SAFETENSORS_MAX_RANK];
    int64_t count;    // elements, the product of the shape; set by the reader, not read by the writer
    const void *data; // reader: inside the map, valid until close; a foreign file may leave it unaligned
    bool from_float;  // writer only: data holds fp32, rounded to type (BF16, F16) on the way
} SafetensorsEntry;

// An open file. Zero-initialise or open before close.
typedef struct Safetensors {
    const char *path;
    FileMap map;
    Arena arena;
    int64_t count;
    SafetensorsEntry *entries; // by name (strcmp)
    json_t *metadata;          // object of strings, or NULL
} Safetensors;

// Maps the file and checks the whole header: every tensor's bytes match its dtype and shape and lie in the file, without
// overlap or gap. Refuses naming file and tensor.
bool safetensors_open(Safetensors *file, const char *path, Error *error);
void safetensors_close(Safetensors *file);

const SafetensorsEntry *safetensors_find(const Safetensors *file, const char *name); // NULL: not there
const char *safetensors_metadata(const Safetensors *file, const char *key);          // NULL: not there

// As find, but a tensor that is absent, or has another type or number of elements (count -1: any), is an error; its data is
// aligned for the type.
bool safetensors_require(const SafetensorsEntry **entry, const Safetensors *file, const char *name,
                         SafetensorsType type, int64_t count, Error *error);

// A file that is written tensor by tensor, for those who never hold it whole. Written beside its path, then renamed.
typedef struct SafetensorsWriter {
    const char *path;
    char aside[4096];
    int descriptor;
    int64_t left; // bytes of data that are still to come
} SafetensorsWriter;

// Begins a file of entries whose data comes later, in this order and in their types (data and from_float are not read). path
// must outlive the writer.
bool safetensors_begin(SafetensorsWriter *writer, const char *path, const SafetensorsEntry *entries, int64_t count,
                       const json_t *metadata, Error *error);
bool safetensors_put(SafetensorsWriter *writer, const void *data, size_t size, Error *error); // the next bytes
bool safetensors_end(SafetensorsWriter *writer, Error *error);                                // when all data was put
void safetensors_abandon(SafetensorsWriter *writer); // leaves no file; accepts one that ended or failed

// Makes a file of entries whose data is filled in later, by whoever finds its place with safetensors_open (data and from_float are not
// read). Not synced.
bool safetensors_make(const char *path, const SafetensorsEntry *entries, int64_t count, const json_t *metadata,
                      Error *error);

// Writes entries straight from their memory beside path, fsyncs and renames. Tensors lie in descending element size, in the
// given order otherwise; the data begins at a multiple of 64 bytes. Names are distinct UTF-8; metadata is an object of
// strings, or NULL.
bool safetensors_write(const char *path, const SafetensorsEntry *entries, int64_t count, const json_t *metadata,
                       Error *error);
