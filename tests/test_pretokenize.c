// Patterns and the splits that they make.
#include "text/pretokenize.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define QWEN2                                                                                                          \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"                \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LLAMA3                                                                                                         \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"           \
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static Pattern *opened(const char *regex, PatternDialect dialect) {
    Pattern *pattern = NULL;
    Error error = {{0}};
    if (!pattern_open(&pattern, regex, strlen(regex), dialect, &error)) fail_msg("%s", error.text);
    return pattern;
}

// The pieces with | between them.
static const char *pieces_first(const PretokenizeStep *step, const char *text, size_t size, bool first) {
    static char out[4096];
    PretokenizeScratch scratch = {0};
    PretokenizeCursor cursor;
    Error error;
    size_t used = 0;
    pretokenize_begin(&cursor, step, &scratch, text, size, first);
    for (bool more = false;; more = true) {
        const char *piece;
        size_t length;
        assert_true(pretokenize_next(&cursor, &piece, &length, &error));
        if (!length) break;
        assert_in_range(used + length + 2, 0, sizeof out);
        if (more) out[used++] = '|';
        memcpy(out + used, piece, length);
        used += length;
    }
    out[used] = 0;
    pretokenize_release(&scratch);
    return out;
}

static const char *pieces(const PretokenizeStep *step, const char *text, size_t size) {
    return pieces_first(step, text, size, true);
}

static const char *split(const char *regex, PretokenizeBehavior behavior, bool inverted, const char *text) {
    PretokenizeStep step = {.pattern = opened(regex, PATTERN_ONIGURUMA), .behavior = behavior, .inverted = inverted};
    const char *out = pieces(&step, text, strlen(text));
    pattern_close(step.pattern);
    return out;
}

