#include "model/rotary.h"

#include <math.h>
#include <string.h>

enum { BETA_FAST = 32, BETA_SLOW = 1 }; // YaRN's defaults

double rotary_yarn_attention(double factor) {
    return factor <= 1 ? 1 : 0.1 * log(factor) + 1;
}

static bool require(ModelConfig options, const char *type, const char *key, Error *error) {
    return json_object_get(options.object, key) ||
           error_set(error, "%s: rope scaling %s needs the key %s", options.source, type, key);
}

// The positions of the model before they were stretched: a key of the model goes before one of the rope options.
static bool read_original(RopeOptions *rope, ModelConfig config, ModelConfig options, int64_t max_positions,
                          Error *error) {
    static const char key[] = "original_max_position_embeddings";
    ModelConfig from = model_config_find(config, key) ? config : options;
    return model_config_real_or(&rope->original_max_positions, from, key, (double)max_positions, error);
}

static bool read_llama3(RopeOptions *rope, ModelConfig options, Error *error) {
    return require(options, "llama3", "factor", error) && require(options, "llama3", "low_freq_factor", error) &&
           require(options, "llama3", "high_freq_factor", error) &&
           model_config_real_or(&rope->low_freq_factor, options, "low_freq_factor", 0, error) &&
           model_config_real_or(&rope->high_freq_factor, options, "high_freq_factor", 0, error);
}

// DeepSeek's variant of the attention factor: both scales given and not 0.
static double yarn_attention(double factor, double mscale, double mscale_all_dim) {
    if (mscale == 0 || mscale_all_dim == 0 || factor <= 1) return rotary_yarn_attention(factor);
    return (0.1 * mscale * log(factor) + 1) / (0.1 * mscale_all_dim * log(factor) + 1);
}

static bool read_yarn(RopeOptions *rope, ModelConfig options, int64_t max_positions, Error *error) {
    double mscale, mscale_all_dim;
    if (!require(options, "yarn", "factor", error)) return false;
    if (!model_config_find(options, "factor")) rope->factor = (double)max_positions / rope->original_max_positions;
    bool truncate = !json_is_null(json_object_get(options.object, "truncate")); // null says no there
    if (!model_config_real_or(&mscale, options, "mscale", 0, error) ||
        !model_config_real_or(&mscale_all_dim, options, "mscale_all_dim", 0, error) ||
        !model_config_real_or(&rope->attention_factor, options, "attention_factor",
                              yarn_attention(rope->factor, mscale, mscale_all_dim), error) ||
        !model_config_real_or(&rope->beta_fast, options, "beta_fast", BETA_FAST, error) ||
        !model_config_real_or(&rope->beta_slow, options, "beta_slow", BETA_SLOW, error) ||
        !model_config_flag_or(&rope->truncate, options, "truncate", truncate, error))
        return false;
    if (rope->beta_fast == 0) rope->beta_fast = BETA_FAST;
    if (rope->beta_slow == 0) rope->beta_slow = BETA_SLOW;
    return true;
}

static bool refuse_type(const char *type, const char *key, const char *source, Error *error) {
    const char *reason = "unknown";
    if (!strcmp(type, "dynamic") || !strcmp(type, "longrope"))
        reason = "its frequencies change with the length of a sequence, so keys in the cache would no longer hold";
    return error_set(error,
                     "%s: %s: rope_type '%.100s' is not supported (%s); supported are default, linear, llama3, yarn",
                     source, key, type, reason);
}

static bool read_scaling(RopeOptions *rope, const char *type, const char *key, ModelConfig config, ModelConfig options,
                         int64_t max_positions, Error *error) {
    if (!strcmp(type, "default")) {
        rope->factor = 1;
        return true;
    }
    if (!strcmp(type, "linear")) {
        rope->scaling = ROPE_LINEAR;
        return require(options, "linear", "factor", error);
    }
    bool llama3 = !strcmp(type, "llama3");
    if (!llama3 && strcmp(type, "yarn") != 0) return refuse_type(type, key, config.source, error);
    rope->scaling = llama3 ? ROPE_LLAMA3 : ROPE_YARN;
    return read_original(rope, config, options, max_positions, error) &&
           (llama3 ? read_llama3(rope, options, error) : read_yarn(rope, options, max_positions, error));
}

