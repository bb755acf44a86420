#include "model/known_models.h"

#include "base/error.h"

#include <string.h>
#include <strings.h>

// Sizes as in config.json. max_positions: the smallest among the variants that share the row.
typedef struct KnownModel {
    const char *name, *model_type;
    int hidden, ffn, layers, heads, kv_heads, head_dim, vocabulary, max_positions;
    bool tied;
    double theta;
    const char *more; // further keys, as JSON; NULL: none
} KnownModel;

#define LLAMA3(factor)                                                                                                 \
    "{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": " factor ", \"low_freq_factor\": 1.0, "                \
    "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}}"
#define NO_WINDOW "{\"sliding_window\": null}"

static const KnownModel models[] = {
    {"Qwen2.5-0.5B", "qwen2", 896, 4864, 24, 14, 2, 64, 151936, 32768, true, 1e6, NULL},
    {"Qwen2.5-1.5B", "qwen2", 1536, 8960, 28, 12, 2, 128, 151936, 32768, true, 1e6, NULL},
    {"Qwen2.5-3B", "qwen2", 2048, 11008, 36, 16, 2, 128, 151936, 32768, true, 1e6, NULL},
    {"Qwen2.5-7B", "qwen2", 3584, 18944, 28, 28, 4, 128, 152064, 32768, false, 1e6, NULL},
    {"Qwen2.5-14B", "qwen2", 5120, 13824, 48, 40, 8, 128, 152064, 32768, false, 1e6, NULL},
    {"Qwen2.5-32B", "qwen2", 5120, 27648, 64, 40, 8, 128, 152064, 32768, false, 1e6, NULL},
    {"Qwen2.5-72B", "qwen2", 8192, 29568, 80, 64, 8, 128, 152064, 32768, false, 1e6, NULL},
    {"Qwen2.5-Math-1.5B", "qwen2", 1536, 8960, 28, 12, 2, 128, 151936, 4096, true, 1e4, NULL},
    {"Qwen2.5-Math-7B", "qwen2", 3584, 18944, 28, 28, 4, 128, 152064, 4096, false, 1e4, NULL},
    {"Qwen2.5-Math-72B", "qwen2", 8192, 29568, 80, 64, 8, 128, 152064, 4096, false, 1e4, NULL},
    {"Qwen3-0.6B", "qwen3", 1024, 3072, 28, 16, 8, 128, 151936, 32768, true, 1e6, NULL},
    {"Qwen3-1.7B", "qwen3", 2048, 6144, 28, 16, 8, 128, 151936, 32768, true, 1e6, NULL},
    {"Qwen3-4B", "qwen3", 2560, 9728, 36, 32, 8, 128, 151936, 32768, true, 1e6, NULL},
    {"Qwen3-8B", "qwen3", 4096, 12288, 36, 32, 8, 128, 151936, 32768, false, 1e6, NULL},
    {"Qwen3-14B", "qwen3", 5120, 17408, 40, 40, 8, 128, 151936, 32768, false, 1e6, NULL},
    {"Qwen3-32B", "qwen3", 5120, 25600, 64, 64, 8, 128, 151936, 40960, false, 1e6, NULL},
    {"Llama-3-8B", "llama", 4096, 14336, 32, 32, 8, 128, 128256, 8192, false, 5e5, NULL},
    {"Llama-3-70B", "llama", 8192, 28672, 80, 64, 8, 128, 128256, 8192, false, 5e5, NULL},
    {"Llama-3.1-8B", "llama", 4096, 14336, 32, 32, 8, 128, 128256, 131072, false, 5e5, LLAMA3("8.0")},
    {"Llama-3.1-70B", "llama", 8192, 28672, 80, 64, 8, 128, 128256, 131072, false, 5e5, LLAMA3("8.0")},
    {"Llama-3.1-405B", "llama", 16384, 53248, 126, 128, 8, 128, 128256, 131072, false, 5e5, LLAMA3("8.0")},
    {"Llama-3.2-1B", "llama", 2048, 8192, 16, 32, 8, 64, 128256, 131072, true, 5e5, LLAMA3("32.0")},
    {"Llama-3.2-3B", "llama", 3072, 8192, 28, 24, 8, 128, 128256, 131072, true, 5e5, LLAMA3("32.0")},
    {"Llama-3.3-70B", "llama", 8192, 28672, 80, 64, 8, 128, 128256, 131072, false, 5e5, LLAMA3("8.0")},
    {"SmolLM2-135M", "llama", 576, 1536, 30, 9, 3, 64, 49152, 8192, true, 1e5, NULL},
    {"SmolLM2-360M", "llama", 960, 2560, 32, 15, 5, 64, 49152, 8192, true, 1e5, NULL},
    {"SmolLM2-1.7B", "llama", 2048, 8192, 24, 32, 32, 64, 49152, 8192, true, 130000, NULL},
    {"SmolLM3-3B", "smollm3", 2048, 11008, 36, 16, 4, 128, 128256, 65536, true, 5e6, NULL},
    {"Mistral-7B-v0.1", "mistral", 4096, 14336, 32, 32, 8, 128, 32000, 32768, false, 1e4, "{\"sliding_window\": 4096}"},
    {"Mistral-7B-v0.2", "mistral", 4096, 14336, 32, 32, 8, 128, 32000, 32768, false, 1e6, NO_WINDOW},
    {"Mistral-7B-v0.3", "mistral", 4096, 14336, 32, 32, 8, 128, 32768, 32768, false, 1e6, NO_WINDOW},
    {"Mistral-Nemo-2407", "mistral", 5120, 14336, 40, 32, 8, 128, 131072, 131072, false, 1e6, NO_WINDOW},
    {"Mistral-Small-24B-2501", "mistral", 5120, 32768, 40, 32, 8, 128, 131072, 32768, false, 1e8, NO_WINDOW},
};
enum { MODEL_COUNT = sizeof models / sizeof *models };

