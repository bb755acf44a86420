// text/answer*: verdicts beyond those of the fixtures, and texts that want to take for ever.
#include "base/log.h"
#include "base/strbuf.h"
#include "text/answer.h"
#include "text/answer_match.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

typedef struct Case {
    const char *gold, *answer;
    bool equal;
} Case;

static TextSpan span(const char *text) {
    return (TextSpan){text, strlen(text)};
}

static void check(const Case *cases, size_t count, bool whole) {
    for (size_t i = 0; i < count; i++) {
        bool readable, found = whole ? answer_equal(span(cases[i].gold), span(cases[i].answer))
                                     : answer_match(&readable, span(cases[i].gold), span(cases[i].answer));
        if (found != cases[i].equal)
            fail_msg("gold %s, answer %s: %s", cases[i].gold, cases[i].answer, found ? "equal" : "unequal");
    }
}
#define CHECK_MATCH(cases) check(cases, sizeof(cases) / sizeof *(cases), false)
#define CHECK_WHOLE(cases) check(cases, sizeof(cases) / sizeof *(cases), true)

static void test_numbers(void **state) {
    (void)state;
    static const Case cases[] = {
        {"1/2", "0.50", true},
        {"\\frac{1}{2}", "\\dfrac{2}{4}", true},
        {"\\frac12", "\\frac 1 2", true},
        {"-\\frac{3}{4}", "\\frac{-3}{4}", true},
        {"-\\frac{3}{4}", "-0.75", true},
        {"\\frac{11}{2}", "5\\tfrac12", true},
        {"\\frac{11}{2}", "5 1/2", true},
        {"\\frac{5}{2}", "5\\frac12", false},
        {"\\frac{1}{3}", "0.333333", true},
        {"\\frac{1}{3}", "0.333334", true},
        {"\\frac{1}{3}", "0.333335", false},
        {"\\frac{1}{3}", "0.33333", false},
        {"\\frac{1}{3}", "0.\\overline{3}", true},
        {"\\frac{1}{6}", "0.1\\overline{6}", true},
        {"0.333333", "0.333334", false},
        {"\\frac{1}{8}", "0.125001", false},
        {"\\sqrt{2}", "1.41421", true},
        {"\\sqrt{2}", "1.4142", false},
        {"\\pi", "3.14159", true},
        {"12500", "12,500", true},
        {"12500", "12 500", false},
        {"12500", "12{,}500", true},
        {"12500", "12\\,500", true},
        {"1{,}234{,}567", "1234567", true},
        {"100000", "10^5", true},
        {"2.5 \\times 10^{-3}", "0.0025", true},
        {"6.02e23", "6.02 \\times 10^{23}", true},
        {"3", "3.0", true},
        {"3", "+3", true},
        {"0", "-0.0", true},
        {"7", "07", true},
        {"99999999999999999999999999999999999998", "99999999999999999999999999999999999999", false},
        {"2^{100}", "1267650600228229401496703205376", true},
        {"2^{100}", "1267650600228229401496703205377", false},
        {"5!", "120", true},
        {"\\binom{10}{3}", "{10 \\choose 3}", true},
        {"\\binom{10}{3}", "120", true},
        {"\\frac{7!}{5!}", "42", true},
        {"\\lfloor 3.7 \\rfloor", "3", true},
        {"|-5|", "5", true},
        {"\\gcd(12, 18)", "6", true},
        {"\\frac{1}{1-\\frac{1}{2}}", "2", true},
        {"10^{-400}", "10^{-401}", false},
    };
    CHECK_MATCH(cases);
}

static void test_percent_units_and_currency(void **state) {
    (void)state;
    static const Case cases[] = {
        {"50\\%", "50", true},
        {"50", "50\\%", true},
        {"50\\%", "\\frac{1}{2}", true},
        {"50\\%", "5", false},
        {"-5\\%", "-5", true},
        {"5", "5\\text{ m/s}^2", true},
        {"5", "5 \\mathrm{~cm}^3", true},
        {"5", "5 km/h", true},
        {"5", "5 min", true},
        {"36", "36 square units", true},
        {"36", "\\$36.00", true},
        {"36", "€36", true},
        {"36", "36 \\text{ dollars per hour}", true},
        {"36", "63 cm", false},
        {"60", "60^{\\circ}", true},
        {"60^\\circ", "60 degrees", true},
        {"\\sin 30^\\circ", "\\frac{1}{2}", true},
        {"10\\text{ cm}", "\\text{10 cm}", true},
        {"x", "5x", false},
    };
    CHECK_MATCH(cases);
}

