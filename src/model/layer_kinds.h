// In what the layers of one model differ: a sliding window over the keys, and layers without rotary embeddings (NoPE).
#pragma once
#include "model/model_config.h"

enum { LAYER_KINDS_MAX = 4096 }; // layers

typedef struct LayerSet {
    uint64_t bits[LAYER_KINDS_MAX / 64]; // all zeros: no layer
} LayerSet;

typedef struct LayerKinds {
    int64_t window; // keys that a query of a windowed layer sees, itself included; 0: no layer has a window
    LayerSet windowed, unrotated;
} LayerKinds;

// Which keys of config.json decide, by family.
typedef enum LayerRule {
    LAYERS_ALIKE,    // none
    LAYERS_WINDOWED, // sliding_window, unless null: all layers
    LAYERS_LATE,     // use_sliding_window, sliding_window; layer_types, else the layers from max_window_layers on
    LAYERS_NOPE, // no_rope_layers, else every no_rope_layer_interval-th has no rotation; use_sliding_window, sliding_window;
                 // layer_types, else those without rotation have the window
} LayerRule;

void layer_set_add(LayerSet *set, int64_t layer);
bool layer_set_has(const LayerSet *set, int64_t layer);

// Every interval-th layer has no rotary embeddings: interval-1, 2·interval-1, …
void layer_kinds_skip(LayerSet *unrotated, int64_t layer_count, int64_t interval);

// The window of a layer, 0: none.
static inline int64_t layer_kinds_window(const LayerKinds *kinds, int64_t layer) {
    return layer_set_has(&kinds->windowed, layer) ? kinds->window : 0;
}

// From config.json with the defaults of Transformers; layer_count is 1..LAYER_KINDS_MAX. Refuses what contradicts itself, naming
// key, layer and value.
bool layer_kinds_read(LayerKinds *kinds, LayerRule rule, ModelConfig config, int64_t layer_count, Error *error);

// Whether a family can say this in its config.json; also used for GGUF.
bool layer_kinds_check(const LayerKinds *kinds, LayerRule rule, int64_t layer_count, const char *source, Error *error);

// Adds the keys of the rule to a config.json.
void layer_kinds_to_json(json_t *config, const LayerKinds *kinds, LayerRule rule, int64_t layer_count);
