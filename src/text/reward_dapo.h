// The verdict of DAPO's verifier: the last line "Answer: …" of the last 300 characters, and gold, as texts after the
// normalisation of final answers by Lewkowycz et al. 2022 (Minerva), appendix D.1.
#pragma once
#include "base/strbuf.h"
#include "text/answer_span.h"

// 1 or 0; any bytes. Characters are those of UTF-8; letters are compared in ASCII.
float reward_dapo(TextSpan response, TextSpan gold);

// Appends the normalised text: what follows the last =, without articles, units and blanks, out of $…$, \text{…}, \textbf{…},
// \overline{…} and \boxed{…}, with \frac12 written \frac{1}{2} and \sqrt2 \sqrt{2}, and commas left out of digits.
void reward_dapo_normalize(StrBuf *out, TextSpan answer);