static void test_splits_are_those_of_the_regexes(void **state) {
    (void)state;
    PretokenizeStep steps[5] = {0};
    static const char *const regexes[] = {GPT2, QWEN2, LLAMA3, "\\p{N}", "\\p{N}"};
    for (int i = 0; i < 5; i++) steps[i].pattern = opened(regexes[i], i < 3 ? PATTERN_ONIGURUMA : PATTERN_RUST);
    steps[4].behavior = PRETOKENIZE_CONTIGUOUS;
    // Text, then its pieces under each step, as tokenizers 0.23.3 splits it.
    static const char *const cases[][6] = {
        {"Hello world", "Hello| world", "Hello| world", "Hello| world", "Hello world", "Hello world"},
        {"  two  blanks ", " | two| | blanks| ", " | two| | blanks| ", " | two| | blanks| ", "  two  blanks ",
         "  two  blanks "},
        {"it's IT'S it\u2019s", "it|'s| IT|'|S| it|\u2019|s", "it|'s| IT|'S| it|\u2019s", "it|'s| IT|'S| it|\u2019s",
         "it's IT'S it\u2019s", "it's IT'S it\u2019s"},
        {"we'll WE'LL they've", "we|'ll| WE|'|LL| they|'ve", "we|'ll| WE|'LL| they|'ve", "we|'ll| WE|'LL| they|'ve",
         "we'll WE'LL they've", "we'll WE'LL they've"},
        {"'\u017F '\u017Fx", "'|\u017F| '|\u017Fx", "'\u017F| '|\u017Fx", "'\u017F| '|\u017Fx", "'\u017F '\u017Fx",
         "'\u017F '\u017Fx"},
        {"don'tx'rex", "don|'t|x|'re|x", "don|'t|x|'re|x", "don|'t|x|'re|x", "don'tx'rex", "don'tx'rex"},
        {"a\n\nb", "a|\n|\n|b", "a|\n\n|b", "a|\n\n|b", "a\n\nb", "a\n\nb"},
        {"a \n \n b", "a| \n \n| b", "a| \n \n| b", "a| \n \n| b", "a \n \n b", "a \n \n b"},
        {"a\r\n\r\n  b", "a|\r\n\r\n | b", "a|\r\n\r\n| | b", "a|\r\n\r\n| | b", "a\r\n\r\n  b", "a\r\n\r\n  b"},
        {"\t\tx\ty", "\t|\t|x|\t|y", "\t|\tx|\ty", "\t|\tx|\ty", "\t\tx\ty", "\t\tx\ty"},
        {"x  \n", "x|  \n", "x|  \n", "x|  \n", "x  \n", "x  \n"},
        {"   ", "   ", "   ", "   ", "   ", "   "},
        {"   x", "  | x", "  | x", "  | x", "   x", "   x"},
        {"\u00A0\u00A0x\u00A0!", "\u00A0|\u00A0|x|\u00A0|!", "\u00A0|\u00A0x|\u00A0|!", "\u00A0|\u00A0x|\u00A0|!",
         "\u00A0\u00A0x\u00A0!", "\u00A0\u00A0x\u00A0!"},
        {"  !!\n\n?", " | !!|\n|\n|?", " | !!\n\n|?", " | !!\n\n|?", "  !!\n\n?", "  !!\n\n?"},
        {"!\n x", "!|\n| x", "!\n| x", "!\n| x", "!\n x", "!\n x"},
        {"1234567", "1234567", "1|2|3|4|5|6|7", "123|456|7", "1|2|3|4|5|6|7", "1234567"},
        {"a1b22 333 4444", "a|1|b|22| 333| 4444", "a|1|b|2|2| |3|3|3| |4|4|4|4", "a|1|b|22| |333| |444|4",
         "a|1|b|2|2| |3|3|3| |4|4|4|4", "a|1|b|22| |333| |4444"},
        {"\u0661\u0662 \u00B2\u2163\u4E94", "\u0661\u0662| \u00B2\u2163|\u4E94", "\u0661|\u0662| |\u00B2|\u2163|\u4E94",
         "\u0661\u0662| |\u00B2\u2163|\u4E94", "\u0661|\u0662| |\u00B2|\u2163|\u4E94",
         "\u0661\u0662| |\u00B2\u2163|\u4E94"},
        {"\u4F60\u597D\uFF0C\u4E16\u754C", "\u4F60\u597D|\uFF0C|\u4E16\u754C", "\u4F60\u597D|\uFF0C\u4E16\u754C",
         "\u4F60\u597D|\uFF0C\u4E16\u754C", "\u4F60\u597D\uFF0C\u4E16\u754C", "\u4F60\u597D\uFF0C\u4E16\u754C"},
        {"\u00E9e\u0301e", "\u00E9e|\u0301|e", "\u00E9e|\u0301e", "\u00E9e|\u0301e", "\u00E9e\u0301e",
         "\u00E9e\u0301e"},
        {"\U0001F600 \U0001F600x", "\U0001F600| \U0001F600|x", "\U0001F600| \U0001F600|x", "\U0001F600| \U0001F600|x",
         "\U0001F600 \U0001F600x", "\U0001F600 \U0001F600x"},
        {"\u200Bx\uFEFFy\u180Ez", "\u200B|x|\uFEFF|y|\u180E|z", "\u200Bx|\uFEFFy|\u180Ez", "\u200Bx|\uFEFFy|\u180Ez",
         "\u200Bx\uFEFFy\u180Ez", "\u200Bx\uFEFFy\u180Ez"},
        {"\034 \037 a\302\205\302\205b", "\034| \037| a|\302\205|\302\205|b", "\034| \037| a|\302\205|\302\205b",
         "\034| \037| a|\302\205|\302\205b", "\034 \037 a\302\205\302\205b", "\034 \037 a\302\205\302\205b"},
        {"\u3000\u3000x", "\u3000|\u3000|x", "\u3000|\u3000x", "\u3000|\u3000x", "\u3000\u3000x", "\u3000\u3000x"},
        {"f(x) == 'tis", "f|(|x|)| ==| '|tis", "f|(x|)| ==| '|tis", "f|(x|)| ==| '|tis", "f(x) == 'tis",
         "f(x) == 'tis"},
        {"_a __b", "_|a| __|b", "_a| __|b", "_a| __|b", "_a __b", "_a __b"},
        {"\u0915\u093F\u0924\u093E\u092C", "\u0915|\u093F|\u0924|\u093E|\u092C", "\u0915|\u093F\u0924|\u093E\u092C",
         "\u0915|\u093F\u0924|\u093E\u092C", "\u0915\u093F\u0924\u093E\u092C", "\u0915\u093F\u0924\u093E\u092C"},
        {"\U000105C0\U00016D40\U00011DE0", "\U000105C0\U00016D40|\U00011DE0", "\U000105C0\U00016D40|\U00011DE0",
         "\U000105C0\U00016D40|\U00011DE0", "\U000105C0\U00016D40|\U00011DE0", "\U000105C0\U00016D40|\U00011DE0"},
        {"'", "'", "'", "'", "'", "'"},
        {"''s", "''|s", "''|s", "''|s", "''s", "''s"},
        {"s'", "s|'", "s|'", "s|'", "s'", "s'"},
        {"  '", " | '", " | '", " | '", "  '", "  '"},
        {"' s", "'| s", "'| s", "'| s", "' s", "' s"},
        {"\u2028\u2029\n x", "\u2028\u2029\n| x", "\u2028\u2029\n| x", "\u2028\u2029\n| x", "\u2028\u2029\n x",
         "\u2028\u2029\n x"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++)
            assert_string_equal(pieces(steps + s, cases[i][0], strlen(cases[i][0])), cases[i][s + 1]);
    }
    for (int i = 0; i < 5; i++) pattern_close(steps[i].pattern);
}

