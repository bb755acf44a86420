// The generated task: questions such as `What is 37 + 5?` with their integer answers. All triples (left, operation, right)
// of the ranges are the questions; the seed divides them once into a held-out part and a training part without overlap.
#pragma once
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

enum { ARITHMETIC_QUESTION_SIZE = 64 }; // bytes of the longest question, its 0 byte included

// Questions are numbered within their part: which triple a number stands for is computed, so ranges may be huge.
typedef enum ArithmeticPart { ARITHMETIC_TRAIN, ARITHMETIC_HELD_OUT } ArithmeticPart;

typedef struct Arithmetic {
    ArithmeticOptions options;
    int64_t left_count, right_count, count; // all questions: operation_count · left_count · right_count
} Arithmetic;

// Refuses unknown or doubled operations, empty ranges, answers beyond 64 bits, more than 2^62 questions, and held_out that
// leaves no question to train on. The message names data.train.<key>.
bool arithmetic_open(Arithmetic *arithmetic, const ArithmeticOptions *options, Error *error);

int64_t arithmetic_count(const Arithmetic *arithmetic, ArithmeticPart part);

// The question `index` (< count of the part) and its answer. '*' is written as ×, and a negative right number in
// parentheses: `What is 6 × (-7)?`. `5 + 37` and `37 + 5` are two questions.
void arithmetic_question(const Arithmetic *arithmetic, ArithmeticPart part, int64_t index,
                         char text[ARITHMETIC_QUESTION_SIZE], int64_t *answer);

// Training index at `position` (< training count) of `epoch`: each epoch is a permutation of its own. No state: a resumed
// run needs the two numbers only.
int64_t arithmetic_train_index(const Arithmetic *arithmetic, int64_t epoch, int64_t position);
