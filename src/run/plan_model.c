#include "run/plan_model.h"

#include "base/file.h"
#include "base/jsonio.h"
#include "model/gguf.h"
#include "model/gguf_model.h"
#include "model/hub_cache.h"
#include "model/hub_folder.h"
#include "model/known_models.h"

#include <string.h>

static bool ends_with(const char *text, const char *end) {
    size_t length = strlen(text), size = strlen(end);
    return length >= size && !strcmp(text + length - size, end);
}

static bool from_json(Architecture *architecture, const char *path, const char *overrides, Error *error) {
    json_t *config;
    if (!jsonio_read_object(&config, path, error)) return false;
    bool good = hub_folder_architecture(architecture, config, overrides, path, error);
    json_decref(config);
    return good;
}

static bool from_gguf(Architecture *architecture, const char *path, const char *overrides, Error *error) {
    Gguf file = {0};
    if (overrides && strcmp(overrides, "{}"))
        return error_set(error, "policy.hf_config_overrides: %s is a GGUF file, which has no config.json", path);
    bool good = gguf_open(&file, path, error) && gguf_model_architecture(architecture, &file, error);
    gguf_close(&file);
    return good;
}

static bool from_path(Architecture *architecture, const char *path, const char *overrides, Arena *arena, Error *error) {
    if (!file_is_folder(path))
        return ends_with(path, ".json") ? from_json(architecture, path, overrides, error)
                                        : from_gguf(architecture, path, overrides, error);
    const char *weights = arena_format(arena, "%s/policy/weights/model/config.json", path); // of a checkpoint
    const char *config = file_exists(weights) ? weights : arena_format(arena, "%s/config.json", path);
    return from_json(architecture, config, overrides, error);
}

static bool read_architecture(Architecture *architecture, const char *name, const char *overrides, Arena *arena,
                              Error *error) {
    const char *path = name;
    if (file_exists(name)) return from_path(architecture, path, overrides, arena, error);
    json_t *config = known_models_config(name);
    if (config) {
        bool good = hub_folder_architecture(architecture, config, overrides, name, error);
        json_decref(config);
        return good;
    }
    if (hub_cache_find(&path, name, HUB_MODEL, arena, error))
        return from_path(architecture, path, overrides, arena, error);
    const char *near = known_models_nearest(name);
    return error_prefix(error, "policy.model_name: '%.100s' is no file and no model whose shape is known%s%s; ", name,
                        near ? " like " : "", near ? near : "");
}

bool plan_model_open(PlanModel *model, const char *name, const char *overrides, Error *error) {
    Arena arena = {0};
    *model = (PlanModel){0};
    bool good = read_architecture(&model->architecture, name, overrides, &arena, error);
    if (good) parameters_open(&model->parameters, &model->architecture);
    arena_close(&arena);
    return good;
}

void plan_model_close(PlanModel *model) {
    parameters_close(&model->parameters);
    *model = (PlanModel){0};
}
