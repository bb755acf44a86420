// Chat templates: what transformers does around them, limits of hostile ones, errors with their place.
#include "base/file.h"
#include "text/chat.h"
#include "text/jinja_json.h"
#include "text/jinja_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

// Renders source with variables given as JSON text; what came out is in text or in fault.
typedef struct Result {
    bool good;
    size_t size;
    char text[4096];
    JinjaFault fault;
} Result;

static Result render_in(const char *source, size_t size, JinjaValue variables) {
    Result result = {0};
    JinjaTemplate *template;
    JinjaRun run = {0};
    JinjaRendered rendered;
    JinjaClock clock = {2025, 3, 7, 4, 5, 6, 0};
    result.good = jinja_open(&template, source, size, &result.fault);
    if (result.good) {
        result.good = jinja_render(template, &run, variables, &clock, &rendered);
        result.fault = run.fault;
        result.size = result.good ? rendered.text.size : 0;
        assert_true(result.size < sizeof result.text);
        if (result.good) memcpy(result.text, rendered.text.text, result.size);
    }
    jinja_close(template);
    jinja_run_close(&run);
    return result;
}

static Result render_bytes(const char *source, size_t size, const char *variables) {
    JinjaRun run = {0};
    JinjaValue dict;
    assert_true(jinja_json_read(&run, &dict, variables, strlen(variables)));
    Result result = render_in(source, size, dict);
    jinja_run_close(&run);
    return result;
}

static Result render(const char *source, const char *variables) {
    return render_bytes(source, strlen(source), variables);
}

static void expect(const char *source, const char *variables, const char *text) {
    Result result = render(source, variables);
    if (!result.good) fail_msg("%s: %s: %s", source, result.fault.kind, result.fault.message);
    assert_string_equal(result.text, text);
}

static void expect_fault(const char *source, const char *kind, int line) {
    Result result = render(source, "{}");
    if (result.good) fail_msg("%s: rendered as %s", source, result.text);
    assert_string_equal(result.fault.kind, kind);
    if (line) assert_int_equal(result.fault.line, line);
}

// ---- Around the template ----

// A conversation through chat_render; *error stays empty when it rendered.
static void converse(const char *source, const char *messages, const char *variables, StrBuf *text, Error *error,
                     ChatDetails *details) {
    ChatTemplate *template;
    json_t *list = json_loads(messages, JSON_DECODE_ANY, NULL),
           *dict = variables ? json_loads(variables, 0, NULL) : NULL;
    assert_non_null(list);
    assert_true(chat_open(&template, source, strlen(source), "chat.jinja", error));
    error->text[0] = 0;
    strbuf_clear(text);
    chat_render(template, text, list, dict, details, error);
    chat_close(template);
    json_decref(list);
    json_decref(dict);
}

static void expect_chat(const char *source, const char *messages, const char *variables, const char *expected) {
    StrBuf text = {0};
    Error error;
    converse(source, messages, variables, &text, &error, NULL);
    assert_string_equal(error.text, "");
    assert_string_equal(text.text, expected);
    strbuf_close(&text);
}

static void expect_refusal(const char *source, const char *messages, const char *variables, const char *expected) {
    StrBuf text = {0};
    Error error;
    converse(source, messages, variables, &text, &error, NULL);
    assert_string_equal(error.text, expected);
    assert_int_equal(text.length, 0);
    strbuf_close(&text);
}

#define SAY "{% for m in messages %}<{{ m.role }}>{{ m.content }};{% endfor %}"

static void test_always_defined(void **state) {
    (void)state;
    const char *hello = "[{\"role\": \"user\", \"content\": \"hi\"}]";
    expect_chat("{{ tools }}|{{ documents }}|{{ add_generation_prompt }}|{{ bos_token }}|", hello, NULL,
                "None|None|False||");
    expect_chat("{{ bos_token }}{{ add_generation_prompt }}", hello,
                "{\"bos_token\": \"<s>\", \"add_generation_prompt\": true}", "<s>True");
}

static void test_nulls_are_dropped(void **state) {
    (void)state;
    expect_chat("{{ messages[0].content is defined }}{{ messages[0].x }}",
                "[{\"role\": \"user\", \"content\": null, \"x\": [null]}]", NULL, "False[None]");
}

