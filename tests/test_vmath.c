// exp and log of ops/vmath.inc and sincos against MPFR: a strided walk over all floats in `make test`, every float in
// `make ulp` (which runs this program with the argument "all").
#include "ops/kernels.h"
#include "ops/ops.h"
#include "ops/sincos.h"

#include <setjmp.h>
#include <stdarg.h>
// cmocka wants the four headers around it in this order.
#include <cmocka.h>
#include <mpfr.h>
#include <stdatomic.h>
#include <stdio.h>

enum { BLOCK = 4096, STRIDE = 4999 };

typedef void Vector(float *out, const float *in, int64_t n);
typedef int Oracle(mpfr_t out, const mpfr_t in, mpfr_rnd_t rounding);

// The distance of found from oracle(x), in units of the last place that the true value has as a normal fp32 number.
static double exact_ulps(Oracle *oracle, float x, float found) {
    mpfr_t true_value, difference;
    mpfr_inits2(160, true_value, difference, (mpfr_ptr)0);
    mpfr_set_flt(true_value, x, MPFR_RNDN);
    oracle(true_value, true_value, MPFR_RNDN);
    mpfr_sub_d(difference, true_value, (double)found, MPFR_RNDN);
    double ulps = mpfr_zero_p(difference)
                      ? 0
                      : fabs(ldexp(mpfr_get_d(difference, MPFR_RNDN), 24 - (int)mpfr_get_exp(true_value)));
    mpfr_clears(true_value, difference, (mpfr_ptr)0);
    return ulps;
}

// The same with a double oracle, which is itself off by some 1e-9 ulp.
static double near_ulps(double true_value, float found) {
    int exponent;
    frexp(true_value, &exponent);
    return fabs(ldexp((double)found - true_value, 24 - exponent));
}

typedef struct Search {
    Vector *vector;
    double (*quick)(double);
    Oracle *oracle;
    uint32_t stride;
    float low, high;        // where the true result is a normal number that is not flushed
    _Atomic uint64_t worst; // bits of the largest error (positive doubles sort as their bits)
    _Atomic uint32_t worst_at;
} Search;

static void remember(Search *search, double ulps, float x) {
    uint64_t bits, seen = atomic_load(&search->worst);
    memcpy(&bits, &ulps, sizeof bits);
    while (bits > seen && !atomic_compare_exchange_weak(&search->worst, &seen, bits)) {
    }
    if (bits > seen) atomic_store(&search->worst_at, dtype_bits(x));
}

static double worst_of(const Search *search) {
    uint64_t bits = atomic_load(&search->worst);
    double ulps;
    memcpy(&ulps, &bits, sizeof ulps);
    return ulps;
}

static void search_task(void *context, int64_t task, int worker) {
    (void)worker;
    Search *search = context;
    float in[BLOCK] = {0}, out[BLOCK];
    int64_t first = task * BLOCK, last = (int64_t)((UINT32_MAX / search->stride)) + 1;
    int n = (int)(last - first < BLOCK ? last - first : BLOCK);
    for (int i = 0; i < n; i++) in[i] = dtype_float((uint32_t)(first + i) * search->stride);
    search->vector(out, in, n);
    for (int i = 0; i < n; i++) {
        if (!(in[i] >= search->low && in[i] <= search->high)) continue;
        // Of all floats only those that come near the worst so far go to the slow oracle.
        double ulps = search->stride == 1 ? near_ulps(search->quick(in[i]), out[i]) : 1;
        if (ulps > fmax(0.5, worst_of(search) - 1e-6)) ulps = exact_ulps(search->oracle, in[i], out[i]);
        remember(search, ulps, in[i]);
    }
    mpfr_free_cache();
}

static uint32_t stride = STRIDE;

static double largest_error(Vector *vector, double (*quick)(double), Oracle *oracle, float low, float high) {
    Ops ops;
    Error error;
    assert_true(ops_open(&ops, (OpsOptions){.threads = 2}, &error));
    Search search = {.vector = vector, .quick = quick, .oracle = oracle, .stride = stride, .low = low, .high = high};
    team_run(ops.team, ((int64_t)(UINT32_MAX / stride) + BLOCK) / BLOCK, search_task, &search);
    ops_close(&ops);
    if (stride == 1)
        printf("largest error %.5f ulp at %.9g (MPFR)\n", worst_of(&search),
               dtype_float(atomic_load(&search.worst_at)));
    return worst_of(&search);
}

