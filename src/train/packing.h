// Sequence packing: which sequences share a bin of at most `capacity` tokens, by NeMo-RL's algorithms (reference/nemo_rl.md
// sections 6.3 and 6.4). Integers only; the same bins in the same order, with the same order inside a bin.
#pragma once
#include "base/arena.h"
#include "base/error.h"

typedef enum PackingAlgorithm {
    PACKING_CONCATENATIVE,                // as they come: a new bin when the next does not fit
    PACKING_FIRST_FIT_DECREASING,         // longest first (of equal ones the later first), into the first bin with room
    PACKING_FIRST_FIT_SHUFFLE,            // in the order given, into the first bin with room
    PACKING_MODIFIED_FIRST_FIT_DECREASING // Johnson & Garey 1985: by classes above C/2, C/3, C/6 and the rest
} PackingAlgorithm;

// Upper or lower case. Refuses an unknown name, listing the known ones.
bool packing_parse(PackingAlgorithm *algorithm, const char *key, const char *text, Error *error);
const char *packing_name(PackingAlgorithm algorithm); // "first_fit_decreasing"

typedef struct PackingOptions {
    PackingAlgorithm algorithm;
    int64_t capacity;     // tokens of a bin, at least 1
    int64_t min_bins;     // at least so many bins, 0: no matter
    int64_t bin_multiple; // their number is a multiple of this, at least 1
    const int64_t *order; // first_fit_shuffle: a permutation of the sequences
} PackingOptions;

// Bin b holds sequences[first[b]] … sequences[first[b + 1] - 1]: indices into lengths.
typedef struct PackedBins {
    int64_t count;
    int64_t *first;     // [count + 1]
    int64_t *sequences; // every sequence once
    int64_t *loads;     // [count] tokens
} PackedBins;

// Arrays are the arena's. Bins that min_bins and bin_multiple ask for beyond those that are needed are opened at the end,
// each with the last sequence of a bin that has many. Refuses a sequence longer than a bin, a negative length (0 too for
// modified first fit), options out of range, and more bins than sequences.
bool packing_bins(PackedBins *bins, const int64_t *lengths, int64_t count, const PackingOptions *options, Arena *arena,
                  Error *error);

// How well bins are filled.
typedef struct PackingStatistics {
    int64_t sequences, bins, tokens, capacity, waste; // capacity and waste: of all bins
    double average_utilization, waste_ratio;
    double bin_balance; // 1 - sample standard deviation of the bins' utilizations / their mean
    int64_t theoretical_min_bins;
    double bin_efficiency; // theoretical_min_bins / bins
} PackingStatistics;
PackingStatistics packing_statistics(const PackedBins *bins, int64_t capacity);
