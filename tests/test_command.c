// The command line: options anywhere, values, refusals with a remedy, help.
#include "run/command_help.h"
#include "run/verbs.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const Command sample = {
    .verb = "sample",
    .operands = "MODEL [PROMPT]",
    .summary = "Samples answers.",
    .min_operands = 1,
    .max_operands = 2,
    .details = "A paragraph.",
    .examples = "whet sample m  # one\nwhet sample m hi\n",
    .options = {{"--temperature", "T", "divide by T (default 1)"},
                {"--top-k", "K", "the K likeliest (default all)"},
                {"--top", "N", "a name that begins another"},
                {"--json", NULL, "one JSON line an answer"},
                {"--json-lines", NULL, "another"},
                {"what ends an answer", NULL, NULL},
                {"--stop", "TEXT…", "this text"},
                {"--format", "jsonl|text", "how FILE is written"},
                {"--memory", "SIZE", "at most"}},
};

static const Command any = {.verb = "any", .operands = "[key=value …]", .summary = "Takes all.", .max_operands = -1};

// Words of a command line, as main hands them over.
enum { MOST_WORDS = 12 };
typedef struct Line {
    char text[MOST_WORDS][600], *words[MOST_WORDS];
    int count;
} Line;

static Line line_of(const char *const *words) {
    static Line line;
    for (line.count = 0; words[line.count]; line.count++) {
        snprintf(line.text[line.count], sizeof line.text[0], "%s", words[line.count]);
        line.words[line.count] = line.text[line.count];
    }
    return line;
}

#define LINE(...) line_of((const char *const[]){__VA_ARGS__, NULL})

static Arena arena;

static int close_arena(void **state) {
    (void)state;
    arena_close(&arena);
    return 0;
}

static void parsed(Arguments *arguments, const Command *command, Line *line) {
    Error error = {0};
    for (int i = 0; i < line->count; i++) line->words[i] = line->text[i];
    if (!command_parse(arguments, command, line->count, line->words, &arena, &error)) fail_msg("%s", error.text);
}

static void refused(const Command *command, Line line, const char *message) {
    Arguments arguments;
    Error error = {0};
    for (int i = 0; i < line.count; i++) line.words[i] = line.text[i];
    assert_false(command_parse(&arguments, command, line.count, line.words, &arena, &error));
    assert_string_equal(error.text, message);
}

static void test_options_stand_anywhere(void **state) {
    (void)state;
    const char *const orders[][8] = {
        {"--temperature", "0.5", "--json", "model", "prompt"},
        {"model", "--json", "prompt", "--temperature", "0.5"},
        {"model", "prompt", "--json", "--temperature=0.5"},
        {"--json", "--temperature=0.5", "--", "model", "prompt"},
        {"model", "--temperature", "9", "prompt", "--json", "--temperature", "0.5"}, // the last counts
    };
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        Line line = line_of(orders[i]);
        Arguments arguments;
        parsed(&arguments, &sample, &line);
        assert_ptr_equal(arguments.command, &sample);
        assert_int_equal(arguments.operand_count, 2);
        assert_string_equal(arguments.operands[0], "model");
        assert_string_equal(arguments.operands[1], "prompt");
        assert_string_equal(command_text(&arguments, "--temperature"), "0.5");
        assert_true(command_switch(&arguments, "--json"));
        assert_false(command_switch(&arguments, "--json-lines"));
        assert_null(command_text(&arguments, "--top-k"));
        assert_null(command_text(&arguments, "--top"));
    }
}

static void test_values_are_taken_as_they_stand(void **state) {
    (void)state;
    Arguments arguments;
    Line line = LINE("--temperature=a=b", "--top=", "--top-k", "--json", "-x");
    parsed(&arguments, &sample, &line);
    assert_string_equal(command_text(&arguments, "--temperature"), "a=b");
    assert_string_equal(command_text(&arguments, "--top"), "");
    assert_string_equal(command_text(&arguments, "--top-k"), "--json");
    assert_false(command_switch(&arguments, "--json"));
    assert_string_equal(arguments.operands[0], "-x");
}

