// The generated arithmetic task: what is asked, how questions are divided and ordered; and the reward of its answers.
#include "base/rng.h"
#include "text/arithmetic.h"
#include "text/reward.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static ArithmeticOptions options_of(const char *operations, int64_t left_min, int64_t left_max, int64_t right_min,
                                    int64_t right_max) {
    ArithmeticOptions options = {(int)strlen(operations), "", left_min, left_max, right_min, right_max};
    memcpy(options.operations, operations, strlen(operations));
    return options;
}

static Arithmetic open_task(ArithmeticOptions options) {
    Arithmetic task;
    Error error;
    if (!arithmetic_open(&task, &options, &error)) fail_msg("%s", error.text);
    return task;
}

// ---- questions

static void test_every_question_is_asked_once_with_its_answer(void **state) {
    (void)state;
    Arithmetic task = open_task(options_of("+-*", -3, 4, 7, 11));
    assert_int_equal(task.count, 3 * 8 * 5);
    bool seen[3][8][5] = {0};
    for (int64_t i = 0; i < task.count; i++) {
        char text[ARITHMETIC_QUESTION_SIZE], operation[4], mark;
        int64_t answer;
        int left, right;
        arithmetic_question(&task, i, text, &answer);
        assert_int_equal(sscanf(text, "What is %d %3s %d%c", &left, operation, &right, &mark), 4);
        assert_int_equal(mark, '?');
        int which = operation[0] == '+' ? 0 : operation[0] == '-' ? 1 : 2;
        if (which == 2) assert_string_equal(operation, "×");
        assert_int_equal(answer, which == 0 ? left + right : which == 1 ? left - right : left * right);
        assert_true(left >= -3 && left <= 4 && right >= 7 && right <= 11);
        assert_false(seen[which][left + 3][right - 7]);
        seen[which][left + 3][right - 7] = true;
    }
}

