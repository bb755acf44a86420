#include "model/hub_cache.h"

#include "base/cache_folder.h"
#include "base/file.h"
#include "base/jsonio.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

enum { MOST_SHARDS = 10000 };
static const char SINGLE[] = "model.safetensors", INDEX[] = "model.safetensors.index.json";

static bool has(const char *folder, const char *name, Arena *arena) {
    return file_exists(arena_format(arena, "%s/%s", folder, name));
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

// The commit that refs/REVISION holds, or NULL.
static const char *read_ref(const char *repository, const char *revision, Arena *arena) {
    Error ignored;
    char *commit;
    if (!file_read(&commit, NULL, arena, arena_format(arena, "%s/refs/%s", repository, revision), &ignored))
        return NULL;
    commit[strcspn(commit, " \r\n")] = 0;
    return hub_name_is_commit(commit) ? commit : NULL;
}

const char *hub_cache_snapshot(const char *hub, const char *id, const char *revision, Arena *arena) {
    const char *repository = arena_format(arena, "%s/%s", hub, hub_name_folder(id, arena));
    const char *wanted = revision ? revision : "main";
    const char *commit = hub_name_is_commit(wanted) ? wanted : read_ref(repository, wanted, arena);
    if (!commit) return NULL;
    const char *snapshot = arena_format(arena, "%s/snapshots/%s", repository, commit);
    return file_is_folder(snapshot) ? snapshot : NULL;
}

static int compare_names(const void *one, const void *other) {
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

size_t hub_cache_ggufs(const char *const **names, const char *snapshot, Arena *arena) {
    size_t count = 0, most = 0;
    DIR *folder = opendir(snapshot);
    *names = NULL;
    if (!folder) return 0;
    while (readdir(folder)) most++;
    const char **found = arena_array(arena, const char *, most);
    rewinddir(folder);
    for (struct dirent *entry; (entry = readdir(folder)) && count < most;)
        if (ends_with(entry->d_name, ".gguf") && has(snapshot, entry->d_name, arena))
            found[count++] = arena_string(arena, entry->d_name);
    closedir(folder);
    qsort(found, count, sizeof *found, compare_names);
    *names = found;
    return count;
}

static bool holds(const char *const *names, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

bool hub_cache_shards(const char *const **names, size_t *count, const char *index, Arena *arena, Error *error) {
    json_t *root, *value;
    const char *tensor;
    bool good = true;
    *names = NULL;
    *count = 0;
    if (!jsonio_read_object(&root, index, error)) return false;
    json_t *weight_map = json_object_get(root, "weight_map");
    size_t most = json_object_size(weight_map);
    const char **found = arena_array(arena, const char *, most);
    if (!most) good = error_set(error, "%s: weight_map is missing or empty", index);
    json_object_foreach(weight_map, tensor, value) {
        const char *name = json_string_value(value);
        if (!name || !hub_name_is_inside(name)) {
            good = error_set(error, "%s: weight_map: %.200s: not the name of a file in the folder", index, tensor);
            break;
        }
        // Tensors of one file mostly stand together.
        if (*count && !strcmp(found[*count - 1], name)) continue;
        if (holds(found, *count, name)) continue;
        if (*count == MOST_SHARDS) {
            good = error_set(error, "%s: weight_map names more than %d files", index, MOST_SHARDS);
            break;
        }
        found[(*count)++] = arena_string(arena, name);
    }
    json_decref(root);
    *names = found;
    return good;
}

static const char *missing_weights(const char *snapshot, Arena *arena) {
    Error ignored;
    const char *const *shards;
    size_t count;
    if (has(snapshot, SINGLE, arena)) return NULL;
    if (!has(snapshot, INDEX, arena)) return SINGLE;
    if (!hub_cache_shards(&shards, &count, arena_format(arena, "%s/%s", snapshot, INDEX), arena, &ignored))
        return NULL; // whoever opens the model says what is wrong with the index
    for (size_t i = 0; i < count; i++)
        if (!has(snapshot, shards[i], arena)) return shards[i];
    return NULL;
}

const char *hub_cache_missing(const char *snapshot, HubPart part, Arena *arena) {
    const char *const *ggufs;
    if (part == HUB_TOKENIZER) return has(snapshot, "tokenizer.json", arena) ? NULL : "tokenizer.json";
    if (!has(snapshot, "config.json", arena)) return hub_cache_ggufs(&ggufs, snapshot, arena) ? NULL : "config.json";
    return has(snapshot, "tokenizer.json", arena) ? missing_weights(snapshot, arena) : "tokenizer.json";
}

static bool find_gguf(const char **path, const HubName *name, const char *snapshot, Arena *arena, Error *error) {
    const char *const *ggufs;
    size_t count = hub_cache_ggufs(&ggufs, snapshot, arena);
    if (count > 1)
        return error_set(error, "%s: %zu GGUF files of it are in the cache; say which, like %s%s%s/%s", name->id, count,
                         name->id, name->revision ? "@" : "", name->revision ? name->revision : "", ggufs[0]);
    if (!count) return error_set(error, "%s: %s has neither config.json nor a GGUF file", name->id, snapshot);
    *path = arena_format(arena, "%s/%s", snapshot, ggufs[0]);
    return true;
}

// given: what the user wrote, which `whet pull` understands likewise.
static bool find_in_snapshot(const char **path, const HubName *name, const char *given, const char *snapshot,
                             HubPart part, Arena *arena, Error *error) {
    if (name->file) {
        *path = arena_format(arena, "%s/%s", snapshot, name->file);
        return file_exists(*path) || error_set(error, "%s: %s is not in the cache (%s): run `whet pull %s`", name->id,
                                               name->file, snapshot, given);
    }
    const char *missing = hub_cache_missing(snapshot, part, arena);
    if (missing)
        return error_set(error, "%s: snapshot %.12s in the cache is not complete, %s is missing: run `whet pull %s`",
                         name->id, strrchr(snapshot, '/') + 1, missing, given);
    *path = snapshot;
    return part == HUB_TOKENIZER || has(snapshot, "config.json", arena) ||
           find_gguf(path, name, snapshot, arena, error);
}

bool hub_cache_find(const char **path, const char *name, HubPart part, Arena *arena, Error *error) {
    HubName parts;
    const char *hub;
    *path = name;
    if (file_exists(name)) return true;
    if (errno != ENOENT && errno != ENOTDIR) return error_set(error, "%s: %s", name, strerror(errno));
    if (!hub_name_parse(&parts, name, arena))
        return error_set(error,
                         "%s: no such model; expected a GGUF file, a folder with config.json and safetensors, or "
                         "ORG/NAME of the hub after `whet pull ORG/NAME` (scripts/get-model fetches a small model)",
                         name);
    if (!cache_folder_hub(&hub, arena, error)) return false;
    const char *snapshot = hub_cache_snapshot(hub, parts.id, parts.revision, arena);
    if (!snapshot) {
        bool begun = has(hub, hub_name_folder(parts.id, arena), arena);
        return error_set(error, "%s: no such file or folder, and %s (%s): run `whet pull %s`", name,
                         begun ? "this revision is not, or not wholly, in the cache" : "not in the cache", hub, name);
    }
    return find_in_snapshot(path, &parts, name, snapshot, part, arena, error);
}