static void test_roots_and_constants(void **state) {
    (void)state;
    static const Case cases[] = {
        {"\\sqrt{8}", "2\\sqrt2", true},
        {"\\sqrt{8}", "2\\sqrt3", false},
        {"3\\sqrt{5}", "\\sqrt{45}", true},
        {"\\frac{3}{\\sqrt{3}}", "\\sqrt{3}", true},
        {"\\sqrt{3+2\\sqrt{2}}", "1+\\sqrt{2}", true},
        {"\\sqrt[3]{-8}", "-2", true},
        {"\\sqrt[3]{54}", "3\\sqrt[3]{2}", true},
        {"2^{1/2}", "\\sqrt 2", true},
        {"8^{2/3}", "4", true},
        {"e^{i\\pi}", "-1", true},
        {"\\ln e^3", "3", true},
        {"\\log_2 8", "3", true},
        {"\\log_{10} 1000", "3", true},
        {"\\ln 8", "3\\ln 2", true},
        {"\\sin\\frac{\\pi}{6}", "\\frac12", true},
        {"\\cos(\\pi)", "-1", true},
        {"\\arctan 1", "\\frac{\\pi}{4}", true},
        {"\\frac{\\pi}{2}", "\\frac12\\pi", true},
        {"\\frac{\\pi}{2}", "π/2", true},
        {"4\\pi", "4", false},
        {"3+4i", "4i+3", true},
        {"(1+i)^2", "2i", true},
        {"i", "-i", false},
        {"\\frac{1+\\sqrt5}{2}", "\\frac{\\sqrt{5}+1}{2}", true},
        {"\\frac{1+\\sqrt5}{2}", "\\frac{1-\\sqrt5}{2}", false},
        {"\\sqrt{10^{30}+1}", "10^{15}", false},
        {"e^{-1000}", "e^{-1001}", false},
        {"\\infty", "-\\infty", false},
        {"\\sin(10^{40})", "1", false},
    };
    CHECK_MATCH(cases);
}

static void test_expressions(void **state) {
    (void)state;
    static const Case cases[] = {
        {"x^2+2x+1", "(x+1)^2", true},
        {"x^2+2x+1", "(x+1)^2+0.0000001", false},
        {"2x+3", "3+2x", true},
        {"2x+3", "2y+3", false},
        {"\\frac{a^2-b^2}{a-b}", "a+b", true},
        {"\\sqrt{x^2}", "x", false},
        {"|x|", "\\sqrt{x^2}", true},
        {"xy", "yx", true},
        {"x_1+x_2", "x_2+x_1", true},
        {"x_1", "x_2", false},
        {"\\sin^2 x+\\cos^2 x", "1", true},
        {"\\sin 2x", "2\\sin x\\cos x", true},
        {"n(n+1)/2", "\\frac{n^2+n}{2}", true},
        {"2^{n+1}", "2 \\cdot 2^n", true},
        {"e^{2x}", "(e^x)^2", true},
        {"\\alpha+\\beta", "\\beta + \\alpha", true},
        {"y=2x+1", "2x+1", true},
        {"2x+1", "y=2x+1", true},
        {"f(x)=x^2", "x^2", true},
        {"y=2x+1", "2x-y+1=0", true},
        {"y=2x+1", "y=2x-1", false},
        {"x^2+y^2=25", "25=y^2+x^2", true},
        {"x+y=3", "2x+2y=6", true},
        {"x+y=3", "x+y\\neq 3", false},
        {"x=5", "y=5", false},
        {"x=5", "5=x", true},
        {"9\\cdot 2=18", "18", true},
        {"9\\cdot 2=19", "19", false},
    };
    CHECK_MATCH(cases);
}

