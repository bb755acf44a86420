#include "text/reward_dapo.h"

#include "text/utf8.h"

#include <string.h>

enum { TAIL_CHARACTERS = 300 };

// ---- where the answer stands

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static TextSpan tail(TextSpan text) {
    size_t at = text.size;
    for (int characters = 0; at && characters < TAIL_CHARACTERS; characters++) do
            at--;
        while (at && ((unsigned char)text.text[at] & 0xC0) == 0x80);
    return (TextSpan){text.text + at, text.size - at};
}

static bool same_letter(char c, char lower) {
    return (c | 0x20) == lower;
}

// "Answer" at `at`, in any case, blanks and a colon: where the colon is, else 0.
static size_t colon_of(TextSpan text, size_t at) {
    static const char word[] = "answer";
    for (size_t i = 0; i < 6; i++)
        if (at + i >= text.size || !same_letter(text.text[at + i], word[i])) return 0;
    for (at += 6; at < text.size && is_space(text.text[at]);) at++;
    return at < text.size && text.text[at] == ':' ? at : 0;
}

// The last line behind "Answer:". A line has at least one character; blanks before it, newlines too, do not belong to it.
static bool last_answer(TextSpan *answer, TextSpan text) {
    bool found = false;
    for (size_t at = 0; at < text.size;) {
        size_t colon = colon_of(text, at), begin = colon + 1, end;
        if (!colon) {
            at++;
            continue;
        }
        while (begin < text.size && is_space(text.text[begin])) begin++;
        if (begin == text.size) { // blanks alone are a line when one of them is no newline
            for (begin = colon + 1; begin < text.size && text.text[begin] == '\n';) begin++;
            if (begin == text.size) break;
        }
        for (end = begin; end < text.size && text.text[end] != '\n';) end++;
        *answer = (TextSpan){text.text + begin, end - begin};
        found = true;
        at = end;
    }
    return found;
}

// ---- the normalisation

static void take(StrBuf *text, StrBuf *out) {
    strbuf_close(text);
    *text = *out;
    if (!text->text) strbuf_clear(text);
}

static void replace(StrBuf *text, const char *from, const char *to) {
    StrBuf out = {0};
    size_t size = strlen(from);
    for (size_t i = 0; i < text->length;) {
        if (text->length - i >= size && !memcmp(text->text + i, from, size)) {
            strbuf_puts(&out, to);
            i += size;
        } else {
            strbuf_putc(&out, text->text[i++]);
        }
    }
    take(text, &out);
}

static const char *find(const StrBuf *text, size_t from, size_t end, const char *word) {
    return from <= end ? memmem(text->text + from, end - from, word, strlen(word)) : NULL;
}

// Within each line, what lies between the first two dollars, in dollars, for the line that has them.
static void keep_formulas(StrBuf *text) {
    StrBuf out = {0};
    for (size_t line = 0; line <= text->length;) {
        const char *newline = memchr(text->text + line, '\n', text->length - line);
        size_t end = newline ? (size_t)(newline - text->text) : text->length;
        const char *open = find(text, line, end, "$"), *close = NULL;
        if (open) close = find(text, (size_t)(open - text->text) + 1, end, "$");
        if (close)
            strbuf_append(&out, open, (size_t)(close + 1 - open));
        else
            strbuf_append(&out, text->text + line, end - line);
        if (newline) strbuf_putc(&out, '\n');
        line = end + 1;
    }
    take(text, &out);
}

// Takes the command off its argument: \text{x} becomes x. greedy: the argument ends with the line's last brace.
static void unwrap(StrBuf *text, const char *command, bool greedy) {
    StrBuf out = {0};
    for (size_t at = 0; at < text->length;) {
        const char *found = find(text, at, text->length, command);
        size_t begin = found ? (size_t)(found - text->text) : text->length, inside = begin + strlen(command);
        if (!found) {
            strbuf_append(&out, text->text + at, text->length - at);
            break;
        }
        const char *newline = memchr(text->text + inside, '\n', text->length - inside);
        size_t end = newline ? (size_t)(newline - text->text) : text->length;
        const char *brace =
            greedy ? memrchr(text->text + inside, '}', end - inside) : memchr(text->text + inside, '}', end - inside);
        size_t stop = brace ? (size_t)(brace - text->text) : begin + 1;
        strbuf_append(&out, text->text + at, begin - at);
        strbuf_append(&out, text->text + (brace ? inside : begin), stop - (brace ? inside : begin));
        at = brace ? stop + 1 : stop;
    }
    take(text, &out);
}

