#include "model/random_model.h"

#include "base/jsonio.h"
#include "base/rng.h"
#include "model/parameters.h"
#include "model/safetensors.h"

#include <math.h>
#include <stdio.h>

// Two normals of two words each (Box and Muller 1958).
static void fill_normal(float *out, int64_t count, uint64_t seed, uint32_t place, double mean, double deviation) {
    for (int64_t i = 0; i < count; i += 4) {
        uint32_t words[4];
        double values[4];
        RngCounter at = {.step = place, .prompt = (uint32_t)(i >> 34), .token = (uint32_t)(i / 4)};
        rng_words(words, seed, RNG_TEST_WEIGHTS, at);
        for (int pair = 0; pair < 4; pair += 2) {
            double radius = sqrt(-2 * log((words[pair] + 1.0) * 0x1p-32)), angle = 2 * M_PI * 0x1p-32 * words[pair + 1];
            values[pair] = radius * cos(angle);
            values[pair + 1] = radius * sin(angle);
        }
        for (int64_t j = 0; j < 4 && i + j < count; j++) out[i + j] = (float)(mean + deviation * values[j]);
    }
}

static bool write_weights(const char *path, const ParameterTable *table, uint64_t seed, double deviation,
                          Error *error) {
    Arena arena = {0};
    SafetensorsEntry *entries = arena_array(&arena, SafetensorsEntry, table->count);
    for (int i = 0; i < table->count; i++) {
        const Parameter *item = &table->items[i];
        int64_t count = item->rows * item->cols;
        float *values = arena_array(&arena, float, count);
        bool norm = parameters_is_norm(item->role);
        fill_normal(values, count, seed, (uint32_t)i, norm ? 1 : 0, norm ? 0.1 : deviation);
        entries[i] = (SafetensorsEntry){.name = item->name, .type = SAFETENSORS_F32, .data = values};
        entries[i].rank = item->vector ? 1 : 2;
        entries[i].shape[0] = item->rows;
        if (!item->vector) entries[i].shape[1] = item->cols;
    }
    json_t *metadata = json_pack("{s:s}", "format", "pt"); // Transformers asks for it
    bool good = safetensors_write(path, entries, table->count, metadata, error);
    json_decref(metadata);
    arena_close(&arena);
    return good;
}

bool random_model_write(const char *folder, const Architecture *architecture, uint64_t seed, double deviation,
                        Error *error) {
    Arena arena = {0};
    ParameterTable table;
    if (!architecture_check(architecture, folder, error) || !file_make_folders(folder, error)) return false;
    json_t *config = architecture_to_json(architecture);
    json_object_set_new(config, "torch_dtype", json_string("float32"));
    parameters_open(&table, architecture);
    bool good = jsonio_write(config, arena_format(&arena, "%s/config.json", folder), error) &&
                write_weights(arena_format(&arena, "%s/model.safetensors", folder), &table, seed, deviation, error);
    parameters_close(&table);
    json_decref(config);
    arena_close(&arena);
    return good;
}
