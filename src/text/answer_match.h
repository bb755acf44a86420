// Whether two answers, cut out of their texts, say the same.
#pragma once
#include "text/answer_number.h"

// Compares as mathematics what can be read as such, the rest as text without case, blanks and LaTeX's dress. *readable:
// whether `answer` could be read. Sets and lists have no order, tuples have; intervals are equal with their brackets; equations
// and inequalities as solution sets; units, degree signs and "x =" on one side only do not count; a percent sign on one side
// only may be a unit.
bool answer_match(bool *readable, TextSpan gold, TextSpan answer);
bool answer_match_text(TextSpan gold, TextSpan answer);

// The value of an answer that is one rational number (units apart).
bool answer_match_number(mpq_t value, TextSpan answer);
