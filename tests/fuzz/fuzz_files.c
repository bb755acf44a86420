#include "fuzz/fuzz_files.h"

#include "base/file.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

typedef struct FuzzFile {
    char path[64];
    const uint8_t *data;
    size_t size;
} FuzzFile;

static FuzzFile files[FUZZ_MAX_FILES];
static int file_count;

void fuzz_files_forget(void) {
    file_count = 0;
}

void fuzz_files_add(const char *path, const void *data, size_t size) {
    CHECK(file_count < FUZZ_MAX_FILES, "%d files", file_count);
    FuzzFile *file = &files[file_count++];
    snprintf(file->path, sizeof file->path, "%s", path);
    file->data = data;
    file->size = size;
}

static bool is_known(const char *const *names, int count, const char *name) {
    for (int i = 0; i < count; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

// The name after "=== " at the start of this line, or "".
static void line_name(char name[64], const uint8_t *line, size_t left) {
    size_t length = 0;
    name[0] = 0;
    if (left < 5 || memcmp(line, "=== ", 4) != 0) return;
    while (4 + length < left && line[4 + length] != '\n' && length < 63) length++;
    memcpy(name, line + 4, length);
    name[length] = 0;
}

void fuzz_files_split(const uint8_t *data, size_t size, const char *const *names, int count) {
    char path[80], name[64];
    size_t begin = 0, at = 0;
    fuzz_files_forget();
    snprintf(path, sizeof path, "fuzz/%s", names[0]);
    while (at < size) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t next = end ? (size_t)(end - data) + 1 : size;
        line_name(name, data + at, size - at);
        if (is_known(names, count, name) && file_count < FUZZ_MAX_FILES - 1) {
            if (at > begin) fuzz_files_add(path, data + begin, at - begin);
            snprintf(path, sizeof path, "fuzz/%s", name);
            begin = next;
        }
        at = next;
    }
    fuzz_files_add(path, data + begin, size - begin);
}

void fuzz_files_refused(const Error *error) {
    if (getenv("FUZZ_TELL")) fprintf(stderr, "refused: %s\n", error->text);
    CHECK(error->text[0], "a refusal without a word");
    for (const char *at = error->text; *at; at++)
        CHECK((unsigned char)*at >= 0x20 && *at != 0x7f, "not one line: '%s'", error->text);
}

// --- in the place of base/file.c

bool __real_file_map(FileMap *map, const char *path, Error *error);
void __real_file_unmap(FileMap *map);
bool __real_file_read(char **text, size_t *size, Arena *arena, const char *path, Error *error);
bool __real_file_read_stream(char **text, size_t *size, Arena *arena, const char *path, Error *error);
bool __real_file_stamp(FileStamp *stamp, const char *path, Error *error);
bool __real_file_exists(const char *path);
bool __real_file_is_folder(const char *path);
bool __real_file_same(const char *one, const char *other);
char *__real_realpath(const char *path, char *resolved);
bool __wrap_file_map(FileMap *map, const char *path, Error *error);
void __wrap_file_unmap(FileMap *map);
void __wrap_file_map_leave(const void *data, size_t size);
bool __wrap_file_read(char **text, size_t *size, Arena *arena, const char *path, Error *error);
bool __wrap_file_read_stream(char **text, size_t *size, Arena *arena, const char *path, Error *error);
bool __wrap_file_stamp(FileStamp *stamp, const char *path, Error *error);
bool __wrap_file_exists(const char *path);
bool __wrap_file_is_folder(const char *path);
bool __wrap_file_same(const char *one, const char *other);
char *__wrap_realpath(const char *path, char *resolved);

enum { MAX_MAPS = 64 };
static const void *maps[MAX_MAPS]; // blocks that stand for maps
static int map_count;

static bool is_virtual(const char *path) {
    return !strncmp(path, "fuzz/", 5) || !strcmp(path, "fuzz");
}

static const FuzzFile *find(const char *path) { // a file given twice: the last one
    for (int i = file_count; i-- > 0;)
        if (!strcmp(files[i].path, path)) return &files[i];
    return NULL;
}

bool __wrap_file_map(FileMap *map, const char *path, Error *error) {
    if (!is_virtual(path)) return __real_file_map(map, path, error);
    const FuzzFile *file = find(path);
    *map = (FileMap){0};
    if (!file) return error_set(error, "%s: cannot open: not there", path);
    if (!file->size) return true;
    uint8_t *copy = malloc(file->size);
    CHECK(copy && map_count < MAX_MAPS, "%d maps", map_count);
    memcpy(copy, file->data, file->size);
    maps[map_count++] = copy;
    *map = (FileMap){.data = copy, .size = file->size};
    return true;
}

void __wrap_file_map_leave(const void *data, size_t size) { // blocks would lose what they hold
    (void)data, (void)size;
}

void __wrap_file_unmap(FileMap *map) {
    for (int i = 0; map->data && i < map_count; i++) {
        if (maps[i] != map->data) continue;
        free((void *)(uintptr_t)map->data);
        maps[i] = maps[--map_count];
        *map = (FileMap){0};
    }
    __real_file_unmap(map);
}

bool __wrap_file_read(char **text, size_t *size, Arena *arena, const char *path, Error *error) {
    FileMap map;
    if (!__wrap_file_map(&map, path, error)) return false;
    *text = arena_bytes(arena, map.data, map.size);
    if (size) *size = map.size;
    __wrap_file_unmap(&map);
    return true;
}

bool __wrap_file_read_stream(char **text, size_t *size, Arena *arena, const char *path, Error *error) {
    return (is_virtual(path) ? __wrap_file_read : __real_file_read_stream)(text, size, arena, path, error);
}

// A file that nobody writes to.
bool __wrap_file_stamp(FileStamp *stamp, const char *path, Error *error) {
    if (!is_virtual(path)) return __real_file_stamp(stamp, path, error);
    *stamp = (FileStamp){0};
    return find(path) || error_set(error, "%s: not there", path);
}

bool __wrap_file_exists(const char *path) {
    return is_virtual(path) ? !strcmp(path, "fuzz") || find(path) : __real_file_exists(path);
}

bool __wrap_file_is_folder(const char *path) {
    return is_virtual(path) ? !strcmp(path, "fuzz") : __real_file_is_folder(path);
}

bool __wrap_file_same(const char *one, const char *other) {
    return is_virtual(one) || is_virtual(other) ? !strcmp(one, other) : __real_file_same(one, other);
}

char *__wrap_realpath(const char *path, char *resolved) {
    if (!is_virtual(path)) return __real_realpath(path, resolved);
    snprintf(resolved, PATH_MAX, "/%s", path);
    return resolved;
}
