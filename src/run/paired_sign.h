// McNemar's test in its exact form: of the questions that the two arms answer differently, are more lost than gained?
#pragma once
#include <stdint.h>

// The two-sided p-value: under the hypothesis that a question that only one arm answers is as likely to be the one's as the
// other's, min(1, 2 · P(X ≤ min(gained, lost))) with X ~ Binomial(gained + lost, 1/2). Summed in whole numbers, so exact for
// any count. 1 when there is no such question.
double paired_sign_probability(int64_t gained, int64_t lost);
