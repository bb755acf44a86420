#include "text/answer_value.h"

#include <flint/fmpq.h>
#include <string.h>

#include <acb.h>

enum {
    POINTS = 6,
    HIGHEST_PRECISION = 4096,
};

bool answer_value_has_symbols(const Node *node) {
    AnswerSymbols symbols = {0};
    answer_exact_collect(&symbols, node);
    return symbols.count > 0;
}

bool answer_value_rational(mpq_t value, const Node *node, AnswerBudget *budget) {
    return answer_exact(value, node, NULL, budget) == ANSWER_EXACT;
}

// ---- enclosures

// Whether the argument is small enough that functions of it can be computed at all: 2^(2^24) is.
static bool moderate(const acb_t x) {
    mag_t size;
    mag_init(size);
    acb_get_mag(size, x);
    bool small = mag_cmp_2exp_si(size, ANSWER_EXACT_MAX_EXPONENT_BITS) < 0;
    mag_clear(size);
    return small;
}

static void set_rational(acb_t out, const mpq_t value, slong precision) {
    fmpq_t q;
    fmpq_init(q);
    fmpq_set_mpq(q, value);
    acb_set_fmpq(out, q, precision);
    fmpq_clear(q);
}

static bool enclose(acb_t out, const Node *node, const AnswerPoint *point, slong precision, AnswerBudget *budget);

// An argument in degrees is one in radians.
static bool enclose_angle(acb_t out, const Node *node, const AnswerPoint *point, slong precision,
                          AnswerBudget *budget) {
    if (!enclose(out, node, point, precision, budget) || !moderate(out)) return false;
    if (node->kind != NODE_DEGREES) return true;
    acb_t turn;
    acb_init(turn);
    acb_const_pi(turn, precision);
    acb_mul(out, out, turn, precision);
    acb_div_si(out, out, 180, precision);
    acb_clear(turn);
    return true;
}

static bool enclose_log(acb_t out, const Node *node, const AnswerPoint *point, slong precision, AnswerBudget *budget) {
    acb_t base;
    acb_init(base);
    acb_set_si(base, 10);
    bool good = enclose(out, node->child[0], point, precision, budget) &&
                (node->count < 2 || enclose(base, node->child[1], point, precision, budget)) &&
                !acb_contains_zero(out) && !acb_contains_zero(base);
    if (good) {
        acb_log(out, out, precision);
        acb_log(base, base, precision);
        good = !acb_contains_zero(base);
        if (good) acb_div(out, out, base, precision);
    }
    acb_clear(base);
    return good;
}

// Floor or ceiling, when the enclosure leaves no doubt which.
static bool enclose_rounded(acb_t out, bool up, slong precision) {
    arb_t below;
    arb_init(below);
    fmpz_t integer;
    fmpz_init(integer);
    (up ? arb_ceil : arb_floor)(below, acb_realref(out), precision);
    bool good = acb_is_real(out) && arb_get_unique_fmpz(integer, below);
    if (good) acb_set_fmpz(out, integer);
    fmpz_clear(integer);
    arb_clear(below);
    return good;
}

static bool enclose_function(acb_t out, const Node *node, const AnswerPoint *point, slong precision,
                             AnswerBudget *budget) {
    if (node->function > FUNCTION_CEIL) return false;
    if (node->function == FUNCTION_LOG) return enclose_log(out, node, point, precision, budget);
    if (!enclose_angle(out, node->child[0], point, precision, budget)) return false;
    switch (node->function) {
    case FUNCTION_SIN: acb_sin(out, out, precision); break;
    case FUNCTION_COS: acb_cos(out, out, precision); break;
    case FUNCTION_TAN: acb_tan(out, out, precision); break;
    case FUNCTION_COT: acb_cot(out, out, precision); break;
    case FUNCTION_SEC: acb_sec(out, out, precision); break;
    case FUNCTION_CSC: acb_csc(out, out, precision); break;
    case FUNCTION_ASIN: acb_asin(out, out, precision); break;
    case FUNCTION_ACOS: acb_acos(out, out, precision); break;
    case FUNCTION_ATAN: acb_atan(out, out, precision); break;
    case FUNCTION_SINH: acb_sinh(out, out, precision); break;
    case FUNCTION_COSH: acb_cosh(out, out, precision); break;
    case FUNCTION_TANH: acb_tanh(out, out, precision); break;
    case FUNCTION_EXP: acb_exp(out, out, precision); break;
    case FUNCTION_LN:
        if (acb_contains_zero(out)) return false;
        acb_log(out, out, precision);
        break;
    case FUNCTION_ABS: acb_abs(acb_realref(out), out, precision), arb_zero(acb_imagref(out)); break;
    default: return enclose_rounded(out, node->function == FUNCTION_CEIL, precision);
    }
    return acb_is_finite(out);
}