static void test_sets_tuples_and_intervals(void **state) {
    (void)state;
    static const Case cases[] = {
        {"\\{1,2,3\\}", "\\{ 3, 2, 1 \\}", true},
        {"\\{1,2,3\\}", "1, 2, 3", true},
        {"\\{1,2,2\\}", "\\{1,1,2\\}", false},
        {"1,2", "2 and 1", true},
        {"1,2", "x=1 \\text{ or } x=2", true},
        {"x=1,2", "2, 1", true},
        {"a=4, b=6", "b=6, a=4", true},
        {"a=4, b=6", "4, 6", false},
        {"\\pm\\sqrt{2}", "\\sqrt2, -\\sqrt2", true},
        {"1\\pm\\sqrt{2}", "1+\\sqrt2,\\ 1-\\sqrt2", true},
        {"x=1\\pm 2", "3, -1", true},
        {"\\pm 3", "3", false},
        {"(1,2)", "(1, 2)", true},
        {"(1,2)", "(2,1)", false},
        {"(\\frac12, 3)", "(0.5, 3.0)", true},
        {"(1,2)", "[1,2]", false},
        {"[0,1)", "[0, 1)", true},
        {"(0,\\infty)", "(0, +\\infty)", true},
        {"(-\\infty,2]", "x \\le 2", true},
        {"x>2", "(2,\\infty)", true},
        {"x\\in(2,\\infty)", "(2,\\infty)", true},
        {"1<x<3", "(1,3)", true},
        {"1<x\\leq3", "3\\ge x>1", true},
        {"2x<10", "x<5", true},
        {"-2x<10", "x>-5", true},
        {"x<5", "x\\le5", false},
        {"x<5", "x>5", false},
        {"x+y<1", "2x+2y<2", true},
        {"x+y<1", "-x-y>-1", true},
        {"x+y<1", "-x-y<-1", false},
        {"(-\\infty,0)\\cup(1,\\infty)", "(1,\\infty)\\cup(-\\infty,0)", true},
        {"(-\\infty,0)\\cup(1,\\infty)", "x<0 \\text{ or } x>1", true},
        {"\\emptyset", "\\{\\}", true},
        {"\\emptyset", "0", false},
        {"\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{bmatrix}1.0\\\\2\\end{bmatrix}", true},
        {"\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1&2\\end{pmatrix}", false},
        {"\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\begin{pmatrix}1&2\\\\4&3\\end{pmatrix}", false},
        {"(1,234)", "(1, 234)", true},
        {"1:2", "1 : 2", true},
        {"1:2", "2:1", false},
        {"100,200,300", "100, 200, 300", true},
    };
    CHECK_MATCH(cases);
}

static void test_text(void **state) {
    (void)state;
    static const Case cases[] = {
        {"\\text{Monday}", "monday", true},
        {"\\text{(B)}", "B", true},
        {"B", "(b)", true},
        {"B", "\\textbf{(B)}", true},
        {"A", "B", false},
        {"E", "e", true},
        {"1011_2", "1011_{2}", true},
        {"1011_2", "1101_2", false},
        {"\\text{yes}", "no", false},
        {"\\frac{", "\\frac{", true},
        {"3", "\\unknown{3}", false},
        {"x", "", false},
    };
    CHECK_MATCH(cases);
}

static void test_where_the_answer_stands(void **state) {
    (void)state;
    static const Case cases[] = {
        {"5", "\\boxed{4} no: \\boxed{5}", true},
        {"5", "\\boxed{5} and then \\boxed{6", false},
        {"5", "\\boxed{\\boxed{5}}", true},
        {"\\{1,2\\}", "\\boxed{\\{2,1\\}}", true},
        {"5", "#### 4\n#### 5 apples", true},
        {"5", "Hence the answer is: **5**.", true},
        {"5", "the answer is 5 because 2+3 = 5", true},
        {"\\frac{1}{2}", "The answer is $\\frac{1}{2}$, as was shown.", true},
        {"7", "First 3, then 7", true},
        {"7", "First 7, then 3", false},
        {"A", "So A", false},
        {"3x", "we get 3x", false},
        {"5", "</think>5</think>6", false},
        {"5", "<think>\\boxed{6}</think> 5", true},
        {"\\boxed{12}", "\\boxed{12}", true},
        {"so we get #### 12", "12", true},
        {"12", "", false},
    };
    CHECK_WHOLE(cases);
}

static void repeat(StrBuf *out, const char *word, int times) {
    for (int i = 0; i < times; i++) strbuf_puts(out, word);
}

// Each text of many bytes or of great numbers ends in a verdict soon.
static void test_time_is_bounded(void **state) {
    (void)state;
    static const char *const bare[] = {
        "9^{9^{9^{9}}}",
        "9999999!",
        "\\binom{999999999}{99999999}",
        "10^{10^{10}}",
        "e^{e^{e^{e^{e}}}}",
        "2^{99999999}",
        "\\sin(10^{9999})",
        "0.000001^{99999999}",
        "\\sqrt[99999999]{2}",
        "((((9!)!)!)!)!",
        "(-1)^{10^{9999}}",
        "1e999999999",
        "\\tan(\\frac{\\pi}{2})",
        "\\frac{1}{0}",
        "0^0",
        "0^{-1}",
        "\\log_1 5",
        "\\ln 0",
        "|",
        "(,)",
        "\\begin{pmatrix}",
        "=",
        "\\lfloor 10^{1000}\\pi\\rfloor",
        "\\frac",
        "x_{",
        "^",
        "-",
        "\\pm",
    };
    double started = log_seconds();
    for (size_t i = 0; i < sizeof bare / sizeof *bare; i++) {
        bool readable;
        answer_match(&readable, span("1"), span(bare[i]));
        assert_false(answer_match(&readable, span("77"), span(bare[i])));
        assert_false(answer_match(&readable, span(bare[i]), span("77")));
    }
    static const char *const pieces[] = {
        "(",      "\\boxed{", "{",  "\\frac{1}{", "x^",       "1+",         "\\sqrt{",
        "-",      "9",        "1,", "|",          "\\boxed",  "answer is ", "####",
        "\\{",    "x=",       "!",  "\xff",       "\xce\xb1", "\\pm ",      "\\begin{matrix}",
        "\\sin ", "a_"};
    StrBuf text = {0};
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        for (int times = 10; times <= 100000; times *= 10) {
            strbuf_clear(&text);
            strbuf_puts(&text, "\\boxed{");
            repeat(&text, pieces[i], times);
            strbuf_puts(&text, "}");
            answer_equal(span("5"), (TextSpan){text.text, text.length});
            answer_equal((TextSpan){text.text, text.length}, span("\\boxed{5}"));
            answer_number_equal(span("5"), (TextSpan){text.text, text.length});
            bool readable;
            if (text.length < 4000) answer_match(&readable, (TextSpan){text.text + 7, text.length - 8}, span("x"));
        }
    }
    strbuf_close(&text);
    assert_true(log_seconds() - started < 60);
}

