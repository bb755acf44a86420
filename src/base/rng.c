#include "base/rng.h"

#include "base/error.h"

#include <Random123/philox.h>

void rng_words(uint32_t out[4], uint64_t seed, RngPurpose purpose, RngCounter at) {
    philox4x32_key_t key = {{(uint32_t)seed, (uint32_t)(seed >> 32) ^ ((uint32_t)purpose << 24)}};
    philox4x32_ctr_t counter = {{at.step, at.prompt, at.sample, at.token}};
    philox4x32_ctr_t words = philox4x32(counter, key);
    for (int i = 0; i < 4; i++) out[i] = words.v[i];
}

float rng_uniform(uint64_t seed, RngPurpose purpose, RngCounter at) {
    uint32_t words[4];
    rng_words(words, seed, purpose, at);
    return (float)(words[0] >> 8) * 0x1p-24f;
}

void rng_shuffle(uint32_t *order, uint32_t count, uint64_t seed, RngPurpose purpose, uint32_t epoch) {
    for (uint32_t i = 0; i < count; i++) order[i] = i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t words[4];
        rng_words(words, seed, purpose, (RngCounter){.step = epoch, .token = i});
        // 64 random bits: the bias of the remainder is below 2^-32.
        uint64_t wide = (uint64_t)words[0] << 32 | words[1];
        uint32_t j = (uint32_t)(wide % i), swap = order[i - 1];
        order[i - 1] = order[j];
        order[j] = swap;
    }
}

uint64_t rng_permute(uint64_t index, uint64_t count, uint64_t seed, RngPurpose purpose, uint32_t epoch) {
    CHECK(index < count && count <= UINT64_C(1) << 62, "index %llu of %llu", (unsigned long long)index,
          (unsigned long long)count);
    int half = 1; // bits of one side
    while (UINT64_C(1) << 2 * half < count) half++;
    uint32_t mask = (uint32_t)((UINT64_C(1) << half) - 1);
    do {
        uint32_t left = (uint32_t)(index >> half), right = (uint32_t)index & mask;
        for (uint32_t round = 0; round < 8; round++) {
            uint32_t words[4], before = right;
            // sample 1: apart from what rng_shuffle draws for the same purpose.
            rng_words(words, seed, purpose, (RngCounter){.step = epoch, .prompt = round, .sample = 1, .token = right});
            right = left ^ (words[0] & mask);
            left = before;
        }
        index = (uint64_t)left << half | right;
    } while (index >= count);
    return index;
}
