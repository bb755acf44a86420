// A reward that a program gives: batches larger than pipes, any order, components, nulls; programs that die, hang or babble.
#include "base/file.h"
#include "base/log.h"
#include "text/reward_command.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static Arena arena;
static Error error;
static char folder[64];

static const char *path(const char *name) {
    return arena_format(&arena, "%s/%s", folder, name);
}

// A shell script as the command.
static RewardCommand *start(const char *script, double seconds) {
    const char **words = arena_array(&arena, const char *, 4);
    words[0] = "/bin/sh", words[1] = "-c", words[2] = script;
    RewardOptions *options = arena_alloc(&arena, sizeof *options);
    *options = (RewardOptions){.name = "judge", .command = words, .timeout_seconds = seconds};
    RewardCommand *command;
    if (!reward_command_open(&command, options, path("judge.log"), &error)) fail_msg("%s", error.text);
    return command;
}

static bool score(RewardCommand *command, RewardScores *scores, int64_t count, size_t bytes) {
    json_t **requests = arena_array(&arena, json_t *, count);
    char *filler = arena_alloc(&arena, bytes + 1);
    memset(filler, 'x', bytes);
    for (int64_t i = 0; i < count; i++) requests[i] = json_pack("{s:s, s:s}", "response", filler, "id", "replaced");
    bool good = reward_command_score(command, scores, requests, count, &arena, &error);
    for (int64_t i = 0; i < count; i++) json_decref(requests[i]);
    return good;
}

// Two batches: the reward is the id's last digit.
#define BY_ID "sed -u 's/.*\"id\":\\([0-9]*\\)\\([0-9]\\)[,}].*/{\"id\":\\1\\2,\"reward\":\\2}/'"

static void test_batches(void **state) {
    (void)state;
    RewardScores scores;
    // 3 MB in, more than any pipe holds, while it answers line by line.
    RewardCommand *command = start(BY_ID, 60);
    for (int64_t batch = 0, id = 0; batch < 3; batch++) {
        if (!score(command, &scores, 300, 10000)) fail_msg("%s", error.text);
        assert_int_equal(scores.component_count, 0);
        for (int64_t i = 0; i < 300; i++, id++) assert_true(scores.reward[i] == (float)(id % 10));
    }
    if (!score(command, &scores, 0, 1)) fail_msg("%s", error.text);
    reward_command_close(command);
}

static void test_order_components_and_nulls(void **state) {
    (void)state;
    RewardScores scores;
    RewardCommand *command = start("read a; read b; read c; read d; echo '{\"id\":3,\"reward\":null}'; "
                                   "echo '{\"id\":1,\"rewards\":{\"b\":0.5,\"a\":-1},\"why\":\"x\"}'; "
                                   "echo '{\"rewards\":{\"a\":1,\"b\":null},\"id\":2}'; "
                                   "echo '{\"id\":0,\"rewards\":{\"a\":1,\"b\":2},\"reward\":7}'; "
                                   "read e; echo '{\"id\":4,\"rewards\":null}'; read f",
                                   60);
    if (!score(command, &scores, 4, 1)) fail_msg("%s", error.text);
    assert_int_equal(scores.component_count, 2);
    assert_string_equal(scores.names[0], "a");
    assert_string_equal(scores.names[1], "b");
    assert_true(scores.reward[0] == 7 && scores.reward[1] == -0.5f && isnan(scores.reward[2]) &&
                isnan(scores.reward[3]));
    assert_true(scores.component[0][0] == 1 && scores.component[1][0] == 2 && scores.component[0][1] == -1);
    if (!score(command, &scores, 1, 1)) fail_msg("%s", error.text);
    assert_true(isnan(scores.reward[0]) && scores.component_count == 2 && scores.component[1]);
    reward_command_close(command);
}

static void refused(const char *script, double seconds, const char *message) {
    RewardScores scores;
    double began = log_seconds();
    RewardCommand *command = start(script, seconds);
    if (score(command, &scores, 2, strncmp(script, "exit", 4) ? 1000 : 1000000)) fail_msg("not refused: %s", script);
    if (!strstr(error.text, message) || strncmp(error.text, "env.judge.command: ", 19) || strchr(error.text, '\n'))
        fail_msg("'%s' does not say '%s'", error.text, message);
    reward_command_close(command);
    assert_true(log_seconds() - began < 10);
}

#define READ "read a; read b; "

