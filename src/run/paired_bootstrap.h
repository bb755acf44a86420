// The percentile bootstrap of a mean of paired differences (Efron 1979): how far the mean would move with other questions of
// the same kind.
#pragma once
#include <stdint.h>

typedef struct Interval {
    double low, high;
} Interval;

enum { PAIRED_BOOTSTRAP_RESAMPLES = 20000 };

// difference[count], one for each question, count from 1 to 2^31. Draws count of them with replacement `resamples` times; the
// interval runs from the 2.5th to the 97.5th percentile of the means, interpolated linearly between neighbours (numpy's
// default, as SciPy's method "percentile"). Draws depend on (seed, resample, position) alone.
Interval paired_bootstrap(const double *difference, int64_t count, int64_t resamples, uint64_t seed);

// The quantile of sorted[count], which ascends.
double paired_bootstrap_quantile(const double *sorted, int64_t count, double probability);
