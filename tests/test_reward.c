// Rewards by name, those of several components, and the verdicts on form: DAPO's last line, choices, tags. Cases in
// tests/data/rewards come from the rules written down in Python's regular expressions (README.md there).
#include "base/file.h"
#include "base/jsonio.h"
#include "text/reward.h"
#include "text/reward_dapo.h"
#include "text/reward_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static Error error;

static TextSpan span(const char *text) {
    return (TextSpan){text, strlen(text)};
}

static TextSpan text_of(const json_t *line, const char *key) {
    const json_t *value = json_object_get(line, key);
    return (TextSpan){json_string_value(value), json_string_length(value)};
}

static void test_cases(void **state) {
    (void)state;
    Arena arena = {0};
    char *text;
    int cases = 0, right[3] = {0};
    const char *path = getenv("REWARD_CASES") ? getenv("REWARD_CASES") : "tests/data/rewards/cases.jsonl";
    if (!file_read(&text, NULL, &arena, path, &error)) fail_msg("%s", error.text);
    for (char *at = strtok(text, "\n"); at; at = strtok(NULL, "\n"), cases++) {
        json_t *line = json_loads(at, 0, NULL);
        TextSpan response = text_of(line, "response"), gold = text_of(line, "gold"), wanted = text_of(line, "normal");
        StrBuf normal = {0};
        strbuf_clear(&normal);
        reward_dapo_normalize(&normal, gold);
        if (normal.length != wanted.size || memcmp(normal.text, wanted.text, wanted.size))
            fail_msg("normalised '%s', not '%.*s': %s", normal.text, (int)wanted.size, wanted.text, at);
        strbuf_close(&normal);
        TextSpan tagged = reward_format_tagged(response), inside = text_of(line, "tagged");
        if (tagged.size != inside.size || memcmp(tagged.text, inside.text, inside.size))
            fail_msg("tagged '%.*s': %s", (int)tagged.size, tagged.text, at);
        const float found[3] = {reward_dapo(response, gold), reward_format_choice(response, gold),
                                reward_format_tags(response, gold)};
        const char *const names[3] = {"dapo", "choice", "tags"};
        for (int i = 0; i < 3; i++) {
            if (found[i] != (float)json_number_value(json_object_get(line, names[i])))
                fail_msg("%s is %g: %s", names[i], (double)found[i], at);
            right[i] += found[i] != 0;
        }
        json_decref(line);
    }
    assert_true(cases >= 50 && right[0] > 5 && right[1] > 3 && right[2] > 0);
    arena_close(&arena);
}

static float reward_of(const char *name, const RewardOptions *options, const char *response, const char *gold) {
    const Reward *reward = reward_find(name, options, &error);
    if (!reward) fail_msg("%s", error.text);
    float components[REWARD_MAX_COMPONENTS];
    return reward_score(components, reward, span(response), span(gold));
}

static void test_rewards_by_name(void **state) {
    (void)state;
    static const struct {
        const char *name, *response, *gold;
        float reward;
    } cases[] = {
        {"math", "so \\boxed{\\frac12}", "0.5", 1},
        {"math", "so \\boxed{0.4}", "\\frac{1}{2}", 0},
        {"math_default", "The answer is $x+1$.", "1+x", 1},
        {"dapo", "Answer: 1,234", "1234", 1},
        {"dapo", "\\boxed{1234}", "1234", 0},
        {"number", "That makes 1,234.0 dollars", "1234", 1},
        {"number", "so 5", "6", 0},
        {"last_integer", "= -5", "-5", 1},
        {"last_integer", "= 1234", " 1,234 ", 1},
        {"last_integer", "9", "9.0", 1},
        {"last_integer", "9", "nine", 0},
        {"english_multichoice", "Answer: **B**", "B", 1},
        {"english_multichoice", "Answer: b", "B", 0},
        {"math_multi_reward", "<think>x</think>\n<answer>7</answer>", "7", 3},
        {"math_multi_reward", "<answer> 7 </answer>", "7", 2},
        {"math_multi_reward", "seven", "7", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (reward_of(cases[i].name, NULL, cases[i].response, cases[i].gold) != cases[i].reward)
            fail_msg("%s of '%s' for '%s'", cases[i].name, cases[i].response, cases[i].gold);
    const RewardOptions dapo = {.name = "math", .math_verify_impl = "dapo_math_verify"},
                        choice = {.name = "math", .verifier_type = "english_multichoice"},
                        hf = {.name = "dapo", .math_verify_impl = "hf_math_verify"};
    assert_true(reward_of("math", &dapo, "\\boxed{5}", "5") == 0 && reward_of("math", &dapo, "Answer: 5", "5") == 1);
    assert_true(reward_of("math", &choice, "Answer: C", "C") == 1 && reward_of("dapo", &hf, "\\boxed{5}", "5") == 1);
    const char *const words[] = {"true", NULL};
    const RewardOptions command = {.name = "math", .command = words};
    assert_int_equal(reward_find("math", &command, &error)->component_count, 0);
}

static void test_components_are_ordered_by_name(void **state) {
    (void)state;
    const Reward *reward = reward_find("math_multi_reward", NULL, &error);
    assert_int_equal(reward->component_count, 3);
    float component[REWARD_MAX_COMPONENTS];
    assert_true(reward_score(component, reward, span("<answer>8</answer>"), span("7")) == 1);
    static const char *const names[] = {"correctness", "format", "integer"};
    static const float values[] = {0, 0, 1};
    for (int c = 0; c < 3; c++) {
        assert_string_equal(reward->components[c].name, names[c]);
        assert_true(component[c] == values[c]);
    }
}

static void test_golds_that_a_reward_cannot_read(void **state) {
    (void)state;
    const Reward *integer = reward_find("last_integer", NULL, &error), *number = reward_find("number", NULL, &error);
    static const char *const integers[] = {
        "7", "-7", "+7", " 1,234,567", "9223372036854775807", "-9223372036854775808"};
    static const char *const others[] = {"", "x", "7 apples", "1,23", "7.5", "9223372036854775808", "--7", "12-5"};
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (!integer->takes(span(integers[i]))) fail_msg("%s", integers[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (integer->takes(span(others[i]))) fail_msg("%s", others[i]);
    assert_true(number->takes(span("3/4")) && !number->takes(span("many")));
}

static void test_unknown_rewards_are_refused(void **state) {
    (void)state;
    assert_null(reward_find("last_intger", NULL, &error));
    assert_non_null(strstr(error.text, "\"last_intger\" is no reward: expected \"math\", "));
    assert_non_null(strstr(error.text, "(did you mean \"last_integer\"?), or a command under env.last_intger.command"));
    assert_null(reward_find("", NULL, &error));
    assert_null(reward_find("code", NULL, &error));
    const RewardOptions multilingual = {.name = "math", .verifier_type = "multilingual_multichoice"};
    assert_null(reward_find("math", &multilingual, &error));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_rewards_by_name),
        cmocka_unit_test(test_components_are_ordered_by_name),
        cmocka_unit_test(test_golds_that_a_reward_cannot_read),
        cmocka_unit_test(test_unknown_rewards_are_refused),
    };
    return cmocka_run_group_tests_name("reward", tests, NULL, NULL);
}
