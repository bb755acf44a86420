#include "run/generate_command.h"
#include "run/train_command.h"

#include "base/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const Command *const commands[] = {&train_command, &generate_command, &score_command, &config_command};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands, STATUS_FAILED = 1, STATUS_MISUSED = 2 };

static int usage(FILE *out, int status) {
    fprintf(out, "usage: whet VERB …\n\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  whet %-9s %-26s %s\n", commands[i]->verb, commands[i]->operands, commands[i]->summary);
    fprintf(out, "  whet %-9s %-26s %s\n", "help", "[VERB]", "Says what a verb does and takes.");
    return status;
}

static const Command *find(const char *verb) {
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(commands[i]->verb, verb)) return commands[i];
    return NULL;
}

static int unknown(const char *verb) {
    Error error;
    const char *names[COMMAND_COUNT];
    for (int i = 0; i < COMMAND_COUNT; i++) names[i] = commands[i]->verb;
    const char *near = strbuf_nearest(verb, names, COMMAND_COUNT);
    if (near)
        error_set(&error, "unknown verb '%s'; did you mean '%s'?", verb, near);
    else
        error_set(&error, "unknown verb '%s'; see `whet help`", verb);
    fprintf(stderr, "whet: %s\n", error.text);
    return STATUS_MISUSED;
}

static bool is_help(const char *word) {
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

// --help and -h ask for help wherever they stand before "--".
static bool wants_help(int count, char **words) {
    for (int i = 0; i < count && strcmp(words[i], "--"); i++)
        if (is_help(words[i])) return true;
    return false;
}

static int help(int count, char **words) {
    if (!count) return usage(stdout, 0);
    const Command *command = find(words[0]);
    if (!command) return unknown(words[0]);
    if (count > 1 && !wants_help(count, words)) {
        fprintf(stderr, "whet help: too much is given; usage: whet help [VERB]\n");
        return STATUS_MISUSED;
    }
    command_help(command);
    return 0;
}

static int run(const Command *command, int count, char **words) {
    Arena arena = {0};
    Arguments arguments;
    Error error = {0};
    bool good = command_parse(&arguments, command, count, words, &arena, &error) && command->run(&arguments, &error);
    arena_close(&arena);
    if (good) return 0;
    fflush(stdout);
    fprintf(stderr, "whet %s: %s\n", command->verb, error.text);
    return arguments.misused ? STATUS_MISUSED : STATUS_FAILED;
}

// A file must not be given the number of a standard stream that the caller closed: what is printed would go into it. Opened
// the wrong way round, the stream still fails when it is used.
static void keep_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) return;
}

static bool flush_output(void) {
    bool failed = ferror(stdout);
    errno = 0;
    failed = fflush(stdout) || failed;
    if (failed)
        fprintf(stderr, "whet: standard output: cannot write%s%s\n", errno ? ": " : "", errno ? strerror(errno) : "");
    return !failed;
}

int main(int argc, char **argv) {
    keep_standard_streams();
    signal(SIGXFSZ, SIG_IGN); // beyond a limit on file sizes, let the write fail
    if (argc < 2) return usage(stderr, STATUS_MISUSED);
    const char *verb = argv[1];
    const Command *command = find(verb);
    int status;
    if (is_help(verb) || !strcmp(verb, "help"))
        status = help(argc - 2, argv + 2);
    else if (command && wants_help(argc - 2, argv + 2))
        status = help(1, argv + 1);
    else
        status = command ? run(command, argc - 2, argv + 2) : unknown(verb);
    return flush_output() || status ? status : STATUS_FAILED;
}
