#include "model/layer_kinds.h"

#include <inttypes.h>
#include <string.h>

enum { DEFAULT_WINDOW = 4096, DEFAULT_WINDOW_LAYERS = 28, DEFAULT_INTERVAL = 4 }; // of absent keys

void layer_set_add(LayerSet *set, int64_t layer) {
    set->bits[layer / 64] |= UINT64_C(1) << layer % 64;
}

bool layer_set_has(const LayerSet *set, int64_t layer) {
    return set->bits[layer / 64] >> layer % 64 & 1;
}

static int64_t layer_set_count(const LayerSet *set, int64_t layer_count) {
    int64_t count = 0;
    for (int64_t i = 0; i < layer_count; i++) count += layer_set_has(set, i);
    return count;
}

void layer_kinds_skip(LayerSet *unrotated, int64_t layer_count, int64_t interval) {
    for (int64_t i = interval - 1; i < layer_count; i += interval) layer_set_add(unrotated, i);
}

// The window if one is in use, else 0.
static bool read_window(int64_t *window, LayerRule rule, ModelConfig config, Error *error) {
    bool used;
    *window = 0;
    if (!model_config_flag_or(&used, config, "use_sliding_window", false, error)) return false;
    const json_t *value = json_object_get(config.object, "sliding_window");
    bool absent = !value && rule != LAYERS_NOPE; // then there is a default
    if (json_is_null(value) || (!value && !absent)) return true;
    if (rule == LAYERS_ALIKE)
        return !used || absent ||
               error_set(error, "%s: use_sliding_window true: this model_type has no sliding window", config.source);
    if (rule != LAYERS_WINDOWED && !used) return true;
    if (!model_config_integer_or(window, config, "sliding_window", DEFAULT_WINDOW, error)) return false;
    return *window > 0 ||
           model_config_refuse(config, "sliding_window", value, "null or a number of keys over 0", error);
}

static bool read_unrotated(LayerSet *unrotated, ModelConfig config, int64_t layer_count, Error *error) {
    const json_t *list = model_config_find(config, "no_rope_layers");
    int64_t interval;
    if (!model_config_integer_or(&interval, config, "no_rope_layer_interval", DEFAULT_INTERVAL, error)) return false;
    if (!list) {
        if (interval < 1)
            return error_set(error, "%s: no_rope_layer_interval is %" PRId64 ", expected at least 1", config.source,
                             interval);
        layer_kinds_skip(unrotated, layer_count, interval);
        return true;
    }
    if ((int64_t)json_array_size(list) < layer_count)
        return error_set(error, "%s: no_rope_layers has %zu elements, expected %" PRId64 " as layers", config.source,
                         json_array_size(list), layer_count);
    for (int64_t i = 0; i < layer_count; i++) {
        const json_t *rotates = json_array_get(list, (size_t)i);
        if (!json_is_integer(rotates) && !json_is_boolean(rotates))
            return model_config_refuse(config, "no_rope_layers", rotates, "0 (no rotation) or 1 for every layer",
                                       error);
        if (!json_is_true(rotates) && json_integer_value(rotates) == 0) layer_set_add(unrotated, i);
    }
    return true;
}

static bool layer_type(bool *windowed, ModelConfig config, const json_t *types, int64_t layer, Error *error) {
    const json_t *value = json_array_get(types, (size_t)layer);
    const char *type = json_string_value(value);
    *windowed = type && !strcmp(type, "sliding_attention");
    return *windowed || (type && !strcmp(type, "full_attention")) ||
           model_config_refuse(config, "layer_types", value, "full_attention or sliding_attention", error);
}