static void test_reasoning_aliases(void **state) {
    (void)state;
    expect_chat("{{ messages[0] | tojson }}", "[{\"reasoning\": \"r\", \"thinking\": null}]", NULL,
                "{\"thinking\": \"r\", \"reasoning\": \"r\", \"reasoning_content\": \"r\"}");
    expect_chat("{{ messages[0].keys() | join(' ') }} {{ messages[0].thinking }}",
                "[{\"role\": \"r\", \"reasoning_content\": \"c\", \"thinking\": \"t\"}]", NULL,
                "thinking role reasoning_content t"); // a template that prints all keys has thinking first
    expect_chat("{{ messages[0] | tojson }}", "[{\"thinking\": \"t\", \"reasoning\": \"r\"}]", NULL,
                "{\"thinking\": \"t\", \"reasoning\": \"r\", \"reasoning_content\": \"t\"}");
}

static void test_continue(void **state) {
    (void)state;
    const char *on = "{\"continue_final_message\": true}";
    const char *messages =
        "[{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a b \"}]";
    expect_chat(SAY, messages, on, "<user>q;<assistant>a b ");
    expect_chat("{% for m in messages %}{{ m.content | trim }};{% endfor %}", messages, on, "q;a b");
    expect_chat("{{ messages[0].content[1].text }}{{ messages[0].content[0].type }}",
                "[{\"content\": [{\"type\": \"image\"}, {\"text\": \"t\"}]}]", on, "t");
    // A field by name; reasoning is continued under whichever of its names the template prints.
    const char *thinks = "[{\"role\": \"assistant\", \"reasoning\": \"so\", \"content\": \"a\"}]";
    expect_chat("<think>{{ messages[0].reasoning_content }}</think>{{ messages[0].content }}", thinks,
                "{\"continue_final_message\": \"reasoning_content\"}", "<think>so");
    expect_chat("<think>{{ messages[0].thinking }}</think>{{ messages[0].content }}", thinks,
                "{\"continue_final_message\": \"reasoning\"}", "<think>so");
    expect_chat("{{ messages[0].content }}{{ messages[0].role }};", thinks, "{\"continue_final_message\": \"role\"}",
                "aassistant");
    expect_refusal(SAY, messages, "{\"continue_final_message\": \"thinking\"}",
                   "chat.jinja: ValueError: continue_final_message: the thinking of the last message is no text");
    expect_refusal(SAY, messages, "{\"continue_final_message\": true, \"add_generation_prompt\": true}",
                   "chat.jinja: ValueError: continue_final_message and add_generation_prompt do not go together");
    expect_refusal(
        "x", messages, on,
        "chat.jinja:1: ValueError: continue_final_message: the template does not print the last message as it is");
    expect_refusal(SAY, "[{\"role\": \"user\"}]", on,
                   "chat.jinja: ValueError: continue_final_message: the content of the last message is no text");
}

static void test_bad_requests(void **state) {
    (void)state;
    expect_refusal(SAY, "[]", NULL, "chat.jinja: ValueError: the messages are empty");
    expect_refusal(SAY, "{}", NULL, "chat.jinja: ValueError: the messages are no list");
    expect_refusal(SAY, "[{}, 3]", NULL, "chat.jinja: TypeError: message 2 is not an object but a int");
    expect_refusal(SAY, "[{}]", "{\"tools\": [1]}", "chat.jinja: ValueError: tools must be a list of objects");
    expect_refusal(SAY, "[{}]", "{\"messages\": []}",
                   "chat.jinja: ValueError: the messages are given twice: also among the variables");
}

static void test_refusal_of_the_template(void **state) {
    (void)state;
    StrBuf text = {0};
    Error error;
    ChatDetails details = {0};
    converse("a\n{% if true %}\n{{ raise_exception('roles must ' ~ 'alternate') }}{% endif %}", "[{}]", NULL, &text,
             &error, &details);
    assert_string_equal(error.text, "chat.jinja:3: raise_exception: roles must alternate");
    assert_string_equal(details.fault.kind, "raise_exception");
    assert_string_equal(details.fault.message, "roles must alternate");
    strbuf_close(&text);
}

static void test_spans(void **state) {
    (void)state;
    StrBuf text = {0};
    Error error;
    Arena arena = {0};
    ChatDetails details = {.arena = &arena};
    converse("{% for m in messages %}{{ m.role }}:{% generation %}{{ m.content }}{% endgeneration %};{% endfor %}",
             "[{\"role\": \"é\", \"content\": \"one\"}, {\"role\": \"b\", \"content\": \"two\"}]",
             "{\"continue_final_message\": true}", &text, &error, &details);
    assert_string_equal(text.text, "é:one;b:two");
    assert_int_equal(details.span_count, 2);
    assert_int_equal(details.spans[0].start, 3);
    assert_int_equal(details.spans[0].end, 6);
    assert_int_equal(details.spans[1].start, 9);
    assert_int_equal(details.spans[1].end, 12);
    arena_close(&arena);
    strbuf_close(&text);
}

