// Draws tokens from the resident's last batch: logits of a few rows at a time, softmax with the filter of the generation
// options, a Philox number for each draw. The log-prob recorded is what softmax_logprobs gives for the same logits and the
// same filter, so the trainer's walk finds the same bits.
#pragma once
#include "base/rng.h"
#include "model/resident.h"
#include "rollout/generation_options.h"

enum { SAMPLER_MAX_ROWS = 64 }; // rows whose logits exist at a time

// The filter by which tokens are drawn and by which training computes log-probs. Greedy (temperature 0): the distribution
// itself, untempered and unfiltered.
SoftmaxFilter sampler_filter(const GenerationOptions *options);

typedef struct SamplerDraw {
    int64_t sample; // the caller's, not read here
    int32_t row;    // of the resident's last batch; several draws may name the same row
    RngCounter at;
    int32_t id;    // drawn
    float logprob; // NaN when the row has no distribution (softmax.h)
} SamplerDraw;

typedef struct Sampler {
    Resident *resident;
    SoftmaxFilter filter;
    bool greedy;
    int64_t capacity; // rows at a time
    Tensor logits;    // [capacity, V] fp32, between sampler_open_logits and sampler_drop_logits
    SoftmaxRow *softmax;
    int32_t *rows, *ids;
    float *uniforms, *logprobs;
} Sampler;

// Host arrays come from the arena, logits (before draws) from the resident's device. At most `rows` rows at a time.
void sampler_open(Sampler *sampler, Resident *resident, const GenerationOptions *options, int64_t rows, Arena *arena);
void sampler_open_logits(Sampler *sampler);
void sampler_drop_logits(Sampler *sampler);
void sampler_set_filter(Sampler *sampler, const GenerationOptions *options); // for the draws that follow
void sampler_close(Sampler *sampler);                                        // accepts a zero-initialised object

// Fills id and logprob of every draw. On plan, where there are no logits, all ids are equally likely and log-probs are 0.
void sampler_draw(Sampler *sampler, SamplerDraw *draws, int64_t count, uint64_t seed, RngPurpose purpose);
