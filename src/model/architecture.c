#include "model/architecture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct Family {
    const char *name;  // config.json: model_type; GGUF: general.architecture
    const char *class; // config.json: architectures
    bool qkv_bias, qk_norm;
    LayerRule layers;
    // What Transformers takes when the key is absent.
    bool tied_head;
    int64_t max_positions, kv_heads, head_dim; // 0: that of query heads; hidden_size / num_attention_heads
    double rope_theta;
    int32_t bos_id, eos_id; // -1: none
} Family;

static const Family families[] = {
    [MODEL_LLAMA] = {"llama", "LlamaForCausalLM", false, false, LAYERS_ALIKE, false, 2048, 0, 0, 1e4, 1, 2},
    [MODEL_QWEN2] = {"qwen2", "Qwen2ForCausalLM", true, false, LAYERS_LATE, false, 32768, 32, 0, 1e4, -1, -1},
    [MODEL_QWEN3] = {"qwen3", "Qwen3ForCausalLM", false, true, LAYERS_LATE, false, 32768, 32, 128, 1e4, -1, -1},
    [MODEL_MISTRAL] = {"mistral", "MistralForCausalLM", false, false, LAYERS_WINDOWED, false, 131072, 8, 0, 1e4, 1, 2},
    [MODEL_SMOLLM3] = {"smollm3", "SmolLM3ForCausalLM", false, false, LAYERS_NOPE, true, 32768, 4, 0, 2e6, 128000,
                       128001},
};
enum { FAMILY_COUNT = sizeof families / sizeof *families };

const char *architecture_family_name(ModelFamily family) {
    CHECK((int)family < FAMILY_COUNT, "family %d", (int)family);
    return families[family].name;
}

bool architecture_set_family(Architecture *architecture, const char *name, const char *source, const char *key,
                             Error *error) {
    for (int i = 0; i < FAMILY_COUNT; i++) {
        if (strcmp(name, families[i].name) != 0) continue;
        architecture->family = (ModelFamily)i;
        architecture->qkv_bias = families[i].qkv_bias;
        architecture->qk_norm = families[i].qk_norm;
        architecture->max_positions = families[i].max_positions;
        return true;
    }
    return error_set(error, "%s: %s '%.100s' is not supported; supported are llama, qwen2, qwen3, mistral, smollm3",
                     source, key, name);
}

static bool token_id(int32_t *id, ModelConfig config, const char *key, const json_t *value, Error *error) {
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < -1 || number > INT32_MAX)
        return model_config_refuse(config, key, value, "a token id", error);
    *id = (int32_t)number;
    return true;
}

bool architecture_read_eos(Architecture *architecture, const json_t *config, const char *source, Error *error) {
    ModelConfig from = {.object = config, .source = source};
    const json_t *value = model_config_find(from, "eos_token_id");
    bool list = json_is_array(value);
    size_t count = list ? json_array_size(value) : value ? 1 : 0;
    for (size_t i = 0; i < count; i++) {
        int32_t id = -1;
        if (!token_id(&id, from, "eos_token_id", list ? json_array_get(value, i) : value, error)) return false;
        bool known = id < 0;
        for (int j = 0; j < architecture->eos_count; j++) known |= architecture->eos_ids[j] == id;
        if (known) continue;
        if (architecture->eos_count == ARCHITECTURE_MAX_EOS)
            return error_set(error, "%s: more than %d ids in eos_token_id", source, ARCHITECTURE_MAX_EOS);
        architecture->eos_ids[architecture->eos_count++] = id;
    }
    return true;
}

static bool read_special_ids(Architecture *architecture, ModelConfig config, Error *error) {
    const Family *family = &families[architecture->family];
    bool known = family->eos_id < architecture->vocab_size; // ids of the family's own vocabulary
    const json_t *bos = json_object_get(config.object, "bos_token_id");
    architecture->bos_id = bos || !known ? -1 : family->bos_id;
    if (bos && !json_is_null(bos) && !token_id(&architecture->bos_id, config, "bos_token_id", bos, error)) return false;
    if (!json_object_get(config.object, "eos_token_id") && known && family->eos_id >= 0)
        architecture->eos_ids[architecture->eos_count++] = family->eos_id;
    return architecture_read_eos(architecture, config.object, config.source, error);
}