// Copies a name without organisation, revision, "Meta-" and the words that tell variants of one shape apart, wherever they
// stand: "mistralai/Mistral-7B-Instruct-v0.3" → "Mistral-7B-v0.3".
static void plain_name(char plain[64], const char *name) {
    static const char *const words[] = {"-Base", "-Instruct", "-Coder", "-it"};
    const char *slash = strrchr(name, '/'), *from = slash ? slash + 1 : name;
    size_t length = 0;
    if (!strncasecmp(from, "Meta-", strlen("Meta-"))) from += strlen("Meta-");
    while (*from && *from != '@' && length < 63) {
        bool word = false;
        for (size_t i = 0; i < sizeof words / sizeof *words && !word; i++) {
            size_t size = strlen(words[i]);
            word = !strncasecmp(from, words[i], size) && strchr("-@", from[size]); // "" ends a name too
            if (word) from += size;
        }
        if (!word) plain[length++] = *from++;
    }
    plain[length] = 0;
}

json_t *known_models_config(const char *name) {
    char plain[64];
    plain_name(plain, name);
    const KnownModel *m = models;
    while (m < models + MODEL_COUNT && strcasecmp(m->name, plain)) m++;
    if (m == models + MODEL_COUNT) return NULL;
    json_t *config =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:b, s:f}", "model_type", m->model_type,
                  "hidden_size", m->hidden, "intermediate_size", m->ffn, "num_hidden_layers", m->layers,
                  "num_attention_heads", m->heads, "num_key_value_heads", m->kv_heads, "head_dim", m->head_dim,
                  "vocab_size", m->vocabulary, "max_position_embeddings", m->max_positions, "rope_theta", m->theta,
                  "tie_word_embeddings", m->tied, "rms_norm_eps", 1e-6);
    CHECK(config, "config.json of %s", m->name);
    json_t *more = m->more ? json_loads(m->more, 0, NULL) : NULL;
    json_object_update(config, more);
    json_decref(more);
    return config;
}

const char *known_models_nearest(const char *name) {
    char plain[64];
    const char *names[MODEL_COUNT];
    plain_name(plain, name);
    for (int i = 0; i < MODEL_COUNT; i++) names[i] = models[i].name;
    return strbuf_nearest(plain, names, MODEL_COUNT);
}

void known_models_list(StrBuf *text) {
    for (int i = 0; i < MODEL_COUNT; i++) strbuf_format(text, " %s", models[i].name);
}
