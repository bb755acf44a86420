#include "support/recipes.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Recipes recipes;

int recipes_open(void **state) {
    (void)state;
    snprintf(recipes.folder, sizeof recipes.folder, "/tmp/whet-recipes-XXXXXX");
    return mkdtemp(recipes.folder) ? 0 : -1;
}

int recipes_close(void **state) {
    (void)state;
    arena_close(&recipes.arena);
    return file_remove_tree(recipes.folder, &recipes.error) ? 0 : -1;
}

const char *recipes_path(const char *name) {
    return arena_format(&recipes.arena, "%s/%s", recipes.folder, name);
}

const char *recipes_put(const char *name, const char *text) {
    const char *path = recipes_path(name);
    FILE *file = fopen(path, "w"); // file_write would wait for the disk
    CHECK(file && fputs(text, file) >= 0 && !fclose(file), "%s cannot be written", path);
    return path;
}

Settings *recipes_load_file(const char *path, int count, char **overrides) {
    Settings *settings = NULL;
    bool good = settings_load(&settings, &recipes.arena, path, count, overrides, &recipes.error);
    CHECK(good, "%s", recipes.error.text);
    return settings;
}

Settings *recipes_load_with(const char *text, int count, char **overrides) {
    return recipes_load_file(recipes_put("recipe.yaml", text), count, overrides);
}

Settings *recipes_load(const char *text) {
    return recipes_load_with(text, 0, NULL);
}

void recipes_refuse(const char *text, char *override, const char *part) {
    Settings *settings;
    const char *path = recipes_put("recipe.yaml", text);
    bool good = settings_load(&settings, &recipes.arena, path, override != NULL, &override, &recipes.error);
    CHECK(!good, "loaded, where '%s' was expected: %s %s", part, text, override ? override : "");
    recipes_said(recipes.error.text, part);
}

void recipes_said(const char *message, const char *part) {
    CHECK(strstr(message, part), "'%s' is not in: %s", part, message);
    CHECK(!strchr(message, '\n'), "more than one line: %s", message);
}
