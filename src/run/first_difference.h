// Where two runs part: the first tensor whose bits differ. Both runs are traced (ops/trace.h), their tensors are matched by step,
// phase, unit, operation, number of elements and the how-manieth of these it is; then both are run once more for the values of
// the two tensors. Runs give the same bits each time, so nothing else is kept.
//
// Tensors that the two store in different dtypes cannot be compared bit by bit, and those that only one of them has (a cast that
// the other needs not) not at all: both are counted, and the search goes on.
#pragma once
#include "config/settings.h"
#include "ops/trace.h"

#include <jansson.h>

typedef struct FirstDifference {
    bool found;
    TraceRecord record;         // of the first run; the other's has the same place, dtype and size
    int64_t equal;              // tensors before it that agree to the bit; all, where none differs
    int64_t other_dtype, alone; // before it likewise: stored in different dtypes; without a counterpart
    TraceRecord cast[2];        // the first of other_dtype, in both runs
    int64_t elements;           // that differ
    double farthest;            // largest difference of two elements; infinite where one is no number
    int64_t farthest_units;     // in units in the last place (places apart among the numbers of the dtype)
    int64_t row, column;        // of the first that differs
    double values[2];
    int64_t root; // number of the root unit
} FirstDifference;

// Runs both recipes for `steps` steps, without validation and checkpoints, in their log_dir; twice where a difference is found.
// *stop: a signal ended it. Refuses runs without steps.
bool first_difference_find(FirstDifference *difference, Settings *one, Settings *other, int64_t steps, int *stop,
                           Error *error);

// In words, for two names of the runs; and as JSON, a new reference.
void first_difference_text(StrBuf *out, const FirstDifference *difference, const char *const names[2]);
json_t *first_difference_json(const FirstDifference *difference, const char *const names[2]);
