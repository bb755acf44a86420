// Whether two expressions have the same value: exactly where they are rational, else by enclosures of any precision (Arb's
// balls), for expressions in variables at several points. There is no tolerance: unequal values are told apart however
// near they lie, down to 2^-4000 of their size.
#pragma once
#include "text/answer_exact.h"

// The value as an exact rational; false when it is none, or out of bounds, or has variables.
bool answer_value_rational(mpq_t value, const Node *node, AnswerBudget *budget);

// Whether a and b, values without ± in them, are equal. A factor that is not NULL: whether a is b times one number other
// than 0, whose sign is told: for equations and inequalities, with b not 0 everywhere.
bool answer_value_equal(const Node *a, const Node *b, AnswerBudget *budget);
bool answer_value_proportional(int *sign, const Node *a, const Node *b, AnswerBudget *budget);

// Whether a decimal (a number written with a point) gives the leading digits of a value that no decimal equals: at least
// six significant ones, cut off or rounded.
bool answer_value_approximates(const Node *decimal, const Node *value, AnswerBudget *budget);

// 1, -1, or 0 where the value is 0, not real or not known.
int answer_value_sign(const Node *node, AnswerBudget *budget);

bool answer_value_has_symbols(const Node *node);
