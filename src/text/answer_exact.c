#include "text/answer_exact.h"

#include <string.h>

enum {
    MAX_BITS = 1 << 17,    // of exact numerators and denominators
    MAX_FACTORIAL = 10000, // of n in n!
};

// ---- variables

static int symbol_index(const AnswerSymbols *symbols, const char *name) {
    for (int i = 0; i < symbols->count; i++)
        if (!strcmp(symbols->name[i], name)) return i;
    return -1;
}

void answer_exact_collect(AnswerSymbols *symbols, const Node *node) {
    if (node->kind == NODE_SYMBOL && symbol_index(symbols, node->name) < 0) {
        if (symbols->count == ANSWER_EXACT_MAX_SYMBOLS)
            symbols->too_many = true;
        else
            symbols->name[symbols->count++] = node->name;
    }
    for (int i = 0; i < node->count; i++) answer_exact_collect(symbols, node->child[i]);
}

// Primes, so that no two variables or points are related by small numbers; every second point is negative in part.
void answer_exact_coordinate(mpq_t out, const AnswerPoint *point, const char *name) {
    static const unsigned numerators[] = {1009, 2003, 3001, 4001, 5003, 6007, 7001, 8009, 9001, 10007, 11003, 12007};
    static const unsigned denominators[] = {641, 769, 877, 997, 1103, 1229, 1361};
    int i = symbol_index(point->symbols, name), p = point->index;
    mpq_set_ui(out, numerators[(i * 5 + p * 7) % 12], denominators[(i * 3 + p) % 7]);
    if ((p + i) % 3 == 1) mpq_neg(out, out);
    mpq_canonicalize(out);
}

bool answer_exact_spend(AnswerBudget *budget, int64_t cost) {
    budget->left -= cost;
    return budget->left > 0;
}

// ---- exact values

static AnswerExactness bounded(const mpq_t value) {
    return mpz_sizeinbase(mpq_numref(value), 2) + mpz_sizeinbase(mpq_denref(value), 2) > MAX_BITS ? ANSWER_UNDEFINED
                                                                                                  : ANSWER_EXACT;
}

// base^n.
static AnswerExactness power(mpq_t out, const mpq_t base, const mpz_t n) {
    if (!mpz_sgn(n)) {
        mpq_set_ui(out, 1, 1);
        return mpq_sgn(base) ? ANSWER_EXACT : ANSWER_UNDEFINED;
    }
    if (!mpq_sgn(base)) {
        mpq_set_ui(out, 0, 1);
        return mpz_sgn(n) > 0 ? ANSWER_EXACT : ANSWER_UNDEFINED;
    }
    bool unit = !mpz_cmpabs_ui(mpq_numref(base), 1) && !mpz_cmp_ui(mpq_denref(base), 1);
    if (unit) {
        mpq_set_si(out, mpq_sgn(base) < 0 && mpz_odd_p(n) ? -1 : 1, 1);
        return ANSWER_EXACT;
    }
    size_t bits = mpz_sizeinbase(mpq_numref(base), 2) + mpz_sizeinbase(mpq_denref(base), 2);
    if (mpz_cmpabs_ui(n, MAX_BITS) > 0 || bits * mpz_get_ui(n) > 2 * MAX_BITS) return ANSWER_UNDEFINED;
    mpz_pow_ui(mpq_numref(out), mpq_numref(base), mpz_get_ui(n));
    mpz_pow_ui(mpq_denref(out), mpq_denref(base), mpz_get_ui(n));
    if (mpz_sgn(n) < 0) mpq_inv(out, out);
    return bounded(out);
}

// The n-th root, when it is rational. Odd roots of negative numbers are negative.
static AnswerExactness root(mpq_t out, const mpq_t value, const mpz_t n) {
    if (mpz_sgn(n) <= 0 || mpz_cmp_ui(n, ANSWER_EXACT_MAX_EXPONENT_BITS * 100) > 0) return ANSWER_INEXACT;
    unsigned long index = mpz_get_ui(n);
    if (mpq_sgn(value) < 0 && index % 2 == 0) return ANSWER_INEXACT;
    bool whole = mpz_root(mpq_numref(out), mpq_numref(value), index);
    whole = mpz_root(mpq_denref(out), mpq_denref(value), index) && whole;
    return whole ? ANSWER_EXACT : ANSWER_INEXACT;
}

static AnswerExactness rational_power(mpq_t out, const mpq_t base, const mpq_t exponent, bool real_root) {
    if (!mpz_cmp_ui(mpq_denref(exponent), 1)) return power(out, base, mpq_numref(exponent));
    if (mpq_sgn(base) < 0 && !real_root) return ANSWER_INEXACT;
    mpq_t r;
    mpq_init(r);
    AnswerExactness result = root(r, base, mpq_denref(exponent));
    if (result == ANSWER_EXACT) result = power(out, r, mpq_numref(exponent));
    mpq_clear(r);
    return result;
}

static AnswerExactness factorial(mpq_t out, const mpq_t n) {
    if (mpz_cmp_ui(mpq_denref(n), 1) || mpq_sgn(n) < 0 || mpz_cmp_ui(mpq_numref(n), MAX_FACTORIAL) > 0)
        return ANSWER_UNDEFINED;
    mpz_fac_ui(mpq_numref(out), mpz_get_ui(mpq_numref(n)));
    mpz_set_ui(mpq_denref(out), 1);
    return bounded(out);
}