// a^b on its principal branch; roots of odd index of negative real numbers are real.
static bool enclose_power(acb_t out, const acb_t a, const acb_t b, slong precision) {
    if (acb_contains_zero(a)) {
        bool nothing = acb_is_zero(a) && acb_is_real(b) && arb_is_positive(acb_realref(b));
        acb_zero(out);
        return nothing;
    }
    acb_t logarithm;
    acb_init(logarithm);
    acb_log(logarithm, a, precision);
    acb_mul(logarithm, logarithm, b, precision);
    bool good = moderate(logarithm);
    acb_clear(logarithm);
    if (good) acb_pow(out, a, b, precision);
    return good && acb_is_finite(out);
}

static bool enclose_root(acb_t out, acb_t a, const acb_t b, slong precision) {
    if (acb_contains_zero(b)) return false;
    bool odd = acb_is_int(b) && !acb_is_int_2exp_si(b, 1);
    bool negative = odd && acb_is_real(a) && arb_is_negative(acb_realref(a));
    if (negative) acb_neg(a, a);
    acb_t inverse;
    acb_init(inverse);
    acb_inv(inverse, b, precision);
    bool good = enclose_power(out, a, inverse, precision);
    if (negative) acb_neg(out, out);
    acb_clear(inverse);
    return good;
}

static bool enclose_operation(acb_t out, const Node *node, acb_t a, const acb_t b, slong precision) {
    switch (node->kind) {
    case NODE_ADD: acb_add(out, a, b, precision); return true;
    case NODE_SUBTRACT: acb_sub(out, a, b, precision); return true;
    case NODE_MULTIPLY: acb_mul(out, a, b, precision); return true;
    case NODE_DIVIDE:
        if (acb_contains_zero(b)) return false;
        acb_div(out, a, b, precision);
        return acb_is_finite(out);
    case NODE_POWER: return enclose_power(out, a, b, precision);
    case NODE_ROOT: return enclose_root(out, a, b, precision);
    case NODE_NEGATE: acb_neg(out, a); return true;
    case NODE_PERCENT: acb_div_si(out, a, 100, precision); return true;
    case NODE_DEGREES: acb_set(out, a); return true;
    default: return false;
    }
}

static bool enclose_exact(acb_t out, const Node *node, const AnswerPoint *point, slong precision,
                          AnswerBudget *budget) {
    mpq_t exact;
    mpq_init(exact);
    bool good = answer_exact(exact, node, point, budget) == ANSWER_EXACT;
    if (good) set_rational(out, exact, precision);
    mpq_clear(exact);
    return good;
}

// A ball that holds the node's value; false when it has none, or none that can be computed.
static bool enclose(acb_t out, const Node *node, const AnswerPoint *point, slong precision, AnswerBudget *budget) {
    if (!answer_exact_spend(budget, 1 + precision / 256)) return false;
    switch (node->kind) {
    case NODE_NUMBER:
    case NODE_SYMBOL:
    case NODE_FACTORIAL:
    case NODE_BINOMIAL:
    case NODE_POWER:
    case NODE_ROOT:
        if (enclose_exact(out, node, point, precision, budget)) return true;
        break;
    case NODE_PI: acb_const_pi(out, precision); return true;
    case NODE_E: arb_const_e(acb_realref(out), precision), arb_zero(acb_imagref(out)); return true;
    case NODE_I: acb_onei(out); return true;
    case NODE_FUNCTION:
        if (enclose_exact(out, node, point, precision, budget)) return true;
        return enclose_function(out, node, point, precision, budget);
    default: break;
    }
    if (node->count < 1 || node->count > 2 || node->kind > NODE_DEGREES) return false;
    acb_t a, b;
    acb_init(a);
    acb_init(b);
    bool good = enclose(a, node->child[0], point, precision, budget) &&
                (node->count < 2 || enclose(b, node->child[1], point, precision, budget)) &&
                enclose_operation(out, node, a, b, precision);
    acb_clear(a);
    acb_clear(b);
    return good;
}

