#include "text/answer.h"

#include "text/answer_match.h"

#include <string.h>

enum { MAX_FORMULA = 4000 }; // bytes; longer answers are compared as text

static bool starts(TextSpan text, const char *word) {
    size_t length = strlen(word);
    return text.size >= length && !memcmp(text.text, word, length);
}

static bool ends(TextSpan text, const char *word) {
    size_t length = strlen(word);
    return text.size >= length && !memcmp(text.text + text.size - length, word, length);
}

// Drops what surrounds the whole answer: blanks, emphasis, mathematics mode, and punctuation behind it.
static TextSpan peel(TextSpan text) {
    static const char *const around[][2] = {{"$$", "$$"},   {"$", "$"},   {"\\(", "\\)"},
                                            {"\\[", "\\]"}, {"**", "**"}, {"`", "`"}};
    for (size_t before = text.size + 1; before != text.size;) {
        before = text.size;
        text = answer_trim(text);
        while (text.size && strchr(".,;:?", text.text[text.size - 1]) && !ends(text, "\\,") && !ends(text, "\\;") &&
               !ends(text, "\\:"))
            text.size--;
        for (size_t i = 0; i < sizeof around / sizeof *around; i++) {
            size_t open = strlen(around[i][0]), close = strlen(around[i][1]);
            if (text.size < open + close || !starts(text, around[i][0]) || !ends(text, around[i][1])) continue;
            text = (TextSpan){text.text + open, text.size - open - close};
        }
        if (starts(text, "**")) text = (TextSpan){text.text + 2, text.size - 2};
        if (ends(text, "**")) text.size -= 2;
    }
    return text;
}

AnswerRule answer_find(TextSpan *answer, TextSpan text) {
    TextSpan rest;
    bool unfinished;
    *answer = (TextSpan){text.text, 0};
    text = answer_after_thoughts(text);
    bool boxed = answer_last_box(&rest, &unfinished, text);
    if (unfinished) return ANSWER_NONE;
    if (boxed) {
        *answer = peel(rest);
        return ANSWER_BOXED;
    }
    if (answer_last_hash(&rest, text) && peel(rest).size) {
        *answer = peel(rest);
        return ANSWER_HASH;
    }
    if (answer_last_is(&rest, text)) {
        *answer = peel(answer_statement(rest));
        return ANSWER_IS;
    }
    *answer = text;
    return ANSWER_LAST;
}

// The number of an answer that cannot be read as a formula, or that is all the text, against gold, when that is one number.
static bool number_equal(TextSpan gold, TextSpan answer, bool last) {
    mpq_t wanted, found;
    mpq_inits(wanted, found, NULL);
    bool equal = answer_match_number(wanted, gold) &&
                 (last ? answer_number_last(found, answer) : answer_number_first(found, answer)) &&
                 mpq_equal(wanted, found);
    mpq_clears(wanted, found, NULL);
    return equal;
}

bool answer_equal(TextSpan gold, TextSpan text) {
    TextSpan wanted, found;
    bool unfinished;
    if (!answer_last_box(&wanted, &unfinished, gold) && !answer_last_hash(&wanted, gold)) wanted = gold;
    wanted = peel(wanted);
    AnswerRule rule = answer_find(&found, text);
    if (rule == ANSWER_NONE || !found.size || !wanted.size) return false;
    if (rule == ANSWER_LAST) return number_equal(wanted, found, true);
    if (wanted.size > MAX_FORMULA || found.size > MAX_FORMULA) return answer_match_text(wanted, found);
    bool readable;
    if (answer_match(&readable, wanted, found)) return true;
    // "The answer is 42!" rarely means a factorial.
    if (rule == ANSWER_IS && ends(found, "!")) {
        found.size--;
        if (answer_match(&readable, wanted, peel(found))) return true;
    }
    return rule != ANSWER_BOXED && !readable && number_equal(wanted, found, false);
}
