#include "model/architecture.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Family {
    const char *name;  // config.json: model_type; GGUF: general.architecture
    const char *class; // config.json: architectures
    bool qkv_bias;
    int64_t max_positions;  // what Transformers takes when the key is absent
    int32_t bos_id, eos_id; // likewise; -1: none
} Family;

static const Family families[] = {
    [MODEL_LLAMA] = {"llama", "LlamaForCausalLM", false, 2048, 1, 2},
    [MODEL_QWEN2] = {"qwen2", "Qwen2ForCausalLM", true, 32768, -1, -1},
};
enum { FAMILY_COUNT = sizeof families / sizeof *families };

// What every message and look-up needs.
typedef struct Config {
    const json_t *object;
    const char *source;
} Config;

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
        architecture->max_positions = families[i].max_positions;
        return true;
    }
    return error_set(error, "%s: %s '%.100s' is not supported; supported are llama, qwen2", source, key, name);
}

static const json_t *lookup(const json_t *object, const char *key) { // NULL also for null
    const json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

// A JSON value as short text for messages.
static const char *show(char text[64], const json_t *value) {
    char *printed = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    snprintf(text, 64, "%.60s", printed ? printed : "?");
    free(printed);
    return text;
}

static bool refuse(Config config, const char *key, const json_t *value, const char *expected, Error *error) {
    char text[64];
    return error_set(error, "%s: %s is %s, expected %s", config.source, key, show(text, value), expected);
}

static bool read_integer(int64_t *out, Config config, const char *key, Error *error) { // required
    const json_t *value = lookup(config.object, key);
    if (!value) return error_set(error, "%s: key %s is missing", config.source, key);
    if (!json_is_integer(value)) return refuse(config, key, value, "an integer", error);
    *out = json_integer_value(value);
    return true;
}

static bool read_integer_or(int64_t *out, Config config, const char *key, int64_t fallback, Error *error) {
    *out = fallback;
    return !lookup(config.object, key) || read_integer(out, config, key, error);
}

static bool read_real_or(double *out, Config config, const char *key, double fallback, Error *error) {
    const json_t *value = lookup(config.object, key);
    *out = fallback;
    if (!value) return true;
    if (!json_is_number(value)) return refuse(config, key, value, "a number", error);
    *out = json_number_value(value);
    return true;
}

static bool read_flag_or(bool *out, Config config, const char *key, bool fallback, Error *error) {
    const json_t *value = lookup(config.object, key);
    *out = fallback;
    if (!value) return true;
    if (!json_is_boolean(value)) return refuse(config, key, value, "true or false", error);
    *out = json_is_true(value);
    return true;
}

static bool read_text_or(const char **out, Config config, const char *key, const char *fallback, Error *error) {
    const json_t *value = lookup(config.object, key);
    *out = fallback;
    if (!value) return true;
    if (!json_is_string(value)) return refuse(config, key, value, "a string", error);
    *out = json_string_value(value);
    return true;
}

static bool read_llama3(RopeOptions *rope, Config options, int64_t max_positions, Error *error) {
    static const char *const required[] = {"factor", "low_freq_factor", "high_freq_factor"};
    for (int i = 0; i < 3; i++)
        if (!lookup(options.object, required[i]))
            return error_set(error, "%s: rope scaling llama3 needs the key %s", options.source, required[i]);
    return read_real_or(&rope->low_freq_factor, options, "low_freq_factor", 0, error) &&
           read_real_or(&rope->high_freq_factor, options, "high_freq_factor", 0, error) &&
           read_real_or(&rope->original_max_positions, options, "original_max_position_embeddings",
                        (double)max_positions, error);
}

// As Transformers merges the two styles: a rope_scaling that holds anything stands for rope_parameters, and a rope_theta
// inside goes before one outside.
static bool read_rope(RopeOptions *rope, Config config, int64_t max_positions, Error *error) {
    const char *key = "rope_scaling";
    const json_t *object = lookup(config.object, key);
    if (!object || (json_is_object(object) && json_object_size(object) == 0)) {
        key = "rope_parameters";
        object = lookup(config.object, key);
    }
    if (object && !json_is_object(object)) return refuse(config, key, object, "an object", error);

    Config options = {.object = object, .source = config.source};
    const char *type, *old_type;
    double partial, outer_partial;
    *rope = (RopeOptions){.factor = 1};
    if (!read_text_or(&old_type, options, "type", "default", error) ||
        !read_text_or(&type, options, "rope_type", old_type, error) ||
        !read_real_or(&rope->theta, config, "rope_theta", 10000, error) ||
        !read_real_or(&rope->theta, options, "rope_theta", rope->theta, error) ||
        !read_real_or(&outer_partial, config, "partial_rotary_factor", 1, error) ||
        !read_real_or(&partial, options, "partial_rotary_factor", outer_partial, error) ||
        !read_real_or(&rope->factor, options, "factor", 1, error))
        return false;
    if (partial != 1)
        return error_set(error, "%s: partial_rotary_factor is %g, expected 1 (the whole head is rotated)",
                         config.source, partial);
    if (lookup(options.object, "full_attention") || lookup(options.object, "sliding_attention"))
        return error_set(error, "%s: %s differs by layer type: not supported", config.source, key);

    if (!strcmp(type, "default")) {
        rope->factor = 1;
        return true;
    }
    if (!strcmp(type, "linear")) {
        rope->scaling = ROPE_LINEAR;
        return lookup(options.object, "factor") ||
               error_set(error, "%s: rope scaling linear needs the key factor", config.source);
    }
    if (!strcmp(type, "llama3")) {
        rope->scaling = ROPE_LLAMA3;
        return read_llama3(rope, options, max_positions, error);
    }
    return error_set(error, "%s: %s: rope_type '%.100s' is not supported; supported are default, linear, llama3",
                     config.source, key, type);
}

static bool token_id(int32_t *id, Config config, const char *key, const json_t *value, Error *error) {
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < -1 || number > INT32_MAX)
        return refuse(config, key, value, "a token id", error);
    *id = (int32_t)number;
    return true;
}