// Options whose other values whet does not compute.
static bool refuse_unsupported(const Architecture *architecture, ModelConfig config, Error *error) {
    const char *activation;
    bool attention_bias, mlp_bias, interleaved;
    if (!model_config_text_or(&activation, config, "hidden_act", "silu", error) ||
        !model_config_flag_or(&attention_bias, config, "attention_bias", false, error) ||
        !model_config_flag_or(&mlp_bias, config, "mlp_bias", false, error) ||
        !model_config_flag_or(&interleaved, config, "rope_interleaved", false, error))
        return false;
    if (strcmp(activation, "silu") != 0)
        return error_set(error, "%s: hidden_act '%.100s' is not supported; supported is silu", config.source,
                         activation);
    if (attention_bias && !architecture->qkv_bias)
        return error_set(error, "%s: attention_bias true is not supported for %s", config.source,
                         architecture_family_name(architecture->family));
    if (mlp_bias) return error_set(error, "%s: mlp_bias true is not supported", config.source);
    if (interleaved) return error_set(error, "%s: rope_interleaved true is not supported", config.source);
    if (model_config_find(config, "quantization_config"))
        return error_set(error, "%s: quantization_config: quantised weights are read from GGUF only", config.source);
    return true;
}

// Sizes and their defaults. num_key_value_heads: null is as many as query heads, whatever an absent key means.
static bool read_sizes(Architecture *a, ModelConfig config, Error *error) {
    const Family *family = &families[a->family];
    if (!model_config_integer(&a->vocab_size, config, "vocab_size", error) ||
        !model_config_integer(&a->hidden_size, config, "hidden_size", error) ||
        !model_config_integer(&a->intermediate_size, config, "intermediate_size", error) ||
        !model_config_integer(&a->layer_count, config, "num_hidden_layers", error) ||
        !model_config_integer(&a->query_heads, config, "num_attention_heads", error))
        return false;
    bool named = json_object_get(config.object, "num_key_value_heads");
    int64_t kv_heads = named || !family->kv_heads ? a->query_heads : family->kv_heads;
    if (!model_config_integer_or(&a->kv_heads, config, "num_key_value_heads", kv_heads, error) ||
        !model_config_integer_or(&a->max_positions, config, "max_position_embeddings", a->max_positions, error) ||
        !model_config_integer_or(&a->head_dim, config, "head_dim", family->head_dim, error))
        return false;
    if (model_config_find(config, "head_dim") || family->head_dim) return true;
    if (a->query_heads <= 0 || a->hidden_size % a->query_heads)
        return error_set(error,
                         "%s: hidden_size %" PRId64 " is no multiple of num_attention_heads %" PRId64
                         " and head_dim is not given",
                         config.source, a->hidden_size, a->query_heads);
    a->head_dim = a->hidden_size / a->query_heads;
    return true;
}

// Bounds far over any model, under which no product of sizes overflows an int64.
static bool check_sizes(const Architecture *a, const char *source, Error *error) {
    const struct {
        const char *name;
        int64_t value, most;
    } sizes[] = {
        {"vocab_size", a->vocab_size, 1 << 24},
        {"hidden_size", a->hidden_size, 1 << 18},
        {"intermediate_size", a->intermediate_size, 1 << 20},
        {"num_hidden_layers", a->layer_count, LAYER_KINDS_MAX},
        {"num_attention_heads", a->query_heads, 1 << 12},
        {"num_key_value_heads", a->kv_heads, 1 << 12},
        {"head_dim", a->head_dim, 1 << 9},
        {"max_position_embeddings", a->max_positions, 1 << 30},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].value < 1 || sizes[i].value > sizes[i].most)
            return error_set(error, "%s: %s is %" PRId64 ", expected 1..%" PRId64, source, sizes[i].name,
                             sizes[i].value, sizes[i].most);
    if (a->head_dim % 2)
        return error_set(error, "%s: head_dim is %" PRId64 ", expected an even number", source, a->head_dim);
    if (a->query_heads % a->kv_heads)
        return error_set(error, "%s: num_attention_heads %" PRId64 " is no multiple of num_key_value_heads %" PRId64,
                         source, a->query_heads, a->kv_heads);
    return true;
}