static void test_syntax_error_names_its_place(void **state) {
    (void)state;
    ChatTemplate *template;
    Error error;
    const char *source = "a\nb {% if %}";
    assert_false(chat_open(&template, source, strlen(source), "m/chat.jinja", &error));
    assert_null(template);
    assert_string_equal(error.text,
                        "m/chat.jinja:2: TemplateSyntaxError: Expected an expression, got 'end of statement block'");
}

// ---- The language, where the shared cases do not go ----

static void test_numbers(void **state) {
    (void)state;
    expect("{{ x }} {{ x | tojson }} {{ x + 1 }}", "{\"x\": 12345678901234567890}",
           "12345678901234567890 12345678901234567890 12345678901234567891");
    expect("{{ x }} {{ -x }} {{ x > 1 }}", "{\"x\": 1234567890123456789012345678901234567890123}",
           "1234567890123456789012345678901234567890123 -1234567890123456789012345678901234567890123 True");
    expect(
        "{{ [2.0, 1e-7, 1e16, 1e15, 0.1, 5e-324, 1.7976931348623157e308, -0.0, 5.684341886080802e-14] }}", "{}",
        "[2.0, 1e-07, 1e+16, 1000000000000000.0, 0.1, 5e-324, 1.7976931348623157e+308, -0.0, 5.684341886080802e-14]");
    expect("{{ -7 // 2 }} {{ -7 % 3 }} {{ 7.5 // -2 }} {{ 7.5 % -2 }} {{ 2 ** -1 }} {{ 2 ** 100 }}", "{}",
           "-4 2 -4.0 -0.5 0.5 1267650600228229401496703205376");
    // At the edges of what an integer holds; the expected values are Python's.
    expect("{{ -15 | round(-1) }} {{ 25 | round(-1) }} {{ (2 ** 126 - 1 + 2 ** 126) | round(-37) }} "
           "{{ (1 - 2 ** 126 - 2 ** 126) | round(-37) }} {{ 123 | round(-(2 ** 63)) }} {{ 123 | round(-(2 ** 64)) }}",
           "{}", "-20 20 170000000000000000000000000000000000000 -170000000000000000000000000000000000000 0 0");
    expect("{% set r = range(2 ** 63 - 10, 2 ** 63 - 1, 5)[::2] %}{{ r }} {{ r | list }} {{ r[::-1] }}", "{}",
           "range(9223372036854775798, 9223372036854775808, 10) [9223372036854775798] "
           "range(9223372036854775798, 9223372036854775788, -10)");
}

static void test_scopes(void **state) {
    (void)state;
    // A name stored anywhere at the top is a variable of the template from its start, inside loops, too.
    expect("{% for i in [1] %}{{ x }}{% endfor %}{% set x = 5 %}{{ x }}", "{\"x\": \"outer\"}", "5");
    expect("{{ x }}{% set x = 5 %}{{ x }}", "{\"x\": \"outer\"}", "outer5");
    expect("{% if false %}{% set x = 1 %}{% endif %}{{ x }}", "{\"x\": \"outer\"}", "outer");
    // A turn that `continue` leaves counts for nothing: jinja2 then takes the loop for an empty one.
    expect("{% for i in [1] %}{% continue %}{% else %}none{% endfor %}", "{}", "none");
    expect("{% for i in t recursive %}{{ i.n }}{% if i.c %}({{ loop(i.c) }}){% endif %}{% endfor %}",
           "{\"t\": [{\"n\": 1, \"c\": [{\"n\": 2}, {\"n\": 3, \"c\": [{\"n\": 4}]}]}]}", "1(23(4))");
}

