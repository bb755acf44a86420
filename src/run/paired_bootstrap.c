#include "run/paired_bootstrap.h"

#include "base/arena.h"
#include "base/int64.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

static double resampled_mean(const double *difference, int64_t count, uint64_t seed, int64_t resample) {
    double sum = 0;
    for (int64_t at = 0; at < count; at += 4) {
        uint32_t word[4];
        rng_words(word, seed, RNG_BOOTSTRAP,
                  (RngCounter){.step = (uint32_t)resample,
                               .prompt = (uint32_t)((uint64_t)resample >> 32),
                               .token = (uint32_t)at});
        for (int64_t i = 0; i < int64_smaller(4, count - at); i++)
            sum += difference[(uint64_t)word[i] * (uint64_t)count >> 32];
    }
    return sum / (double)count;
}

static int ascending(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

double paired_bootstrap_quantile(const double *sorted, int64_t count, double probability) {
    double place = probability * (double)(count - 1), below = floor(place);
    int64_t i = (int64_t)below, next = int64_smaller(i + 1, count - 1);
    return sorted[i] + (sorted[next] - sorted[i]) * (place - below);
}

Interval paired_bootstrap(const double *difference, int64_t count, int64_t resamples, uint64_t seed) {
    Arena arena = {0};
    double *mean = arena_array(&arena, double, resamples);
    for (int64_t r = 0; r < resamples; r++) mean[r] = resampled_mean(difference, count, seed, r);
    qsort(mean, (size_t)resamples, sizeof *mean, ascending);
    Interval interval = {paired_bootstrap_quantile(mean, resamples, 0.025),
                         paired_bootstrap_quantile(mean, resamples, 0.975)};
    arena_close(&arena);
    return interval;
}