static void test_two_dashes_end_the_options(void **state) {
    (void)state;
    Arguments arguments;
    Line line = LINE("model", "--", "--json");
    parsed(&arguments, &sample, &line);
    assert_int_equal(arguments.operand_count, 2);
    assert_string_equal(arguments.operands[1], "--json");
    assert_false(command_switch(&arguments, "--json"));
    line = LINE("--", "--", "");
    parsed(&arguments, &sample, &line);
    assert_int_equal(arguments.operand_count, 2);
    assert_string_equal(arguments.operands[0], "--");
    assert_string_equal(arguments.operands[1], "");
    line = LINE("-", "");
    parsed(&arguments, &sample, &line);
    assert_string_equal(arguments.operands[0], "-");
    line = LINE("recipe", "a.b=1", "+c=2", "~d", "-", "++e=--f", "-7", "", "x", "y", "z");
    parsed(&arguments, &any, &line);
    assert_int_equal(arguments.operand_count, 11);
    assert_string_equal(arguments.operands[5], "++e=--f");
    assert_true(command_parse(&arguments, &any, 0, NULL, &arena, &(Error){0}));
    assert_int_equal(arguments.operand_count, 0);
}

static void test_refusals_name_what_and_the_remedy(void **state) {
    (void)state;
    refused(&sample, LINE("model", "--temprature", "1"), "unknown option --temprature; did you mean --temperature?");
    refused(&sample, LINE("model", "--topk=3"), "unknown option --topk; did you mean --top-k?");
    refused(&sample, LINE("model", "--jso"), "unknown option --jso; did you mean --json?");
    refused(&sample, LINE("model", "--JSON-LINEs"), "unknown option --JSON-LINEs; see `whet help sample`");
    refused(&sample, LINE("model", "--zebra-crossing"), "unknown option --zebra-crossing; see `whet help sample`");
    refused(&sample, LINE("model", "--=3"), "unknown option --; see `whet help sample`");
    refused(&sample, LINE("model", "--a\nb"), "unknown option --a b; see `whet help sample`");
    refused(&any, LINE("--anything"), "unknown option --anything; see `whet help any`");
    refused(&sample, LINE("model", "--top-k"), "--top-k wants a value (K)");
    refused(&sample, LINE("model", "--json=1"), "--json takes no value");
    refused(&sample, LINE("model", "--json="), "--json takes no value");
    refused(&sample, LINE("--json"), "something is missing; usage: whet sample MODEL [PROMPT]");
    refused(&sample, LINE("a", "b", "c"), "too much is given; usage: whet sample MODEL [PROMPT]");
    char name[500];
    memset(name, 'x', sizeof name);
    memcpy(name, "--", 2);
    name[sizeof name - 1] = 0;
    Arguments arguments;
    Error error = {0};
    assert_false(command_parse(&arguments, &sample, 1, (char *[]){name}, &arena, &error));
    assert_non_null(strstr(error.text, "unknown option --xxx"));
}

static void integer(const char *text, int64_t low, int64_t high, int64_t expected) {
    Arguments arguments;
    Error error = {0};
    int64_t value = -77;
    Line line = LINE("model", "--top-k", text);
    parsed(&arguments, &sample, &line);
    if (!command_integer(&arguments, "--top-k", &value, low, high, &error)) fail_msg("%s", error.text);
    assert_true(value == expected);
}

static void no_integer(const char *text, int64_t low, int64_t high) {
    Arguments arguments;
    Error error = {0};
    int64_t value = -77;
    char message[1000];
    Line line = LINE("model", "--top-k", text);
    parsed(&arguments, &sample, &line);
    assert_false(command_integer(&arguments, "--top-k", &value, low, high, &error));
    snprintf(message, sizeof message, "--top-k is '%s'; expected an integer from %lld to %lld", text, (long long)low,
             (long long)high);
    assert_string_equal(error.text, message);
    assert_true(value == -77);
}

