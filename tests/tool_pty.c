// Runs a command on a terminal of its own and plays a dialogue with it, for end-to-end tests.
// usage: tool_pty COMMAND…        the dialogue comes on standard input, a step a line:
//   expect TEXT        waits until the terminal shows TEXT, behind what was expected before
//   absent TEXT        TEXT has not been shown since the last expect
//   send TEXT          types it; behind a prompt ("> ") or the echo of what was typed after 50 ms, as a person at best: in the moment
//                      before it reads on, the line editor misses a signal
//   size ROWS COLUMNS  of the terminal, as if its window were changed
//   end STATUS         waits for the command's end
// TEXT may hold \n, \r, \t, \e, \\ and \xHH. All that was shown is copied to standard output. A step that fails ends the
// command, and the status is 1.
#include <errno.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_SHOWN = 1 << 20, PATIENCE_SECONDS = 60 };

static char shown[MOST_SHOWN];
static size_t shown_size, expected; // expected: behind the last match
static int terminal, line_number;
static char typed[256]; // by the last send
static bool awaits_keys;
static pid_t child;

static _Noreturn void fail(const char *what, const char *text) {
    fprintf(stderr, "tool_pty: step %d: %s: %s\n", line_number, what, text);
    kill(child, SIGKILL);
    fwrite(shown, 1, shown_size, stdout);
    exit(1);
}

// Waits for more output, at most so many milliseconds. False: the terminal is closed, or nothing came.
static bool take(int milliseconds) {
    struct pollfd wait = {.fd = terminal, .events = POLLIN};
    if (poll(&wait, 1, milliseconds) <= 0) return false;
    ssize_t count = read(terminal, shown + shown_size, sizeof shown - 1 - shown_size);
    if (count > 0) shown_size += (size_t)count;
    if (shown_size == sizeof shown - 1) fail("too much is shown", "");
    return count > 0;
}

static char *unescape(char *text) {
    static const char names[] = "nrte\\", bytes[] = "\n\r\t\033\\";
    char *to = text;
    for (char *at = text; *at; at++) {
        const char *name = at[0] == '\\' && at[1] ? strchr(names, at[1]) : NULL;
        if (name) {
            *to++ = bytes[name - names];
            at++;
        } else if (at[0] == '\\' && at[1] == 'x' && at[2] && at[3]) {
            char hex[3] = {at[2], at[3], 0};
            *to++ = (char)strtol(hex, NULL, 16);
            at += 3;
        } else {
            *to++ = *at;
        }
    }
    *to = 0;
    return text;
}

static void expect(const char *text) {
    time_t end = time(NULL) + PATIENCE_SECONDS;
    size_t size = strlen(text);
    for (;;) {
        char *found = memmem(shown + expected, shown_size - expected, text, size);
        if (found) {
            expected = (size_t)(found - shown) + size;
            return;
        }
        bool more = take(1000);
        if (!more && (time(NULL) > end || waitpid(child, NULL, WNOHANG | WNOWAIT) > 0)) fail("not shown", text);
    }
}

static void await_end(int status) {
    time_t end = time(NULL) + PATIENCE_SECONDS;
    int found = 0;
    char text[64];
    pid_t ended;
    while (take(100) || (!(ended = waitpid(child, &found, WNOHANG)) && time(NULL) < end)) continue;
    if (ended != child) fail("no end", ended ? strerror(errno) : "it goes on");
    snprintf(text, sizeof text, "status %d, signal %d", WEXITSTATUS(found), WIFSIGNALED(found) ? WTERMSIG(found) : 0);
    if (!WIFEXITED(found) || WEXITSTATUS(found) != status) fail("another end", text);
}

static void step(char *line) {
    char *text = strchr(line, ' ');
    if (text) *text++ = 0;
    if (!*line || *line == '#') return;
    if (!text) fail("a step without its text", line);
    unescape(text);
    if (!strcmp(line, "expect")) {
        expect(text);
        size_t size = strlen(text);
        awaits_keys = (size >= 2 && !strcmp(text + size - 2, "> ")) || !strcmp(text, typed);
    } else if (!strcmp(line, "absent")) {
        if (memmem(shown + expected, shown_size - expected, text, strlen(text))) fail("shown", text);
    } else if (!strcmp(line, "send")) {
        if (awaits_keys) nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
        awaits_keys = false;
        snprintf(typed, sizeof typed, "%s", text);
        if (write(terminal, text, strlen(text)) != (ssize_t)strlen(text)) fail("cannot type", text);
    } else if (!strcmp(line, "size")) {
        char *columns;
        struct winsize size = {.ws_row = (unsigned short)strtol(text, &columns, 10)};
        size.ws_col = (unsigned short)strtol(columns, NULL, 10);
        ioctl(terminal, TIOCSWINSZ, &size);
    } else if (!strcmp(line, "end")) {
        await_end((int)strtol(text, NULL, 10));
    } else {
        fail("no such step", line);
    }
}

int main(int argc, char **argv) {
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    if (argc < 2) return 2;
    child = forkpty(&terminal, NULL, NULL, &size);
    if (child == 0) {
        execvp(argv[1], argv + 1);
        _exit(127);
    }
    if (child < 0) return 2;
    char line[4096];
    while (fgets(line, sizeof line, stdin)) {
        line_number++;
        line[strcspn(line, "\n")] = 0;
        step(line);
    }
    kill(child, SIGKILL);
    fwrite(shown, 1, shown_size, stdout);
    return 0;
}
