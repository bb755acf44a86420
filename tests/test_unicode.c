// Characters: UTF-8, sets of characters, normal forms.
#include "text/charset.h"
#include "text/normalize.h"
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

static int members(const Charset *set) {
    int count = 0;
    for (size_t i = 0; i < set->count; i++) count += (int)(set->ranges[i].last - set->ranges[i].first + 1);
    return count;
}

// Sizes counted by running every code point through tokenizers 0.23.3.
static void test_sets_have_their_sizes(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int size;
    } sizes[] = {{"L", 141028}, {"N", 1911}, {"M", 2501}, {"P", 855}, {"S", 8514}, {"Lu", 1858}, {"Ll", 2258},
                 {"Lt", 31},    {"Lm", 404}, {"Nd", 760}, {"Zs", 17}, {"Cc", 65},  {"Cf", 170}};
    Arena arena = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        Charset set = {0};
        assert_true(charset_add_category(&set, &arena, sizes[i].name, strlen(sizes[i].name)));
        charset_tidy(&set);
        assert_int_equal(members(&set), sizes[i].size);
        charset_complement(&set, &arena);
        assert_int_equal(members(&set), CHARSET_NO_CHARACTER + 1 - sizes[i].size);
        assert_true(charset_has(&set, CHARSET_NO_CHARACTER));
        charset_complement(&set, &arena);
        assert_int_equal(members(&set), sizes[i].size);
    }
    Charset whitespace = {0}, word = {0}, numeric = {0}, none = {0};
    charset_add_whitespace(&whitespace, &arena), charset_tidy(&whitespace);
    charset_add_word(&word, &arena), charset_tidy(&word);
    charset_add_numeric(&numeric, &arena), charset_tidy(&numeric);
    assert_int_equal(members(&whitespace), 25);
    assert_int_equal(members(&word), 144667);
    assert_int_equal(members(&numeric), 1924);
    assert_true(charset_has(&whitespace, 0x85) && charset_has(&numeric, 0x11DE0));
    assert_false(charset_has(&whitespace, 0x1C) || charset_has(&whitespace, 0x180E) ||
                 charset_has(&whitespace, 0x200B));
    for (const char *const *name = (const char *const[]){"", "C", "Cn", "X", "Lx", "Letter", NULL}; *name; name++)
        assert_false(charset_add_category(&none, &arena, *name, strlen(*name)));
    // Strip and the added tokens see the same whitespace.
    for (uint32_t code = 0; code < CHARSET_NO_CHARACTER; code++) {
        char text[4];
        size_t size = utf8_put(text, code), found = normalize_spaces_at_start(text, size);
        assert_int_equal(normalize_spaces_at_end(text, size), found);
        if (!!found != charset_has(&whitespace, code)) fail_msg("U+%04X", code);
    }
    arena_close(&arena);
}

static void assert_nfc(const char *text, size_t size, const char *expected, size_t expected_size) {
    StrBuf out = {0};
    unicode_normalize(&out, text, size, UNICODE_NFC);
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
    unicode_normalize(&once, text.text, text.length, UNICODE_NFC);
    assert_int_equal(once.length, expected.length);
    assert_memory_equal(once.text, expected.text, expected.length);
    strbuf_close(&text), strbuf_close(&expected), strbuf_close(&once);
}

static void test_nfd_takes_apart(void **state) {
    (void)state;
    static const char *const cases[][2] = {{"caf\u00E9", "cafe\u0301"},
                                           {"\u00C5ngstr\u00F6m", "A\u030Angstro\u0308m"},
                                           {"\u1EC7", "e\u0323\u0302"},
                                           {"e\u0302\u0323", "e\u0323\u0302"},
                                           {"\uAC01x", "\u1100\u1161\u11A8x"},
                                           {"plain", "plain"},
                                           {"\uFB01", "\uFB01"},
                                           {"\u212B", "A\u030A"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        StrBuf out = {0};
        unicode_normalize(&out, cases[i][0], strlen(cases[i][0]), UNICODE_NFD);
        assert_string_equal(out.text, cases[i][1]);
        strbuf_close(&out);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_repairs_each_maximal_part),
        cmocka_unit_test(test_utf8_writes_what_it_reads),
        cmocka_unit_test(test_sets_have_their_sizes),
        cmocka_unit_test(test_nfc_is_that_of_unicode_9),
        cmocka_unit_test(test_nfc_keeps_bytes_that_are_no_characters),
        cmocka_unit_test(test_nfc_of_many_marks_is_quick),
        cmocka_unit_test(test_nfd_takes_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