static void test_programs_that_fail(void **state) {
    (void)state;
    refused("exit 3", 60, "it ended with status 3");
    refused("exec <&-; exit 0", 60, "it ended with status 0");
    refused("kill -9 $$", 60, "it was ended by signal 9 (Killed)");
    refused("echo first >&2; echo 'ValueError: bad' >&2; exit 1", 60, "judge.log): first|ValueError: bad");
    refused(READ "echo '{\"id\":0,\"reward\":1}'; exit 0", 60, "it ended with status 0");
    refused("sleep 100", 0.2, "it did not answer within 0.2 seconds; 0 of 2 lines had come");
    refused(READ "echo '{\"id\":0,\"reward\":1}'; sleep 100", 0.3, "1 of 2 lines had come");
    refused("sleep 100 & sleep 100", 0.2, "it did not answer"); // with what it has started
    refused(READ "echo hello; echo hello", 60, "its answer 'hello': not valid JSON");
    refused(READ "echo '[1]'; echo", 60, "its answer '[1]': no object");
    refused(READ "echo '{\"reward\":1}'; echo", 60, "no \"id\" that is an integer");
    refused(READ "echo '{\"id\":\"0\",\"reward\":1}'; echo", 60, "no \"id\" that is an integer");
    refused(READ "echo '{\"id\":7,\"reward\":1}'; echo", 60, "id 7 was not asked; ids of this batch are 0 to 1");
    refused(READ "for i in 1 2; do echo '{\"id\":0,\"reward\":1}'; done", 60, "id 0 is there twice");
    refused(READ "echo '{\"id\":0}'; echo", 60, "neither \"reward\" nor \"rewards\"");
    refused(READ "echo '{\"id\":0,\"reward\":NaN}'; echo", 60, "not valid JSON");
    refused(READ "echo '{\"id\":0,\"reward\":1e99}'; echo", 60, "\"reward\" is 1e+99");
    refused(READ "echo '{\"id\":0,\"reward\":\"1\"}'; echo", 60, "\"reward\" is no number");
    refused(READ "echo '{\"id\":0,\"reward\":true}'; echo", 60, "\"reward\" is no number");
    refused(READ "echo '{\"id\":0,\"rewards\":[1]}'; echo", 60, "\"rewards\" is no object with rewards");
    refused(READ "echo '{\"id\":0,\"rewards\":{}}'; echo", 60, "\"rewards\" is no object with rewards");
    refused(READ "echo '{\"id\":0,\"rewards\":{\"a\":1}}'; echo '{\"id\":1,\"rewards\":{\"b\":1}}'", 60,
            "no component \"a\", which there was before");
    refused(READ "echo '{\"id\":0,\"rewards\":{\"a\":1}}'; echo '{\"id\":1,\"rewards\":{\"a\":1,\"b\":1}}'", 60,
            "2 components; before there were 1");
    refused(READ "echo '{\"id\":0,\"rewards\":{\"a\":1}}'; echo '{\"id\":1,\"reward\":1}'", 60,
            "no \"rewards\", which");
}

static void test_late_lines_belong_to_no_batch(void **state) {
    (void)state;
    RewardScores scores;
    RewardCommand *command = start("read a; echo '{\"id\":0,\"reward\":1}'; echo extra; read b; read c", 60);
    assert_true(score(command, &scores, 1, 1));
    assert_false(score(command, &scores, 1, 1));
    assert_non_null(strstr(error.text, "its answer 'extra'"));
    // What failed once fails again, and does not crash.
    assert_false(score(command, &scores, 1, 1));
    assert_non_null(strstr(error.text, "it has ended"));
    reward_command_close(command);
}

static void test_what_cannot_be_run(void **state) {
    (void)state;
    const char *const words[] = {"/no/such/program", NULL};
    const RewardOptions options = {.name = "judge", .command = words, .timeout_seconds = 1};
    RewardCommand *command;
    assert_false(reward_command_open(&command, &options, path("judge.log"), &error));
    assert_string_equal(error.text, "env.judge.command: cannot run '/no/such/program': No such file or directory");
    assert_null(command);
    assert_false(reward_command_open(&command, &options, "/no/such/folder/log", &error));
    assert_non_null(strstr(error.text, "/no/such/folder/log: cannot write"));
    reward_command_close(NULL);
}

// Closing ends the program and what it has started; SIGPIPE and the signal mask stay as they were.
static void test_nothing_is_left_behind(void **state) {
    (void)state;
    RewardScores scores;
    RewardCommand *command = start("echo $$ >"
                                   "\"$OUT\"; trap '' TERM; sleep 1000 & echo $! >>\"$OUT\"; read a; "
                                   "echo '{\"id\":0,\"reward\":1}'; sleep 1000",
                                   60);
    assert_true(score(command, &scores, 1, 1));
    reward_command_close(command);
    char *text;
    assert_true(file_read(&text, NULL, &arena, getenv("OUT"), &error));
    for (char *at = text; *at; at += strcspn(at, "\n") + 1) {
        pid_t pid = (pid_t)strtol(at, NULL, 10);
        bool gone = false;
        for (int i = 0; i < 200 && !gone; i++) {
            gone = kill(pid, 0) != 0;
            // An orphan is ended but not yet reaped by its new parent.
            char *status;
            const char *name = arena_format(&arena, "/proc/%d/stat", (int)pid);
            FILE *file = fopen(name, "r");
            char line[256] = "";
            if (file && fgets(line, sizeof line, file) && (status = strrchr(line, ')')))
                gone = gone || status[2] == 'Z';
            if (file) fclose(file);
            if (!gone) usleep(10000);
        }
        if (!gone) fail_msg("process %d is left", (int)pid);
    }
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    assert_false(sigismember(&mask, SIGPIPE));
}

static int setup(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/whet-command-%d", (int)getpid());
    setenv("OUT", path("out"), 1);
    return file_make_folders(folder, &error) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    file_remove_tree(folder, &error);
    arena_close(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches),
        cmocka_unit_test(test_order_components_and_nulls),
        cmocka_unit_test(test_programs_that_fail),
        cmocka_unit_test(test_late_lines_belong_to_no_batch),
        cmocka_unit_test(test_what_cannot_be_run),
        cmocka_unit_test(test_nothing_is_left_behind),
    };
    return cmocka_run_group_tests_name("reward_command", tests, setup, teardown);
}
