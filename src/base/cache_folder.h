// Where downloads lie. Environment variables that are set but empty count as not set; "~/" is the home folder.
#pragma once
#include "base/arena.h"
#include "base/error.h"

// whet's own things: WHET_CACHE, else XDG_CACHE_HOME/whet, else ~/.cache/whet.
bool cache_folder_own(const char **folder, Arena *arena, Error *error);
// The data set's files that `whet pull NAME` fetches: data/NAME in whet's own cache.
bool cache_folder_data(const char **folder, const char *name, Arena *arena, Error *error);

// What the Hugging Face hub's clients share: HF_HOME, else XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface;
bool cache_folder_hugging_face(const char **folder, Arena *arena, Error *error);
// and in it the models: HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else hub/ in that folder.
bool cache_folder_hub(const char **folder, Arena *arena, Error *error);

// The path with the home folder in place of a leading "~".
const char *cache_folder_expand(const char *path, Arena *arena);