bool rotary_read(RopeOptions *rope, ModelConfig config, double theta, int64_t max_positions, Error *error) {
    const char *key = "rope_scaling";
    const json_t *object = model_config_find(config, key);
    if (!object || (json_is_object(object) && json_object_size(object) == 0)) {
        key = "rope_parameters";
        object = model_config_find(config, key);
    }
    if (object && !json_is_object(object)) return model_config_refuse(config, key, object, "an object", error);

    ModelConfig options = {.object = object, .source = config.source};
    const char *type, *old_type;
    double partial, outer_partial;
    *rope = (RopeOptions){.factor = 1};
    if (!model_config_text_or(&old_type, options, "type", "default", error) ||
        !model_config_text_or(&type, options, "rope_type", old_type, error) ||
        !model_config_real_or(&rope->theta, config, "rope_theta", theta, error) ||
        !model_config_real_or(&rope->theta, options, "rope_theta", rope->theta, error) ||
        !model_config_real_or(&outer_partial, config, "partial_rotary_factor", 1, error) ||
        !model_config_real_or(&partial, options, "partial_rotary_factor", outer_partial, error) ||
        !model_config_real_or(&rope->factor, options, "factor", 1, error))
        return false;
    if (partial != 1)
        return error_set(error, "%s: partial_rotary_factor is %g, expected 1 (the whole head is rotated)",
                         config.source, partial);
    if (model_config_find(options, "full_attention") || model_config_find(options, "sliding_attention"))
        return error_set(error, "%s: %s differs by layer type: not supported", config.source, key);
    return read_scaling(rope, type, key, config, options, max_positions, error);
}

static bool check_llama3(const RopeOptions *rope, const char *source, Error *error) {
    double low = rope->low_freq_factor, high = rope->high_freq_factor;
    return (low > 0 && high > low && high <= 1e6) ||
           error_set(error, "%s: rope scaling llama3: low_freq_factor %g, high_freq_factor %g, expected 0 < low < high",
                     source, low, high);
}

static bool check_yarn(const RopeOptions *rope, const char *source, Error *error) {
    double slow = rope->beta_slow, fast = rope->beta_fast;
    if (!(slow > 0 && fast >= slow && fast <= 1e6))
        return error_set(error, "%s: rope scaling yarn: beta_slow %g, beta_fast %g, expected 0 < slow <= fast", source,
                         slow, fast);
    if (!(rope->attention_factor > 0 && rope->attention_factor <= 1e3))
        return error_set(error, "%s: rope scaling yarn: attention_factor is %g, expected over 0 and at most 1000",
                         source, rope->attention_factor);
    return rope->theta > 1 ||
           error_set(error, "%s: rope_theta is %g, expected over 1 with rope scaling yarn", source, rope->theta);
}

bool rotary_check(const RopeOptions *rope, const char *source, Error *error) {
    // Frequencies of up to 1e6 · 1e6 times a position of up to 2^31 stay far below what fp32 holds.
    if (!(rope->theta >= 1e-6 && rope->theta <= 1e12))
        return error_set(error, "%s: rope_theta is %g, expected 1e-6 to 1e12", source, rope->theta);
    if (rope->scaling == ROPE_PLAIN) return true;
    if (!(rope->factor >= 1e-6 && rope->factor <= 1e6))
        return error_set(error, "%s: rope scaling factor is %g, expected 1e-6 to 1e6", source, rope->factor);
    if (rope->scaling == ROPE_LINEAR) return true;
    if (!(rope->original_max_positions >= 1 && rope->original_max_positions <= 1e12))
        return error_set(error, "%s: rope scaling: original_max_position_embeddings is %g, expected at least 1", source,
                         rope->original_max_positions);
    return rope->scaling == ROPE_LLAMA3 ? check_llama3(rope, source, error) : check_yarn(rope, source, error);
}