static void test_hostile_pairs_stay_within_the_budget(void **state) {
    (void)state;
    StrBuf a = {0}, b = {0};
    for (int i = 0; i < 250; i++) {
        strbuf_format(&a, "%s\\sqrt{%d}", i ? "," : "", i + 2);
        strbuf_format(&b, "%s\\sqrt{%d}", i ? "," : "", 252 - i);
    }
    bool readable;
    double started = log_seconds();
    answer_match(&readable, (TextSpan){a.text, a.length}, (TextSpan){b.text, b.length});
    strbuf_clear(&a);
    repeat(&a, "(x+\\pi)^{2}+", 200);
    strbuf_puts(&a, "1");
    answer_match(&readable, (TextSpan){a.text, a.length}, span("x+y+z"));
    assert_true(log_seconds() - started < 20);
    strbuf_close(&a);
    strbuf_close(&b);
}

// What fuzzing found: a number without digits before the point, one without any.
static void test_other_ways_to_write(void **state) {
    (void)state;
    static const Case cases[] = {
        {"3/4", "{3 \\over 4}", true},
        {"1/2", "½", true},
        {"5/2", "2½", true},
        {"1", "2½", false},
        {"7/3", "2⅓", true},
        {"1/3", "0.\\bar{3}", true},
        {"1/3", "0.\\dot{3}", true},
        {"5", "{\\bf 5}", true},
        {"5", "5 m", true},
        {"5", "6 m", false},
        {"5", "5 x", false},
        {"5m", "5", false},
        {"3m", "5m", false},
        {"\\text{yes}", "Yes", true},
        {"yes", "Yes", true},
        {"no", "No", true},
        {"Yes", "No", false},
        {"(x,y)=(1,2)", "(1,2)", true},
        {"(1,2)", "(x, y) = (1, 2)", true},
        {"(x,y)=(\\frac12,2)", "(x,y)=(0.5,2)", true},
        {"(x,y)=(1,2)", "(x,y)=(2,1)", false},
        {"(x,y)=(1,2)", "(2,1)", false},
        {"(x,y)=(1,2),(3,4)", "(3,4), (1,2)", true},
        {"x\\in(-\\infty,2)\\cup(2,\\infty)", "(-\\infty,2)\\cup(2,\\infty)", true},
        {"\\{1,2\\}", "x\\in\\{2,1\\}", true},
        {"x\\in\\{1,2\\}", "x\\in\\{1,3\\}", false},
    };
    CHECK_MATCH(cases);
    static const Case texts[] = {
        {"42", "The answer is 42!", true},
        {"120", "The answer is 5!", true},
        {"120", "The answer is 120!", true},
        {"42", "\\boxed{42!}", false},
    };
    CHECK_WHOLE(texts);
}

static void test_texts_that_stumbled(void **state) {
    (void)state;
    assert_true(answer_equal(span("x\\cdot .00"), span("Answer: x\\cdot .00")));
    assert_false(answer_equal(span("\\{0^{-3\\\n==}=}"), span("Answer: .00matrix2}")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_that_stumbled),
        cmocka_unit_test(test_other_ways_to_write),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_percent_units_and_currency),
        cmocka_unit_test(test_roots_and_constants),
        cmocka_unit_test(test_expressions),
        cmocka_unit_test(test_sets_tuples_and_intervals),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_where_the_answer_stands),
        cmocka_unit_test(test_time_is_bounded),
        cmocka_unit_test(test_hostile_pairs_stay_within_the_budget),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
