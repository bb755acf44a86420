#include "config/settings.h"

#include "base/log.h"
#include "base/strbuf.h"
#include "config/interpolate.h"
#include "config/override.h"
#include "config/recipe.h"
#include "config/settings_check.h"
#include "config/settings_data.h"
#include "config/settings_key.h"
#include "config/settings_megatron.h"
#include "config/settings_read.h"
#include "config/settings_suggest.h"
#include "config/settings_table.h"

#include <string.h>

typedef struct Loading {
    Settings *settings;
    Arena *arena;
    Error *error;
    int64_t wrong_values;
    Error wrong; // tells of the first, and names the others
} Loading;

static bool is_default(const Value *value) {
    if (strcmp(value->origin.place, SETTINGS_TABLE_DEFAULT)) return false;
    for (const Value *at = value->first; at; at = at->next)
        if (!is_default(at)) return false;
    return true;
}

static void note(Loading *loading, const char *reason, const Value *value) {
    if (is_default(value)) return;
    // The place of a mapping may be the default's: what counts is the first thing written in it.
    const Value *written = value;
    while (!strcmp(written->origin.place, SETTINGS_TABLE_DEFAULT))
        for (written = written->first; is_default(written);) written = written->next;
    loading->settings->notes[loading->settings->note_count++] =
        (SettingsNote){.key = value_path(loading->arena, value),
                       .value = value_shown(loading->arena, value),
                       .origin = value_origin(loading->arena, written->origin),
                       .reason = reason};
}

static bool unknown(Loading *loading, const Value *value, const char *key) {
    error_set(loading->error, "%s: unknown key %s", value_origin(loading->arena, value->origin), key);
    settings_suggest(loading->error, loading->arena, key);
    return false;
}

static const char *key_of(Loading *loading, const char *prefix, const Value *value) {
    return *prefix ? arena_format(loading->arena, "%s.%s", prefix, value->key) : value->key;
}

// Where rows lie below a key, there is a mapping; null for a group of features that are not here leaves them off.
static bool check_group(Loading *loading, const Value *value, const char *key) {
    if (value->kind == VALUE_MAP || settings_table_find(key) || !settings_table_group(key)) return true;
    if (value->kind == VALUE_NULL && settings_table_idle(key)) return true;
    return value_fail(loading->error, loading->arena, value, "expected a mapping, found %s",
                      value_shown(loading->arena, value));
}

static bool check_names(Loading *loading, const Value *map, const char *prefix, bool open);

static bool check_list_names(Loading *loading, const Value *list, const char *prefix) {
    int number = 0;
    for (const Value *at = list->first; at; at = at->next, number++) {
        const char *key = arena_format(loading->arena, "%s.%d", prefix, number);
        if (at->kind != VALUE_MAP)
            return value_fail(loading->error, loading->arena, at, "expected a mapping, found %s",
                              value_shown(loading->arena, at));
        if (!check_names(loading, at, key, false)) return false;
    }
    return true;
}

// A key that Megatron does not know is refused where its keys count.
static bool is_open(Loading *loading, const Setting *row, const char *key) {
    return row && row->open &&
           (strcmp(key, "policy.megatron_cfg") || !settings_megatron_enabled(loading->settings->tree));
}

// All names are checked before any value is resolved or read, so that a slip in a name is told before what follows from it.
// Below an open row only keys with rows of their own are looked at.
static bool check_names(Loading *loading, const Value *map, const char *prefix, bool open) {
    for (const Value *at = map->first; at; at = at->next) {
        const char *key = key_of(loading, prefix, at);
        if (!open && strpbrk(at->key, ".[]"))
            return value_fail(loading->error, loading->arena, at, "a key with a dot; write it as nested mappings");
        const Setting *row = settings_table_find(key);
        bool group = settings_table_group(key);
        if (!row && !group && !open) return unknown(loading, at, key);
        // Deeper ones wait for the values, among which there may be a better reason to refuse the recipe.
        if (!*prefix && !check_group(loading, at, key)) return false;
        if (row && value_is_mandatory(at))
            return value_fail(loading->error, loading->arena, at, "a value is mandatory; give one: %s=…", key);
        if (at->kind == VALUE_MAP && group && !check_names(loading, at, key, open || is_open(loading, row, key)))
            return false;
        if (at->kind == VALUE_LIST && settings_key_holds_datasets(key) && !check_list_names(loading, at, key))
            return false;
    }
    return true;
}

// Goes on after a value that is not accepted, so that all of them are told at once.
static void read_row(Loading *loading, const Setting *row, const Value *value, const char *key) {
    Error error;
    if (settings_read(loading->settings, row, value, loading->arena, &error)) return;
    const char *before = arena_string(loading->arena, loading->wrong.text);
    switch (loading->wrong_values++) {
    case 0: loading->wrong = error; break;
    case 1: error_set(&loading->wrong, "%s; not accepted either: %s", before, key); break;
    default: error_set(&loading->wrong, "%s, %s", before, key);
    }
}

static bool read_values(Loading *loading, const Value *map, const char *prefix);

static bool read_dataset(Loading *loading, const Value *map, const char *key) {
    settings_data_begin_dataset(loading->settings, loading->arena, key);
    if (!read_values(loading, map, key)) return false;
    settings_data_end_dataset(loading->settings, loading->arena);
    return true;
}

static bool read_datasets(Loading *loading, const Value *value, const char *key) {
    if (value->kind == VALUE_MAP) return read_dataset(loading, value, key);
    int number = 0;
    for (const Value *at = value->first; at; at = at->next)
        if (!read_dataset(loading, at, arena_format(loading->arena, "%s.%d", key, number++))) return false;
    return true;
}

