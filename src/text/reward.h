// Rewards by the name that a data set's env_name gives: from the text of an answer and the right answer to one number or to several,
// its components, which are added. A reward of the user's own is a command (text/reward_command.h).
#pragma once
#include "base/error.h"
#include "text/answer_span.h"

#include <stdint.h>

enum { REWARD_MAX_COMPONENTS = 16 };

typedef float RewardFunction(TextSpan response, TextSpan gold);

typedef struct RewardComponent {
    const char *name;
    RewardFunction *function;
} RewardComponent;

typedef struct Reward {
    const char *name;
    int component_count;                               // 0: a command of the user's
    RewardComponent components[REWARD_MAX_COMPONENTS]; // by name ascending; a single one needs no name
    const char *gold; // what it takes for a right answer: "an integer", "a number"; NULL: any text
    bool (*takes)(TextSpan gold);
    const char *help;
} Reward;

// env.<name>: what a recipe says of a reward.
typedef struct RewardOptions {
    const char *name;
    const char *math_verify_impl; // "hf_math_verify", "dapo_math_verify"; NULL: not said
    const char *verifier_type;    // "math", "english_multichoice"; NULL: not said
    const char *const *command;   // closed by NULL; NULL: none
    double timeout_seconds;       // of a command, for one batch
} RewardOptions;

// The reward of this name; options: env.<name>, or NULL when the recipe has none. NULL with an error that lists the names when
// there is none. The caller puts the key before it.
const Reward *reward_find(const char *name, const RewardOptions *options, Error *error);

// Fills component[component_count]; returns their sum.
float reward_score(float *component, const Reward *reward, TextSpan response, TextSpan gold);

// 1 when the last number in the text equals `expected`, else 0; any bytes, any length. A number is ASCII digits with
// - a sign: '-' or U+2212 directly before it, unless directly after a letter, a digit, ')' or ']', where it is an operator
//   or a hyphen ("12-5" ends in 5, "(-5)" and "= -5" in −5);
// - thousands in commas, when well-formed ("1,234,567"); else a comma divides numbers ("12,34" ends in 34);
// - decimals: "42.0" equals 42, "42.5" no integer at all, and the full stop in "42." is none.
// Exponents, fractions and other digits than ASCII are not read. A number beyond 64 bits equals nothing.
float reward_last_integer(const char *text, size_t size, int64_t expected);