// Some 300 templates with what jinja2 3.1.6 makes of them, in one context: [template, text] or [template, null, kind].
static void test_constructs(void **state) {
    (void)state;
    Arena arena = {0};
    Error error;
    char *text, *line, *rest;
    assert_true(file_read(&text, NULL, &arena, "tests/data/text/chat/constructs.jsonl", &error));
    JinjaRun run = {0};
    JinjaValue first, one;
    size_t count = 0;
    line = strtok_r(text, "\n", &rest);
    assert_true(jinja_json_read(&run, &first, line, strlen(line)));
    while ((line = strtok_r(NULL, "\n", &rest))) {
        assert_true(jinja_json_read(&run, &one, line, strlen(line)));
        const JinjaValue *parts = one.list->items;
        Result result = render_in(parts[0].text, parts[0].size, jinja_value_member(first, "context"));
        JinjaValue wanted = parts[one.list->count - 1];
        bool same = result.good ? wanted.size == result.size && !memcmp(wanted.text, result.text, result.size)
                                : jinja_value_is(wanted, result.fault.kind);
        if (!same || result.good != (one.list->count == 2))
            fail_msg("%.*s: found %s%s, expected %.*s", (int)parts[0].size, parts[0].text, result.text,
                     result.fault.kind, (int)wanted.size, wanted.text);
        count++;
    }
    assert_true(count > 290);
    jinja_run_close(&run);
    arena_close(&arena);
}

// ---- Hostile input ----

