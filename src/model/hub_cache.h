// What of the Hugging Face hub lies in the cache, in the layout that its clients share (base/cache_folder.h says where):
//   models--ORG--NAME/blobs/DIGEST, refs/REVISION (a commit), snapshots/COMMIT/FILE → ../../blobs/DIGEST
// Nothing here makes a request; `whet pull` fetches.
#pragma once
#include "model/hub_name.h"

typedef enum HubPart {
    HUB_MODEL,     // configuration, tokenizer and weights, or one GGUF file
    HUB_TOKENIZER, // tokenizer.json at least
} HubPart;

// The path of what a MODEL operand, policy.model_name or policy.tokenizer.name names: a file or folder that is there, as it is;
// else ORG/NAME[@REVISION][/FILE], the snapshot in the cache (or its only GGUF file, or FILE in it). *path is name or a string
// of the arena. The error says what to pull, and names the file that a snapshot lacks.
bool hub_cache_find(const char **path, const char *name, HubPart part, Arena *arena, Error *error);

// The folder of the snapshot, or NULL when the cache does not know the revision (NULL: main). hub is cache_folder_hub.
const char *hub_cache_snapshot(const char *hub, const char *id, const char *revision, Arena *arena);

// The name of the first file that the snapshot lacks for whet to load it, or NULL. A snapshot whose root holds GGUF files and no
// config.json lacks nothing.
const char *hub_cache_missing(const char *snapshot, HubPart part, Arena *arena);

// The names (sorted, in the arena) of the GGUF files in the snapshot's root.
size_t hub_cache_ggufs(const char *const **names, const char *snapshot, Arena *arena);

// The files that weight_map of a model.safetensors.index.json names, each once, in its order. An unsafe name is an error.
bool hub_cache_shards(const char *const **names, size_t *count, const char *index, Arena *arena, Error *error);
