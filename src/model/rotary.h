// Rotary position embeddings and their scalings (RoPE, Su et al. 2021; YaRN, Peng et al. 2023; Llama 3), with the options, the
// defaults and the arithmetic of Transformers 5, modeling_rope_utils.py.
#pragma once
#include "model/model_config.h"

typedef enum RopeScaling { ROPE_PLAIN, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN } RopeScaling;

typedef struct RopeOptions {
    double theta;
    RopeScaling scaling;
    double factor;                            // of linear, llama3, yarn; else 1
    double original_max_positions;            // llama3, yarn: positions before they were stretched
    double low_freq_factor, high_freq_factor; // llama3
    double beta_fast, beta_slow;              // yarn: rotations within the original positions, between which it blends
    double attention_factor;                  // yarn: cosines and sines are multiplied by it
    bool truncate;                            // yarn: the blend begins and ends at whole columns
} RopeOptions;

// From config.json, old style (rope_theta, rope_scaling with type or rope_type) or new (rope_parameters), merged as
// Transformers does: a rope_scaling that holds anything stands for rope_parameters, a rope_theta inside goes before one
// outside, an original_max_position_embeddings outside before one inside. Refuses, with the reason, types that whet does not
// compute. theta: what stands for an absent rope_theta.
bool rotary_read(RopeOptions *rope, ModelConfig config, double theta, int64_t max_positions, Error *error);

bool rotary_check(const RopeOptions *rope, const char *source, Error *error); // ranges; also used for GGUF

// What YaRN takes for an attention_factor that is not given: 0.1·ln(factor) + 1, or 1 for a factor up to 1.
double rotary_yarn_attention(double factor);

// inv_freq[head_dim / 2] as Transformers computes them: fp32 of theta^(2i/E), one fp32 division, then the scaling in fp32.
void rotary_inv_freq(const RopeOptions *rope, int64_t head_dim, float *inv_freq);

// What cosines and sines are multiplied by: 1 but for YaRN.
float rotary_attention_scale(const RopeOptions *rope);

// The value of rope_scaling in a config.json of the old style, without keys that hold what stands for them when they are
// absent. New reference; null for plain rotary embeddings.
json_t *rotary_to_json(const RopeOptions *rope);
