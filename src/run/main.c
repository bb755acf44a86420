#include "base/file.h"
#include "run/help_command.h"
#include "run/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#define WHET_VERSION "0.1.0"

enum { STATUS_FAILED = 1, STATUS_MISUSED = 2 };

static bool is_help(const char *word) {
    return !strcmp(word, "--help") || !strcmp(word, "-h");
}

// --help and -h ask for help wherever they stand before "--".
static bool wants_help(int count, char **words) {
    for (int i = 0; i < count && strcmp(words[i], "--"); i++)
        if (is_help(words[i])) return true;
    return false;
}

static int run(const Command *command, int count, char **words) {
    Arena arena = {0};
    Arguments arguments;
    Error error = {0};
    bool good = command_parse(&arguments, command, count, words, &arena, &error) && command->run(&arguments, &error);
    arena_close(&arena);
    if (good) return 0;
    fflush(stdout);
    if (error.text[0]) fprintf(stderr, "whet %s: %s\n", command->verb, error.text); // else another rank tells it
    return arguments.misused ? STATUS_MISUSED : STATUS_FAILED;
}

// `whet help --help train` and the like: what else is said decides.
static int run_help(int count, char **words) {
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (!is_help(words[i])) words[kept++] = words[i];
    return run(&help_command, kept, words);
}

static int run_verb(int count, char **words) {
    const Command *command = verbs_find(words[0]);
    if (command == &help_command || is_help(words[0])) return run_help(count - 1, words + 1);
    if (command && wants_help(count - 1, words + 1)) return run_help(1, words);
    if (command) return run(command, count - 1, words + 1);
    if (!strcmp(words[0], "--version")) {
        printf("whet %s\n", WHET_VERSION);
        return 0;
    }
    Error error;
    verbs_refuse(words[0], &error);
    fprintf(stderr, "whet: %s\n", error.text);
    return STATUS_MISUSED;
}

// A file must not be given the number of a standard stream that the caller closed: what is printed would go into it. Opened
// the wrong way round, the stream still fails when it is used.
static void keep_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd) return;
}

// Reports what did not reach standard output, unless the verb failed already.
static int end_output(int status) {
    bool failed = ferror(stdout);
    errno = 0;
    failed = fflush(stdout) || failed;
    if (!failed || status) return status;
    fprintf(stderr, "whet: standard output: cannot write%s%s\n", errno ? ": " : "", errno ? strerror(errno) : "");
    return STATUS_FAILED;
}

int main(int argc, char **argv) {
    keep_standard_streams();
    file_guard_maps();
    signal(SIGXFSZ, SIG_IGN); // beyond a limit on file sizes, let the write fail
    if (argc < 2) {
        help_overview(stderr);
        return STATUS_MISUSED;
    }
    return end_output(run_verb(argc - 1, argv + 1));
}
