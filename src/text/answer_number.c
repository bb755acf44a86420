#include "text/answer_number.h"

#include "base/strbuf.h"

#include <string.h>

static bool is_digit(TextSpan text, size_t at) {
    return at < text.size && text.text[at] >= '0' && text.text[at] <= '9';
}

static bool is_letter(char c) {
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || (unsigned char)c >= 0x80;
}

// The length of one of the words that stands at text[at], or 0.
static size_t one_of(TextSpan text, size_t at, const char *const *words) {
    for (; *words; words++) {
        size_t length = strlen(*words);
        if (at <= text.size && text.size - at >= length && !memcmp(text.text + at, *words, length)) return length;
    }
    return 0;
}

// ---- digits

bool answer_number_digits(TextSpan *digits, TextSpan text, size_t *at, bool commas) {
    static const char *const formula_separators[] = {"{,}", ",\\!", "\\,", "\\!", "\xe2\x80\xaf", "\xe2\x80\x89", NULL};
    size_t begin = *at, end = begin;
    while (is_digit(text, end)) end++;
    if (end == begin) return false;
    bool groups = end - begin <= 3 && text.text[begin] != '0';
    while (groups) {
        size_t width = one_of(text, end, formula_separators);
        if (!width && commas && end < text.size && text.text[end] == ',') width = 1;
        size_t group = end + width;
        if (!width || !is_digit(text, group) || !is_digit(text, group + 1) || !is_digit(text, group + 2) ||
            is_digit(text, group + 3))
            break;
        end = group + 3;
    }
    *digits = (TextSpan){text.text + begin, end - begin};
    *at = end;
    return true;
}

static void append_digits(StrBuf *out, TextSpan digits) {
    for (size_t i = 0; i < digits.size; i++)
        if (is_digit(digits, i)) strbuf_putc(out, digits.text[i]);
}

static void set_integer(mpz_t out, const StrBuf *digits) {
    if (mpz_set_str(out, digits->length ? digits->text : "0", 10)) mpz_set_ui(out, 0);
}

bool answer_number_value(mpq_t value, const WrittenNumber *written) {
    if (written->integer.size + written->decimals.size > ANSWER_MAX_DIGITS || written->exponent > ANSWER_MAX_DIGITS ||
        written->exponent < -ANSWER_MAX_DIGITS)
        return false;
    // With r repeating digits: (all digits − those before the repetition) / (10^decimals − 10^(decimals − r)).
    StrBuf digits = {0};
    append_digits(&digits, written->integer);
    append_digits(&digits, written->decimals);
    mpz_t power;
    mpz_init(power);
    set_integer(mpq_numref(value), &digits);
    mpz_ui_pow_ui(mpq_denref(value), 10, written->decimals.size);
    if (written->repeating) {
        digits.length -= written->repeating;
        digits.text[digits.length] = 0;
        set_integer(power, &digits);
        mpz_sub(mpq_numref(value), mpq_numref(value), power);
        mpz_ui_pow_ui(power, 10, written->decimals.size - written->repeating);
        mpz_sub(mpq_denref(value), mpq_denref(value), power);
    }
    mpz_ui_pow_ui(power, 10, (unsigned long)(written->exponent < 0 ? -written->exponent : written->exponent));
    mpz_ptr scaled = written->exponent < 0 ? mpq_denref(value) : mpq_numref(value);
    mpz_mul(scaled, scaled, power);
    mpq_canonicalize(value);
    mpz_clear(power);
    strbuf_close(&digits);
    return true;
}

// ---- the scanner

// Digits with decimals, or a point with decimals.
static bool scan_decimal(mpq_t value, TextSpan text, size_t *at) {
    WrittenNumber written = {0};
    size_t end = *at;
    bool whole = answer_number_digits(&written.integer, text, &end, true);
    if (end < text.size && text.text[end] == '.' && is_digit(text, end + 1)) {
        size_t begin = ++end;
        while (is_digit(text, end)) end++;
        written.decimals = (TextSpan){text.text + begin, end - begin};
    } else if (!whole) {
        return false;
    }
    *at = end;
    return answer_number_value(value, &written);
}

static void skip_blanks(TextSpan text, size_t *at) {
    while (*at < text.size && text.text[*at] == ' ') ++*at;
}

// value = value / denominator, where the denominator stands at text[*at]. False, moving nothing, when it is none or 0.
static bool scan_denominator(mpq_t value, TextSpan text, size_t *at) {
    mpq_t denominator;
    mpq_init(denominator);
    size_t end = *at;
    bool good = scan_decimal(denominator, text, &end) && mpq_sgn(denominator);
    if (good) {
        mpq_div(value, value, denominator);
        *at = end;
    }
    mpq_clear(denominator);
    return good;
}

// \frac{3}{4}, \dfrac{3}{4}, \tfrac{3}{4} with numbers in braces or single digits (\frac34).
static bool scan_frac(mpq_t value, TextSpan text, size_t *at) {
    static const char *const commands[] = {"\\frac", "\\dfrac", "\\tfrac", NULL};
    size_t end = *at, width = one_of(text, end, commands);
    mpq_t part[2];
    mpq_inits(part[0], part[1], NULL);
    bool good = width != 0;
    end += width;
    for (int p = 0; p < 2 && good; p++) {
        skip_blanks(text, &end);
        if (end < text.size && text.text[end] == '{') {
            end++;
            skip_blanks(text, &end);
            bool negative = end < text.size && text.text[end] == '-';
            end += negative;
            good = scan_decimal(part[p], text, &end);
            if (negative) mpq_neg(part[p], part[p]);
            skip_blanks(text, &end);
            good = good && end < text.size && text.text[end] == '}';
            end++;
        } else {
            TextSpan digit = {text.text, end + 1 < text.size ? end + 1 : text.size};
            good = scan_decimal(part[p], digit, &end);
        }
    }
    good = good && mpq_sgn(part[1]);
    if (good) {
        mpq_div(value, part[0], part[1]);
        *at = end;
    }
    mpq_clears(part[0], part[1], NULL);
    return good;
}

