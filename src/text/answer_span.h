// Where in a model's text its final answer stands.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// A piece of a text, not owned.
typedef struct TextSpan {
    const char *text;
    size_t size;
} TextSpan;

typedef enum AnswerRule {
    ANSWER_NONE,
    ANSWER_BOXED, // \boxed{…} or \fbox{…}
    ANSWER_HASH,  // the rest of the line behind ####
    ANSWER_IS,    // what follows "answer is" or "answer:"
    ANSWER_LAST,  // the last number
} AnswerRule;

const char *answer_rule_name(AnswerRule rule); // "boxed", "hash", "answer_is", "last", "none"

// What stands behind the last </think>: thoughts are no answer.
TextSpan answer_after_thoughts(TextSpan text);

// The contents of the last box that is complete: braces matched (\{ and \} are none), or one token (`\boxed 5`).
// *unfinished tells whether a later one never closes.
bool answer_last_box(TextSpan *contents, bool *unfinished, TextSpan text);

// Behind the last "####", to the end of its line.
bool answer_last_hash(TextSpan *rest, TextSpan text);

// Behind the last "answer is" or "answer:" in any case: all of the text that follows.
bool answer_last_is(TextSpan *rest, TextSpan text);

// The first statement of such a rest: the formula that it begins with ($…$, \(…\)), or up to the end of the sentence or line.
TextSpan answer_statement(TextSpan rest);

// Without the blanks around it.
TextSpan answer_trim(TextSpan span);
