// Is this answer right? The verdict of mathematical tasks: gold and answer are compared as values, sets, tuples, intervals,
// matrices, equations and inequalities, never as strings where they can be read. Any text gives one verdict in bounded time
// and memory. docs/rewards.md states the rules.
#pragma once
#include "text/answer_number.h"

// The final answer in a model's text: the last complete box (a later one that never closes voids it), else the last line
// behind ####, else what follows the last "answer is" or "answer:", else the last number. Thoughts do not count.
AnswerRule answer_find(TextSpan *answer, TextSpan text);

// Whether the text's final answer is gold's. Gold may be a bare answer, or a solution that ends in \boxed{…} or ####.
bool answer_equal(TextSpan gold, TextSpan text);
