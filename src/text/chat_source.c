#include "text/chat_source.h"

#include "base/file.h"
#include "base/jsonio.h"

#include <dirent.h>
#include <string.h>

const ChatSourceItem *chat_source_find(const ChatSource *source, const char *name) {
    for (size_t i = 0; i < source->count; i++)
        if (!strcmp(source->items[i].name, name)) return source->items + i;
    return NULL;
}

bool chat_source_add(ChatSource *source, const char *name, const char *text, const char *file, Error *error) {
    if (chat_source_find(source, name)) return error_set(error, "%s: two chat templates \"%.100s\"", file, name);
    if (source->count == CHAT_SOURCE_MOST)
        return error_set(error, "%s: more than %d chat templates", file, CHAT_SOURCE_MOST);
    source->items[source->count++] = (ChatSourceItem){name, text, file};
    return true;
}

static bool add_file(ChatSource *source, const char *name, const char *path, Arena *arena, Error *error) {
    char *text;
    size_t size;
    if (!file_read(&text, &size, arena, path, error)) return false;
    if (strlen(text) != size) return error_set(error, "%s: holds a 0 byte", path);
    return chat_source_add(source, name, text, path, error);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// additional_chat_templates/NAME.jinja, by name.
static bool add_further(ChatSource *source, const char *folder, Arena *arena, Error *error) {
    const char *place = arena_format(arena, "%s/additional_chat_templates", folder), *names[CHAT_SOURCE_MOST];
    size_t count = 0;
    DIR *listing = opendir(place);
    if (!listing) return true;
    for (struct dirent *entry; (entry = readdir(listing)) && count < CHAT_SOURCE_MOST;) {
        size_t length = strlen(entry->d_name);
        if (length > 6 && !strcmp(entry->d_name + length - 6, ".jinja"))
            names[count++] = arena_bytes(arena, entry->d_name, length - 6);
    }
    closedir(listing);
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = 0; i < count; i++)
        if (!add_file(source, names[i], arena_format(arena, "%s/%s.jinja", place, names[i]), arena, error))
            return false;
    return true;
}

static bool add_value(ChatSource *source, const json_t *value, const char *path, Arena *arena, Error *error) {
    size_t i;
    json_t *item;
    if (json_is_string(value))
        return chat_source_add(source, "default", arena_string(arena, json_string_value(value)), path, error);
    json_array_foreach((json_t *)(uintptr_t)value, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        const char *text = json_string_value(json_object_get(item, "template"));
        if (!name || !text) return error_set(error, "%s: chat_template: entry %zu is no {name, template}", path, i);
        if (!chat_source_add(source, arena_string(arena, name), arena_string(arena, text), path, error)) return false;
    }
    return !value || json_is_null(value) || json_is_array(value) ||
           error_set(error, "%s: chat_template must be a text or a list of {name, template}", path);
}

static bool add_json(ChatSource *source, const char *path, Arena *arena, Error *error) {
    json_t *config;
    if (!file_is_listed(path)) return true;
    if (!jsonio_read_object(&config, path, error)) return false;
    const char *place = arena_format(arena, "%s (chat template)", path); // lines are those of the template
    bool good = add_value(source, json_object_get(config, "chat_template"), place, arena, error);
    json_decref(config);
    return good;
}

bool chat_source_read(ChatSource *source, const char *folder, Arena *arena, Error *error) {
    const char *path = arena_format(arena, "%s/chat_template.jinja", folder);
    if (file_is_listed(path) && !add_file(source, "default", path, arena, error)) return false;
    if (!add_further(source, folder, arena, error)) return false;
    static const char *const names[] = {"tokenizer_config.json", "chat_template.json"};
    for (int i = 0; i < 2 && !source->count; i++)
        if (!add_json(source, arena_format(arena, "%s/%s", folder, names[i]), arena, error)) return false;
    return true;
}
