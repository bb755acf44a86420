// `whet pull` of a known data set into whet's cache: every file's size and SHA-256 are known here, whatever the server says.
#pragma once
#include "base/arena.h"
#include "base/error.h"

// Whether the text names a data set: its own name (gsm8k) or the hub's (openai/gsm8k).
bool data_pull_knows(const char *name);
// The names that data_pull_knows, for a guess at a misspelt one.
size_t data_pull_names(const char *const **names, Arena *arena);

// *path becomes the folder with the files (base/cache_folder.h). from: a folder that holds them, or NULL to fetch them.
// WHET_GSM8K_ENDPOINT stands in for the address of gsm8k's repository.
bool data_pull(const char **path, const char *name, const char *from, Arena *arena, Error *error);