// layer_types decides where the rule says so, and must agree where it does not.
static bool read_layer_types(LayerKinds *kinds, LayerRule rule, ModelConfig config, int64_t layer_count, Error *error) {
    const json_t *types = model_config_find(config, "layer_types");
    bool decides = rule == LAYERS_LATE || rule == LAYERS_NOPE;
    if (!types) return true;
    if (!json_is_array(types) || (int64_t)json_array_size(types) != layer_count)
        return error_set(error, "%s: layer_types has %zu elements, expected a list of %" PRId64 " as layers",
                         config.source, json_array_size(types), layer_count);
    if (decides) kinds->windowed = (LayerSet){0};
    for (int64_t i = 0; i < layer_count; i++) {
        bool windowed;
        if (!layer_type(&windowed, config, types, i, error)) return false;
        if (windowed && !kinds->window)
            return error_set(error,
                             "%s: layer_types: layer %" PRId64 " is sliding_attention, but no sliding_window is in use",
                             config.source, i);
        if (!decides && windowed != layer_set_has(&kinds->windowed, i))
            return error_set(error,
                             "%s: layer_types: layer %" PRId64 " is full_attention, but sliding_window %" PRId64
                             " holds for all layers of this model_type",
                             config.source, i, kinds->window);
        if (windowed) layer_set_add(&kinds->windowed, i);
    }
    return true;
}

bool layer_kinds_read(LayerKinds *kinds, LayerRule rule, ModelConfig config, int64_t layer_count, Error *error) {
    int64_t first;
    *kinds = (LayerKinds){0};
    if (!read_window(&kinds->window, rule, config, error) ||
        !model_config_integer_or(&first, config, "max_window_layers", DEFAULT_WINDOW_LAYERS, error) ||
        (rule == LAYERS_NOPE && !read_unrotated(&kinds->unrotated, config, layer_count, error)))
        return false;
    if (rule != LAYERS_LATE || first < 0) first = 0;
    for (int64_t i = first; kinds->window && i < layer_count; i++)
        if (rule != LAYERS_NOPE || layer_set_has(&kinds->unrotated, i)) layer_set_add(&kinds->windowed, i);
    if (!read_layer_types(kinds, rule, config, layer_count, error)) return false;
    if (!layer_set_count(&kinds->windowed, layer_count)) kinds->window = 0;
    return true;
}

bool layer_kinds_check(const LayerKinds *kinds, LayerRule rule, int64_t layer_count, const char *source, Error *error) {
    int64_t windowed = layer_set_count(&kinds->windowed, layer_count);
    if (kinds->window < 0 || !kinds->window != !windowed)
        return error_set(error, "%s: a sliding window of %" PRId64 " keys in %" PRId64 " layers", source, kinds->window,
                         windowed);
    if (windowed && (rule == LAYERS_ALIKE || (rule == LAYERS_WINDOWED && windowed != layer_count)))
        return error_set(error, "%s: a sliding window in %" PRId64 " of %" PRId64 " layers: this model_type has none",
                         source, windowed, layer_count);
    return rule == LAYERS_NOPE || !layer_set_count(&kinds->unrotated, layer_count) ||
           error_set(error, "%s: layers without rotary embeddings: this model_type has none", source);
}

static json_t *layer_types_to_json(const LayerKinds *kinds, int64_t layer_count) {
    json_t *list = json_array();
    for (int64_t i = 0; i < layer_count; i++)
        json_array_append_new(list, json_string(layer_kinds_window(kinds, i) ? "sliding_attention" : "full_attention"));
    return list;
}

void layer_kinds_to_json(json_t *config, const LayerKinds *kinds, LayerRule rule, int64_t layer_count) {
    if (rule == LAYERS_ALIKE) return;
    json_object_set_new(config, "sliding_window", kinds->window ? json_integer(kinds->window) : json_null());
    if (rule == LAYERS_WINDOWED) return;
    json_object_set_new(config, "use_sliding_window", json_boolean(kinds->window));
    if (rule == LAYERS_LATE) { // older Transformers know a first layer only
        int64_t first = 0;
        while (first < layer_count && !layer_kinds_window(kinds, first)) first++;
        json_object_set_new(config, "max_window_layers", json_integer(first));
    } else {
        json_t *rotated = json_array();
        for (int64_t i = 0; i < layer_count; i++)
            json_array_append_new(rotated, json_integer(!layer_set_has(&kinds->unrotated, i)));
        json_object_set_new(config, "no_rope_layers", rotated);
    }
    if (kinds->window) json_object_set_new(config, "layer_types", layer_types_to_json(kinds, layer_count));
}
