#include "text/arithmetic.h"

#include <stdio.h>
#include <string.h>

enum { MOST_QUESTIONS_LOG2 = 62 };

// false: the result does not fit.
static bool calculate(int64_t *result, char operation, int64_t left, int64_t right) {
    switch (operation) {
    case '+': return !__builtin_add_overflow(left, right, result);
    case '-': return !__builtin_sub_overflow(left, right, result);
    default: return !__builtin_mul_overflow(left, right, result);
    }
}

static bool check_operations(const ArithmeticOptions *options, Error *error) {
    const char *operations = options->operations;
    if (options->operation_count < 1 || options->operation_count > ARITHMETIC_MAX_OPERATIONS)
        return error_set(error, "operations: %d of them: expected one to three of \"+\", \"-\", \"*\"",
                         options->operation_count);
    for (int i = 0; i < options->operation_count; i++) {
        if (!operations[i] || !strchr("+-*", operations[i]))
            return error_set(error, "operations: \"%.1s\": expected \"+\", \"-\" or \"*\"", operations + i);
        if (memchr(operations, operations[i], (size_t)i))
            return error_set(error, "operations: \"%c\" is there twice", operations[i]);
    }
    return true;
}

// Numbers from least to most, in *count.
static bool check_range(int64_t *count, const char *side, int64_t least, int64_t most, Error *error) {
    if (least > most)
        return error_set(error, "%s: [%lld, %lld]: expected the least number first", side, (long long)least,
                         (long long)most);
    if (__builtin_sub_overflow(most, least, count) || __builtin_add_overflow(*count, 1, count))
        return error_set(error, "%s: [%lld, %lld]: the range is too long", side, (long long)least, (long long)most);
    return true;
}

// All three operations have their extremes at the corners of the ranges.
static bool check_answers(const ArithmeticOptions *options, Error *error) {
    for (int i = 0; i < options->operation_count; i++)
        for (int corner = 0; corner < 4; corner++) {
            int64_t left = corner & 1 ? options->left_max : options->left_min, answer;
            int64_t right = corner & 2 ? options->right_max : options->right_min;
            if (!calculate(&answer, options->operations[i], left, right))
                return error_set(error, "left: the answer of %lld %c %lld needs more than 64 bits", (long long)left,
                                 options->operations[i], (long long)right);
        }
    return true;
}

bool arithmetic_open(Arithmetic *arithmetic, const ArithmeticOptions *options, Error *error) {
    *arithmetic = (Arithmetic){.options = *options};
    int64_t *left = &arithmetic->left_count, *right = &arithmetic->right_count, *count = &arithmetic->count;
    if (!check_operations(options, error) || !check_range(left, "left", options->left_min, options->left_max, error) ||
        !check_range(right, "right", options->right_min, options->right_max, error) || !check_answers(options, error))
        return false;
    if (__builtin_mul_overflow(*left, *right, count) ||
        __builtin_mul_overflow(*count, (int64_t)options->operation_count, count) ||
        *count > INT64_C(1) << MOST_QUESTIONS_LOG2)
        return error_set(error, "left: %lld × %lld × %d questions: expected at most 2^%d", (long long)*left,
                         (long long)*right, options->operation_count, MOST_QUESTIONS_LOG2);
    return true;
}

void arithmetic_question(const Arithmetic *arithmetic, int64_t index, char text[ARITHMETIC_QUESTION_SIZE],
                         int64_t *answer) {
    const ArithmeticOptions *options = &arithmetic->options;
    CHECK(index >= 0 && index < arithmetic->count, "question %lld of %lld", (long long)index,
          (long long)arithmetic->count);
    int64_t right = options->right_min + index % arithmetic->right_count;
    int64_t left = options->left_min + index / arithmetic->right_count % arithmetic->left_count;
    char operation = options->operations[index / arithmetic->right_count / arithmetic->left_count];
    CHECK(calculate(answer, operation, left, right), "%lld %c %lld", (long long)left, operation, (long long)right);
    char sign[3] = {operation, 0};
    int length =
        snprintf(text, ARITHMETIC_QUESTION_SIZE, right < 0 ? "What is %lld %s (%lld)?" : "What is %lld %s %lld?",
                 (long long)left, operation == '*' ? "×" : sign, (long long)right);
    CHECK(length > 0 && length < ARITHMETIC_QUESTION_SIZE, "%d bytes", length);
}
