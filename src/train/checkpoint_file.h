// A file of a checkpoint: arrays of shards as safetensors, written and read by all ranks together, each its own part of every tensor.
// The bytes, and the digest, do not tell how many ranks there were, nor how they divided the model.
#pragma once
#include "base/digest.h"
#include "model/safetensors.h"
#include "train/shard.h"

// What a file holds of each parameter: `prefix` and the parameter's name ↔ arrays of the shards.
typedef struct CheckpointColumn {
    const char *prefix;
    Tensor *arrays; // [units]
} CheckpointColumn;

typedef struct CheckpointColumns {
    int count;
    CheckpointColumn items[2];
} CheckpointColumns;

// Makes path on the first rank, then every rank writes the elements of its part that no other counts, and syncs them: the columns of
// each parameter, in the order of the table. True on all ranks or on none; what was written before a failure stays.
bool checkpoint_file_save(const char *path, Comm *ranks, const Shards *shards, CheckpointColumns columns,
                          const json_t *metadata, Error *error);

// Digest of a file's pieces (base/digest.h), of which every rank reads some. The same on all ranks, or false on all.
bool checkpoint_file_digest(char hex[DIGEST_HEX], const char *path, Comm *ranks, Error *error);

// Opens a file that holds the columns of every parameter, no more.
bool checkpoint_file_open(Safetensors *file, const char *path, const ParameterTable *table, CheckpointColumns columns,
                          Error *error);

// This rank's elements; zeros behind a vocabulary.
void checkpoint_file_load(const Safetensors *file, const Shards *shards, CheckpointColumns columns);
