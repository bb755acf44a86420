#include "model/hub_folder.h"

#include "base/jsonio.h"

#include <stdio.h>
#include <string.h>

static const char SINGLE[] = "model.safetensors", INDEX[] = "model.safetensors.index.json";

static const char *join(HubFolder *folder, const char *name) {
    return arena_format(&folder->arena, "%s/%s", folder->path, name);
}

// --- config.json and what goes with it

// Puts one value in place of the file's. What config.json says already, or what another architecture follows from.
static bool override_one(json_t *config, const char *key, json_t *value, const char *path, Error *error) {
    Architecture before, after;
    if (json_equal(json_object_get(config, key), value)) return true;
    if (!architecture_from_json(&before, config, path, error)) return false;
    json_object_set(config, key, value);
    if (!architecture_from_json(&after, config, path, error))
        return error_prefix(error, "policy.hf_config_overrides.%.100s: ", key);
    json_t *old = architecture_to_json(&before), *new = architecture_to_json(&after);
    bool same = json_equal(old, new);
    json_decref(old);
    json_decref(new);
    return !same ||
           error_set(error, "policy.hf_config_overrides.%.100s: changes nothing of what is computed for %s", key, path);
}

static bool override_config(json_t *config, const char *overrides, const char *path, Error *error) {
    json_error_t where;
    json_t *changes = json_loads(overrides, JSON_REJECT_DUPLICATES, &where), *value;
    const char *key;
    bool good = json_is_object(changes) || error_set(error, "policy.hf_config_overrides: not a JSON object");
    json_object_foreach(changes, key, value) good = good && override_one(config, key, value, path, error);
    json_decref(changes);
    return good;
}

bool hub_folder_architecture(Architecture *architecture, json_t *config, const char *overrides, const char *source,
                             Error *error) {
    return (!overrides || override_config(config, overrides, source, error)) &&
           architecture_from_json(architecture, config, source, error);
}

static bool read_configs(HubFolder *folder, const char *overrides, Error *error) {
    json_t *config;
    const char *path = join(folder, "config.json");
    if (!jsonio_read_object(&config, path, error)) return false;
    bool good = hub_folder_architecture(&folder->architecture, config, overrides, path, error);
    json_decref(config);
    path = join(folder, "generation_config.json");
    if (!good || !file_is_listed(path)) return good;
    if (!jsonio_read_object(&config, path, error)) return false;
    good = architecture_read_eos(&folder->architecture, config, path, error) &&
           architecture_check(&folder->architecture, path, error);
    json_decref(config);
    return good;
}

