// Paired statistics: SciPy's numbers, and what must hold whatever the data.
#include "base/arena.h"
#include "base/jsonio.h"
#include "base/rng.h"
#include "run/paired_sign.h"
#include "run/paired_verdict.h"
#include "run/student.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { SEED = 42 };

static Arena arena;

static int close_arena(void **state) {
    (void)state;
    arena_close(&arena);
    return 0;
}

static json_t *reference(void) {
    json_t *value;
    Error error;
    if (!jsonio_read(&value, "tests/data/paired/paired.json", &error)) fail_msg("%s", error.text);
    return value;
}

static double number(const json_t *list, size_t i) {
    return json_number_value(json_array_get(list, i));
}

static void expect_near(const char *what, double found, double expected, double tolerance) {
    if (!(fabs(found - expected) <= tolerance)) fail_msg("%s is %.12g, not %.12g", what, found, expected);
}

static void expect_between(const char *what, double found, const json_t *limits) {
    double slack = 1e-12; // the order of a sum
    if (!(found >= number(limits, 0) - slack && found <= number(limits, 1) + slack))
        fail_msg("%s is %.12g, not from %.12g to %.12g", what, found, number(limits, 0), number(limits, 1));
}

static void test_signs(void **state) {
    (void)state;
    json_t *all = reference(), *row;
    size_t i;
    json_array_foreach(json_object_get(all, "signs"), i, row) {
        double expected = number(row, 2);
        expect_near("p", paired_sign_probability((int64_t)number(row, 0), (int64_t)number(row, 1)), expected,
                    1e-10 * expected);
    }
    json_decref(all);
    for (int64_t gained = 0; gained < 20; gained++) { // symmetric, a probability, smaller the more uneven
        for (int64_t lost = 0; lost < 20; lost++) {
            double p = paired_sign_probability(gained, lost);
            assert_true(p > 0 && p <= 1);
            assert_true(p == paired_sign_probability(lost, gained));
            if (lost > gained) assert_true(p >= paired_sign_probability(gained, lost + 1));
        }
    }
}

static void test_student(void **state) {
    (void)state;
    json_t *all = reference(), *row;
    size_t i;
    json_array_foreach(json_object_get(all, "student"), i, row) {
        double expected = number(row, 2);
        expect_near("t", student_quantile(number(row, 0), number(row, 1)), expected, 1e-9 * fmax(1, expected));
    }
    json_decref(all);
}

static void test_quantiles(void **state) {
    (void)state;
    json_t *all = reference(), *row, *values = json_object_get(json_object_get(all, "quantiles"), "values");
    double sorted[64];
    size_t i, count = json_array_size(values);
    for (i = 0; i < count; i++) sorted[i] = number(values, i);
    json_array_foreach(json_object_get(json_object_get(all, "quantiles"), "of"), i, row) expect_near(
        "quantile", paired_bootstrap_quantile(sorted, (int64_t)count, number(row, 0)), number(row, 1), 1e-12);
    json_decref(all);
}

static PairedResult result_of(const json_t *rows, double margin) {
    int64_t seeds = (int64_t)json_array_size(rows), questions = (int64_t)json_array_size(json_array_get(rows, 0));
    int64_t count = seeds * questions;
    double *difference = arena_array(&arena, double, count);
    for (int64_t s = 0; s < seeds; s++)
        for (int64_t q = 0; q < questions; q++)
            difference[s * questions + q] = number(json_array_get(rows, (size_t)s), (size_t)q);
    return paired_verdict(difference, seeds, questions, 1, margin, SEED);
}

// Limits of two bootstraps differ by chance: within five standard errors (1 in 10^6 for each), and within half a step of the
// mean's own grid.
static void test_intervals(void **state) {
    (void)state;
    json_t *all = reference(), *one;
    size_t i;
    json_array_foreach(json_object_get(all, "cases"), i, one) {
        const json_t *rows = json_object_get(one, "difference"), *low = json_object_get(one, "low"),
                     *high = json_object_get(one, "high"), *whole = json_object_get(one, "whole");
        PairedResult r = result_of(rows, 0.02);
        expect_near("effect", r.effect, json_number_value(json_object_get(one, "effect")), 1e-12);
        expect_between("lower limit over questions", r.questions.low, low);
        expect_between("upper limit over questions", r.questions.high, high);
        assert_int_equal(whole != NULL, json_array_size(rows) > 1);
        if (!whole) {
            assert_true(isnan(r.whole.low) && isnan(r.seed_deviation) && isnan(r.degrees));
            continue;
        }
        expect_near("degrees", r.degrees, json_number_value(json_object_get(one, "degrees")), 1e-9 * r.degrees);
        expect_near("deviation", r.seed_deviation, json_number_value(json_object_get(one, "deviation")), 1e-12);
        expect_near("lower limit", r.whole.low, number(whole, 0), 1e-10);
        expect_near("upper limit", r.whole.high, number(whole, 1), 1e-10);
    }
    json_decref(all);
}

// Differences of −1, 0 and 1, with the mean given on average.
static void draw(double *difference, int64_t count, double mean, uint64_t seed) {
    for (int64_t i = 0; i < count; i++) {
        float u = rng_uniform(seed, RNG_TEST_WEIGHTS, (RngCounter){.token = (uint32_t)i});
        difference[i] = (double)u < 0.2 + mean / 2 ? 1 : (double)u > 0.8 + mean / 2 ? -1 : 0;
    }
}

static void same_interval(Interval a, Interval b) {
    assert_memory_equal(&a, &b, sizeof a);
}

