// The generated task: questions such as `What is 37 + 5?` with their integer answers. All triples (left, operation, right)
// of the ranges are the questions. Which of them are held out, and their order, is a data set's business (text/dataset.h).
#pragma once
#include "base/error.h"

#include <stdint.h>

enum { ARITHMETIC_MAX_OPERATIONS = 3 };

// Of a data set whose dataset_name is arithmetic. Ranges include both ends.
typedef struct ArithmeticOptions {
    int operation_count;
    char operations[ARITHMETIC_MAX_OPERATIONS + 1]; // of '+', '-', '*', each at most once, followed by a 0 byte
    int64_t left_min, left_max, right_min, right_max;
} ArithmeticOptions;

enum { ARITHMETIC_QUESTION_SIZE = 64 }; // bytes of the longest question, its 0 byte included

typedef struct Arithmetic {
    ArithmeticOptions options;
    int64_t left_count, right_count, count; // all questions: operation_count · left_count · right_count
} Arithmetic;

// Refuses unknown or doubled operations, empty ranges, answers beyond 64 bits, and more than 2^62 questions. The message begins
// with the key in question.
bool arithmetic_open(Arithmetic *arithmetic, const ArithmeticOptions *options, Error *error);

// The question `index` (< count) and its answer; which triple a number stands for is computed, so ranges may be huge. '*' is
// written as ×, and a negative right number in parentheses: `What is 6 × (-7)?`. `5 + 37` and `37 + 5` are two questions.
void arithmetic_question(const Arithmetic *arithmetic, int64_t index, char text[ARITHMETIC_QUESTION_SIZE],
                         int64_t *answer);