bool architecture_read_eos(Architecture *architecture, const json_t *config, const char *source, Error *error) {
    Config from = {.object = config, .source = source};
    const json_t *value = lookup(config, "eos_token_id");
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

static bool read_special_ids(Architecture *architecture, Config config, Error *error) {
    const Family *family = &families[architecture->family];
    const json_t *bos = json_object_get(config.object, "bos_token_id");
    architecture->bos_id = bos ? -1 : family->bos_id;
    if (bos && !json_is_null(bos) && !token_id(&architecture->bos_id, config, "bos_token_id", bos, error)) return false;
    if (!json_object_get(config.object, "eos_token_id") && family->eos_id >= 0)
        architecture->eos_ids[architecture->eos_count++] = family->eos_id;
    return architecture_read_eos(architecture, config.object, config.source, error);
}

// Options of the two families whose other values whet does not compute.
static bool refuse_unsupported(const Architecture *architecture, Config config, Error *error) {
    const char *activation;
    bool attention_bias, mlp_bias, windows, interleaved;
    int64_t window_layers;
    if (!read_text_or(&activation, config, "hidden_act", "silu", error) ||
        !read_flag_or(&attention_bias, config, "attention_bias", false, error) ||
        !read_flag_or(&mlp_bias, config, "mlp_bias", false, error) ||
        !read_flag_or(&windows, config, "use_sliding_window", false, error) ||
        !read_flag_or(&interleaved, config, "rope_interleaved", false, error) ||
        !read_integer_or(&window_layers, config, "max_window_layers", 0, error))
        return false;
    if (strcmp(activation, "silu") != 0)
        return error_set(error, "%s: hidden_act '%.100s' is not supported; supported is silu", config.source,
                         activation);
    if (attention_bias && !architecture->qkv_bias)
        return error_set(error, "%s: attention_bias true is not supported for %s", config.source,
                         architecture_family_name(architecture->family));
    if (mlp_bias) return error_set(error, "%s: mlp_bias true is not supported", config.source);
    if (interleaved) return error_set(error, "%s: rope_interleaved true is not supported", config.source);
    // Layers from max_window_layers on have the window.
    if (windows && lookup(config.object, "sliding_window") && window_layers < architecture->layer_count)
        return error_set(error, "%s: use_sliding_window true with a sliding_window is not supported", config.source);
    const json_t *types = lookup(config.object, "layer_types");
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        if (!type || strcmp(type, "full_attention") != 0)
            return refuse(config, "layer_types", json_array_get(types, i), "\"full_attention\" for every layer", error);
    }
    if (lookup(config.object, "quantization_config"))
        return error_set(error, "%s: quantization_config: quantised weights are read from GGUF only", config.source);
    return true;
}