static void test_integers(void **state) {
    (void)state;
    integer("0", 0, 9, 0);
    integer("9", 0, 9, 9);
    integer("-3", -3, 9, -3);
    integer("010", 0, 99, 10); // never octal
    integer("9223372036854775807", 0, INT64_MAX, INT64_MAX);
    integer("-9223372036854775808", INT64_MIN, 0, INT64_MIN);
    const char *const bad[] = {"",
                               "-1",
                               "10",
                               "5x",
                               "x5",
                               "0x5",
                               "5.0",
                               "1e1",
                               "five",
                               "--",
                               "5 5",
                               "5 ",
                               "+",
                               "-",
                               "nan",
                               "1e400",
                               "99999999999999999999",
                               "- 5",
                               "٥"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) no_integer(bad[i], 0, 9);
    no_integer("9223372036854775808", INT64_MIN, INT64_MAX);
    no_integer("-9223372036854775809", INT64_MIN, INT64_MAX);
    Arguments arguments;
    Error error;
    int64_t value = 42;
    Line line = LINE("model");
    parsed(&arguments, &sample, &line);
    assert_true(command_integer(&arguments, "--top-k", &value, 0, 9, &error)); // a default may lie outside
    assert_true(value == 42);
}

static void test_reals(void **state) {
    (void)state;
    const struct {
        const char *text;
        double value;
    } good[] = {{"0", 0}, {"1", 1}, {"0.25", 0.25}, {".5", 0.5}, {"1e-3", 1e-3}, {"2e0", 2}, {"1e-999", 0}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        Arguments arguments;
        Error error = {0};
        double value = -77;
        Line line = LINE("model", "--temperature", good[i].text);
        parsed(&arguments, &sample, &line);
        if (!command_real(&arguments, "--temperature", &value, 0, 2, &error)) fail_msg("%s", error.text);
        assert_true(value == good[i].value);
    }
    const char *const bad[] = {"",         "-0.001", "2.001", "nan", "-nan", "inf",
                               "infinity", "1,5",    "1e999", "x",   "1x",   "1 "};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Arguments arguments;
        Error error = {0};
        double value = -77;
        char message[200];
        Line line = LINE("model", "--temperature", bad[i]);
        parsed(&arguments, &sample, &line);
        assert_false(command_real(&arguments, "--temperature", &value, 0, 2, &error));
        snprintf(message, sizeof message, "--temperature is '%s'; expected a number from 0 to 2", bad[i]);
        assert_string_equal(error.text, message);
        assert_true(value == -77);
    }
    Arguments arguments;
    Error error;
    double value = 42;
    Line line = LINE("model");
    parsed(&arguments, &sample, &line);
    assert_true(command_real(&arguments, "--temperature", &value, 0, 2, &error));
    assert_true(value == 42);
}

static void test_repeated_options(void **state) {
    (void)state;
    Arguments arguments;
    Line line = LINE("--stop", "a", "model", "--stop=", "--json", "--stop=b");
    parsed(&arguments, &sample, &line);
    assert_string_equal(command_repeated(&arguments, "--stop", 0), "a");
    assert_string_equal(command_repeated(&arguments, "--stop", 1), "");
    assert_string_equal(command_repeated(&arguments, "--stop", 2), "b");
    assert_null(command_repeated(&arguments, "--stop", 3));
    assert_string_equal(command_text(&arguments, "--stop"), "b");
    refused(&sample, LINE("model", "--what", "1"), "unknown option --what; see `whet help sample`");
    refused(&sample, LINE("model", "--what ends an answer"),
            "unknown option --what ends an answer; see `whet help sample`");
}

static void test_choices(void **state) {
    (void)state;
    const char *const good[] = {"jsonl", "text"}, *const bad[] = {"", "json", "jsonlx", "text|", "jsonl|text", "|"};
    for (int i = 0; i < 2; i++) {
        Arguments arguments;
        Error error = {0};
        int value = -77;
        Line line = LINE("model", "--format", good[i]);
        parsed(&arguments, &sample, &line);
        assert_true(command_choice(&arguments, "--format", &value, &error));
        assert_int_equal(value, i);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Arguments arguments;
        Error error = {0};
        int value = -77;
        char message[200];
        Line line = LINE("model", "--format", bad[i]);
        parsed(&arguments, &sample, &line);
        assert_false(command_choice(&arguments, "--format", &value, &error));
        snprintf(message, sizeof message, "--format is '%s'; expected jsonl|text", bad[i]);
        assert_string_equal(error.text, message);
        assert_true(arguments.misused && value == -77);
    }
}

