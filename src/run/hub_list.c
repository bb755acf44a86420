#include "run/hub_list.h"

#include "base/strbuf.h"
#include "model/hub_name.h"

#include <fnmatch.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { MOST_FILES = 100000 };
static const char SINGLE[] = "model.safetensors", INDEX[] = "model.safetensors.index.json";

static bool read_files(HubList *list, const json_t *siblings, const char *name, Arena *arena, Error *error) {
    const json_t *entry;
    size_t i;
    if (!json_is_array(siblings)) return error_set(error, "%s: the hub's answer has no list 'siblings' of files", name);
    if (json_array_size(siblings) > MOST_FILES)
        return error_set(error, "%s: the hub lists %zu files, more than %d", name, json_array_size(siblings),
                         MOST_FILES);
    const char **files = arena_array(arena, const char *, json_array_size(siblings));
    json_array_foreach((json_t *)(uintptr_t)siblings, i, entry) {
        const char *file = json_string_value(json_object_get(entry, "rfilename"));
        if (!file) return error_set(error, "%s: the hub's answer: siblings.%zu has no text 'rfilename'", name, i);
        if (!hub_name_is_inside(file))
            return error_set(error,
                             "%s: the hub lists a file named '%.200s', which could lead out of its folder: refused",
                             name, file);
        files[i] = arena_string(arena, file);
    }
    list->files = files;
    list->count = json_array_size(siblings);
    return true;
}

bool hub_list_read(HubList *list, const char *text, size_t size, const char *name, Arena *arena, Error *error) {
    json_error_t where;
    json_t *root = json_loadb(text, size, 0, &where);
    *list = (HubList){0};
    if (!root)
        return error_set(error, "%s: the hub's answer is not valid JSON: line %d: %.200s", name, where.line,
                         where.text);
    const char *commit = json_string_value(json_object_get(root, "sha"));
    bool good = commit && hub_name_is_commit(commit);
    if (good)
        list->commit = arena_string(arena, commit);
    else
        error_set(error, "%s: the hub's answer has no commit 'sha' of 40 hexadecimal digits", name);
    good = good && read_files(list, json_object_get(root, "siblings"), name, arena, error);
    json_decref(root);
    return good;
}

bool hub_list_has(const HubList *list, const char *file) {
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->files[i], file)) return true;
    return false;
}

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && !strcmp(text + length - tail, end);
}

static bool in_root(const char *file) {
    return !strchr(file, '/');
}

static bool is_weights(const char *file) {
    return ends_with(file, ".safetensors") || ends_with(file, ".gguf");
}

static bool is_described(const char *file) {
    static const char *const patterns[] = {"config.json", "generation_config.json", "tokenizer*", "chat_template*",
                                           "special_tokens_map.json"};
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (in_root(file) && !fnmatch(patterns[i], file, 0)) return true;
    return false;
}

static bool matches(const HubChoice *choice, const char *file) {
    for (size_t i = 0; i < choice->glob_count; i++)
        if (!fnmatch(choice->globs[i], file, 0)) return true;
    return false;
}

// Moves the weights behind the rest; else the hub's order stays.
static void put_weights_last(const char **files, size_t count, Arena *arena) {
    const char **sorted = arena_array(arena, const char *, count);
    size_t at = 0;
    for (int weights = 0; weights <= 1; weights++)
        for (size_t i = 0; i < count; i++)
            if (is_weights(files[i]) == weights) sorted[at++] = files[i];
    if (count) memcpy(files, sorted, count * sizeof *files);
}

static bool choose_one(HubList *chosen, const HubList *list, const char *file, const char *name, Arena *arena,
                       Error *error) {
    const char **files = arena_array(arena, const char *, 1);
    chosen->files = files;
    chosen->count = 1;
    files[0] = file;
    if (hub_list_has(list, file)) return true;
    const char *near = strbuf_nearest(file, list->files, list->count);
    if (near) return error_set(error, "%s: no file '%s' in it; did you mean '%s'?", name, file, near);
    return error_set(error, "%s: no file '%s' among the %zu in it", name, file, list->count);
}

static bool choose_by_globs(HubList *chosen, const HubList *list, const HubChoice *choice, const char *name,
                            Arena *arena, Error *error) {
    const char **files = arena_array(arena, const char *, list->count);
    for (size_t i = 0; i < list->count; i++)
        if (matches(choice, list->files[i])) files[chosen->count++] = list->files[i];
    put_weights_last(files, chosen->count, arena);
    chosen->files = files;
    return chosen->count ||
           error_set(error, "%s: none of its %zu files matches --include %s", name, list->count, choice->globs[0]);
}

static bool choose_gguf(HubList *chosen, const HubList *list, const char *name, Arena *arena, Error *error) {
    const char *only = NULL;
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++)
        if (ends_with(list->files[i], ".gguf") && ++count) only = list->files[i];
    if (count == 1) return choose_one(chosen, list, only, name, arena, error);
    for (size_t i = 0; i < list->count; i++)
        if (ends_with(list->files[i], ".gguf")) puts(list->files[i]);
    return error_set(error, "%s: holds %zu GGUF files (listed on standard output): choose one with --file", name,
                     count);
}

static bool choose_needed(HubList *chosen, const HubList *list, const char *name, Arena *arena, Error *error) {
    const char **files = arena_array(arena, const char *, list->count + 1);
    const char *unread = NULL;
    const char *weight_pattern = hub_list_has(list, SINGLE)  ? SINGLE
                                 : hub_list_has(list, INDEX) ? INDEX
                                                             : "*.safetensors";
    bool gguf = false, weights = false;
    for (size_t i = 0; i < list->count; i++) {
        const char *file = list->files[i];
        bool needed = in_root(file) && !fnmatch(weight_pattern, file, 0);
        weights = weights || needed;
        gguf = gguf || ends_with(file, ".gguf");
        if (ends_with(file, ".bin") || ends_with(file, ".pth") || ends_with(file, ".pt")) unread = file;
        if (needed || is_described(file)) files[chosen->count++] = file;
    }
    put_weights_last(files, chosen->count, arena);
    chosen->files = files;
    if (weights && hub_list_has(list, "config.json")) return true;
    if (gguf) return choose_gguf(chosen, list, name, arena, error);
    if (weights) return error_set(error, "%s: safetensors without a config.json: not a model that whet reads", name);
    return error_set(error, "%s: holds neither safetensors nor GGUF files%s%s%s; --include takes other files", name,
                     unread ? " (" : "", unread ? unread : "", unread ? " is not read: convert it)" : "");
}

bool hub_list_choose(HubList *chosen, const HubList *list, const HubChoice *choice, const char *name, Arena *arena,
                     Error *error) {
    *chosen = (HubList){.commit = list->commit};
    if (choice->file) return choose_one(chosen, list, choice->file, name, arena, error);
    if (choice->glob_count) return choose_by_globs(chosen, list, choice, name, arena, error);
    return choose_needed(chosen, list, name, arena, error);
}

bool hub_list_add_shards(HubList *chosen, const HubList *list, const char *const *shards, size_t count,
                         const char *name, Arena *arena, Error *error) {
    const char **files = arena_array(arena, const char *, chosen->count + count);
    if (chosen->count) memcpy(files, chosen->files, chosen->count * sizeof *files);
    chosen->files = files;
    for (size_t i = 0; i < count; i++) {
        if (!hub_list_has(list, shards[i]))
            return error_set(error, "%s: %s names the file %.200s, which the hub does not list", name, INDEX,
                             shards[i]);
        if (!hub_list_has(chosen, shards[i])) files[chosen->count++] = shards[i];
    }
    return true;
}
