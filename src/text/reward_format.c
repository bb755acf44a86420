#include "text/reward_format.h"

#include "base/strbuf.h"

#include <string.h>

static bool equal(TextSpan a, TextSpan b) {
    return a.size == b.size && (!a.size || !memcmp(a.text, b.text, a.size));
}

static const char *find(TextSpan text, const char *word) {
    return text.size ? memmem(text.text, text.size, word, strlen(word)) : NULL;
}

static TextSpan behind(TextSpan text, const char *place) {
    return (TextSpan){place, (size_t)(text.text + text.size - place)};
}

static int count(TextSpan text, const char *word) {
    int found = 0;
    for (const char *at; (at = find(text, word)); found++) text = behind(text, at + strlen(word));
    return found;
}

TextSpan reward_format_tagged(TextSpan response) {
    for (const char *at; (at = find(response, "<answer>"));) response = behind(response, at + strlen("<answer>"));
    const char *end = find(response, "</answer>");
    if (end) response.size = (size_t)(end - response.text);
    return answer_trim(response);
}

float reward_format_correct(TextSpan response, TextSpan gold) {
    return equal(reward_format_tagged(response), gold) ? 1 : 0;
}

float reward_format_digits(TextSpan response, TextSpan gold) {
    (void)gold;
    TextSpan answer = reward_format_tagged(response);
    for (size_t i = 0; i < answer.size; i++)
        if (answer.text[i] < '0' || answer.text[i] > '9') return 0;
    return answer.size ? 1 : 0;
}

float reward_format_tags(TextSpan response, TextSpan gold) {
    (void)gold;
    static const char think[] = "<think>", between[] = "</think>\n<answer>", end[] = "</answer>";
    if (response.size && response.text[response.size - 1] == '\n') response.size--;
    if (response.size < strlen(think) || memcmp(response.text, think, strlen(think))) return 0;
    if (count(response, "<answer>") != 1 || count(response, "</answer>") != 1) return 0;
    const char *answer = find(response, between), *close = find(response, end);
    return answer && close > answer && close + strlen(end) == response.text + response.size ? 1 : 0;
}

// ---- choices

static void without_marks(StrBuf *out, TextSpan text) {
    static const char *const marks[] = {"**",  "$\\boxed{", "}$",  "\\$",       "$\\text{", "$",      "\\mathrm{",
                                        "\\{", "\\text",    "\\(", "\\mathbf{", "{",        "\\boxed"};
    strbuf_clear(out);
    strbuf_append(out, text.text, text.size);
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        size_t kept = 0, size = strlen(marks[i]);
        for (size_t at = 0; at < out->length;) {
            if (out->length - at >= size && !memcmp(out->text + at, marks[i], size))
                at += size;
            else
                out->text[kept++] = out->text[at++];
        }
        out->length = kept;
    }
}

// The letter of the first "Answer", blanks, ":", blanks or tabs and a letter; 0: none.
static char chosen(const StrBuf *text) {
    for (size_t at = 0; at + 6 <= text->length; at++) {
        if (strncasecmp(text->text + at, "answer", 6)) continue;
        size_t next = at + 6;
        while (next < text->length && strchr(" \t\n\r\f\v", text->text[next]) && text->text[next]) next++;
        if (next == text->length || text->text[next] != ':') continue;
        for (next++; next < text->length && (text->text[next] == ' ' || text->text[next] == '\t');) next++;
        char letter = next < text->length ? text->text[next] : 0;
        if ((letter | 0x20) >= 'a' && (letter | 0x20) <= 'z') return letter;
    }
    return 0;
}

float reward_format_choice(TextSpan response, TextSpan gold) {
    StrBuf text = {0}, right = {0};
    without_marks(&text, response);
    without_marks(&right, gold);
    char letter = chosen(&text);
    bool good = letter && right.length == 1 && right.text[0] == letter;
    strbuf_close(&text);
    strbuf_close(&right);
    return good ? 1 : 0;
}
