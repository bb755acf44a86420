// Splitting text into the pieces within which BPE merges.
//
// The splits are known by name, not run through a regex engine: they must be exact on the sets of unicode.h (PCRE2 has
// other ones), and written out by hand they are linear in the text and allocate nothing. Each is the regex quoted
// below under Oniguruma's rules; alternatives are tried in order, so the comments in pretokenize.c number them.
#pragma once
#include "base/error.h"

#include <stddef.h>

typedef enum PretokenizeStep {
    PRETOKENIZE_DIGITS,     // Digits(individual_digits = true): each numeric character (Unicode 17) alone
    PRETOKENIZE_DIGIT_RUNS, // Digits(individual_digits = false): runs of numeric characters
    // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
    PRETOKENIZE_GPT2,
    // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
    PRETOKENIZE_QWEN2,
    PRETOKENIZE_LLAMA3, // the same with \p{N}{1,3}
} PretokenizeStep;

// The step that a regex of a tokenizer.json stands for, recognised by its exact text; false when it is none of them.
bool pretokenize_known(PretokenizeStep *step, const char *regex);

// Length of the first piece of text[size], 1 to size; size must not be 0. The text is taken as a whole: what follows it
// in a longer text is not seen, so a blank before its end counts as the end. Bytes that are not UTF-8 count as
// characters that are neither letters, numbers nor blanks.
size_t pretokenize_next(PretokenizeStep step, const char *text, size_t size);
