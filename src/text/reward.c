#include "text/reward.h"

#include "base/strbuf.h"

#include <stdbool.h>
#include <string.h>

// ---- the last integer

typedef struct Number {
    uint64_t magnitude;
    bool negative, integral, fits;
} Number;

static bool is_digit(const char *text, size_t size, size_t at) {
    return at < size && text[at] >= '0' && text[at] <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t digits_end(const char *text, size_t size, size_t at) {
    while (is_digit(text, size, at)) at++;
    return at;
}

// The end of digits and commas between digits from *at on. Unless they are thousands, *at becomes the last group.
static size_t groups_end(const char *text, size_t size, size_t *at) {
    size_t begin = *at, end = digits_end(text, size, begin), last = begin;
    bool thousands = end - begin <= 3 && text[begin] != '0';
    while (end < size && text[end] == ',' && is_digit(text, size, end + 1)) {
        last = end + 1;
        end = digits_end(text, size, last);
        thousands = thousands && end - last == 3;
    }
    if (!thousands) *at = last;
    return end;
}

// Whether the number whose digits begin at `at` has a minus sign before it.
static bool is_negative(const char *text, size_t at) {
    static const char minus[] = "\xe2\x88\x92"; // U+2212
    size_t width = at >= 1 && text[at - 1] == '-' ? 1 : at >= 3 && !memcmp(text + at - 3, minus, 3) ? 3 : 0;
    if (!width) return false;
    if (at == width) return true;
    char before = text[at - width - 1];
    return !is_letter(before) && !(before >= '0' && before <= '9') && before != ')' && before != ']';
}

// Reads the digits at *at, the first of them, as a number, and moves *at behind it.
static Number read_number(const char *text, size_t size, size_t *at) {
    size_t end = groups_end(text, size, at);
    Number number = {.negative = is_negative(text, *at), .integral = true, .fits = true};
    for (size_t i = *at; i < end; i++) {
        if (text[i] == ',') continue;
        if (__builtin_mul_overflow(number.magnitude, 10u, &number.magnitude) ||
            __builtin_add_overflow(number.magnitude, (uint64_t)(text[i] - '0'), &number.magnitude))
            number.fits = false;
    }
    if (end < size && text[end] == '.' && is_digit(text, size, end + 1)) {
        size_t decimals = end + 1;
        end = digits_end(text, size, decimals);
        for (size_t i = decimals; i < end; i++) number.integral = number.integral && text[i] == '0';
    }
    *at = end;
    return number;
}

float reward_last_integer(const char *text, size_t size, int64_t expected) {
    Number last = {0};
    for (size_t at = 0; at < size;) {
        if (is_digit(text, size, at))
            last = read_number(text, size, &at);
        else
            at++;
    }
    uint64_t magnitude = expected < 0 ? -(uint64_t)expected : (uint64_t)expected;
    bool sign = last.negative == (expected < 0) || magnitude == 0;
    return last.integral && last.fits && last.magnitude == magnitude && sign ? 1 : 0;
}

// ---- the table

static const Reward rewards[] = {
    {"last_integer", reward_last_integer, "1 when the last integer in the answer is the right one, else 0"},
};
enum { REWARDS = sizeof rewards / sizeof *rewards };

const Reward *reward_find(const char *name, Error *error) {
    const char *names[REWARDS];
    StrBuf list = {0};
    for (int i = 0; i < REWARDS; i++) {
        if (!strcmp(rewards[i].name, name)) {
            strbuf_close(&list);
            return &rewards[i];
        }
        names[i] = rewards[i].name;
        strbuf_format(&list, "%s\"%s\"", i ? ", " : "", names[i]);
    }
    const char *nearest = strbuf_nearest(name, names, REWARDS);
    error_set(error, "\"%s\" is no reward: expected %s%s%s%s", name, list.text, nearest ? " (did you mean \"" : "",
              nearest ? nearest : "", nearest ? "\"?)" : "");
    strbuf_close(&list);
    return NULL;
}