// A special token stands in tokenizer_config.json as text or as an object with its content.
static const char *token_text(const json_t *value) {
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

// The id of eos_token by added_tokens_decoder, as one more end of an answer.
static bool read_tokenizer_eos(HubFolder *folder, const json_t *config, const char *path, Error *error) {
    const char *eos = token_text(json_object_get(config, "eos_token")), *id;
    json_t *token;
    if (!eos) return true;
    json_object_foreach(json_object_get(config, "added_tokens_decoder"), id, token) {
        const char *text = token_text(token);
        char *end;
        long number = strtol(id, &end, 10);
        if (!text || strcmp(text, eos) != 0 || *end || number < 0 || number > INT32_MAX) continue;
        json_t *found = json_pack("{s:I}", "eos_token_id", (json_int_t)number);
        bool good = architecture_read_eos(&folder->architecture, found, path, error);
        json_decref(found);
        return good && architecture_check(&folder->architecture, path, error);
    }
    return true;
}

static bool read_text_side(HubFolder *folder, Error *error) {
    const char *path = join(folder, "tokenizer_config.json");
    if (file_is_listed(path)) {
        json_t *config;
        if (!jsonio_read_object(&config, path, error)) return false;
        bool good = read_tokenizer_eos(folder, config, path, error);
        json_decref(config);
        if (!good) return false;
    }
    return chat_source_read(&folder->templates, folder->path, &folder->arena, error);
}

// --- weights

static int shard_number(const HubFolder *folder, const char *path) { // -1: not open yet
    for (int i = 0; i < folder->shard_count; i++)
        if (!strcmp(folder->shards[i].path, path)) return i;
    return -1;
}

static bool plain_name(const char *name) {
    return name[0] && name[0] != '.' && !strchr(name, '/');
}

// Opens the file that an entry of weight_map names, unless it is open, and finds the tensor in it.
static bool open_mapped(HubFolder *folder, const char *index, const char *tensor, const json_t *value, Error *error) {
    const char *name = json_string_value(value);
    if (!name || !plain_name(name))
        return error_set(error, "%s: weight_map: %.200s: not the name of a file in the folder", index, tensor);
    char path[4096];
    int length = snprintf(path, sizeof path, "%s/%s", folder->path, name);
    if (length < 0 || (size_t)length >= sizeof path) return error_set(error, "%s: path too long", index);
    int shard = shard_number(folder, path);
    if (shard < 0) {
        shard = folder->shard_count;
        if (!safetensors_open(&folder->shards[shard], path, error)) return error_prefix(error, "%s: ", index);
        folder->shard_count++;
    }
    return safetensors_find(&folder->shards[shard], tensor) ||
           error_set(error, "%s: weight_map: tensor %.200s is not in %s", index, tensor, name);
}

// No tensor lies in a shard that the index does not place there.
static bool check_index(const HubFolder *folder, const char *index, const json_t *weight_map, Error *error) {
    for (int s = 0; s < folder->shard_count; s++) {
        const Safetensors *shard = &folder->shards[s];
        const char *file = strrchr(shard->path, '/') + 1;
        for (int64_t i = 0; i < shard->count; i++) {
            const char *mapped = json_string_value(json_object_get(weight_map, shard->entries[i].name));
            if (!mapped || strcmp(mapped, file) != 0)
                return error_set(error, "%s: tensor %.200s of %s is not in weight_map or placed elsewhere", index,
                                 shard->entries[i].name, file);
        }
    }
    return true;
}

static bool open_shards(HubFolder *folder, const char *index, const json_t *weight_map, Error *error) {
    const char *tensor;
    json_t *value;
    if (!json_is_object(weight_map) || json_object_size(weight_map) == 0)
        return error_set(error, "%s: weight_map is missing or empty", index);
    folder->shards = arena_array(&folder->arena, Safetensors, json_object_size(weight_map));
    json_object_foreach((json_t *)(uintptr_t)weight_map, tensor,
                        value) if (!open_mapped(folder, index, tensor, value, error)) return false;
    return check_index(folder, index, weight_map, error);
}

static bool open_weights(HubFolder *folder, Error *error) {
    const char *single = join(folder, SINGLE), *index = join(folder, INDEX);
    if (file_is_listed(single)) {
        folder->shards = arena_array(&folder->arena, Safetensors, 1);
        if (!safetensors_open(folder->shards, single, error)) return false;
        folder->shard_count = 1;
        return true;
    }
    if (!file_is_listed(index))
        return error_set(error, "%s: neither %s nor %s is there%s", folder->path, SINGLE, INDEX,
                         file_exists(join(folder, "pytorch_model.bin")) ||
                                 file_exists(join(folder, "pytorch_model.bin.index.json"))
                             ? " (pytorch_model.bin is not read: convert it to safetensors)"
                             : "");
    json_t *value;
    if (!jsonio_read_object(&value, index, error)) return false;
    bool good = open_shards(folder, index, json_object_get(value, "weight_map"), error);
    json_decref(value);
    return good;
}

bool hub_folder_open(HubFolder *folder, const char *path, const char *overrides, Error *error) {
    *folder = (HubFolder){0};
    folder->path = arena_string(&folder->arena, path);
    if (read_configs(folder, overrides, error) && read_text_side(folder, error) && open_weights(folder, error))
        return true;
    hub_folder_close(folder);
    return false;
}

void hub_folder_close(HubFolder *folder) {
    for (int i = 0; i < folder->shard_count; i++) safetensors_close(&folder->shards[i]);
    arena_close(&folder->arena);
    *folder = (HubFolder){0};
}

const SafetensorsEntry *hub_folder_find(const HubFolder *folder, const char *name, const Safetensors **shard) {
    for (int i = 0; i < folder->shard_count; i++) {
        const SafetensorsEntry *entry = safetensors_find(&folder->shards[i], name);
        if (!entry) continue;
        if (shard) *shard = &folder->shards[i];
        return entry;
    }
    return NULL;
}