// ---- comparison

typedef enum Verdict { VERDICT_UNKNOWN, VERDICT_EQUAL, VERDICT_UNEQUAL } Verdict;

// Whether the enclosures lie as near to each other as the precision lets them: then the values are taken as equal.
static bool tight(const acb_t difference, const acb_t value, slong precision) {
    mag_t off, size;
    mag_init(off);
    mag_init(size);
    acb_get_mag(off, difference);
    acb_get_mag_lower(size, value);
    mag_mul_2exp_si(size, size, -(precision - precision / 32 - 64));
    bool good = mag_is_zero(off) || mag_cmp(off, size) < 0;
    mag_clear(off);
    mag_clear(size);
    return good;
}

static Verdict compare_enclosures(const Node *a, const Node *b, const AnswerPoint *point, AnswerBudget *budget) {
    Verdict verdict = VERDICT_UNKNOWN;
    acb_t x, y, difference;
    acb_init(x);
    acb_init(y);
    acb_init(difference);
    for (slong precision = 128; precision <= HIGHEST_PRECISION && verdict == VERDICT_UNKNOWN; precision *= 32) {
        if (!enclose(x, a, point, precision, budget) || !enclose(y, b, point, precision, budget)) break;
        acb_sub(difference, x, y, precision);
        if (!acb_contains_zero(difference))
            verdict = VERDICT_UNEQUAL;
        else if (precision == HIGHEST_PRECISION && (tight(difference, x, precision) || tight(difference, y, precision)))
            verdict = VERDICT_EQUAL;
        // Both may be 0 without being seen to be: sin(π) has no size to measure by.
        else if (precision == HIGHEST_PRECISION && acb_contains_zero(x) && acb_contains_zero(y))
            verdict = acb_rel_accuracy_bits(x) < 0 && mag_cmp_2exp_si(arb_radref(acb_realref(x)), -2000) < 0 &&
                              mag_cmp_2exp_si(arb_radref(acb_realref(y)), -2000) < 0
                          ? VERDICT_EQUAL
                          : VERDICT_UNKNOWN;
    }
    acb_clear(x);
    acb_clear(y);
    acb_clear(difference);
    return verdict;
}

static Verdict compare_at(const Node *a, const Node *b, const AnswerPoint *point, AnswerBudget *budget) {
    mpq_t x, y;
    mpq_inits(x, y, NULL);
    AnswerExactness first = answer_exact(x, a, point, budget), second = answer_exact(y, b, point, budget);
    Verdict verdict = VERDICT_UNKNOWN;
    if (first == ANSWER_EXACT && second == ANSWER_EXACT)
        verdict = mpq_equal(x, y) ? VERDICT_EQUAL : VERDICT_UNEQUAL;
    else
        verdict = compare_enclosures(a, b, point, budget);
    mpq_clears(x, y, NULL);
    return verdict;
}

bool answer_value_equal(const Node *a, const Node *b, AnswerBudget *budget) {
    AnswerSymbols symbols = {0};
    answer_exact_collect(&symbols, a);
    answer_exact_collect(&symbols, b);
    if (!symbols.count) return compare_at(a, b, NULL, budget) == VERDICT_EQUAL;
    int equal = 0;
    for (int p = 0; p < POINTS && !symbols.too_many; p++) {
        AnswerPoint point = {&symbols, p};
        Verdict verdict = compare_at(a, b, &point, budget);
        if (verdict == VERDICT_UNEQUAL) return false;
        equal += verdict == VERDICT_EQUAL;
    }
    return equal >= POINTS / 2;
}