static void test_sizes(void **state) {
    (void)state;
    const struct {
        const char *text;
        int64_t value;
    } good[] = {{"1", 1},      {"4096", 4096},    {"800M", 800 << 20}, {"2G", 2LL << 30}, {"1.5GiB", 3 << 29},
                {"3KB", 3072}, {"1T", 1LL << 40}, {"17B", 17}};
    const char *const bad[] = {"",    "0",   "-1",  "M",    "1X",    "1 G",     "1Gi",
                               "1GG", "nan", "inf", "1e30", "1GiBx", "9999999T"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        Arguments arguments;
        Error error = {0};
        int64_t value = -77;
        Line line = LINE("model", "--memory", good[i].text);
        parsed(&arguments, &sample, &line);
        if (!command_size(&arguments, "--memory", &value, &error)) fail_msg("%s", error.text);
        assert_true(value == good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        Arguments arguments;
        Error error = {0};
        int64_t value = -77;
        Line line = LINE("model", "--memory", bad[i]);
        parsed(&arguments, &sample, &line);
        if (command_size(&arguments, "--memory", &value, &error)) fail_msg("'%s' is taken for a size", bad[i]);
        assert_true(arguments.misused && value == -77);
    }
}

static void wrapped(const char *text, int column, int indent, int width, const char *expected) {
    StrBuf out = {0};
    strbuf_puts(&out, "");
    command_help_wrap(&out, text, column, indent, width);
    assert_string_equal(out.text, expected);
    strbuf_close(&out);
}

static void test_help_is_wrapped(void **state) {
    (void)state;
    wrapped("", 0, 0, 10, "");
    wrapped("one two three", 0, 0, 7, "one two\nthree");
    wrapped("one two three", 0, 0, 6, "one\ntwo\nthree");
    wrapped("one\ntwo  three ", 0, 0, 80, "one two three");
    wrapped("one two three", 4, 4, 11, "one two\n    three");
    wrapped("… … …", 0, 0, 5, "… … …"); // a character is a column
    wrapped("unbreakable word", 0, 2, 4, "unbreakable\n  word");
    wrapped("one\n\ntwo three\n", 0, 0, 5, "one\n\ntwo\nthree");
    wrapped("one\n  as it   stands\n  here\ntwo", 0, 0, 80, "one\n  as it   stands\n  here\ntwo");
    wrapped("  first\n\nlast", 0, 0, 80, "  first\n\nlast");
    // The text of every verb keeps to the width.
    int count;
    const Command *const *verbs = verbs_all(&count);
    for (int v = 0; v < count; v++)
        for (int width = 30; width < 100; width += 7) {
            StrBuf out = {0};
            int column = 0;
            command_help_wrap(&out, verbs[v]->summary, 0, 0, width);
            for (size_t i = 0; i < out.length; i++) {
                column = out.text[i] == '\n' ? 0 : column + (((unsigned char)out.text[i] & 0xc0) != 0x80);
                assert_true(column <= width);
            }
            strbuf_close(&out);
        }
}

// Runs body in a child; keeps what it wrote on stdout or stderr (stream) and returns the signal that ended it, or 0.
static int output_of(void (*body)(void), int stream, char *said, size_t size) {
    int ends[2];
    fflush(NULL);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], stream);
        body();
        fflush(NULL);
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t n; (n = read(ends[0], said + length, size - 1 - length)) > 0;) length += (size_t)n;
    said[length] = 0;
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void ask_for_unknown(void) {
    Arguments arguments = {.command = &sample};
    command_text(&arguments, "--tempo");
}

static void test_names_outside_the_table_end_the_program(void **state) {
    (void)state;
    char said[2000];
    assert_int_equal(output_of(ask_for_unknown, STDERR_FILENO, said, sizeof said), SIGABRT);
    assert_non_null(strstr(said, "--tempo is not in the table of sample"));
}

// A table without a free place.
static Command full = {.verb = "full", .operands = "", .summary = "Everything."};
static char full_names[COMMAND_MAX_OPTIONS][16];

