// The generated task: questions such as `What is 37 + 5?` with their integer answers. All triples (left, operation, right)
// of the ranges are the questions; the seed divides them once into a held-out part and a training part without overlap.
#pragma once
#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

enum { ARITHMETIC_MAX_OPERATIONS = 3 };

// data.train.* of a recipe whose dataset_name is arithmetic. Ranges include both ends.
typedef struct ArithmeticOptions {
    int operation_count;
    char operations[ARITHMETIC_MAX_OPERATIONS + 1]; // of '+', '-', '*', each at most once, followed by a 0 byte
    int64_t left_min, left_max, right_min, right_max;
    int64_t held_out; // questions kept for validation (data.train.split_validation_size), fewer than there are
    int64_t seed;     // data.train.seed: which ones
} ArithmeticOptions;