// frac and two characters, the first no brace, or sqrt and one: their arguments in braces.
static void brace_arguments(StrBuf *text, const char *command, int arguments) {
    StrBuf out = {0};
    size_t size = strlen(command);
    for (size_t at = 0; at < text->length;) {
        size_t end = at + size, length[2] = {0};
        bool found = text->length - at > size && !memcmp(text->text + at, command, size) && text->text[end] != '{';
        for (int i = 0; found && i < arguments; i++) {
            found = end < text->length && (i == 0 || text->text[end] != '\n');
            if (found) end += length[i] = utf8_step(text->text + end, text->length - end).size;
        }
        if (!found) {
            strbuf_putc(&out, text->text[at++]);
            continue;
        }
        strbuf_puts(&out, command);
        for (int i = 0; i < arguments; i++) {
            strbuf_putc(&out, '{');
            strbuf_append(&out, text->text + end - (i == 0 ? length[0] + length[1] : length[1]), length[i]);
            strbuf_putc(&out, '}');
        }
        at = end;
    }
    take(text, &out);
}

static bool all_digits(const StrBuf *text) {
    int digits = 0;
    for (size_t i = 0; i < text->length; i++) {
        if (text->text[i] == ',') continue;
        if (text->text[i] < '0' || text->text[i] > '9') return false;
        digits++;
    }
    return digits > 0;
}

void reward_dapo_normalize(StrBuf *out, TextSpan answer) {
    static const char *const substitutions[][2] = {
        {"an ", ""}, {"a ", ""},       {".$", "$"},           {"\\$", ""},          {"\\ ", ""},
        {" ", ""},   {"mbox", "text"}, {",\\text{and}", ","}, {"\\text{and}", ","}, {"\\text{m}", "\\text{}"}};
    static const char *const removed[] = {"square",     "ways",       "integers",  "dollars",      "mph",
                                          "inches",     "hours",      "km",        "units",        "\\ldots",
                                          "sue",        "points",     "feet",      "minutes",      "digits",
                                          "cents",      "degrees",    "cm",        "gm",           "pounds",
                                          "meters",     "meals",      "edges",     "students",     "childrentickets",
                                          "multiples",  "\\text{s}",  "\\text{.}", "\\text{\ns}",  "\\text{}^2",
                                          "\\text{}^3", "\\text{\n}", "\\text{}",  "\\mathrm{th}", "^\\circ",
                                          "^{\\circ}",  "\\;",        ",\\!",      "{,}",          "\"",
                                          "\\dots"};
    const char *equals = answer.size ? memrchr(answer.text, '=', answer.size) : NULL;
    size_t skipped = equals ? (size_t)(equals + 1 - answer.text) : 0;
    StrBuf text = {0};
    strbuf_clear(&text);
    if (answer.size > skipped) strbuf_append(&text, answer.text + skipped, answer.size - skipped);
    for (size_t i = 0; i < sizeof substitutions / sizeof *substitutions; i++)
        replace(&text, substitutions[i][0], substitutions[i][1]);
    for (size_t i = 0; i < sizeof removed / sizeof *removed; i++) replace(&text, removed[i], "");
    keep_formulas(&text);
    unwrap(&text, "\\text{", false);
    unwrap(&text, "\\textbf{", false);
    unwrap(&text, "\\overline{", false);
    unwrap(&text, "\\boxed{", true);
    brace_arguments(&text, "frac", 2);
    brace_arguments(&text, "sqrt", 1);
    replace(&text, "$", "");
    if (all_digits(&text)) replace(&text, ",", "");
    size_t begin = 0, end = text.length;
    while (begin < end && is_space(text.text[begin])) begin++;
    while (end > begin && is_space(text.text[end - 1])) end--;
    strbuf_append(out, text.text + begin, end - begin);
    strbuf_close(&text);
}

float reward_dapo(TextSpan response, TextSpan gold) {
    TextSpan answer;
    if (!response.size || !last_answer(&answer, tail(response))) return 0;
    StrBuf mine = {0}, right = {0};
    strbuf_clear(&mine), strbuf_clear(&right);
    reward_dapo_normalize(&mine, answer);
    reward_dapo_normalize(&right, gold);
    bool equal = mine.length == right.length && !memcmp(mine.text, right.text, mine.length);
    strbuf_close(&mine);
    strbuf_close(&right);
    return equal ? 1 : 0;
}