bool architecture_from_json(Architecture *architecture, const json_t *config, const char *source, Error *error) {
    ModelConfig from = {.object = config, .source = source};
    const char *type;
    double eps;
    *architecture = (Architecture){0};
    Architecture *a = architecture;
    if (!json_is_object(config)) return error_set(error, "%s: not a JSON object", source);
    if (!model_config_text_or(&type, from, "model_type", NULL, error)) return false;
    if (!type) return error_set(error, "%s: key model_type is missing", source);
    if (!architecture_set_family(a, type, source, "model_type", error)) return false;
    const Family *family = &families[a->family];
    if (!read_sizes(a, from, error) || !model_config_real_or(&eps, from, "rms_norm_eps", 1e-6, error) ||
        !model_config_flag_or(&a->tied_head, from, "tie_word_embeddings", family->tied_head, error) ||
        !rotary_read(&a->rope, from, family->rope_theta, a->max_positions, error) ||
        !read_special_ids(a, from, error) || !refuse_unsupported(a, from, error))
        return false;
    a->rms_norm_eps = (float)eps;
    if (!check_sizes(a, source, error) || !layer_kinds_read(&a->layers, family->layers, from, a->layer_count, error))
        return false;
    if (a->layers.window > a->max_positions) a->layers.window = a->max_positions; // no key lies further back
    return architecture_check(a, source, error);
}

bool architecture_check(const Architecture *architecture, const char *source, Error *error) {
    const Architecture *a = architecture;
    if (!check_sizes(a, source, error)) return false;
    if (!(a->rms_norm_eps > 0 && a->rms_norm_eps < 1))
        return error_set(error, "%s: rms_norm_eps is %g, expected over 0 and under 1", source, (double)a->rms_norm_eps);
    if (a->bos_id >= a->vocab_size)
        return error_set(error, "%s: bos_token_id %d is not under vocab_size %" PRId64, source, a->bos_id,
                         a->vocab_size);
    for (int i = 0; i < a->eos_count; i++)
        if (a->eos_ids[i] >= a->vocab_size)
            return error_set(error, "%s: eos_token_id %d is not under vocab_size %" PRId64, source, a->eos_ids[i],
                             a->vocab_size);
    return rotary_check(&a->rope, source, error) &&
           layer_kinds_check(&a->layers, families[a->family].layers, a->layer_count, source, error);
}

// The shortest decimal that reads back as the same float: 1e-05 rather than 9.9999997e-06.
static double shortest(float value) {
    char text[32];
    for (int digits = 1; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value) return strtod(text, NULL);
    }
    return value;
}

static json_t *eos_to_json(const Architecture *architecture) {
    if (architecture->eos_count == 0) return json_null();
    if (architecture->eos_count == 1) return json_integer(architecture->eos_ids[0]);
    json_t *list = json_array();
    for (int i = 0; i < architecture->eos_count; i++)
        json_array_append_new(list, json_integer(architecture->eos_ids[i]));
    return list;
}

json_t *architecture_to_json(const Architecture *architecture) {
    const Architecture *a = architecture;
    json_t *config = json_pack(
        "{s:[s], s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:b, s:f, s:o, s:o, s:o, s:n}", "architectures",
        families[a->family].class, "model_type", families[a->family].name, "hidden_act", "silu", "vocab_size",
        (json_int_t)a->vocab_size, "hidden_size", (json_int_t)a->hidden_size, "intermediate_size",
        (json_int_t)a->intermediate_size, "num_hidden_layers", (json_int_t)a->layer_count, "num_attention_heads",
        (json_int_t)a->query_heads, "num_key_value_heads", (json_int_t)a->kv_heads, "head_dim", (json_int_t)a->head_dim,
        "max_position_embeddings", (json_int_t)a->max_positions, "rms_norm_eps", shortest(a->rms_norm_eps),
        "tie_word_embeddings", (int)a->tied_head, "rope_theta", a->rope.theta, "rope_scaling", rotary_to_json(&a->rope),
        "bos_token_id", a->bos_id < 0 ? json_null() : json_integer(a->bos_id), "eos_token_id", eos_to_json(a),
        "pad_token_id");
    CHECK(config, "config.json of %s", families[a->family].name);
    layer_kinds_to_json(config, &a->layers, families[a->family].layers, a->layer_count);
    return config;
}