// The fastest set that this CPU has; test_bits shows that the others give the same.
static const Kernels *best(void) {
    Ops ops;
    Error error;
    assert_true(ops_open(&ops, (OpsOptions){.threads = 1}, &error));
    const Kernels *kernels = ops.kernels;
    ops_close(&ops);
    return kernels;
}

static void test_exp(void **state) {
    (void)state;
    assert_true(largest_error(best()->vmath_exps, exp, mpfr_exp, -86.98f, 0x1.62e42ep6f) < 0.90);
}

static void test_log(void **state) {
    (void)state;
    assert_true(largest_error(best()->vmath_logs, log, mpfr_log, 0x1p-149f, 0x1.fffffep+127f) < 0.81);
}

static float one(Vector *vector, float x) {
    vector(&x, &x, 1);
    return x;
}

static void test_ends(void **state) {
    (void)state;
    Vector *e = best()->vmath_exps, *l = best()->vmath_logs;
    assert_true(one(e, 0) == 1 && one(e, -0.0f) == 1);
    assert_true(one(e, -INFINITY) == 0 && !signbit(one(e, -INFINITY)));
    assert_true(one(e, -1e30f) == 0 && one(e, -88) == 0 && one(e, -86.9f) > 0);
    assert_true(one(e, 0x1.62e42ep6f) < INFINITY && one(e, 0x1.62e43p6f) == INFINITY && one(e, INFINITY) == INFINITY);
    assert_true(one(e, 3.4e38f) == INFINITY);
    assert_true(isnan(one(e, NAN)));
    assert_true(one(l, 0) == -INFINITY && one(l, -0.0f) == -INFINITY && one(l, INFINITY) == INFINITY);
    assert_true(isnan(one(l, -1)) && isnan(one(l, -INFINITY)) && isnan(one(l, NAN)));
    assert_true(one(l, 1) == 0);
}

// Same bits from every instruction set, over a strided walk with all kinds of floats in one vector.
static void test_bits(void **state) {
    (void)state;
    static const char *const names[] = {"scalar", "avx2", "avx512"};
    float in[BLOCK], expected[2][BLOCK], found[2][BLOCK];
    for (uint32_t part = 0; part < 64; part++) {
        for (uint32_t i = 0; i < BLOCK; i++) in[i] = dtype_float((part * BLOCK + i) * 16411u);
        for (int k = 0; k < 3; k++) {
            Ops ops;
            Error error;
            if (!ops_open(&ops, (OpsOptions){.threads = 1, .isa = names[k]}, &error)) continue; // not on this CPU
            ops.kernels->vmath_exps(found[0], in, BLOCK - (int)part % 16);
            ops.kernels->vmath_logs(found[1], in, BLOCK - (int)part % 16);
            ops_close(&ops);
            if (k == 0) memcpy(expected, found, sizeof found);
            for (int i = 0; i < BLOCK - (int)part % 16; i++)
                for (int f = 0; f < 2; f++)
                    if (!(isnan(expected[f][i]) && isnan(found[f][i])))
                        assert_int_equal(dtype_bits(expected[f][i]), dtype_bits(found[f][i]));
        }
    }
}

static void test_sincos(void **state) {
    (void)state;
    double worst = 0;
    uint32_t last = dtype_bits(1e6f), step = stride == 1 ? 31 : 4999;
    for (uint32_t bits = 0; bits <= last; bits += step) {
        float angle = dtype_float(bits), sine, cosine;
        if (bits & 1) angle = -angle;
        sincos_of(angle, &sine, &cosine);
        if (fabsf(angle) < 0x1p-100f) continue; // the sine is the angle, perhaps denormal
        // libm's doubles are within 1e-9 ulp; MPFR judges whatever comes near half a unit.
        double s = near_ulps(sin((double)angle), sine), c = near_ulps(cos((double)angle), cosine);
        if (s > 0.4999) s = exact_ulps(mpfr_sin, angle, sine);
        if (c > 0.4999) c = exact_ulps(mpfr_cos, angle, cosine);
        worst = fmax(worst, fmax(s, c));
    }
    if (stride == 1) printf("sincos: largest error %.7f ulp\n", worst);
    assert_true(worst <= 0.5001);
    float sine, cosine;
    sincos_of(INFINITY, &sine, &cosine);
    assert_true(isnan(sine) && isnan(cosine));
    sincos_of(NAN, &sine, &cosine);
    assert_true(isnan(sine) && isnan(cosine));
    sincos_of(0, &sine, &cosine);
    assert_true(sine == 0 && cosine == 1);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "all")) stride = 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),  cmocka_unit_test(test_log),    cmocka_unit_test(test_ends),
        cmocka_unit_test(test_bits), cmocka_unit_test(test_sincos),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
