#include "base/child.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 2000, LONGEST_LINES = 1 << 30 };

// ---- beginning

// In the child: never returns. What goes wrong is written to `report` as errno.
_Noreturn static void become(const char *const *command, const int stream[3], int report, pid_t parent) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    bool good = true;
    for (int i = 0; i < 3; i++) good = good && dup2(stream[i], i) == i;
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    if (good) execvp(command[0], (char *const *)(uintptr_t)command);
    int number = errno;
    if (write(report, &number, sizeof number) < 0) _exit(126);
    _exit(127);
}

static void close_all(int *descriptors, int count) {
    for (int i = 0; i < count; i++)
        if (descriptors[i] >= 0) close(descriptors[i]);
}

bool child_start(Child *child, const char *const *command, const char *error_path, Error *error) {
    enum { IN, OUT = 2, REPORT = 4, ERRORS = 6, ENDS };
    int ends[ENDS] = {-1, -1, -1, -1, -1, -1, -1}, number = 0;
    *child = (Child){0};
    ends[ERRORS] = open(error_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (ends[ERRORS] < 0) return error_set(error, "%s: cannot write: %s", error_path, strerror(errno));
    bool good = !pipe2(&ends[IN], O_CLOEXEC) && !pipe2(&ends[OUT], O_CLOEXEC) && !pipe2(&ends[REPORT], O_CLOEXEC);
    pid_t parent = getpid(), pid = good ? fork() : -1;
    if (pid == 0) become(command, (int[]){ends[IN], ends[OUT + 1], ends[ERRORS]}, ends[REPORT + 1], parent);
    if (pid < 0) {
        error_set(error, "cannot start '%s': %s", command[0], strerror(errno));
        close_all(ends, ENDS);
        return false;
    }
    setpgid(pid, pid); // whichever of the two comes first
    close(ends[REPORT + 1]), ends[REPORT + 1] = -1;
    ssize_t told;
    do told = read(ends[REPORT], &number, sizeof number);
    while (told < 0 && errno == EINTR);
    if (told > 0) {
        error_set(error, "cannot run '%s': %s", command[0], strerror(number));
        close_all(ends, ENDS);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
        return false;
    }
    *child = (Child){.pid = pid, .in = ends[IN + 1], .out = ends[OUT]};
    ends[IN + 1] = ends[OUT] = -1;
    close_all(ends, ENDS);
    fcntl(child->in, F_SETFL, O_NONBLOCK);
    fcntl(child->out, F_SETFL, O_NONBLOCK);
    return true;
}

// ---- ending

static void sleep_ms(int64_t ms) {
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

// Waits for the child's end at most so long, then ends its group. The child's status; -1 when it had to be ended.
static int reap(Child *child, int64_t patience_ms) {
    int status = -1;
    close_all((int[]){child->in, child->out}, 2);
    pid_t done = 0;
    for (int64_t waited = 0; !(done = waitpid(child->pid, &status, WNOHANG)) && waited < patience_ms; waited += 10)
        sleep_ms(10);
    if (done != child->pid) status = -1;
    // What the child itself has started ends with it.
    kill(-child->pid, SIGKILL);
    if (!done)
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    strbuf_close(&child->rest);
    *child = (Child){0};
    return status;
}

void child_stop(Child *child) {
    if (!child->pid) return;
    close(child->in), child->in = -1; // the end of its input asks it to end
    reap(child, PATIENCE_MS);
}

static bool say_end(Child *child, Error *error) {
    int status = reap(child, PATIENCE_MS);
    if (status >= 0 && WIFEXITED(status)) return error_set(error, "it ended with status %d", WEXITSTATUS(status));
    if (status >= 0 && WIFSIGNALED(status))
        return error_set(error, "it was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return error_set(error, "it closed its output");
}

// ---- between

// write(2) without SIGPIPE for this program when nobody reads.
static ssize_t write_quietly(int descriptor, const char *data, size_t size) {
    sigset_t pipe_signal, before, pending;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
    ssize_t written = write(descriptor, data, size);
    int number = errno;
    if (written < 0 && number == EPIPE && !sigismember(&pending, SIGPIPE))
        while (sigtimedwait(&pipe_signal, NULL, &(struct timespec){0}) < 0 && errno == EINTR) {
        }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = number;
    return written;
}

static bool is_transient(void) {
    return errno == EAGAIN || errno == EINTR;
}

// Moves `lines` whole lines from rest to output, when they are there.
static bool take_lines(Child *child, StrBuf *output, size_t *seen, int64_t *found, int64_t lines) {
    StrBuf *rest = &child->rest;
    for (; *seen < rest->length && *found < lines; ++*seen) *found += rest->text[*seen] == '\n';
    if (*found < lines) return false;
    strbuf_clear(output);
    strbuf_append(output, rest->text ? rest->text : "", *seen);
    StrBuf kept = {0};
    strbuf_append(&kept, rest->text ? rest->text + *seen : "", rest->length - *seen);
    strbuf_close(rest);
    *rest = kept;
    return true;
}

static bool fail(Child *child, Error *error, const char *what, int64_t found, int64_t lines) {
    reap(child, 0);
    return error_set(error, "%s; %lld of %lld lines had come", what, (long long)found, (long long)lines);
}

bool child_exchange(Child *child, StrBuf *output, const char *input, size_t size, int64_t lines, double seconds,
                    Error *error) {
    size_t sent = 0, seen = 0;
    int64_t found = 0;
    char bytes[65536], late[64];
    double deadline = log_seconds() + seconds;
    if (!child->pid) return error_set(error, "it has ended before");
    snprintf(late, sizeof late, "it did not answer within %g seconds", seconds);
    for (;;) {
        if (sent == size && take_lines(child, output, &seen, &found, lines)) return true;
        double left = deadline - log_seconds();
        if (left <= 0) return fail(child, error, late, found, lines);
        struct pollfd ends[2] = {{.fd = child->out, .events = POLLIN},
                                 {.fd = sent < size ? child->in : -1, .events = POLLOUT}};
        if (poll(ends, 2, (int)fmin(ceil(left * 1000), 1e6)) < 0) {
            if (errno == EINTR) continue;
            return fail(child, error, strerror(errno), found, lines);
        }
        if (ends[1].revents) {
            ssize_t written = write_quietly(child->in, input + sent, size - sent);
            if (written > 0) sent += (size_t)written;
            if (written < 0 && !is_transient()) sent = size; // it reads no more: its end, or what it says, is to come
        }
        if (!ends[0].revents) continue;
        ssize_t got = read(child->out, bytes, sizeof bytes);
        if (got > 0) strbuf_append(&child->rest, bytes, (size_t)got);
        if (child->rest.length > LONGEST_LINES) return fail(child, error, "it wrote more than 1 GiB", found, lines);
        if (got == 0 || (got < 0 && !is_transient())) {
            if (sent == size && take_lines(child, output, &seen, &found, lines)) return true;
            return say_end(child, error);
        }
    }
}