// The environments that are here; those that are not are rows of their own, without effect until a data set names one.
static bool read_rewards(Loading *loading, const Value *map) {
    for (const Value *at = map->first; at; at = at->next) {
        const char *key = arena_format(loading->arena, "env.%s", at->key);
        const Setting *row = settings_table_find(key);
        if (row && row->class == SETTING_NOT_APPLICABLE) note(loading, row->help, at);
        if (row && row->class == SETTING_REFUSED) read_row(loading, row, at, key);
        bool environment = !row || row->class == SETTING_HONOURED;
        if (environment && at->kind != VALUE_MAP && at->kind != VALUE_NULL)
            return value_fail(loading->error, loading->arena, at, "expected a mapping, found %s",
                              value_shown(loading->arena, at));
        if (at->kind != VALUE_MAP || (row && row->class == SETTING_NOT_APPLICABLE)) continue;
        settings_data_begin_reward(loading->settings, loading->arena, at->key);
        if (!read_values(loading, at, key)) return false;
        settings_data_end_reward(loading->settings, loading->arena);
    }
    return true;
}

// Of another algorithm than the recipe's, or of another way to say how it trains.
static bool is_foreign(Loading *loading, const Value *value, const char *key) {
    char row[SETTINGS_KEY_SIZE];
    const char *reason = settings_key_foreign(settings_key_row(row, key), loading->settings->algorithm);
    if (!reason) reason = settings_key_unused(key, loading->settings->megatron.enabled);
    if (!reason) return false;
    note(loading, reason, value);
    return true;
}

static bool read_values(Loading *loading, const Value *map, const char *prefix) {
    if (!strcmp(prefix, "env")) return read_rewards(loading, map);
    for (const Value *at = map->first; at; at = at->next) {
        const char *key = key_of(loading, prefix, at);
        const Setting *row = settings_table_find(key);
        if (is_foreign(loading, at, key)) continue;
        if (!check_group(loading, at, key)) return false;
        if (row && row->class == SETTING_NOT_APPLICABLE) note(loading, row->help, at);
        if (row) read_row(loading, row, at, key);
        if (settings_key_holds_datasets(key)) {
            if (!read_datasets(loading, at, key)) return false;
        } else if (at->kind == VALUE_MAP && settings_table_group(key) && !read_values(loading, at, key)) {
            return false;
        }
    }
    return true;
}

static const Value *first_written(const Value *section) {
    return section->first ? section->first : section;
}

// A recipe has one algorithm, and that is one of ours.
static bool check_section(const Value *tree, Algorithm algorithm, Arena *arena, Error *error) {
    static const char *const absent[] = {"dpo", "ppo", "rm", "distillation"};
    const char *own = settings_key_section(algorithm);
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        const Value *value = value_get(tree, absent[i]);
        if (value)
            return error_set(error, "%s: %s: this algorithm is not here; whet trains by grpo and by sft",
                             value_origin(arena, first_written(value)->origin), value->key);
    }
    for (int other = 0; other < ALGORITHM_COUNT; other++) {
        const Value *value = value_get(tree, settings_key_section((Algorithm)other));
        if (other == (int)algorithm || !value) continue;
        return error_set(error,
                         "%s: %s: this recipe is one of %s, which its section %s says; a recipe has one algorithm",
                         value_origin(arena, first_written(value)->origin), value->key, own, own);
    }
    return true;
}

bool settings_load(Settings **out, Arena *arena, const char *recipe_path, int override_count, char **overrides,
                   Error *error) {
    Recipe recipe;
    if (!recipe_load(&recipe, arena, recipe_path, error)) return false;
    const Algorithm algorithm = settings_table_algorithm(recipe.root);
    Value *tree = settings_table_defaults(arena, algorithm);
    recipe_merge(arena, tree, recipe.root);
    for (int i = 0; i < override_count; i++)
        if (!override_apply(tree, arena, overrides[i], error)) return false;
    if (!check_section(tree, algorithm, arena, error)) return false;
    // What an override put in the place of null has the defaults of its missing keys again.
    Value *given = tree;
    tree = settings_table_defaults(arena, algorithm);
    recipe_merge(arena, tree, given);
    Settings *settings = arena_alloc(arena, sizeof *settings);
    settings->algorithm = algorithm;
    settings->recipe_path = arena_string(arena, recipe_path);
    settings->alias = recipe.alias;
    settings->tree = tree;
    const Value *environments = value_get(tree, "env");
    int64_t most_notes = (int64_t)settings_table_count + (environments ? value_count(environments) : 0);
    settings->notes = arena_array(arena, SettingsNote, most_notes);
    settings_data_complete(tree, arena);
    Loading loading = {.settings = settings, .arena = arena, .error = error};
    if (!check_names(&loading, tree, "", false) || !interpolate_resolve(tree, arena, error)) return false;
    // Once more: an interpolation may have put a mapping in.
    if (!check_names(&loading, tree, "", false)) return false;
    settings->megatron.enabled = settings_megatron_enabled(tree);
    bool read = read_values(&loading, tree, "");
    if (loading.wrong_values) *error = loading.wrong;
    if (!read || loading.wrong_values) return false;
    if (!settings_check(settings, arena, error)) return false;
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

const char *settings_tensor_key(const Settings *settings) {
    return settings->megatron.enabled ? "policy.megatron_cfg.tensor_model_parallel_size"
                                      : "policy.automodel_cfg.tensor_parallel_size";
}

bool settings_validates(const Settings *settings) {
    return settings->run.val_period > 0 || settings->run.val_at_start || settings->run.val_at_end;
}

int64_t settings_prompts_per_batch(const Settings *settings) {
    if (settings->algorithm == ALGORITHM_SFT) return settings->policy.train_global_batch_size;
    return (int64_t)((double)settings->grpo.num_prompts_per_step * settings->grpo.batch_multiplier);
}
