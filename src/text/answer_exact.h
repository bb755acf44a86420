// Exact values of expressions: rational arithmetic with bounds, at a point where expressions have variables. What has no rational
// value is left to answer_value.h.
#pragma once
#include "text/answer_tree.h"

enum {
    ANSWER_EXACT_MAX_SYMBOLS = 16,
    ANSWER_EXACT_MAX_EXPONENT_BITS = 24 // magnitude of exponents and arguments whose functions are still computed
};

// What a comparison may still spend: every evaluation of a node costs one and more with its precision. When it is used up
// nothing more is equal.
typedef struct AnswerBudget {
    int64_t left;
} AnswerBudget;

bool answer_exact_spend(AnswerBudget *budget, int64_t cost); // false: it is used up

// The variables of expressions, by name.
typedef struct AnswerSymbols {
    const char *name[ANSWER_EXACT_MAX_SYMBOLS];
    int count;
    bool too_many;
} AnswerSymbols;

void answer_exact_collect(AnswerSymbols *symbols, const Node *node); // adds those of an expression

// One point at which expressions are evaluated: rational values of the variables, none of them special.
typedef struct AnswerPoint {
    const AnswerSymbols *symbols;
    int index;
} AnswerPoint;

void answer_exact_coordinate(mpq_t out, const AnswerPoint *point, const char *name);

typedef enum AnswerExactness {
    ANSWER_EXACT,
    ANSWER_INEXACT,  // not rational, or not seen to be: enclosures decide
    ANSWER_UNDEFINED // no value, or beyond the bounds
} AnswerExactness;

// point NULL: an expression with variables is ANSWER_INEXACT.
AnswerExactness answer_exact(mpq_t out, const Node *node, const AnswerPoint *point, AnswerBudget *budget);
