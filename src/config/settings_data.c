#include "config/settings_data.h"

#include "base/file.h"
#include "config/override.h"
#include "config/settings_key.h"

#include <math.h>
#include <string.h>

enum { REWARD_TIMEOUT_SECONDS = 300 };

// ---- what entries leave out

static bool is_default(const Value *value) {
    return !strcmp(value->origin.place, SETTINGS_TABLE_DEFAULT);
}

static void complete_entry(Value *entry, const Value *shared, Algorithm algorithm, Arena *arena) {
    static const Origin origin = {.place = SETTINGS_TABLE_DEFAULT};
    static const char prefix[] = "data.train.";
    for (const Value *at = shared ? shared->first : NULL; at; at = at->next) {
        const Value *own = value_get(entry, at->key);
        // An unknown key is told where it stands.
        bool known = settings_table_find(arena_format(arena, "%s%s", prefix, at->key));
        if (!known || is_default(at) || (own && !is_default(own))) continue;
        const char *text = arena_format(arena, "${data.default.%s}", at->key);
        value_set(arena, entry, at->key, value_plain(arena, text, at->origin));
    }
    for (size_t i = 0; i < settings_table_count; i++) {
        const Setting *row = &settings_table[i];
        const char *fallback = settings_table_fallback(row, algorithm);
        if (!fallback || strncmp(row->key, prefix, strlen(prefix))) continue;
        const char *key = row->key + strlen(prefix);
        Value *value;
        Error error;
        if (value_get(entry, key)) continue;
        CHECK(override_value(&value, arena, fallback, origin, &error), "%s: %s", row->key, error.text);
        value_set(arena, entry, key, value);
    }
}

void settings_data_complete(Value *tree, Arena *arena) {
    static const char *const keys[] = {"data.train", "data.validation"};
    const Algorithm algorithm = settings_table_algorithm(tree);
    const Value *shared = value_find(tree, "data.default");
    if (shared && shared->kind != VALUE_MAP) shared = NULL;
    for (int i = 0; i < 2; i++) {
        Value *value = value_find(tree, keys[i]);
        if (!value) continue;
        if (value->kind == VALUE_MAP) complete_entry(value, shared, algorithm, arena);
        for (Value *at = value->kind == VALUE_LIST ? value->first : NULL; at; at = at->next)
            if (at->kind == VALUE_MAP) complete_entry(at, shared, algorithm, arena);
    }
}

// ---- reading

// The array with room for one more.
static void *longer(void *array, int64_t count, size_t size, Arena *arena) {
    char *more = arena_alloc_array(arena, (size_t)count + 1, size);
    if (count) memcpy(more, array, (size_t)count * size);
    return more;
}

void settings_data_begin_dataset(Settings *settings, Arena *arena, const char *key) {
    settings->data.entry = (DatasetOptions){.key = arena_string(arena, key),
                                            .verifiable_only = true,
                                            .require_valid = true,
                                            .validates = !strncmp(key, "data.validation", strlen("data.validation"))};
}

// A prompt file that is not found from the working folder lies beside the recipe that names it.
static void find_prompt(const char **file, const Settings *settings, const char *key, Arena *arena) {
    if (!*file || **file == '/' || file_exists(*file)) return;
    const Value *value = value_find(settings->tree, arena_format(arena, "%s.%s", settings->data.entry.key, key));
    const char *recipe = value && value->origin.line ? value->origin.place : settings->recipe_path;
    const char *slash = strrchr(recipe, '/');
    const char *path = slash ? arena_format(arena, "%.*s/%s", (int)(slash - recipe), recipe, *file) : *file;
    if (file_exists(path)) *file = path;
}

void settings_data_end_dataset(Settings *settings, Arena *arena) {
    DataOptions *data = &settings->data;
    bool validates = data->entry.validates;
    find_prompt(&data->entry.prompt_file, settings, "prompt_file", arena);
    find_prompt(&data->entry.system_prompt_file, settings, "system_prompt_file", arena);
    DatasetOptions **list = validates ? &data->validation : &data->train;
    int64_t *count = validates ? &data->validation_count : &data->train_count;
    *list = longer(*list, *count, sizeof **list, arena);
    (*list)[(*count)++] = data->entry;
}

void settings_data_begin_reward(Settings *settings, Arena *arena, const char *name) {
    settings->data.reward =
        (RewardOptions){.name = arena_string(arena, name), .timeout_seconds = REWARD_TIMEOUT_SECONDS};
}