bool answer_value_proportional(int *sign, const Node *a, const Node *b, AnswerBudget *budget) {
    AnswerSymbols symbols = {0};
    answer_exact_collect(&symbols, a);
    answer_exact_collect(&symbols, b);
    if (!symbols.count || symbols.too_many) return false;
    bool good = true;
    int measured = 0;
    acb_t x, y, ratio, first;
    acb_init(x);
    acb_init(y);
    acb_init(ratio);
    acb_init(first);
    for (int p = 0; p < POINTS && good; p++) {
        AnswerPoint point = {&symbols, p};
        if (!enclose(x, a, &point, 512, budget) || !enclose(y, b, &point, 512, budget)) continue;
        if (acb_contains_zero(x) || acb_contains_zero(y)) {
            good = false;
            break;
        }
        acb_div(ratio, x, y, 512);
        if (measured++ == 0) acb_set(first, ratio);
        good = acb_overlaps(first, ratio);
    }
    good = good && measured >= POINTS / 2 && acb_is_real(first);
    *sign = good ? (arb_is_positive(acb_realref(first)) ? 1 : -1) : 0;
    acb_clear(x);
    acb_clear(y);
    acb_clear(ratio);
    acb_clear(first);
    return good;
}

// ---- decimals for values that have none

// Significant digits as written: leading zeros do not count.
static long significant(const WrittenNumber *number) {
    long count = 0;
    const TextSpan parts[] = {number->integer, number->decimals};
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < parts[p].size; i++)
            if (parts[p].text[i] >= '0' && parts[p].text[i] <= '9' && (count || parts[p].text[i] != '0')) count++;
    return count;
}

static bool terminates(const mpq_t value) {
    mpz_t rest, two, five;
    mpz_inits(rest, two, five, NULL);
    mpz_set_ui(two, 2);
    mpz_set_ui(five, 5);
    mpz_remove(rest, mpq_denref(value), two);
    mpz_remove(rest, rest, five);
    bool good = !mpz_cmp_ui(rest, 1);
    mpz_clears(rest, two, five, NULL);
    return good;
}

bool answer_value_approximates(const Node *decimal, const Node *value, AnswerBudget *budget) {
    bool negative = decimal->kind == NODE_NEGATE;
    const Node *literal = negative ? decimal->child[0] : decimal;
    if (literal->kind != NODE_NUMBER || !literal->number.decimals.size || literal->number.repeating ||
        significant(&literal->number) < 6 || answer_value_has_symbols(value))
        return false;
    mpq_t exact, written, step;
    mpq_inits(exact, written, step, NULL);
    AnswerExactness exactness = answer_exact(exact, value, NULL, budget);
    bool good = exactness == ANSWER_INEXACT || (exactness == ANSWER_EXACT && !terminates(exact));
    good = good && answer_number_value(written, &literal->number);
    if (good) {
        if (negative) mpq_neg(written, written);
        // Less than one unit of the last digit: cut off or rounded.
        WrittenNumber unit = {.integer = {"1", 1},
                              .exponent = literal->number.exponent - (long)literal->number.decimals.size};
        acb_t x, y;
        acb_init(x);
        acb_init(y);
        good = answer_number_value(step, &unit) && enclose(x, value, NULL, 512, budget) && acb_is_real(x);
        set_rational(y, written, 512);
        acb_sub(x, x, y, 512);
        set_rational(y, step, 512);
        arb_abs(acb_realref(x), acb_realref(x));
        good = good && arb_lt(acb_realref(x), acb_realref(y));
        acb_clear(x);
        acb_clear(y);
    }
    mpq_clears(exact, written, step, NULL);
    return good;
}

int answer_value_sign(const Node *node, AnswerBudget *budget) {
    acb_t x;
    acb_init(x);
    bool good = enclose(x, node, NULL, 512, budget) && acb_is_real(x);
    int sign = !good ? 0 : arb_is_positive(acb_realref(x)) ? 1 : arb_is_negative(acb_realref(x)) ? -1 : 0;
    acb_clear(x);
    return sign;
}
