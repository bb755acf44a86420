#include "text/pretokenize.h"

#include "text/unicode.h"
#include "text/utf8.h"

#include <string.h>

typedef struct Regex {
    const char *text;
    PretokenizeStep step;
} Regex;

static const Regex regexes[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", PRETOKENIZE_GPT2},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
     "\\s+(?!\\S)|\\s+",
     PRETOKENIZE_QWEN2},
    {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
     "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
     PRETOKENIZE_LLAMA3},
};

bool pretokenize_known(PretokenizeStep *step, const char *regex) {
    for (size_t i = 0; i < sizeof regexes / sizeof *regexes; i++) {
        if (strcmp(regexes[i].text, regex)) continue;
        *step = regexes[i].step;
        return true;
    }
    return false;
}

// What the regexes ask of a character. END stands for the end of the text: it is none of the others.
typedef enum Class { END, LETTER, NUMBER, NEWLINE, BLANK, OTHER } Class;

static Class class_at(const char *text, size_t size, size_t at, size_t *length) {
    *length = 0;
    if (at >= size) return END;
    Utf8Step step = utf8_step(text + at, size - at);
    *length = step.size;
    if (step.kind != UTF8_GOOD) return OTHER;
    if (step.code == '\n' || step.code == '\r') return NEWLINE;
    if (unicode_is_letter(step.code)) return LETTER;
    if (unicode_is_whitespace(step.code)) return BLANK;
    return unicode_is_number(step.code) ? NUMBER : OTHER;
}

// Where the run of that class that starts at `at` ends, after limit characters at most.
static size_t run_end(const char *text, size_t size, size_t at, Class class, size_t limit) {
    size_t length;
    while (limit-- > 0 && class_at(text, size, at, &length) == class) at += length;
    return at;
}

static size_t digits_next(const char *text, size_t size, bool individual) {
    bool first = false;
    for (size_t at = 0; at < size;) {
        Utf8Step step = utf8_step(text + at, size - at);
        bool numeric = step.kind == UTF8_GOOD && unicode_is_numeric(step.code);
        if (!at) first = numeric;
        if (numeric != first) return at;
        at += step.size;
        if (numeric && individual) return at;
    }
    return size;
}

// 's|'t|'re|'ve|'m|'ll|'d at the start of text: its length, or 0. Without case, the long s (U+017F) counts as s.
static size_t contraction(const char *text, size_t size, bool any_case) {
    if (size < 2 || text[0] != '\'') return 0;
    if (any_case && size >= 3 && !memcmp(text + 1, "\xC5\xBF", 2)) return 3;
    char fold = any_case ? 0x20 : 0;
    char first = (char)(text[1] | fold), second = (char)(size >= 3 ? text[2] | fold : 0);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    bool pair = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
    return pair ? 3 : 0;
}

// \s*[\r\n]+ (only if newlines), then \s+(?!\S), then \s+: the text starts with a blank or a newline.
static size_t whitespace(const char *text, size_t size, bool newlines) {
    size_t at = 0, last = 0, length, after_newline = 0;
    for (;;) {
        Class class = class_at(text, size, at, &length);
        if (class != BLANK && class != NEWLINE) break;
        last = at;
        at += length;
        if (class == NEWLINE) after_newline = at;
    }
    if (newlines && after_newline) return after_newline;
    // Before a visible character the last blank is left to it, unless it is the only one.
    return at == size || last == 0 ? at : last;
}

static size_t gpt2_next(const char *text, size_t size) {
    size_t length = contraction(text, size, false), first;
    if (length) return length;
    Class class = class_at(text, size, 0, &first);
    size_t start = 0;
    if (text[0] == ' ') class = class_at(text, size, start = 1, &first);
    if (class == LETTER || class == NUMBER || class == OTHER) return run_end(text, size, start, class, size);
    return whitespace(text, size, false);
}

// Qwen 2, 2.5, 3 and Llama 3: they differ in how many digits stay together.
static size_t qwen2_next(const char *text, size_t size, size_t digits) {
    size_t length = contraction(text, size, true), first, second;
    if (length) return length;
    Class class = class_at(text, size, 0, &first);
    // [^\r\n\p{L}\p{N}]?\p{L}+
    if (class == LETTER) return run_end(text, size, 0, LETTER, size);
    Class next = class_at(text, size, first, &second);
    if ((class == BLANK || class == OTHER) && next == LETTER) return run_end(text, size, first, LETTER, size);
    // \p{N}
    if (class == NUMBER) return run_end(text, size, 0, NUMBER, digits);
    //  ?[^\s\p{L}\p{N}]+[\r\n]*
    if (class == OTHER || (text[0] == ' ' && next == OTHER)) {
        size_t end = run_end(text, size, class == OTHER ? 0 : 1, OTHER, size);
        return run_end(text, size, end, NEWLINE, size);
    }
    return whitespace(text, size, true);
}

size_t pretokenize_next(PretokenizeStep step, const char *text, size_t size) {
    switch (step) {
    case PRETOKENIZE_DIGITS: return digits_next(text, size, true);
    case PRETOKENIZE_DIGIT_RUNS: return digits_next(text, size, false);
    case PRETOKENIZE_GPT2: return gpt2_next(text, size);
    case PRETOKENIZE_QWEN2: return qwen2_next(text, size, 1);
    case PRETOKENIZE_LLAMA3: return qwen2_next(text, size, 3);
    }
    CHECK(false, "step %d", (int)step);
    return size;
}
