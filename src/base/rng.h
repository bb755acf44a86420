// Randomness by coordinates: Philox4x32-10 keyed by (seed, purpose), counted by (step, prompt, sample, token).
// No generator state exists, so scheduling, batching, rank count and resume cannot matter.
// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3" (Random123).
#pragma once
#include <stdint.h>

// What a number is used for. Values are part of the contract "same bits": append, never renumber.
typedef enum RngPurpose {
    RNG_SAMPLE_TOKEN = 1,   // rollout/sampler: step, prompt, sample, token
    RNG_SHUFFLE = 2,        // order of the training questions: epoch, position
    RNG_QUESTION = 3,       // generated questions: index
    RNG_TEST_WEIGHTS = 4,   // random weights of tests and benches
    RNG_VALIDATE_TOKEN = 5, // sampling in validation: step, prompt, sample, token
    RNG_PACK = 6,           // order of first_fit_shuffle: round, position
    RNG_BOOTSTRAP = 7,      // questions drawn again: resample, position
} RngPurpose;

typedef struct RngCounter {
    uint32_t step, prompt, sample, token;
} RngCounter;

// Four independent 32-bit words.
void rng_words(uint32_t out[4], uint64_t seed, RngPurpose purpose, RngCounter at);

// Uniform in [0, 1): the upper 24 bits of word 0, so that every value is an exact float.
float rng_uniform(uint64_t seed, RngPurpose purpose, RngCounter at);

// Fills order[count] with a permutation of 0..count-1 (Fisher-Yates; token counts the swaps).
void rng_shuffle(uint32_t *order, uint32_t count, uint64_t seed, RngPurpose purpose, uint32_t epoch);

// Where index (< count <= 2^62) goes under a permutation of 0..count-1 that takes no memory: a balanced Feistel network of
// eight Philox rounds on the next even power of two, walked until it lands below count (Black & Rogaway 2002).
uint64_t rng_permute(uint64_t index, uint64_t count, uint64_t seed, RngPurpose purpose, uint32_t epoch);
