#include "config/recipe.h"

#include "config/yaml.h"

#include <limits.h>
#include <string.h>

static const char old_name[] = "dtensor_cfg", new_name[] = "automodel_cfg";

typedef struct Ancestor Ancestor;
struct Ancestor { // the files between the recipe and the one being read
    char path[PATH_MAX];
    const Ancestor *child;
};

typedef struct Loader {
    Arena *arena;
    Error *error;
    Recipe *recipe;
    int files;
} Loader;

const char *recipe_canonical(Arena *arena, const char *path) {
    static const char old_path[] = "policy.dtensor_cfg";
    size_t length = strlen(old_path);
    if (strncmp(path, old_path, length) || (path[length] && path[length] != '.')) return path;
    return arena_format(arena, "policy.%s%s", new_name, path + length);
}

static bool rename_alias(Loader *loader, Value *root) {
    Value *policy = value_get(root, "policy");
    Value *old = policy && policy->kind == VALUE_MAP ? value_get(policy, old_name) : NULL;
    if (!old) return true;
    const Value *current = value_get(policy, new_name);
    if (current)
        return value_fail(loader->error, loader->arena, old,
                          "the older name of policy.%s, which stands at line %d too; keep one", new_name,
                          current->origin.line);
    old->key = new_name;
    Value *version = old->kind == VALUE_MAP ? value_get(old, "_v2") : NULL;
    if (version) value_take(version);
    loader->recipe->alias = value_origin(loader->arena, old->origin);
    return true;
}

// Takes `_override_` out of a mapping and everything below; returns what it said.
static bool take_marker(Value *map) {
    for (Value *at = map->first; at; at = at->next)
        if (at->kind == VALUE_MAP) take_marker(at);
    Value *marker = value_get(map, "_override_");
    if (!marker) return false;
    value_take(marker);
    return marker->kind == VALUE_BOOL && marker->boolean;
}

void recipe_merge(Arena *arena, Value *base, Value *over) {
    for (Value *at = over->first, *next; at; at = next) {
        next = at->next;
        Value *old = value_get(base, at->key);
        // Against a built-in default, which has no line, it stands: someone wants to be asked.
        if (old && old->origin.line && value_is_mandatory(at)) continue;
        const Value *marker = at->kind == VALUE_MAP ? value_get(at, "_override_") : NULL;
        bool replace = marker && marker->kind == VALUE_BOOL && marker->boolean;
        if (old && old->kind == VALUE_MAP && at->kind == VALUE_MAP && !replace) {
            if (marker) value_take(value_get(at, "_override_"));
            recipe_merge(arena, old, at);
            continue;
        }
        if (at->kind == VALUE_MAP) take_marker(at);
        value_set(arena, base, at->key, at);
    }
}

static const char *beside(Arena *arena, const char *file, const char *name) {
    const char *slash = strrchr(file, '/');
    if (*name == '/' || !slash) return name;
    return arena_format(arena, "%.*s/%s", (int)(slash - file), file, name);
}

static bool load(Loader *loader, Value **root, const char *path, const Ancestor *child, int depth);

// Loads the parent that one text of `defaults:` names, and merges it into base.
static bool inherit(Loader *loader, Value *base, const Value *name, const char *file, const Ancestor *self, int depth) {
    if (name->kind != VALUE_TEXT)
        return value_fail(loader->error, loader->arena, name, "expected the name of a file, found %s",
                          value_shown(loader->arena, name));
    const char *path = beside(loader->arena, file, name->text);
    Value *parent;
    if (!load(loader, &parent, path, self, depth + 1)) {
        // Names the line only where the parent itself could not be opened: its own messages name its own lines.
        size_t length = strlen(path);
        if (!strncmp(loader->error->text, path, length) && !strncmp(loader->error->text + length, ": cannot", 8))
            error_prefix(loader->error, "%s: defaults: ", value_origin(loader->arena, name->origin));
        return false;
    }
    recipe_merge(loader->arena, base, parent);
    return true;
}

static bool load(Loader *loader, Value **root, const char *path, const Ancestor *child, int depth) {
    Ancestor self = {.child = child};
    Value *own;
    if (depth > RECIPE_MAX_INHERITANCE || ++loader->files > RECIPE_MAX_FILES)
        return error_set(loader->error, "%s: defaults: more than %d generations or %d files", path,
                         RECIPE_MAX_INHERITANCE, RECIPE_MAX_FILES);
    if (!yaml_read(&own, loader->arena, path, loader->error)) return false;
    if (!realpath(path, self.path)) return error_set(loader->error, "%s: cannot resolve the path", path);
    for (const Ancestor *at = child; at; at = at->child)
        if (!strcmp(at->path, self.path))
            return error_set(loader->error, "%s: defaults: the file inherits itself", path);
    if (!rename_alias(loader, own)) return false;
    *root = value_container(loader->arena, VALUE_MAP, own->origin);
    Value *defaults = value_get(own, "defaults");
    if (defaults && defaults->kind == VALUE_LIST) {
        for (const Value *at = defaults->first; at; at = at->next)
            if (!inherit(loader, *root, at, path, &self, depth)) return false;
    } else if (defaults && !inherit(loader, *root, defaults, path, &self, depth)) {
        return false;
    }
    if (defaults) value_take(defaults);
    recipe_merge(loader->arena, *root, own);
    return true;
}

bool recipe_load(Recipe *recipe, Arena *arena, const char *path, Error *error) {
    *recipe = (Recipe){0};
    Loader loader = {.arena = arena, .error = error, .recipe = recipe};
    return load(&loader, &recipe->root, path, NULL, 0);
}