static void test_hostile_templates(void **state) {
    (void)state;
    expect_fault("{% for i in range(10**12) %}x{% endfor %}", "OverflowError", 1);
    expect_fault("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "LimitError", 1);
    expect_fault("{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
                 "LimitError", 1);
    expect_fault(
        "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
        "LimitError", 1);
    expect_fault(
        "{% set ns = namespace(s=[1]) %}{% for i in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}",
        "LimitError", 1);
    clock_t begun = clock(); // refused before the work, not after it
    for (int i = 0; i < 20; i++) {
        expect_fault("{{ '%222222222s' % 1 }}", "LimitError", 1);
        expect_fault("{{ 'a' * 222222222 }}", "LimitError", 1);
    }
    assert_true(clock() - begun < CLOCKS_PER_SEC);
    expect_fault("{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", "LimitError", 1);
#define DEEP                                                                                                           \
    "{% set ns = namespace(t=(1,)) %}{% for i in range(9) %}{% for j in range(99999) %}{% set ns.t = (ns.t,) %}"       \
    "{% endfor %}{% endfor %}"
#define WIDE "{% set ns = namespace(t=(1,)) %}{% for i in range(60) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}"
    expect_fault(DEEP "{{ ns.t is filter }}", "LimitError", 1);
    expect_fault(DEEP "{{ {}[ns.t] }}", "LimitError", 1);
    expect_fault(DEEP "{{ {ns.t: 1} }}", "LimitError", 1);
    expect_fault(WIDE "{{ ns.t is test }}", "LimitError", 1);
    expect_fault(WIDE "{{ {}[ns.t] }}", "LimitError", 1);
    expect_fault(WIDE "{{ {ns.t: 1} }}", "LimitError", 1);
    expect_fault("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "LimitError", 1);
    expect_fault("{{ 'ab' * 10 ** 12 }}", "LimitError", 1);
    expect_fault("{{ [1] * 10 ** 12 }}", "LimitError", 1);
    expect_fault("{{ 2 ** 1000000000 }}", "LimitError", 1);
    expect_fault("{{ range(9)[:: 2 ** 62][:: 2 ** 62] }}", "LimitError", 1);
    expect_fault("{{ (2 ** 126 - 1 + 2 ** 126) | round(-38) }}", "LimitError", 1);
    expect_fault("{{ 'x'.center(10 ** 15) }}", "LimitError", 1);
    expect_fault("{{ '%99999999999d' % 1 }}", "LimitError", 1);
    expect_fault("{{ '{:99999999999}'.format(1) }}", "LimitError", 1);
    expect_fault("{{ 1 | tojson(indent=10**15) }}", "LimitError", 1);
    expect_fault("{{ [1] | batch(10 ** 12, 0) }}", "LimitError", 1);
    expect_fault("{{ [1] | slice(10 ** 12) }}", "LimitError", 1);
    expect_fault("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "LimitError", 1);
}

static void test_deep_sources(void **state) {
    (void)state;
    static const struct {
        const char *open, *middle, *close;
    } shapes[] = {
        {"(", "1", ")"},      {"[", "1", "]"},    {"-", "1", ""},        {"not ", "1", ""},
        {"{1:", "1", "}"},    {"a[", "1", "]"},   {"a(", "1", ")"},      {"1 if 1 else ", "1", ""},
        {"", "1", " + 1"},    {"", "a", ".b"},    {"", "a", " | upper"}, {"", "1", " ** 1"},
        {"", "1", " is odd"}, {"", "1", " == 1"}, {"", "a", "[0]"},      {"", "a", "()"},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        StrBuf source = {0};
        strbuf_puts(&source, "{{ ");
        for (int n = 0; n < 20000; n++) strbuf_puts(&source, shapes[i].open);
        strbuf_puts(&source, shapes[i].middle);
        for (int n = 0; n < 20000; n++) strbuf_puts(&source, shapes[i].close);
        strbuf_puts(&source, " }}");
        render(source.text, "{}"); // any outcome but a crash
        strbuf_close(&source);
    }
    static const char *const blocks[] = {"{% if 1 %}",
                                         "{% for i in x %}",
                                         "{% filter upper %}",
                                         "{% set x %}",
                                         "{% macro f() %}",
                                         "{% call f() %}",
                                         "{% generation %}",
                                         "{% with %}",
                                         "{% raw %}",
                                         "{#",
                                         "{{",
                                         "{% elif 1 %}"};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        StrBuf source = {0};
        for (int n = 0; n < 20000; n++) strbuf_puts(&source, blocks[i]);
        assert_false(render(source.text, "{}").good);
        strbuf_close(&source);
    }
}

static void test_deep_values(void **state) {
    (void)state;
    StrBuf text = {0};
    for (int n = 0; n < 100000; n++) strbuf_puts(&text, "[");
    JinjaRun run = {0};
    JinjaValue value;
    assert_false(jinja_json_read(&run, &value, text.text, text.length));
    assert_string_equal(run.fault.kind, "LimitError");
    jinja_run_close(&run);
    strbuf_close(&text);
}

// Every beginning of a template that uses all statements, and the same with single bytes changed.
static void test_damaged_sources(void **state) {
    (void)state;
    static const char source[] =
        "{# c #}{% set ns = namespace(a=1) -%}\n{%- macro f(x, y=2, *z) %}{{ x ~ y }}{% endmacro %}{% raw %}{{{% "
        "endraw %}"
        "{% for k, v in d.items() if v is not none recursive %}{{ loop.index }}{% if k == 'a' %}{% continue %}{% elif "
        "v in [1, 2.5e3, 'x\\u00e9'] %}{% break %}{% else %}{{ (k, v)[::-1] | join(', ') | tojson(indent=2) }}{% endif "
        "%}"
        "{% else %}é{% endfor %}{% set t | upper %}x{% endset %}{% filter trim %} y {% endfilter %}{% call(a) f(1) %}"
        "{{ a }}{% endcall %}{% generation %}{{ '%s' % ns.a }}{% endgeneration %}{% with q = {'a': [1]} %}{{ q.a[0] if "
        "q "
        "else none }}{% endwith %}";
    const char *variables = "{\"d\": {\"a\": 1, \"b\": [2]}}";
    for (size_t size = 0; size < sizeof source; size++) render_bytes(source, size, variables);
    char damaged[sizeof source];
    for (size_t at = 0; at + 1 < sizeof source; at++) {
        static const char bytes[] = "{}%#'\"\\([,|\n\xff\x80\0";
        for (size_t b = 0; b < sizeof bytes - 1; b++) {
            memcpy(damaged, source, sizeof source);
            damaged[at] = bytes[b];
            render_bytes(damaged, sizeof source - 1, variables);
        }
    }
}

static void test_faults_name_their_lines(void **state) {
    (void)state;
    expect_fault("\n\n{{ nothing.at.all }}", "UndefinedError", 3);
    expect_fault("{% if true %}\n{{ 1 +\n 'a' }}{% endif %}", "TypeError", 2);
    expect_fault("{% macro f(x) %}\n{{ 1 // x }}{% endmacro %}\n\n{{ f(0) }}", "ZeroDivisionError", 2);
    expect_fault("x\n{{ 1 | nosuchfilter }}", "TemplateAssertionError", 2);
    expect_fault("x\n{% include 'a' %}", "TemplateSyntaxError", 2);
    expect_fault("\n{% break %}", "TemplateSyntaxError", 2);
    expect_fault("\n{{ 'a }}", "TemplateSyntaxError", 2);
    expect_fault("\xff", "TemplateSyntaxError", 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_always_defined),
        cmocka_unit_test(test_nulls_are_dropped),
        cmocka_unit_test(test_reasoning_aliases),
        cmocka_unit_test(test_continue),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_refusal_of_the_template),
        cmocka_unit_test(test_spans),
        cmocka_unit_test(test_syntax_error_names_its_place),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_constructs),
        cmocka_unit_test(test_hostile_templates),
        cmocka_unit_test(test_deep_sources),
        cmocka_unit_test(test_deep_values),
        cmocka_unit_test(test_damaged_sources),
        cmocka_unit_test(test_faults_name_their_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
