// Rewards by name: from the text of an answer and the right answer to a number.
#pragma once
#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef float RewardFunction(const char *text, size_t size, int64_t expected);

typedef struct Reward {
    const char *name; // as in the recipe
    RewardFunction *function;
    const char *help;
} Reward;

// NULL with an error that lists the names when there is none of this name. The caller puts the key before it.
const Reward *reward_find(const char *name, Error *error);

// 1 when the last number in the text equals `expected`, else 0; any bytes, any length. A number is ASCII digits with
// - a sign: '-' or U+2212 directly before it, unless directly after a letter, a digit, ')' or ']', where it is an operator
//   or a hyphen ("12-5" ends in 5, "(-5)" and "= -5" in −5);
// - thousands in commas, when well-formed ("1,234,567"); else a comma divides numbers ("12,34" ends in 34);
// - decimals: "42.0" equals 42, "42.5" no integer at all, and the full stop in "42." is none.
// Exponents, fractions and other digits than ASCII are not read. A number beyond 64 bits equals nothing.
float reward_last_integer(const char *text, size_t size, int64_t expected);
