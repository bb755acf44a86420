#include "config/settings.h"

#include "base/log.h"
#include "base/strbuf.h"
#include "config/interpolate.h"
#include "config/override.h"
#include "config/recipe.h"
#include "config/settings_check.h"
#include "config/settings_read.h"
#include "config/settings_table.h"

#include <string.h>

typedef struct Loading {
    Settings *settings;
    Arena *arena;
    Error *error;
} Loading;

static bool is_default(const Value *value) {
    if (strcmp(value->origin.place, SETTINGS_TABLE_DEFAULT)) return false;
    for (const Value *at = value->first; at; at = at->next)
        if (!is_default(at)) return false;
    return true;
}

static void note(Loading *loading, const Setting *row, const Value *value) {
    if (is_default(value)) return;
    // The place of a mapping may be the default's: what counts is the first thing written in it.
    const Value *written = value;
    while (!strcmp(written->origin.place, SETTINGS_TABLE_DEFAULT))
        for (written = written->first; is_default(written);) written = written->next;
    loading->settings->notes[loading->settings->note_count++] =
        (SettingsNote){.key = row->key,
                       .value = value_shown(loading->arena, value),
                       .origin = value_origin(loading->arena, written->origin),
                       .reason = row->help};
}

static bool unknown(Loading *loading, const Value *value, const char *key) {
    error_set(loading->error, "%s: unknown key %s", value_origin(loading->arena, value->origin), key);
    settings_table_suggest(loading->error, loading->arena, key);
    return false;
}

static bool read_tree(Loading *loading, const Value *map, const char *prefix, bool open);

// One key of the tree and all below it. Under an open row only keys with rows of their own are looked at.
static bool read_key(Loading *loading, const Value *value, const char *key, bool open) {
    const Setting *row = settings_table_find(key);
    if (!row && !open && !settings_table_group(key)) return unknown(loading, value, key);
    if (row && row->class == SETTING_NOT_APPLICABLE) note(loading, row, value);
    if (row && !settings_read(loading->settings, row, value, loading->arena, loading->error)) return false;
    bool group = settings_table_group(key);
    if (value->kind == VALUE_MAP) return !group || read_tree(loading, value, key, open || (row && row->open));
    if (!row && group)
        return value_fail(loading->error, loading->arena, value, "expected a mapping, found %s",
                          value_shown(loading->arena, value));
    return true;
}

static bool read_tree(Loading *loading, const Value *map, const char *prefix, bool open) {
    for (const Value *at = map->first; at; at = at->next) {
        if (!open && strpbrk(at->key, ".[]"))
            return value_fail(loading->error, loading->arena, at, "a key with a dot; write it as nested mappings");
        const char *key = *prefix ? arena_format(loading->arena, "%s.%s", prefix, at->key) : at->key;
        if (!read_key(loading, at, key, open)) return false;
    }
    return true;
}

bool settings_load(Settings **out, Arena *arena, const char *recipe_path, int override_count, char **overrides,
                   Error *error) {
    Recipe recipe;
    if (!recipe_load(&recipe, arena, recipe_path, error)) return false;
    Value *tree = settings_table_defaults(arena);
    recipe_merge(arena, tree, recipe.root);
    for (int i = 0; i < override_count; i++)
        if (!override_apply(tree, arena, overrides[i], error)) return false;
    if (!interpolate_resolve(tree, arena, error)) return false;

    Settings *settings = arena_alloc(arena, sizeof *settings);
    settings->recipe_path = arena_string(arena, recipe_path);
    settings->alias = recipe.alias;
    settings->tree = tree;
    settings->notes = arena_array(arena, SettingsNote, settings_table_count);
    Loading loading = {.settings = settings, .arena = arena, .error = error};
    if (!read_tree(&loading, tree, "", false) || !settings_check(settings, arena, error)) return false;
    *out = settings;
    return true;
}

void settings_log_notes(const Settings *settings) {
    if (settings->alias)
        log_info("%s: policy.dtensor_cfg is the older name of policy.automodel_cfg, read as that", settings->alias);
    StrBuf keys = {0};
    for (int64_t i = 0; i < settings->note_count; i++) {
        const char *reason = settings->notes[i].reason;
        bool told = false;
        for (int64_t j = 0; j < i; j++) told = told || !strcmp(settings->notes[j].reason, reason);
        if (told) continue;
        strbuf_clear(&keys);
        for (int64_t j = i; j < settings->note_count; j++)
            if (!strcmp(settings->notes[j].reason, reason))
                strbuf_format(&keys, "%s%s", keys.length ? ", " : "", settings->notes[j].key);
        log_info("no effect: %s (%s)", keys.text, reason);
    }
    strbuf_close(&keys);
}

const char *settings_origin(const Settings *settings, Arena *arena, const char *key) {
    const Value *value = value_find(settings->tree, key);
    return value ? value_origin(arena, value->origin) : SETTINGS_TABLE_DEFAULT;
}

bool settings_validates(const Settings *settings) {
    return settings->grpo.val_period > 0 || settings->grpo.val_at_start || settings->grpo.val_at_end;
}