static AnswerExactness binomial(mpq_t out, const mpq_t n, const mpq_t k) {
    bool integers = !mpz_cmp_ui(mpq_denref(n), 1) && !mpz_cmp_ui(mpq_denref(k), 1);
    if (!integers || mpz_cmpabs_ui(mpq_numref(n), MAX_BITS) > 0 || mpz_cmpabs_ui(mpq_numref(k), MAX_FACTORIAL) > 0)
        return ANSWER_UNDEFINED;
    mpz_set_ui(mpq_denref(out), 1);
    if (mpq_sgn(k) < 0)
        mpz_set_ui(mpq_numref(out), 0);
    else
        mpz_bin_ui(mpq_numref(out), mpq_numref(n), mpz_get_ui(mpq_numref(k)));
    return bounded(out);
}

static void round_to_integer(mpq_t out, const mpq_t value, bool up) {
    (up ? mpz_cdiv_q : mpz_fdiv_q)(mpq_numref(out), mpq_numref(value), mpq_denref(value));
    mpz_set_ui(mpq_denref(out), 1);
}

// Folds the next argument of min, max, gcd or lcm into out.
static AnswerExactness fold(mpq_t out, const mpq_t next, NodeFunction function) {
    if (function == FUNCTION_MIN || function == FUNCTION_MAX) {
        if ((mpq_cmp(next, out) > 0) == (function == FUNCTION_MAX)) mpq_set(out, next);
        return ANSWER_EXACT;
    }
    if (mpz_cmp_ui(mpq_denref(out), 1) || mpz_cmp_ui(mpq_denref(next), 1)) return ANSWER_UNDEFINED;
    (function == FUNCTION_GCD ? mpz_gcd : mpz_lcm)(mpq_numref(out), mpq_numref(out), mpq_numref(next));
    return bounded(out);
}

static AnswerExactness rational_function(mpq_t out, const Node *node, const AnswerPoint *point, AnswerBudget *budget) {
    if (node->function < FUNCTION_ABS) return ANSWER_INEXACT;
    AnswerExactness result = answer_exact(out, node->child[0], point, budget);
    switch (node->function) {
    case FUNCTION_ABS: mpq_abs(out, out); return result;
    case FUNCTION_FLOOR:
    case FUNCTION_CEIL: {
        mpq_t value;
        mpq_init(value);
        mpq_set(value, out);
        round_to_integer(out, value, node->function == FUNCTION_CEIL);
        mpq_clear(value);
        return result;
    }
    default: break;
    }
    mpq_t next;
    mpq_init(next);
    for (int i = 1; i < node->count && result == ANSWER_EXACT; i++) {
        result = answer_exact(next, node->child[i], point, budget);
        if (result == ANSWER_EXACT) result = fold(out, next, node->function);
    }
    mpq_clear(next);
    return result;
}

static AnswerExactness rational_operation(mpq_t out, const Node *node, const mpq_t a, const mpq_t b) {
    switch (node->kind) {
    case NODE_ADD: mpq_add(out, a, b); return bounded(out);
    case NODE_SUBTRACT: mpq_sub(out, a, b); return bounded(out);
    case NODE_MULTIPLY: mpq_mul(out, a, b); return bounded(out);
    case NODE_DIVIDE:
        if (!mpq_sgn(b)) return ANSWER_UNDEFINED;
        mpq_div(out, a, b);
        return bounded(out);
    case NODE_POWER: return rational_power(out, a, b, false);
    case NODE_ROOT: {
        if (!mpq_sgn(b)) return ANSWER_UNDEFINED;
        mpq_t inverse;
        mpq_init(inverse);
        mpq_inv(inverse, b);
        AnswerExactness result = rational_power(out, a, inverse, true);
        mpq_clear(inverse);
        return result;
    }
    case NODE_BINOMIAL: return binomial(out, a, b);
    case NODE_NEGATE: mpq_neg(out, a); return ANSWER_EXACT;
    case NODE_FACTORIAL: return factorial(out, a);
    case NODE_PERCENT:
        mpq_set_ui(out, 1, 100);
        mpq_mul(out, out, a);
        return ANSWER_EXACT;
    case NODE_DEGREES: mpq_set(out, a); return ANSWER_EXACT;
    default: return ANSWER_UNDEFINED;
    }
}

AnswerExactness answer_exact(mpq_t out, const Node *node, const AnswerPoint *point, AnswerBudget *budget) {
    if (!answer_exact_spend(budget, 1)) return ANSWER_UNDEFINED;
    switch (node->kind) {
    case NODE_NUMBER: return answer_number_value(out, &node->number) ? ANSWER_EXACT : ANSWER_UNDEFINED;
    case NODE_SYMBOL:
        if (!point) return ANSWER_INEXACT;
        answer_exact_coordinate(out, point, node->name);
        return ANSWER_EXACT;
    case NODE_PI:
    case NODE_E:
    case NODE_I: return ANSWER_INEXACT;
    case NODE_FUNCTION: return rational_function(out, node, point, budget);
    default: break;
    }
    if (node->count < 1 || node->count > 2 || node->kind > NODE_DEGREES) return ANSWER_UNDEFINED;
    mpq_t a, b;
    mpq_inits(a, b, NULL);
    AnswerExactness result = answer_exact(a, node->child[0], point, budget);
    if (node->count == 2 && result != ANSWER_UNDEFINED) {
        AnswerExactness second = answer_exact(b, node->child[1], point, budget);
        if (second != ANSWER_EXACT) result = second;
    }
    if (result == ANSWER_EXACT) result = rational_operation(out, node, a, b);
    mpq_clears(a, b, NULL);
    return result;
}
