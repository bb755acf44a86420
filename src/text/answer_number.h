// One number out of a text, exactly: the rule of GSM8K-like tasks, and the numbers of formulas.
#pragma once
#include "text/answer_span.h"

#include <gmp.h>

enum { ANSWER_MAX_DIGITS = 10000 }; // longer numbers are none

// A number as written, before it is a value. Digits may hold separators of thousands.
typedef struct WrittenNumber {
    TextSpan integer, decimals; // digits before and behind the point
    size_t repeating;           // how many of the last decimals repeat for ever (\overline)
    long exponent;              // of ten
} WrittenNumber;

// Sets value from what is written; false when it is too long (ANSWER_MAX_DIGITS, exponents included).
bool answer_number_value(mpq_t value, const WrittenNumber *written);

// Digits with well-formed thousands at text[*at], moved behind them. Separators: `,`, and for formulas `{,}`, `\,`, `,\!`.
// With commas false a plain comma divides numbers.
bool answer_number_digits(TextSpan *digits, TextSpan text, size_t *at, bool commas);

// The first number in the text: an optional sign, an optional currency sign before or after it, then a mixed number
// `2 1/2`, a fraction `3/4` or \frac{3}{4}, or digits with optional well-formed thousands and decimals, or `.75`. A `-` directly
// after a letter, digit, `.`, `)` or `}` is an operator; digits directly after a letter, digit or point are a name's. U+2212 is
// a minus. False when there is none.
bool answer_number_first(mpq_t value, TextSpan text);
bool answer_number_last(mpq_t value, TextSpan text);

// The number by which a model answers: of the last complete box, else of the last line behind ####, else behind the last
// "answer is" or "answer:", else the last of the text; the first of these places that holds one decides. Thoughts do not
// count. The rule that found it; ANSWER_NONE: there is no number.
AnswerRule answer_number_find(mpq_t value, TextSpan text);

// Whether the text's number is gold's, as exact rationals. Gold is read by the same rule.
bool answer_number_equal(TextSpan gold, TextSpan text);