// Adds a fraction a/b with a < b that stands behind a whole number and one blank: a mixed number.
static void scan_mixed(mpq_t value, TextSpan text, size_t *at) {
    mpq_t fraction, one;
    mpq_inits(fraction, one, NULL);
    mpq_set_ui(one, 1, 1);
    size_t end = *at;
    bool good;
    if (end < text.size && text.text[end] == '\\') {
        good = scan_frac(fraction, text, &end);
    } else {
        good = end < text.size && text.text[end] == ' ' && is_digit(text, end + 1);
        end++;
        good = good && scan_decimal(fraction, text, &end) && end < text.size && text.text[end] == '/';
        end++;
        good = good && scan_denominator(fraction, text, &end);
    }
    if (good && mpq_sgn(fraction) >= 0 && mpq_cmp(fraction, one) < 0) {
        mpq_add(value, value, fraction);
        *at = end;
    }
    mpq_clears(fraction, one, NULL);
}

// A number without its sign at text[*at].
static bool scan_number(mpq_t value, TextSpan text, size_t *at) {
    if (scan_frac(value, text, at)) return true;
    if (!scan_decimal(value, text, at)) return false;
    size_t end = *at + 1;
    if (*at < text.size && text.text[*at] == '/' && scan_denominator(value, text, &end))
        *at = end;
    else if (!mpz_cmp_ui(mpq_denref(value), 1))
        scan_mixed(value, text, at);
    return true;
}

static const char *const currencies[] = {"\\$", "$", "\xe2\x82\xac", "\xc2\xa3", "\xc2\xa5", NULL};

// Whether a minus sign that means the number stands before text[at], a currency sign perhaps between.
static bool is_negative(TextSpan text, size_t at) {
    static const char minus[] = "\xe2\x88\x92";
    for (const char *const *sign = currencies; *sign; sign++) {
        size_t width = strlen(*sign);
        if (at >= width && !memcmp(text.text + at - width, *sign, width)) {
            at -= width;
            break;
        }
    }
    size_t width = at >= 1 && text.text[at - 1] == '-' ? 1 : at >= 3 && !memcmp(text.text + at - 3, minus, 3) ? 3 : 0;
    if (!width) return false;
    if (at == width) return true;
    char before = text.text[at - width - 1];
    return !is_letter(before) && !(before >= '0' && before <= '9') && !strchr(".)}", before);
}

// Whether the characters at text[at] can begin a number: digits in a name ("B2", "3.4.5") do not.
static bool may_begin(TextSpan text, size_t at) {
    bool digits = is_digit(text, at) || (text.text[at] == '.' && is_digit(text, at + 1));
    if (!digits) return text.text[at] == '\\';
    if (!at) return true;
    unsigned char before = (unsigned char)text.text[at - 1];
    if (before >= 0x80) { // a currency sign or a minus is no letter; nor are blanks, quotes, signs of any kind
        static const char *const letters[] = {"\xc2\xb5", NULL};
        size_t begin = at - 1;
        while (begin && ((unsigned char)text.text[begin] & 0xc0) == 0x80) begin--;
        unsigned char lead = (unsigned char)text.text[begin];
        return !(lead >= 0xc3 && lead < 0xe2) && !one_of(text, begin, letters);
    }
    return !is_letter((char)before) && !(before >= '0' && before <= '9') && before != '.';
}

// The number that begins at or behind text[*at]; *at moves behind it.
static bool next_number(mpq_t value, TextSpan text, size_t *at) {
    for (; *at < text.size; ++*at) {
        if (!may_begin(text, *at)) continue;
        size_t begin = *at;
        if (!scan_number(value, text, at)) {
            while (is_digit(text, *at + 1)) ++*at; // too long to be one
            continue;
        }
        if (is_negative(text, begin)) mpq_neg(value, value);
        return true;
    }
    return false;
}

bool answer_number_first(mpq_t value, TextSpan text) {
    size_t at = 0;
    return next_number(value, text, &at);
}

bool answer_number_last(mpq_t value, TextSpan text) {
    mpq_t number;
    mpq_init(number);
    bool found = false;
    for (size_t at = 0; next_number(number, text, &at); found = true) mpq_set(value, number);
    mpq_clear(number);
    return found;
}

AnswerRule answer_number_find(mpq_t value, TextSpan text) {
    TextSpan place;
    bool unfinished;
    text = answer_after_thoughts(text);
    if (answer_last_box(&place, &unfinished, text) && answer_number_first(value, place)) return ANSWER_BOXED;
    if (answer_last_hash(&place, text) && answer_number_first(value, place)) return ANSWER_HASH;
    if (answer_last_is(&place, text) && answer_number_first(value, place)) return ANSWER_IS;
    return answer_number_last(value, text) ? ANSWER_LAST : ANSWER_NONE;
}

bool answer_number_equal(TextSpan gold, TextSpan text) {
    mpq_t wanted, found;
    mpq_inits(wanted, found, NULL);
    bool equal = answer_number_find(wanted, gold) && answer_number_find(found, text) && mpq_equal(wanted, found);
    mpq_clears(wanted, found, NULL);
    return equal;
}