bool architecture_from_json(Architecture *architecture, const json_t *config, const char *source, Error *error) {
    Config from = {.object = config, .source = source};
    const char *type;
    double eps;
    *architecture = (Architecture){0};
    Architecture *a = architecture;
    if (!json_is_object(config)) return error_set(error, "%s: not a JSON object", source);
    if (!read_text_or(&type, from, "model_type", NULL, error)) return false;
    if (!type) return error_set(error, "%s: key model_type is missing", source);
    if (!architecture_set_family(a, type, source, "model_type", error)) return false;
    if (!read_integer(&a->vocab_size, from, "vocab_size", error) ||
        !read_integer(&a->hidden_size, from, "hidden_size", error) ||
        !read_integer(&a->intermediate_size, from, "intermediate_size", error) ||
        !read_integer(&a->layer_count, from, "num_hidden_layers", error) ||
        !read_integer(&a->query_heads, from, "num_attention_heads", error) ||
        !read_integer_or(&a->kv_heads, from, "num_key_value_heads", a->query_heads, error) ||
        !read_integer_or(&a->max_positions, from, "max_position_embeddings", a->max_positions, error) ||
        !read_integer_or(&a->head_dim, from, "head_dim", 0, error) ||
        !read_real_or(&eps, from, "rms_norm_eps", 1e-6, error) ||
        !read_flag_or(&a->tied_head, from, "tie_word_embeddings", false, error) ||
        !read_rope(&a->rope, from, a->max_positions, error) || !read_special_ids(a, from, error) ||
        !refuse_unsupported(a, from, error))
        return false;
    a->rms_norm_eps = (float)eps;
    if (!lookup(config, "head_dim")) {
        if (a->query_heads <= 0 || a->hidden_size % a->query_heads)
            return error_set(error,
                             "%s: hidden_size %" PRId64 " is no multiple of num_attention_heads %" PRId64
                             " and head_dim is not given",
                             source, a->hidden_size, a->query_heads);
        a->head_dim = a->hidden_size / a->query_heads;
    }
    return architecture_check(a, source, error);
}

static bool check_rope(const RopeOptions *rope, const char *source, Error *error) {
    if (!(rope->theta > 0 && rope->theta <= 1e12))
        return error_set(error, "%s: rope_theta is %g, expected a number over 0 and at most 1e12", source, rope->theta);
    if (rope->scaling != ROPE_PLAIN && !(rope->factor > 0 && rope->factor <= 1e6))
        return error_set(error, "%s: rope scaling factor is %g, expected over 0 and at most 1e6", source, rope->factor);
    if (rope->scaling != ROPE_LLAMA3) return true;
    if (!(rope->low_freq_factor > 0 && rope->high_freq_factor > rope->low_freq_factor && rope->high_freq_factor <= 1e6))
        return error_set(error,
                         "%s: rope scaling llama3: low_freq_factor %g, high_freq_factor %g, expected 0 < low < high",
                         source, rope->low_freq_factor, rope->high_freq_factor);
    if (!(rope->original_max_positions >= 1 && rope->original_max_positions <= 1e12))
        return error_set(error, "%s: rope scaling llama3: original_max_position_embeddings is %g, expected at least 1",
                         source, rope->original_max_positions);
    return true;
}

