// Characters: UTF-8, Unicode's sets and NFC, and the splits of text that they decide.
#include "text/pretokenize.h"
#include "text/unicode.h"
#include "text/utf8.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// ---- UTF-8

static void test_utf8_repairs_each_maximal_part(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *whole, *shown; // shown: before the end is known
    } cases[] = {
        {"", "", ""},
        {"plain", "plain", "plain"},
        {"\xC3\xA9", "\xC3\xA9", "\xC3\xA9"},
        {"a\xC3", "a\uFFFD", "a"},
        {"\xE4\xBD", "\uFFFD", ""},
        {"\xE4\xBDx", "\uFFFDx", "\uFFFDx"},
        {"\xF0\x9F\x98", "\uFFFD", ""},
        {"\xF0\x9F\x98\x80", "\U0001F600", "\U0001F600"},
        {"\x80\xBF", "\uFFFD\uFFFD", "\uFFFD\uFFFD"},
        {"\xC0\xAF", "\uFFFD\uFFFD", "\uFFFD\uFFFD"},                                 // overlong
        {"\xE0\x80\x80", "\uFFFD\uFFFD\uFFFD", "\uFFFD\uFFFD\uFFFD"},                 // overlong
        {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD", "\uFFFD\uFFFD\uFFFD"},                 // surrogate
        {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD", "\uFFFD\uFFFD\uFFFD\uFFFD"}, // above U+10FFFF
        {"\xF5\xFF", "\uFFFD\uFFFD", "\uFFFD\uFFFD"},
        {"\xF1\x80\x80\xC3\xA9", "\uFFFD\xC3\xA9", "\uFFFD\xC3\xA9"},
        {"\xE4\xE4\xBD\xA0", "\uFFFD\u4F60", "\uFFFD\u4F60"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        StrBuf whole = {0}, shown = {0};
        strbuf_clear(&whole), strbuf_clear(&shown);
        size_t size = strlen(cases[i].bytes);
        assert_int_equal(utf8_repair(&whole, cases[i].bytes, size, true), size);
        assert_in_range(size - utf8_repair(&shown, cases[i].bytes, size, false), 0, 3);
        assert_string_equal(whole.text, cases[i].whole);
        assert_string_equal(shown.text, cases[i].shown);
        strbuf_close(&whole), strbuf_close(&shown);
    }
}

static void test_utf8_writes_what_it_reads(void **state) {
    (void)state;
    for (uint32_t code = 0; code <= 0x110000; code++) {
        char bytes[4];
        size_t size = utf8_put(bytes, code);
        Utf8Step step = utf8_step(bytes, size);
        bool character = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
        if (step.kind != UTF8_GOOD || step.size != size || step.code != (character ? code : 0xFFFD))
            fail_msg("U+%04X: read as U+%04X", code, step.code);
        for (size_t cut = 1; cut < size; cut++) {
            step = utf8_step(bytes, cut);
            if (step.kind != UTF8_CUT || step.size != cut) fail_msg("U+%04X cut after %zu bytes", code, cut);
        }
    }
}

// ---- Unicode

static void test_unicode_sets_have_their_sizes(void **state) {
    (void)state;
    int letters = 0, numbers = 0, numeric = 0, whitespace = 0;
    for (uint32_t code = 0; code < 0x110000; code++) {
        letters += unicode_is_letter(code);
        numbers += unicode_is_number(code);
        numeric += unicode_is_numeric(code);
        whitespace += unicode_is_whitespace(code);
    }
    assert_int_equal(letters, 141028);
    assert_int_equal(numbers, 1911);
    assert_int_equal(numeric, 1924);
    assert_int_equal(whitespace, 25);
    assert_true(unicode_is_whitespace(0x85));
    assert_false(unicode_is_whitespace(0x1C) || unicode_is_whitespace(0x180E) || unicode_is_whitespace(0x200B));
    assert_true(unicode_is_numeric(0x11DE0) && !unicode_is_number(0x11DE0)); // a digit since Unicode 17
}

static void assert_nfc(const char *text, size_t size, const char *expected, size_t expected_size) {
    StrBuf out = {0};
    unicode_nfc(&out, text, size);
    assert_int_equal(out.length, expected_size);
    assert_memory_equal(out.text, expected, expected_size);
    strbuf_close(&out);
}

static void test_nfc_is_that_of_unicode_9(void **state) {
    (void)state;
    // What tokenizers 0.23.3 makes of them.
    static const struct {
        const char *text, *expected;
    } cases[] = {
        {"caf\u00E9", "caf\u00E9"},
        {"cafe\u0301", "caf\u00E9"},
        {"e\u0323\u0302", "\u1EC7"},
        {"a\u0310\u0301", "a\u0310\u0301"}, // blocked by a mark of the same class
        {"e\u0302\u0323", "\u1EC7"},
        {"\u1EC7\u0300", "\u1EC7\u0300"},
        {"\u212B\u2126\u212A\u037E", "\u00C5\u03A9K;"},
        {"\u0958\u09DC", "\u0915\u093C\u09A1\u09BC"},
        {"\u1100\u1161\u11A8", "\uAC01"},
        {"\u1100\u1161\u11A7", "\uAC00\u11A7"},
        {"\uAC00\u11A8x\u11A8", "\uAC01x\u11A8"},
        {"\uD55C\uAE00", "\uD55C\uAE00"},
        {"\u0344", "\u0308\u0301"},
        {"\u1F82", "\u1F82"},
        {"\u0301a\u0301", "\u0301\u00E1"},
        {"a\u0345\u0301\u0316", "\u00E1\u0316\u0345"},
        {"\u09C7\u09BE", "\u09CB"},
        {"\u09C7\u0301\u09BE", "\u09C7\u0301\u09BE"},
        {"\U0001D15E", "\U0001D157\U0001D165"},
        {"\U00011131\U00011127", "\U0001112E"},
        {"\u08D3\u0301\u0316", "\u08D3\u0316\u0301"},
        {"\u08D4\u0316", "\u0316\u08D4"},
        {"a\u0653\u0627\u0653", "a\u0653\u0622"},
        {"\U00011935\U00011930", "\U00011935\U00011930"},
        {"\u0F71\u0F72\u0F74", "\u0F71\u0F72\u0F74"},
        {"a\u05B0\u094D\u3099\u0334", "a\u0334\u3099\u094D\u05B0"},
        {"\uFB1D\u2ADC", "\u05D9\u05B4\u2ADD\u0338"},
        {"\uF900\U0002F800", "\u8C48\u4E3D"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_nfc(cases[i].text, strlen(cases[i].text), cases[i].expected, strlen(cases[i].expected));
}

static void test_nfc_keeps_bytes_that_are_no_characters(void **state) {
    (void)state;
    assert_nfc("e\xFF\xCC\x81 e\xCC\x81\xE4\xBD", 11, "e\xFF\xCC\x81 \xC3\xA9\xE4\xBD", 10);
    assert_nfc("a\0e\xCC\x81", 5, "a\0\xC3\xA9", 4);
}

static void test_nfc_of_many_marks_is_quick(void **state) {
    (void)state;
    enum { MARKS = 400000 };
    StrBuf text = {0}, expected = {0}, once = {0};
    strbuf_puts(&text, "q");
    strbuf_puts(&expected, "q");
    for (int i = 0; i < MARKS; i++) strbuf_puts(&text, i % 2 ? "\u0316" : "\u0301"); // classes 230 and 220 in turn
    for (int i = 0; i < MARKS; i++) strbuf_puts(&expected, i < MARKS / 2 ? "\u0316" : "\u0301");
    unicode_nfc(&once, text.text, text.length);
    assert_int_equal(once.length, expected.length);
    assert_memory_equal(once.text, expected.text, expected.length);
    strbuf_close(&text), strbuf_close(&expected), strbuf_close(&once);
}

// ---- splitting

static void test_splits_are_those_of_the_regexes(void **state) {
    (void)state;
    static const PretokenizeStep steps[] = {PRETOKENIZE_GPT2, PRETOKENIZE_QWEN2, PRETOKENIZE_LLAMA3, PRETOKENIZE_DIGITS,
                                            PRETOKENIZE_DIGIT_RUNS};
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
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
            const char *text = cases[i][0];
            size_t size = strlen(text);
            StrBuf pieces = {0};
            for (size_t at = 0; at < size;) {
                size_t length = pretokenize_next(steps[s], text + at, size - at);
                assert_in_range(length, 1, size - at);
                if (at) strbuf_puts(&pieces, "|");
                strbuf_append(&pieces, text + at, length);
                at += length;
            }
            assert_string_equal(pieces.text, cases[i][s + 1]);
            strbuf_close(&pieces);
        }
    }
}

static void test_bytes_that_are_no_characters_split_as_symbols(void **state) {
    (void)state;
    assert_int_equal(pretokenize_next(PRETOKENIZE_GPT2, " \xFF\xE4\xBD!a", 6), 5);
    assert_int_equal(pretokenize_next(PRETOKENIZE_GPT2, "a\xC3", 2), 1);
    assert_int_equal(pretokenize_next(PRETOKENIZE_QWEN2, "\xFFge", 3), 3);
    assert_int_equal(pretokenize_next(PRETOKENIZE_DIGITS,
                                      "\xFF\xFE"
                                      "1",
                                      3),
                     2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_repairs_each_maximal_part),
        cmocka_unit_test(test_utf8_writes_what_it_reads),
        cmocka_unit_test(test_unicode_sets_have_their_sizes),
        cmocka_unit_test(test_nfc_is_that_of_unicode_9),
        cmocka_unit_test(test_nfc_keeps_bytes_that_are_no_characters),
        cmocka_unit_test(test_nfc_of_many_marks_is_quick),
        cmocka_unit_test(test_splits_are_those_of_the_regexes),
        cmocka_unit_test(test_bytes_that_are_no_characters_split_as_symbols),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