static void test_what_must_hold(void **state) {
    (void)state;
    enum { COUNT = 100, SEEDS = 3 };
    double d[SEEDS * COUNT], opposite[SEEDS * COUNT], tripled[SEEDS * COUNT];
    for (uint64_t seed = 0; seed < 4; seed++) {
        draw(d, SEEDS * COUNT, -0.05, seed);
        PairedResult one = paired_verdict(d, 1, COUNT, 1, 0.02, SEED),
                     again = paired_verdict(d, 1, COUNT, 1, 0.02, SEED);
        same_interval(one.questions, again.questions);
        PairedResult all = paired_verdict(d, SEEDS, COUNT, 1, 0.02, SEED);
        assert_true(one.questions.low <= one.effect && one.effect <= one.questions.high);
        assert_true(all.decisive.low <= all.whole.low && all.decisive.high >= all.whole.high);
        for (int i = 0; i < SEEDS * COUNT; i++) opposite[i] = -d[i], tripled[i] = d[i % COUNT];
        PairedResult turned = paired_verdict(opposite, SEEDS, COUNT, 1, 0.02, SEED);
        expect_near("turned effect", turned.effect, -all.effect, 1e-15);
        expect_near("turned limit", turned.whole.low, -all.whole.high, 1e-15);
        PairedResult same = paired_verdict(tripled, SEEDS, COUNT, 1, 0.02, SEED); // seeds without a spread
        expect_near("spread", same.seed_deviation, 0, 1e-15);
        expect_near("effect", same.effect, one.effect, 1e-15);
        // A wider margin never makes an arm worse.
        PairedVerdict last = PAIRED_WORSE;
        for (double margin = 0; margin < 0.5; margin += 0.03) {
            PairedVerdict verdict = paired_verdict(d, SEEDS, COUNT, 1, margin, SEED).verdict;
            if (last == PAIRED_NOT_DECIDED) assert_int_not_equal(verdict, PAIRED_WORSE);
            if (last == PAIRED_NOT_WORSE) assert_int_equal(verdict, PAIRED_NOT_WORSE);
            last = verdict;
        }
        assert_int_equal(last, PAIRED_NOT_WORSE);
    }
}

static void test_little_data_decides_nothing(void **state) {
    (void)state;
    double none[1000] = {0}, lost[1000];
    assert_int_equal(paired_verdict(none, 1, 5, 1, 0.02, SEED).verdict, PAIRED_NOT_DECIDED);
    assert_int_equal(paired_verdict(none, 1, 182, 1, 0.02, SEED).verdict,
                     PAIRED_NOT_DECIDED); // 1 − 0.025^(1/182) = 0.0201
    assert_int_equal(paired_verdict(none, 1, 183, 1, 0.02, SEED).verdict, PAIRED_NOT_WORSE);
    assert_int_equal(paired_verdict(none, 1, 183, 2, 0.02, SEED).verdict, PAIRED_NOT_DECIDED); // rewards from −1 to 1
    assert_int_equal(paired_verdict(none, 3, 60, 1, 0.02, SEED).verdict,
                     PAIRED_NOT_DECIDED); // the same questions thrice
    for (int i = 0; i < 1000; i++) lost[i] = -1;
    assert_int_equal(paired_verdict(lost, 1, 1, 1, 0.02, SEED).verdict, PAIRED_NOT_DECIDED);
    assert_int_equal(paired_verdict(lost, 1, 5, 1, 0.02, SEED).verdict,
                     PAIRED_NOT_DECIDED); // a coin does so in 1 of 32
    assert_int_equal(paired_verdict(lost, 1, 20, 1, 0.02, SEED).verdict, PAIRED_WORSE);
    // Two seeds that say opposite things: 12.7 standard errors of their mean.
    for (int i = 0; i < 500; i++) lost[i] = i % 5 ? 0 : 1, lost[500 + i] = i % 4 ? 0 : -1;
    PairedResult r = paired_verdict(lost, 2, 500, 1, 0.02, SEED);
    assert_int_equal(r.verdict, PAIRED_NOT_DECIDED);
    assert_true(r.whole.low < -1 && r.whole.high > 1 && r.questions.low > -0.1);
    assert_string_equal(paired_verdict_name(PAIRED_NOT_DECIDED), "not decided");
}

// How often the interval holds the truth, over made-up experiments with seeds and questions of their own.
static void test_coverage(void **state) {
    (void)state;
    enum { QUESTIONS = 40, SEEDS = 3, TRIES = 100 };
    double d[SEEDS * QUESTIONS];
    int held = 0, questions_held = 0;
    for (uint64_t t = 0; t < TRIES; t++) {
        for (int s = 0; s < SEEDS; s++) {
            float shift = 0;
            for (int i = 0; i < 12; i++)
                shift +=
                    rng_uniform(t, RNG_TEST_WEIGHTS, (RngCounter){.step = 1, .prompt = (uint32_t)(12 * s + i)}) - 0.5f;
            draw(d + s * QUESTIONS, QUESTIONS, 0.1 * (double)shift, 1000 * (t + 1) + (uint64_t)s);
        }
        PairedResult r = paired_verdict(d, SEEDS, QUESTIONS, 1, 0.02, SEED);
        held += r.whole.low <= 0 && 0 <= r.whole.high;
        questions_held += r.questions.low <= 0 && 0 <= r.questions.high;
    }
    // 95 % of 100 is 95; 4 standard deviations below that are 86.
    if (held < 86) fail_msg("the interval over seeds holds the truth %d times of %d", held, TRIES);
    if (questions_held >= 86) fail_msg("questions alone should not do: %d of %d", questions_held, TRIES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signs),          cmocka_unit_test(test_student),
        cmocka_unit_test(test_quantiles),      cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_what_must_hold), cmocka_unit_test(test_little_data_decides_nothing),
        cmocka_unit_test(test_coverage),
    };
    return cmocka_run_group_tests(tests, NULL, close_arena);
}
