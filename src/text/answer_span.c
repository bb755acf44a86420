#include "text/answer_span.h"

#include <string.h>
#include <strings.h>

const char *answer_rule_name(AnswerRule rule) {
    static const char *const names[] = {"none", "boxed", "hash", "answer_is", "last"};
    return names[rule];
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

static bool starts(TextSpan text, size_t at, const char *word) {
    size_t length = strlen(word);
    return at <= text.size && text.size - at >= length && !memcmp(text.text + at, word, length);
}

static TextSpan from(TextSpan text, size_t at) {
    return (TextSpan){text.text + at, text.size - at};
}

// The end of the last occurrence of a word, or 0.
static size_t behind_last(TextSpan text, const char *word) {
    size_t length = strlen(word);
    for (size_t at = text.size; at >= length; at--)
        if (!memcmp(text.text + at - length, word, length)) return at;
    return 0;
}

TextSpan answer_trim(TextSpan span) {
    while (span.size && is_blank(span.text[0])) span = from(span, 1);
    while (span.size && is_blank(span.text[span.size - 1])) span.size--;
    return span;
}

TextSpan answer_after_thoughts(TextSpan text) {
    return from(text, behind_last(text, "</think>"));
}

// ---- boxes

// The group that begins at the brace text[at], without its braces.
static bool group(TextSpan *contents, TextSpan text, size_t at) {
    size_t depth = 0;
    for (size_t i = at; i < text.size; i++) {
        if (text.text[i] == '\\') {
            i++;
        } else if (text.text[i] == '{') {
            depth++;
        } else if (text.text[i] == '}' && --depth == 0) {
            *contents = (TextSpan){text.text + at + 1, i - at - 1};
            return true;
        }
    }
    return false;
}

// A single token: a command, or one character of UTF-8.
static TextSpan token(TextSpan text, size_t at) {
    size_t end = at + 1;
    if (text.text[at] == '\\') {
        while (end < text.size && ((text.text[end] | 32) >= 'a' && (text.text[end] | 32) <= 'z')) end++;
        if (end == at + 1 && end < text.size) end++;
    } else {
        while (end < text.size && ((unsigned char)text.text[end] & 0xc0) == 0x80) end++;
    }
    return (TextSpan){text.text + at, end - at};
}

// The box whose command ends before text[at].
static bool box(TextSpan *contents, TextSpan text, size_t at) {
    while (at < text.size && is_blank(text.text[at])) at++;
    if (at == text.size) return false;
    if (text.text[at] == '{') return group(contents, text, at);
    *contents = token(text, at);
    return true;
}

bool answer_last_box(TextSpan *contents, bool *unfinished, TextSpan text) {
    static const char *const commands[] = {"\\boxed", "\\fbox"};
    bool found = false;
    *unfinished = false;
    // From the end: a group that is complete closes before the next begins, or holds it; so the search stays linear in the
    // number of boxes, each read at most once to the end of the text only while none is complete.
    size_t unclosed = 0;
    for (size_t at = text.size; !found && at-- > 0;) {
        if (text.text[at] != '\\') continue;
        for (int c = 0; c < 2 && !found; c++) {
            size_t end = at + strlen(commands[c]);
            if (!starts(text, at, commands[c])) continue;
            if (end < text.size && ((text.text[end] | 32) >= 'a' && (text.text[end] | 32) <= 'z')) continue;
            found = box(contents, text, end);
            if (!found && ++unclosed > 64) return false;
            if (!found) *unfinished = true;
        }
    }
    return found;
}

// ---- markers

bool answer_last_hash(TextSpan *rest, TextSpan text) {
    size_t at = behind_last(text, "####");
    if (!at) return false;
    *rest = from(text, at);
    const char *end = memchr(rest->text, '\n', rest->size);
    if (end) rest->size = (size_t)(end - rest->text);
    return true;
}

bool answer_last_is(TextSpan *rest, TextSpan text) {
    for (size_t at = text.size; at-- > 0;) {
        if ((text.text[at] | 32) != 'a' || text.size - at < 7 || strncasecmp(text.text + at, "answer", 6)) continue;
        size_t next = at + 6;
        if (text.text[next] == ':') {
            *rest = from(text, next + 1);
            return true;
        }
        if (text.size - next >= 3 && is_blank(text.text[next]) && !strncasecmp(text.text + next + 1, "is", 2)) {
            *rest = from(text, next + 3);
            return true;
        }
    }
    return false;
}

// The formula between `open` and `close` at the beginning of the text.
static bool formula(TextSpan *out, TextSpan text, const char *open, const char *close) {
    if (!starts(text, 0, open)) return false;
    size_t begin = strlen(open);
    for (size_t at = begin; at < text.size && text.text[at] != '\n'; at++) {
        if (text.text[at] == '\\' && close[0] != '\\') {
            at++;
        } else if (starts(text, at, close)) {
            *out = (TextSpan){text.text + begin, at - begin};
            return at > begin;
        }
    }
    return false;
}

TextSpan answer_statement(TextSpan rest) {
    while (rest.size && (is_blank(rest.text[0]) || rest.text[0] == ':' || rest.text[0] == '*')) rest = from(rest, 1);
    TextSpan out;
    if (formula(&out, rest, "$$", "$$") || formula(&out, rest, "$", "$") || formula(&out, rest, "\\(", "\\)") ||
        formula(&out, rest, "\\[", "\\]"))
        return out;
    for (size_t at = 0; at < rest.size; at++) {
        bool stop = strchr(".!?", rest.text[at]) && rest.text[at];
        if (rest.text[at] == '\n' || (stop && (at + 1 == rest.size || is_blank(rest.text[at + 1])))) {
            // "5!" at the end of a sentence may be a factorial: the sign stays.
            rest.size = at + (rest.text[at] == '!');
            break;
        }
    }
    return rest;
}