void settings_data_end_reward(Settings *settings, Arena *arena) {
    DataOptions *data = &settings->data;
    data->rewards = longer(data->rewards, data->reward_count, sizeof *data->rewards, arena);
    data->rewards[data->reward_count++] = data->reward;
}

const RewardOptions *settings_data_reward(const Settings *settings, const char *name) {
    for (int64_t i = 0; i < settings->data.reward_count; i++)
        if (!strcmp(settings->data.rewards[i].name, name)) return &settings->data.rewards[i];
    return NULL;
}

// ---- checks

// Questions that are made need no file: what their options ask for is known at once.
static bool check_made(const DatasetOptions *options, Error *error) {
    Arithmetic arithmetic;
    int64_t held_out;
    if (strcmp(options->dataset_name, "arithmetic")) return true;
    if (!arithmetic_open(&arithmetic, &options->arithmetic, error)) return error_prefix(error, "%s.", options->key);
    if (arithmetic.count > INT32_MAX)
        return error_set(error, "%s.left: more than %d questions with %s.right and operations", options->key, INT32_MAX,
                         options->key);
    return dataset_held_out(&held_out, options, arithmetic.count, error);
}

// What would otherwise have no effect.
static bool check_learned(const Settings *settings, const DatasetOptions *options, Error *error) {
    bool marked = !strcmp(options->dataset_name, "NuminaMath-1.5");
    if (!marked && !(options->verifiable_only && options->require_valid))
        return error_set(error, "%s.%s: false of '%s', whose rows are not marked; those of NuminaMath-1.5 are",
                         options->key, options->verifiable_only ? "require_valid" : "verifiable_only",
                         options->dataset_name);
    if (settings->algorithm == ALGORITHM_SFT || options->extract_answer) return true;
    return error_set(error,
                     "%s.extract_answer: false in a recipe of grpo, whose rewards compare with what stands behind ####",
                     options->key);
}

static bool check_processor(const Settings *settings, const DatasetOptions *options, Error *error) {
    const char *own = settings->algorithm == ALGORITHM_SFT ? "sft_processor" : "math_hf_data_processor";
    return !strcmp(options->processor, own) || !strcmp(options->processor, "default") ||
           error_set(error, "%s.processor: '%s' in a recipe of %s; expected %s", options->key, options->processor,
                     settings_key_section(settings->algorithm), own);
}

static bool check_entry(const Settings *settings, DatasetOptions *options, Error *error) {
    bool split = !options->validates && !settings->data.validation_count;
    if (isnan(options->split_validation_size)) options->split_validation_size = split ? 0.05 : 0;
    if (options->validates && options->split_validation_size != 0)
        return error_set(error, "%s.split_validation_size: %g, but all its questions are for validation", options->key,
                         options->split_validation_size);
    return dataset_check_name(options, error) && check_processor(settings, options, error) &&
           check_learned(settings, options, error) &&
           (settings->algorithm == ALGORITHM_SFT ||
            reward_find(options->env_name, settings_data_reward(settings, options->env_name), error) ||
            error_prefix(error, "%s.env_name: ", options->key)) &&
           check_made(options, error);
}

static bool check_loaders(const Settings *settings, Error *error) {
    const DataOptions *data = &settings->data;
    int64_t prompts = settings_prompts_per_batch(settings), each = data->num_prompts_per_dataloader;
    if (!data->use_multiple_dataloader)
        return !each || error_set(error,
                                  "data.num_prompts_per_dataloader: %lld needs data.use_multiple_dataloader: "
                                  "true",
                                  (long long)each);
    if (!each) return error_set(error, "data.num_prompts_per_dataloader: data.use_multiple_dataloader needs it");
    return prompts % each == 0 ||
           error_set(error, "data.num_prompts_per_dataloader: %lld does not divide the %lld prompts of a rollout",
                     (long long)each, (long long)prompts);
}

bool settings_data_check(Settings *settings, Error *error) {
    DataOptions *data = &settings->data;
    bool held_out = data->validation_count > 0;
    if (!data->train_count) return error_set(error, "data.train: an empty list; expected a data set");
    for (int64_t i = 0; i < data->train_count; i++) {
        if (!check_entry(settings, &data->train[i], error)) return false;
        held_out = held_out || data->train[i].split_validation_size != 0;
    }
    for (int64_t i = 0; i < data->validation_count; i++)
        if (!check_entry(settings, &data->validation[i], error)) return false;
    if (settings_validates(settings) && !held_out)
        return error_set(error,
                         "%s.split_validation_size: 0 leaves no question for validation; without validation set "
                         "%s.val_period 0",
                         data->train[0].key, settings_key_section(settings->algorithm));
    return check_loaders(settings, error);
}