static void test_questions_read_well(void **state) {
    (void)state;
    char text[ARITHMETIC_QUESTION_SIZE];
    int64_t answer;
    const struct {
        ArithmeticOptions options;
        const char *text;
        int64_t answer;
    } cases[] = {
        {options_of("+", 37, 37, 5, 5), "What is 37 + 5?", 42},
        {options_of("-", -4, -4, 9, 9), "What is -4 - 9?", -13},
        {options_of("*", 6, 6, -7, -7), "What is 6 × (-7)?", -42},
        {options_of("-", 1, 1, -1, -1), "What is 1 - (-1)?", 2},
        {options_of("+", INT64_MIN, INT64_MIN, INT64_MAX, INT64_MAX),
         "What is -9223372036854775808 + 9223372036854775807?", -1},
        {options_of("*", INT64_MIN + 1, INT64_MIN + 1, -1, -1), "What is -9223372036854775807 × (-1)?", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Arithmetic task = open_task(cases[i].options);
        arithmetic_question(&task, 0, text, &answer);
        assert_string_equal(text, cases[i].text);
        assert_true(answer == cases[i].answer);
    }
}

static void test_ranges_may_be_huge(void **state) {
    (void)state;
    Arithmetic task = open_task(options_of("+-", 0, 999999999, -500000000, 499999999));
    char text[ARITHMETIC_QUESTION_SIZE], other[ARITHMETIC_QUESTION_SIZE];
    int64_t answer;
    arithmetic_question(&task, task.count - 1, text, &answer);
    assert_string_equal(text, "What is 999999999 - 499999999?");
    arithmetic_question(&task, 999, other, &answer);
    assert_string_not_equal(text, other);
}

// ---- order

static void test_permutations_of_any_size(void **state) {
    (void)state;
    for (uint64_t count = 1; count <= 300; count++) {
        bool seen[300] = {0};
        for (uint64_t i = 0; i < count; i++) {
            uint64_t image = rng_permute(i, count, 5, RNG_SHUFFLE, (uint32_t)count);
            assert_true(image < count && !seen[image]);
            seen[image] = true;
        }
    }
    // Over many epochs every place is about equally likely: 2000 draws over 10 places, five sigma.
    int hits[10] = {0};
    for (uint32_t epoch = 0; epoch < 2000; epoch++) hits[rng_permute(3, 10, 5, RNG_SHUFFLE, epoch)]++;
    for (int i = 0; i < 10; i++) assert_in_range(hits[i], 200 - 67, 200 + 67);
    uint64_t huge = UINT64_C(1) << 62;
    assert_true(rng_permute(huge - 1, huge, 1, RNG_SHUFFLE, 0) < huge);
    assert_true(rng_permute(huge - 2, huge - 1, 1, RNG_SHUFFLE, 0) < huge - 1);
}

// ---- refusals

static void refused(ArithmeticOptions options, const char *words) {
    Arithmetic task;
    Error error = {.text = ""};
    assert_false(arithmetic_open(&task, &options, &error));
    if (!strstr(error.text, words)) fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void test_tasks_that_cannot_be_are_refused(void **state) {
    (void)state;
    refused(options_of("", 0, 9, 0, 9), "operations: 0");
    refused(options_of("/", 0, 9, 0, 9), "\"/\": expected");
    refused(options_of("+-+", 0, 9, 0, 9), "\"+\" is there twice");
    refused(options_of("+", 9, 0, 0, 9), "left: [9, 0]: expected the least number first");
    refused(options_of("+", 0, 9, 4, 3), "right: [4, 3]");
    refused(options_of("+", INT64_MIN, INT64_MAX, 0, 0), "too long");
    refused(options_of("+", 0, INT64_MAX - 1, 0, 9), "64 bits");
    refused(options_of("*", -1, 0, INT64_MIN, INT64_MIN), "64 bits");
    refused(options_of("-", 0, INT64_MAX / 4, 0, INT64_MAX / 4), "2^62");
    ArithmeticOptions many = options_of("+-*", 0, 9, 0, 9);
    many.operation_count = 4;
    refused(many, "operations: 4");
}

// ---- reward

static void test_last_integer(void **state) {
    (void)state;
    const struct {
        const char *text;
        int64_t expected;
        int reward;
    } cases[] = {
        {"42", 42, 1},
        {"37 + 5 = 42.", 42, 1},
        {"The answer is 42!", 42, 1},
        {"42 is the answer to 37 + 5", 42, 0}, // the last one counts
        {"", 0, 0},
        {"no number", 0, 0},
        {"forty-two", 42, 0},
        {"**42**", 42, 1},
        {"\\boxed{42}", 42, 1},
        {"$42", 42, 1},
        {"x=42", 42, 1},
        {"42\n", 42, 1},
        {"142", 42, 0},
        {"421", 42, 0},
        {"007", 7, 1},
        {"0", 0, 1},
        // signs
        {"-5", -5, 1},
        {"-5", 5, 0},
        {"= -5", -5, 1},
        {"(-5)", -5, 1},
        {"12-5", 5, 1},
        {"12 - 5", 5, 1},
        {"x-5", 5, 1},
        {"(3)-5", 5, 1},
        {"the answer is \xe2\x88\x92"
         "5",
         -5, 1}, // U+2212
        {"12\xe2\x88\x92"
         "5",
         5, 1},
        {"\xe2\x88\x92"
         "5",
         -5, 1},
        {"\x88\x92"
         "5",
         5, 1},
        {"+5", 5, 1},
        {"-0", 0, 1},
        {"- 5", 5, 1},
        // thousands
        {"1,234", 1234, 1},
        {"-1,234,567.", -1234567, 1},
        {"1,234, and", 1234, 1},
        {"12,34", 34, 1},
        {"1,2345", 2345, 1},
        {"1234,567", 567, 1},
        {"0,123", 123, 1},
        {"1, 2, 3", 3, 1},
        {"3,", 3, 1},
        {"1,,234", 234, 1},
        // decimals
        {"42.0", 42, 1},
        {"42.00 exactly", 42, 1},
        {"42.5", 42, 0},
        {"42.5", 5, 0},
        {"1,234.0", 1234, 1},
        {"42. 7", 7, 1},
        {"42.", 42, 1},
        {"3.14.15", 15, 1},
        // bounds
        {"9223372036854775807", INT64_MAX, 1},
        {"-9223372036854775808", INT64_MIN, 1},
        {"9223372036854775808", INT64_MIN, 0},
        {"18446744073709551616", 0, 0}, // 2^64 does not wrap around
        {"99999999999999999999999999999999999999", -1, 0},
        {"18446744073709551616 or 3", 3, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float found = reward_last_integer(cases[i].text, strlen(cases[i].text), cases[i].expected);
        if (found != (float)cases[i].reward) fail_msg("\"%s\": reward %g", cases[i].text, found);
    }
}

static void test_reward_reads_any_bytes_within_bounds(void **state) {
    (void)state;
    const char zero[] = "4\0 2";
    assert_true(reward_last_integer(zero, 4, 2) == 1);
    assert_true(reward_last_integer("427", 2, 42) == 1); // 7 lies behind the end
    assert_true(reward_last_integer("42.5", 3, 42) == 1);
    assert_true(reward_last_integer("1,234", 4, 23) == 1);
    assert_true(reward_last_integer(NULL, 0, 0) == 0);
    for (uint32_t round = 0; round < 5000; round++) {
        static const char alphabet[] = "0123456789,,..--+ \xe2\x88\x92"
                                       "ax)]\xff";
        char text[24];
        uint32_t words[4], size = round % (sizeof text + 1);
        for (uint32_t i = 0; i < size; i++) {
            rng_words(words, 1, RNG_QUESTION, (RngCounter){.step = round, .token = i});
            text[i] = alphabet[words[0] % (sizeof alphabet - 1)];
        }
        char *exact = test_malloc(size + 1); // so that a read behind the end is seen by a sanitizer
        memcpy(exact, text, size);
        float found = reward_last_integer(exact, size, 7);
        assert_true(found == 0 || found == 1);
        test_free(exact);
    }
}

static void test_reward_takes_linear_time(void **state) {
    (void)state;
    enum { SIZE = 1 << 22 };
    char *text = test_malloc(SIZE);
    for (int i = 0; i < SIZE; i++) text[i] = i % 4 == 1 ? ',' : '1';
    assert_true(reward_last_integer(text, SIZE, 11) == 1); // the last group has two digits
    memset(text, '9', SIZE);
    assert_true(reward_last_integer(text, SIZE, 9) == 0);
    test_free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_question_is_asked_once_with_its_answer),
        cmocka_unit_test(test_questions_read_well),
        cmocka_unit_test(test_ranges_may_be_huge),
        cmocka_unit_test(test_permutations_of_any_size),
        cmocka_unit_test(test_tasks_that_cannot_be_are_refused),
        cmocka_unit_test(test_last_integer),
        cmocka_unit_test(test_reward_reads_any_bytes_within_bounds),
        cmocka_unit_test(test_reward_takes_linear_time),
    };
    return cmocka_run_group_tests_name("arithmetic", tests, NULL, NULL);
}