// _compute_llama3_parameters, operation by operation in fp32.
static float scale_llama3(const RopeOptions *rope, float inv_freq) {
    double old = rope->original_max_positions, low = rope->low_freq_factor, high = rope->high_freq_factor;
    float factor = (float)rope->factor;
    float wavelength = (float)(2 * M_PI) / inv_freq;
    if (wavelength > (float)(old / low)) return inv_freq / factor;
    if (wavelength < (float)(old / high)) return inv_freq;
    float smooth = ((float)old / wavelength - (float)low) / (float)(high - low);
    return (1 - smooth) * inv_freq / factor + smooth * inv_freq;
}

// The columns between which YaRN blends from frequencies as they are to those divided by the factor.
typedef struct YarnRange {
    double low, high;
} YarnRange;

static double yarn_column(const RopeOptions *rope, int64_t head_dim, double rotations) {
    double turns = rope->original_max_positions / (rotations * 2 * M_PI);
    return (double)head_dim * log(turns) / (2 * log(rope->theta));
}

static YarnRange yarn_range(const RopeOptions *rope, int64_t head_dim) {
    YarnRange range = {yarn_column(rope, head_dim, rope->beta_fast), yarn_column(rope, head_dim, rope->beta_slow)};
    if (rope->truncate) range = (YarnRange){floor(range.low), ceil(range.high)};
    range.low = fmax(range.low, 0);
    range.high = fmin(range.high, (double)head_dim - 1);
    if (range.low == range.high) range.high += 0.001; // no division by 0
    return range;
}

// _compute_yarn_parameters, likewise. power: theta^(2i/E).
static float scale_yarn(const RopeOptions *rope, YarnRange range, int64_t i, float power) {
    float ramp = ((float)i - (float)range.low) / (float)(range.high - range.low);
    float kept = 1 - fminf(fmaxf(ramp, 0), 1);
    float plain = 1 / power, stretched = 1 / ((float)rope->factor * power);
    return stretched * (1 - kept) + plain * kept;
}

void rotary_inv_freq(const RopeOptions *rope, int64_t head_dim, float *inv_freq) {
    YarnRange range = {0};
    if (rope->scaling == ROPE_YARN) range = yarn_range(rope, head_dim);
    for (int64_t i = 0; i < head_dim / 2; i++) {
        float exponent = (float)(2 * i) / (float)head_dim, power = (float)pow(rope->theta, (double)exponent);
        switch (rope->scaling) {
        case ROPE_PLAIN: inv_freq[i] = 1 / power; break;
        case ROPE_LINEAR: inv_freq[i] = 1 / power / (float)rope->factor; break;
        case ROPE_LLAMA3: inv_freq[i] = scale_llama3(rope, 1 / power); break;
        case ROPE_YARN: inv_freq[i] = scale_yarn(rope, range, i, power); break;
        }
    }
}

float rotary_attention_scale(const RopeOptions *rope) {
    return rope->scaling == ROPE_YARN ? (float)rope->attention_factor : 1;
}

static json_t *yarn_to_json(const RopeOptions *rope) {
    json_t *json = json_pack("{s:s, s:f, s:I}", "rope_type", "yarn", "factor", rope->factor,
                             "original_max_position_embeddings", (json_int_t)rope->original_max_positions);
    if (rope->attention_factor != rotary_yarn_attention(rope->factor))
        json_object_set_new(json, "attention_factor", json_real(rope->attention_factor));
    if (rope->beta_fast != BETA_FAST) json_object_set_new(json, "beta_fast", json_real(rope->beta_fast));
    if (rope->beta_slow != BETA_SLOW) json_object_set_new(json, "beta_slow", json_real(rope->beta_slow));
    if (!rope->truncate) json_object_set_new(json, "truncate", json_false());
    return json;
}

json_t *rotary_to_json(const RopeOptions *rope) {
    switch (rope->scaling) {
    case ROPE_PLAIN: break;
    case ROPE_LINEAR: return json_pack("{s:s, s:f}", "rope_type", "linear", "factor", rope->factor);
    case ROPE_LLAMA3:
        return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", rope->factor, "low_freq_factor",
                         rope->low_freq_factor, "high_freq_factor", rope->high_freq_factor,
                         "original_max_position_embeddings", (json_int_t)rope->original_max_positions);
    case ROPE_YARN: return yarn_to_json(rope);
    }
    return json_null();
}
