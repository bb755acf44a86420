#include "base/cache_folder.h"

#include <string.h>

static const char *set(const char *variable) {
    const char *value = getenv(variable);
    return value && *value ? value : NULL;
}

const char *cache_folder_expand(const char *path, Arena *arena) {
    const char *home = set("HOME");
    bool starts_at_home = path[0] == '~' && (path[1] == '/' || !path[1]);
    return home && starts_at_home ? arena_format(arena, "%s%s", home, path + 1) : arena_string(arena, path);
}

// The folder that the variable names, else `name` among the user's caches.
static bool find(const char **folder, const char *variable, const char *name, Arena *arena, Error *error) {
    const char *given = set(variable), *caches = set("XDG_CACHE_HOME"), *home = set("HOME");
    *folder = NULL;
    if (given)
        *folder = cache_folder_expand(given, arena);
    else if (caches)
        *folder = arena_format(arena, "%s/%s", cache_folder_expand(caches, arena), name);
    else if (home)
        *folder = arena_format(arena, "%s/.cache/%s", home, name);
    return *folder || error_set(error, "no place for the cache: neither %s nor HOME is set", variable);
}

bool cache_folder_own(const char **folder, Arena *arena, Error *error) {
    return find(folder, "WHET_CACHE", "whet", arena, error);
}

bool cache_folder_data(const char **folder, const char *name, Arena *arena, Error *error) {
    if (!cache_folder_own(folder, arena, error)) return false;
    *folder = arena_format(arena, "%s/data/%s", *folder, name);
    return true;
}

bool cache_folder_hugging_face(const char **folder, Arena *arena, Error *error) {
    return find(folder, "HF_HOME", "huggingface", arena, error);
}

bool cache_folder_hub(const char **folder, Arena *arena, Error *error) {
    const char *given = set("HF_HUB_CACHE") ? set("HF_HUB_CACHE") : set("HUGGINGFACE_HUB_CACHE");
    if (given) {
        *folder = cache_folder_expand(given, arena);
        return true;
    }
    if (!cache_folder_hugging_face(folder, arena, error)) return false;
    *folder = arena_format(arena, "%s/hub", *folder);
    return true;
}
