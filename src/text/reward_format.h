// Rewards of NeMo-RL that look at the form of an answer: tags, whole numbers, letters of choices. All give 1 or 0 for any bytes.
#pragma once
#include "text/answer_span.h"

// What stands between the last <answer> and the first </answer> behind it, without blanks around it; without tags, the whole text.
TextSpan reward_format_tagged(TextSpan response);

float reward_format_correct(TextSpan response, TextSpan gold); // that is gold, as text
float reward_format_digits(TextSpan response, TextSpan gold);  // that is nothing but digits (ASCII)
// The text begins <think>…</think>, a newline, <answer>…</answer> and ends there, perhaps with a newline; one answer only.
float reward_format_tags(TextSpan response, TextSpan gold);

// The capital letter behind the first "Answer:" (in any case) is gold; bold, dollars, boxes, \text, \( and braces around either do not count.
float reward_format_choice(TextSpan response, TextSpan gold);