static void help_sample(void) {
    command_help(&sample, 80);
}
static void help_full(void) {
    command_help(&full, 80);
}
static void help_any(void) {
    command_help(&any, 80);
}

static void test_help_prints_every_option(void **state) {
    (void)state;
    char said[8000];
    assert_int_equal(output_of(help_sample, STDOUT_FILENO, said, sizeof said), 0);
    assert_string_equal(said, "usage: whet sample MODEL [PROMPT]\n\nSamples answers.\n\nA paragraph.\n\noptions:\n"
                              "  --temperature T           divide by T (default 1)\n"
                              "  --top-k K                 the K likeliest (default all)\n"
                              "  --top N                   a name that begins another\n"
                              "  --json                    one JSON line an answer\n"
                              "  --json-lines              another\n"
                              "\nwhat ends an answer:\n"
                              "  --stop TEXT…              this text\n"
                              "  --format jsonl|text       how FILE is written\n"
                              "  --memory SIZE             at most\n"
                              "\nexamples:\n  whet sample m  # one\n  whet sample m hi\n");
    assert_int_equal(output_of(help_any, STDOUT_FILENO, said, sizeof said), 0);
    assert_string_equal(said, "usage: whet any [key=value …]\n\nTakes all.\n");
    for (int i = 0; i < COMMAND_MAX_OPTIONS; i++) {
        snprintf(full_names[i], sizeof full_names[i], "--number-%d", i);
        full.options[i] = (CommandOption){full_names[i], "N", "a number"};
    }
    assert_int_equal(output_of(help_full, STDOUT_FILENO, said, sizeof said), 0);
    for (int i = 0; i < COMMAND_MAX_OPTIONS; i++) {
        char wanted[1000];
        snprintf(wanted, sizeof wanted, "  %s N ", full_names[i]);
        assert_non_null(strstr(said, wanted));
    }
    Arguments arguments;
    Line line = LINE("--number-47", "47", "--number-0=0");
    parsed(&arguments, &full, &line);
    assert_string_equal(command_text(&arguments, "--number-47"), "47");
    assert_string_equal(command_text(&arguments, "--number-0"), "0");
    assert_null(command_text(&arguments, "--number-1"));
    refused(&full, LINE("--number-48", "1"), "unknown option --number-48; did you mean --number-4?");
}

// ---- the program's own verbs

static const Command *shown;
static void help_shown(void) {
    command_help(shown, 10000);
}

static void test_every_verb_explains_each_option_once(void **state) {
    (void)state;
    int count;
    const Command *const *verbs = verbs_all(&count);
    for (int v = 0; v < count; v++) {
        char said[8000];
        shown = verbs[v];
        assert_true(shown->verb && shown->operands && shown->summary && shown->run);
        assert_int_equal(output_of(help_shown, STDOUT_FILENO, said, sizeof said), 0);
        for (int i = 0; i < COMMAND_MAX_OPTIONS && shown->options[i].name; i++) {
            const CommandOption *option = &shown->options[i];
            char line[400];
            snprintf(line, sizeof line, command_is_heading(option) ? "\n%s%s%s:\n" : "\n  %s%s%s", option->name,
                     option->value ? " " : "", option->value ? option->value : "");
            if (!strstr(said, line)) fail_msg("help of %s lacks %s", shown->verb, option->name);
            if (command_is_heading(option))
                assert_true(!option->value && !option->help);
            else
                assert_true(!strncmp(option->name, "--", 2) && option->help && strstr(said, option->help));
            for (int j = 0; j < i; j++) assert_string_not_equal(option->name, shown->options[j].name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options_stand_anywhere),
        cmocka_unit_test(test_values_are_taken_as_they_stand),
        cmocka_unit_test(test_two_dashes_end_the_options),
        cmocka_unit_test(test_refusals_name_what_and_the_remedy),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_reals),
        cmocka_unit_test(test_repeated_options),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_help_is_wrapped),
        cmocka_unit_test(test_names_outside_the_table_end_the_program),
        cmocka_unit_test(test_help_prints_every_option),
        cmocka_unit_test(test_every_verb_explains_each_option_once),
    };
    return cmocka_run_group_tests_name("command", tests, NULL, close_arena);
}