static void test_behaviors_are_those_of_the_library(void **state) {
    (void)state;
    // As tokenizers 0.23.3 splits "a--b-c- " by "-" and by "[a-c]".
    static const struct {
        const char *regex;
        PretokenizeBehavior behavior;
        bool inverted;
        const char *expected;
    } cases[] = {
        {"-", PRETOKENIZE_ISOLATED, false, "a|-|-|b|-|c|-| "},
        {"-", PRETOKENIZE_REMOVED, false, "a|b|c| "},
        {"-", PRETOKENIZE_MERGED_WITH_PREVIOUS, false, "a-|-|b-|c-| "},
        {"-", PRETOKENIZE_MERGED_WITH_NEXT, false, "a|-|-b|-c|- "},
        {"-", PRETOKENIZE_CONTIGUOUS, false, "a|--|b|-|c|-| "},
        {"[a-c]", PRETOKENIZE_ISOLATED, true, "a|--|b|-|c|- "},
        {"[a-c]", PRETOKENIZE_REMOVED, true, "a|b|c"},
        {"[a-c]", PRETOKENIZE_MERGED_WITH_PREVIOUS, true, "a--|b-|c- "},
        {"[a-c]", PRETOKENIZE_MERGED_WITH_NEXT, true, "a|--b|-c|- "},
        {"[a-c]", PRETOKENIZE_CONTIGUOUS, true, "a|--|b|-|c|- "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(split(cases[i].regex, cases[i].behavior, cases[i].inverted, "a--b-c- "), cases[i].expected);
}

static void test_syntax_is_that_of_oniguruma(void **state) {
    (void)state;
    static const struct {
        const char *regex, *text, *expected;
    } cases[] = {
        {"a{2}", "aaaaa", "aa|aa|a"},
        {"a{,2}b", "aaabb", "a|aab|b"},
        {"a{2,}?", "aaaaa", "aa|aa|a"},
        {"(?:ab|c){1,2}+x", "ababcxab", "ababcx|ab"}, // not possessive: the + repeats what the braces repeat
        {"a++b", "aab", "aab"},
        {"a*+ab|b", "aab", "aa|b"},
        {"(?i:k)e", "\u212Aeke", "\u212Ae|ke"},
        {"(?i:[d-t])x", "\u017FxSxDxux", "\u017Fx|Sx|Dx|ux"},
        {"[^a\\-z]", "a-yz", "a-|y|z"},
        {"[a-c[x-z]]+", "abxyq", "abxy|q"},
        {"[\\p{Lu}\\p{Nd}]+", "AB1c\u00C9", "AB1|c|\u00C9"},
        {"\\P{L}+", "ab12 c", "ab|12 |c"},
        {"\\p{^L}+", "ab12 c", "ab|12 |c"},
        {"\\d+|\\D", "12ab", "12|a|b"},
        {"\\w+", "a\u00B2_ \u200Cb", "a\u00B2_| \u200C|b"},
        {"\\x41\\x{42}\\u0043", "xABC", "x|ABC"},
        {"a.c", "a\ncabc", "a\nc|abc"},
        {"^b", "b\nb\nab", "b|\n|b|\nab"},
        {"b$", "b\nab", "b|\na|b"},
        {"\\Ab|b\\z", "bbb", "b|b|b"},
        {"(?<=a)b", "abb", "a|b|b"},
        {"(?<!a)b", "abb", "ab|b"},
        {"(?>a+)b|a", "aac", "a|a|c"},
        {"{a}", "{a}{", "{a}|{"},
        {"\\s+", "\u180E \302\205\u00A0.", "\u180E| \302\205\u00A0|."},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *found = split(cases[i].regex, PRETOKENIZE_ISOLATED, false, cases[i].text);
        if (strcmp(found, cases[i].expected)) fail_msg("%s on %s: %s", cases[i].regex, cases[i].text, found);
    }
}

static void test_what_is_not_understood_is_refused(void **state) {
    (void)state;
    static const struct {
        const char *regex, *expected;
    } cases[] = {
        {"a*", "matches the empty text"},
        {"", "matches the empty text"},
        {"(a", "a group is not closed"},
        {"a)", "at byte 1: nothing is open here"},
        {"[a", "the set is not closed"},
        {"[]a]", "an empty set"},
        {"[a&&b]", "intersections are not supported"},
        {"[[:alpha:]]", "POSIX classes"},
        {"[z-a]", "not a range of characters"},
        {"[\\d-z]", "not a range of characters"},
        {"*a", "nothing to repeat"},
        {"a**", "a quantifier of a quantifier"},
        {"a{2}?", "? after a fixed number"},
        {"a\\", "nothing follows the backslash"},
        {"\\bword", "\"\\b\" at byte 0: this escape is not supported"},
        {"(a)\\1", "this escape is not supported"},
        {"\\p{Han}", "only general categories are supported"},
        {"\\p{L", "expected \\p{"},
        {"(?<name>a)", "this kind of group"},
        {"(?m:a)", "this kind of group"},
        {"(?i:\u00E9)", "without case only ASCII"},
        {"(?i:\\p{Lu})", "a case asked for without case"},
        {"(?i:stop)", "without case this pair is also one character"},
        {"a{100000}", "is not valid"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Pattern *pattern = NULL;
        Error error = {{0}};
        if (pattern_open(&pattern, cases[i].regex, strlen(cases[i].regex), PATTERN_ONIGURUMA, &error))
            fail_msg("%s was taken", cases[i].regex);
        assert_null(pattern);
        if (!strstr(error.text, cases[i].expected)) fail_msg("%s: %s", cases[i].regex, error.text);
    }
}

// Whatever bytes a file has for a regex: it is refused or works.
static void test_damaged_regexes_never_crash(void **state) {
    (void)state;
    static const char letters[] = "a\\p{L}[]^-()?*+{2,}|.$is!<>\xC3\xA9:=#&";
    uint32_t chance = 1;
    int good = 0;
    for (int round = 0; round < 3000; round++) {
        char regex[16];
        size_t size = round % 15 + 1;
        for (size_t i = 0; i < size; i++) {
            chance = chance * 1664525 + 1013904223;
            regex[i] = letters[(chance >> 16) % (sizeof letters - 1)];
        }
        PretokenizeStep step = {0};
        Error error;
        if (!pattern_open(&step.pattern, regex, size, PATTERN_ONIGURUMA, &error)) continue;
        good++;
        assert_non_null(pieces(&step, "aa(L\u00E92 s]|", 11));
        pattern_close(step.pattern);
    }
    assert_true(good > 50);
}

static void test_work_is_bounded(void **state) {
    (void)state;
    enum { SIZE = 40 };
    PretokenizeStep step = {.pattern = opened("(?:a|a)*(?:a|a)*(?:a|a)*(?:a|a)*[bc]", PATTERN_ONIGURUMA)};
    PretokenizeScratch scratch = {0};
    PretokenizeCursor cursor;
    Error error;
    char text[SIZE];
    const char *piece;
    size_t length;
    memset(text, 'a', sizeof text);
    memcpy(text + SIZE - 2, "db", 2);
    pretokenize_begin(&cursor, &step, &scratch, text, sizeof text, true);
    assert_false(pretokenize_next(&cursor, &piece, &length, &error));
    assert_non_null(strstr(error.text, "the split regex failed on a text of 40 characters: match limit exceeded"));
    pretokenize_release(&scratch);
    pattern_close(step.pattern);
}

// Runs that a pattern walks over several times must stay linear: a blank at the end of each makes the last alternative.
static void test_long_runs_are_quick(void **state) {
    (void)state;
    enum { SIZE = 1 << 20 };
    PretokenizeStep step = {.pattern = opened(LLAMA3, PATTERN_ONIGURUMA)};
    static const char *const runs[] = {" ", "a", "1", "!", "\n", "\u00A0", "\U0001F600", "\u4F60", "\u0301"};
    Arena arena = {0};
    char *text = arena_alloc(&arena, SIZE + 4);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        size_t size = strlen(runs[i]), count = 0, total = 0;
        for (size_t at = 0; at + size <= SIZE; at += size) memcpy(text + at, runs[i], size);
        PretokenizeScratch scratch = {0};
        PretokenizeCursor cursor;
        Error error = {{0}};
        const char *piece;
        size_t length;
        pretokenize_begin(&cursor, &step, &scratch, text, SIZE / size * size, true);
        for (;; count++, total += length) {
            if (!pretokenize_next(&cursor, &piece, &length, &error)) fail_msg("%s", error.text);
            if (!length) break;
        }
        assert_int_equal(total, SIZE / size * size);
        assert_true(count == 1 || runs[i][0] == '1');
        pretokenize_release(&scratch);
    }
    arena_close(&arena);
    pattern_close(step.pattern);
}

static void test_bytes_that_are_no_characters_split_as_symbols(void **state) {
    (void)state;
    PretokenizeStep gpt2 = {.pattern = opened(GPT2, PATTERN_ONIGURUMA)};
    PretokenizeStep qwen2 = {.pattern = opened(QWEN2, PATTERN_ONIGURUMA)};
    assert_string_equal(pieces(&gpt2, " \xFF\xE4\xBD!a", 6), " \xFF\xE4\xBD!|a");
    assert_string_equal(pieces(&gpt2, "a\xC3", 2), "a|\xC3");
    assert_string_equal(pieces(&qwen2, "\xFFge", 3), "\xFFge");
    pattern_close(gpt2.pattern);
    pattern_close(qwen2.pattern);
}

static void test_prefixes_and_blanks(void **state) {
    (void)state;
    Error error;
    PretokenizeStep step = {.blank = "_", .prefix = "_", .behavior = PRETOKENIZE_MERGED_WITH_NEXT};
    assert_true(pattern_open_literal(&step.pattern, "_", 1, &error));
    assert_string_equal(pieces(&step, "a  b", 4), "a|_|_b");
    step.when_prefix = PRETOKENIZE_ALWAYS;
    assert_string_equal(pieces(&step, "a b", 3), "_a|_b");
    assert_string_equal(pieces(&step, " a b", 4), "_a|_b");
    assert_string_equal(pieces(&step, "_a b", 4), "_a|_b");
    assert_string_equal(pieces_first(&step, "a", 1, false), "_a");
    step.when_prefix = PRETOKENIZE_FIRST;
    assert_string_equal(pieces(&step, "a b", 3), "_a|_b");
    assert_string_equal(pieces_first(&step, "a b", 3, false), "a|_b");
    pattern_close(step.pattern);
    step.pattern = NULL;
    assert_string_equal(pieces(&step, "a b", 3), "_a_b");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_splits_are_those_of_the_regexes),
        cmocka_unit_test(test_behaviors_are_those_of_the_library),
        cmocka_unit_test(test_syntax_is_that_of_oniguruma),
        cmocka_unit_test(test_what_is_not_understood_is_refused),
        cmocka_unit_test(test_damaged_regexes_never_crash),
        cmocka_unit_test(test_work_is_bounded),
        cmocka_unit_test(test_long_runs_are_quick),
        cmocka_unit_test(test_bytes_that_are_no_characters_split_as_symbols),
        cmocka_unit_test(test_prefixes_and_blanks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
