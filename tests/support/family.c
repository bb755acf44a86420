#include "support/family.h"

#include "base/file.h"
#include "model/random_model.h"

#include <stdio.h>
#include <unistd.h>

void family_apply(Architecture *a, ModelFamily family) {
    a->family = family;
    a->qkv_bias = family == MODEL_QWEN2;
    a->qk_norm = family == MODEL_QWEN3;
    a->rope = (RopeOptions){.theta = 10000, .factor = 1};
    a->layers = (LayerKinds){0};
    if (family == MODEL_MISTRAL) { // in all layers
        a->layers.window = 13;
        for (int64_t i = 0; i < a->layer_count; i++) layer_set_add(&a->layers.windowed, i);
    }
    if (family == MODEL_QWEN3) { // in the last layer
        a->layers.window = 21;
        layer_set_add(&a->layers.windowed, a->layer_count - 1);
    }
    if (family == MODEL_SMOLLM3) {
        layer_kinds_skip(&a->layers.unrotated, a->layer_count, 2);
        a->rope.scaling = ROPE_YARN;
        a->rope.factor = 4;
        a->rope.original_max_positions = 32;
        a->rope.attention_factor = rotary_yarn_attention(4);
        a->rope.beta_fast = 8;
        a->rope.beta_slow = 1;
    }
}

int family_write_models(char folder[FAMILY_COUNT][FAMILY_PATH], const char *name, const Architecture *sizes) {
    Error error = {0};
    for (int i = 0; i < FAMILY_COUNT; i++) {
        Architecture kind = *sizes;
        kind.tied_head = i != MODEL_QWEN2;
        family_apply(&kind, (ModelFamily)i);
        snprintf(folder[i], FAMILY_PATH, "/tmp/whet-%s-%d-%d", name, (int)getpid(), i);
        if (!file_make_folders(folder[i], &error) || !random_model_write(folder[i], &kind, 7, 0.15, &error)) {
            fprintf(stderr, "%s\n", error.text);
            return -1;
        }
    }
    return 0;
}

void family_remove_models(char folder[FAMILY_COUNT][FAMILY_PATH]) {
    Error error;
    for (int i = 0; i < FAMILY_COUNT; i++) file_remove_tree(folder[i], &error);
}
