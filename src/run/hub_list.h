// What a repository of the Hugging Face hub holds, and which of it whet needs.
#pragma once
#include "base/arena.h"
#include "base/error.h"

typedef struct HubList {
    const char *commit; // 40 hexadecimal digits
    const char *const *files;
    size_t count;
} HubList;

typedef struct HubChoice {
    const char *const *globs; // fnmatch, "*" matches "/" too; none: what whet needs
    size_t glob_count;
    const char *file; // this one alone; NULL: not given
} HubChoice;

// Reads the hub's answer to /api/models/ORG/NAME/revision/R. name stands in errors. A file name that would lead out of its folder
// is an error.
bool hub_list_read(HubList *list, const char *text, size_t size, const char *name, Arena *arena, Error *error);

// The chosen files, weights last, so that whoever has the weights has all. What whet needs of a folder of safetensors:
// config.json, generation_config.json, tokenizer*, chat_template*, special_tokens_map.json in the root and the weights
// (model.safetensors; else the index, whose shards hub_list_add_shards adds; else all *.safetensors of the root). Of a repository of
// GGUF files: its only one; when there are several, they are printed on stdout and the error asks for --file.
bool hub_list_choose(HubList *chosen, const HubList *list, const HubChoice *choice, const char *name, Arena *arena,
                     Error *error);

bool hub_list_has(const HubList *list, const char *file);

// Appends the shards that are not yet among the chosen ones; each must be listed.
bool hub_list_add_shards(HubList *chosen, const HubList *list, const char *const *shards, size_t count,
                         const char *name, Arena *arena, Error *error);