bool architecture_check(const Architecture *architecture, const char *source, Error *error) {
    const Architecture *a = architecture;
    // Bounds far over any model, under which no product of sizes overflows an int64.
    const struct {
        const char *name;
        int64_t value, most;
    } sizes[] = {
        {"vocab_size", a->vocab_size, 1 << 24},
        {"hidden_size", a->hidden_size, 1 << 18},
        {"intermediate_size", a->intermediate_size, 1 << 20},
        {"num_hidden_layers", a->layer_count, 1 << 12},
        {"num_attention_heads", a->query_heads, 1 << 12},
        {"num_key_value_heads", a->kv_heads, 1 << 12},
        {"head_dim", a->head_dim, 1 << 10},
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
    if (!(a->rms_norm_eps > 0 && a->rms_norm_eps < 1))
        return error_set(error, "%s: rms_norm_eps is %g, expected over 0 and under 1", source, (double)a->rms_norm_eps);
    if (a->bos_id >= a->vocab_size)
        return error_set(error, "%s: bos_token_id %d is not under vocab_size %" PRId64, source, a->bos_id,
                         a->vocab_size);
    for (int i = 0; i < a->eos_count; i++)
        if (a->eos_ids[i] >= a->vocab_size)
            return error_set(error, "%s: eos_token_id %d is not under vocab_size %" PRId64, source, a->eos_ids[i],
                             a->vocab_size);
    return check_rope(&a->rope, source, error);
}

// transformers, modeling_rope_utils.py, _compute_llama3_parameters, operation by operation in fp32.
static float scale_llama3(const RopeOptions *rope, float inv_freq) {
    double old = rope->original_max_positions, low = rope->low_freq_factor, high = rope->high_freq_factor;
    float factor = (float)rope->factor;
    float wavelength = (float)(2 * M_PI) / inv_freq;
    if (wavelength > (float)(old / low)) return inv_freq / factor;
    if (wavelength < (float)(old / high)) return inv_freq;
    float smooth = ((float)old / wavelength - (float)low) / (float)(high - low);
    return (1 - smooth) * inv_freq / factor + smooth * inv_freq;
}

void architecture_inv_freq(const Architecture *architecture, float *inv_freq) {
    const RopeOptions *rope = &architecture->rope;
    for (int64_t i = 0; i < architecture->head_dim / 2; i++) {
        float exponent = (float)(2 * i) / (float)architecture->head_dim;
        float plain = 1 / (float)pow(rope->theta, (double)exponent);
        switch (rope->scaling) {
        case ROPE_PLAIN: inv_freq[i] = plain; break;
        case ROPE_LINEAR: inv_freq[i] = plain / (float)rope->factor; break;
        case ROPE_LLAMA3: inv_freq[i] = scale_llama3(rope, plain); break;
        }
    }
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

static json_t *rope_scaling_to_json(const RopeOptions *rope) {
    if (rope->scaling == ROPE_PLAIN) return json_null();
    if (rope->scaling == ROPE_LINEAR) return json_pack("{s:s, s:f}", "rope_type", "linear", "factor", rope->factor);
    return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", rope->factor, "low_freq_factor",
                     rope->low_freq_factor, "high_freq_factor", rope->high_freq_factor,
                     "original_max_position_embeddings", (json_int_t)rope->original_max_positions);
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
        "{s:[s], s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:b, s:f, s:o, s:o, s:o}", "architectures",
        families[a->family].class, "model_type", families[a->family].name, "hidden_act", "silu", "vocab_size",
        (json_int_t)a->vocab_size, "hidden_size", (json_int_t)a->hidden_size, "intermediate_size",
        (json_int_t)a->intermediate_size, "num_hidden_layers", (json_int_t)a->layer_count, "num_attention_heads",
        (json_int_t)a->query_heads, "num_key_value_heads", (json_int_t)a->kv_heads, "head_dim", (json_int_t)a->head_dim,
        "max_position_embeddings", (json_int_t)a->max_positions, "rms_norm_eps", shortest(a->rms_norm_eps),
        "tie_word_embeddings", (int)a->tied_head, "rope_theta", a->rope.theta, "rope_scaling",
        rope_scaling_to_json(&a->rope), "bos_token_id", a->bos_id < 0 ? json_null() : json_integer(a->bos_id),
        "eos_token_id", eos_to_json(a));
    CHECK(config, "config.json of %s", families[a->family].name);
    if (a->family == MODEL_QWEN2) json_object_set_new(config, "use_sliding_window", json_false());
    return config;
}
