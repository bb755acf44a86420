#include "text/reward.h"

#include "base/strbuf.h"
#include "text/answer.h"
#include "text/reward_dapo.h"
#include "text/reward_format.h"

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

// Gold as an integer of 64 bits: a sign and digits, thousands in commas where they are well-formed.
static bool read_integer(int64_t *integer, TextSpan gold) {
    gold = answer_trim(gold);
    size_t at = 0;
    bool sign = gold.size && (gold.text[0] == '-' || gold.text[0] == '+');
    if (sign) at++;
    if (!is_digit(gold.text, gold.size, at)) return false;
    size_t begin = at;
    Number number = read_number(gold.text, gold.size, &at);
    // A comma that divides numbers would have left some digits out.
    size_t first = begin;
    groups_end(gold.text, gold.size, &first);
    bool negative = sign && gold.text[0] == '-';
    if (at != gold.size || first != begin || !number.integral || !number.fits) return false;
    if (number.magnitude > (uint64_t)INT64_MAX + negative) return false;
    *integer = negative ? (int64_t)-number.magnitude : (int64_t)number.magnitude;
    return true;
}

static bool takes_integer(TextSpan gold) {
    int64_t integer;
    return read_integer(&integer, gold);
}

static bool takes_number(TextSpan gold) {
    mpq_t value;
    mpq_init(value);
    bool found = answer_number_find(value, gold) != ANSWER_NONE;
    mpq_clear(value);
    return found;
}

static float last_integer(TextSpan response, TextSpan gold) {
    int64_t expected;
    return read_integer(&expected, gold) ? reward_last_integer(response.text, response.size, expected) : 0;
}

static float number(TextSpan response, TextSpan gold) {
    return answer_number_equal(gold, response) ? 1 : 0;
}

static float math(TextSpan response, TextSpan gold) {
    return answer_equal(gold, response) ? 1 : 0;
}

static const Reward rewards[] = {
    {.name = "math",
     .component_count = 1,
     .components = {{"math", math}},
     .help = "1 when the answer's value is the right one, as mathematics has it (docs/rewards.md), else 0"},
    {.name = "dapo",
     .component_count = 1,
     .components = {{"dapo", reward_dapo}},
     .help = "1 when the last line \"Answer: …\" is the right one, as normalised text, else 0"},
    {.name = "number",
     .component_count = 1,
     .components = {{"number", number}},
     .gold = "a number",
     .takes = takes_number,
     .help = "1 when the answer's number is the right one, exactly, else 0"},
    {.name = "last_integer",
     .component_count = 1,
     .components = {{"last_integer", last_integer}},
     .gold = "an integer",
     .takes = takes_integer,
     .help = "1 when the last integer in the answer is the right one, else 0"},
    {.name = "english_multichoice",
     .component_count = 1,
     .components = {{"choice", reward_format_choice}},
     .help = "1 when the letter behind \"Answer:\" is the right one, else 0"},
    {.name = "math_multi_reward",
     .component_count = 3,
     .components = {{"correctness", reward_format_correct},
                    {"format", reward_format_tags},
                    {"integer", reward_format_digits}},
     .help = "three components: <answer>…</answer> is the right text; it stands behind <think>…</think>; it is digits"},
};
enum { REWARDS = sizeof rewards / sizeof *rewards };

static const Reward command = {.name = "command", .help = "what a command of the user's says"};

// The verifiers of NeMo-RL's math environment are rewards of their own here.
static const char *verifier(const char *name, const RewardOptions *options) {
    bool is_math = !strcmp(name, "math") || !strcmp(name, "math_default"), is_dapo = !strcmp(name, "dapo");
    if (!is_math && !is_dapo) return name;
    const char *impl = options && options->math_verify_impl ? options->math_verify_impl
                       : is_dapo                            ? "dapo_math_verify"
                                                            : "hf_math_verify";
    if (options && options->verifier_type && strcmp(options->verifier_type, "math")) return options->verifier_type;
    return !strcmp(impl, "dapo_math_verify") ? "dapo" : "math";
}

const Reward *reward_find(const char *name, const RewardOptions *options, Error *error) {
    const char *names[REWARDS], *wanted = verifier(name, options);
    StrBuf list = {0};
    if (options && options->command) return &command;
    for (int i = 0; i < REWARDS; i++) {
        if (!strcmp(rewards[i].name, wanted)) {
            strbuf_close(&list);
            return &rewards[i];
        }
        names[i] = rewards[i].name;
        strbuf_format(&list, "%s\"%s\"", i ? ", " : "", names[i]);
    }
    const char *nearest = strbuf_nearest(name, names, REWARDS);
    error_set(error, "\"%s\" is no reward: expected %s%s%s%s, or a command under env.%s.command", name, list.text,
              nearest ? " (did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?)" : "", name);
    strbuf_close(&list);
    return NULL;
}

float reward_score(float *component, const Reward *reward, TextSpan response, TextSpan gold) {
    float sum = 0;
    for (int i = 0; i < reward->component_count; i++)
        sum += component[i] = reward->components[i].function(response, gold);
    return sum;
}
