// What a kill, a full disk or a read-only folder leaves of checkpoints: always whole ones, and a later save that works.
#include "base/file.h"
#include "support/checkpoint_setup.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static bool save(CheckpointSetup *setup, int64_t step, int mark, Error *error) {
    return checkpoint_setup_save(setup, step, mark, (double)mark, true, error);
}

static void saved(CheckpointSetup *setup, int64_t step, int mark) {
    Error error;
    if (!save(setup, step, mark, &error)) fail_msg("%s", error.text);
}

static void has_mark(CheckpointSetup *setup, int64_t step, int mark) {
    Error error = {.text = "another mark"};
    if (checkpoint_setup_mark(setup, step, &error) != mark) fail_msg("step_%lld: %s", (long long)step, error.text);
}

static int64_t latest(CheckpointSetup *setup) {
    Error error;
    int64_t step = -1;
    if (!checkpoint_latest(&step, setup->folder, &error)) fail_msg("%s", error.text);
    return step;
}

static void remove_name(CheckpointSetup *setup, const char *name) {
    Error error;
    if (!file_remove_tree(checkpoint_setup_path(setup, name), &error)) fail_msg("%s", error.text);
}

// ---- a kill before any system call of the action

typedef void Action(CheckpointSetup *setup);

enum { UNTRACED = 77, KILLED = -1 };

// Runs the action in a child that is killed when it is about to make its count-th system call. Returns KILLED, or the exit
// status of a child that made fewer (UNTRACED where tracing is forbidden).
static int run_killed(CheckpointSetup *setup, Action *action, int count) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) _exit(UNTRACED);
        raise(SIGSTOP);
        action(setup);
        _exit(0);
    }
    int status = 0, stops = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status))
        ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(uintptr_t)(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
    while (!WIFEXITED(status)) {
        bool entering = WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80) && stops++ % 2 == 0;
        if ((entering && stops / 2 == count) || WIFSIGNALED(status)) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return KILLED;
        }
        ptrace(PTRACE_SYSCALL, child, NULL, NULL);
        waitpid(child, &status, 0);
    }
    return WEXITSTATUS(status);
}

// Runs the action with a kill at every place in turn; `before` prepares the folder, `after` looks at what is left. Returns
// the number of places.
static int at_every_call(CheckpointSetup *setup, Action *before, Action *action, Action *after) {
    for (int count = 0;; count++) {
        before(setup);
        int ended = run_killed(setup, action, count);
        if (ended == UNTRACED) skip();
        after(setup);
        if (ended != KILLED) {
            assert_int_equal(ended, 0);
            return count;
        }
    }
}

static void save_second(CheckpointSetup *setup) {
    Error error;
    if (!save(setup, 2, 20, &error)) _exit(1);
}

static void start_with_first(CheckpointSetup *setup) {
    remove_name(setup, "step_2");
    remove_name(setup, "tmp_step_2");
    if (latest(setup) == 0) saved(setup, 1, 10);
}

// Step 1 is whole, step 2 whole or not there; then a save over what is left works and leaves nothing else.
static void first_or_both(CheckpointSetup *setup) {
    int64_t step = latest(setup);
    has_mark(setup, 1, 10);
    if (step == 2)
        has_mark(setup, 2, 20);
    else
        assert_int_equal(step, 1);
    saved(setup, 2, 20);
    has_mark(setup, 2, 20);
    assert_string_equal(checkpoint_setup_names(setup), "step_1 step_2 ");
}

static void test_a_kill_at_any_call_of_a_save(void **state) {
    assert_true(at_every_call(*state, start_with_first, save_second, first_or_both) > 50);
    assert_int_equal(latest(*state), 2);
}

static void start_with_both(CheckpointSetup *setup) {
    Error error;
    if (checkpoint_setup_mark(setup, 1, &error) != 10) saved(setup, 1, 10);
    saved(setup, 2, 19);
}

static void old_or_new(CheckpointSetup *setup) {
    Error error;
    has_mark(setup, 1, 10);
    assert_int_equal(latest(setup), 2);
    int mark = checkpoint_setup_mark(setup, 2, &error);
    if (mark != 19 && mark != 20) fail_msg("%s", error.text);
    saved(setup, 2, 20);
    has_mark(setup, 2, 20);
    assert_string_equal(checkpoint_setup_names(setup), "step_1 step_2 ");
}

static void test_a_kill_at_any_call_of_a_replacement(void **state) {
    assert_true(at_every_call(*state, start_with_both, save_second, old_or_new) > 50);
}

static void start_with_four(CheckpointSetup *setup) {
    for (int step = 1; step <= 4; step++)
        if (!file_exists(arena_format(&setup->arena, "%s/step_%d", setup->folder, step))) saved(setup, step, 10 * step);
}

static bool retain(CheckpointSetup *setup, int64_t keep, const char *metric, Error *error) { // the lowest are the best
    return checkpoint_retain(setup->folder,
                             &(CheckpointRetention){.save_period = 1, .keep_top_k = keep, .metric = metric}, error);
}

static void keep_best(CheckpointSetup *setup) {
    Error error;
    if (!retain(setup, 1, "val:accuracy", &error)) _exit(1);
}

// Whatever still bears the name step_N is whole, the best and the newest among them; a second call ends the work.
static void best_and_newest(CheckpointSetup *setup) {
    Error error;
    for (int step = 1; step <= 4; step++)
        if (file_exists(arena_format(&setup->arena, "%s/step_%d", setup->folder, step)))
            has_mark(setup, step, 10 * step);
        else
            assert_true(step == 2 || step == 3);
    if (!retain(setup, 1, "val:accuracy", &error)) fail_msg("%s", error.text);
    assert_string_equal(checkpoint_setup_names(setup), "step_1 step_4 ");
}

static void test_a_kill_at_any_call_of_a_removal(void **state) {
    assert_true(at_every_call(*state, start_with_four, keep_best, best_and_newest) > 30);
}

// ---- kills at random times of a run that saves as fast as it can

static void save_twice_and_retain(CheckpointSetup *setup, int64_t step) {
    Error error;
    if (!save(setup, step, (int)step, &error) || !save(setup, step, (int)step, &error) ||
        !retain(setup, 2, NULL, &error))
        _exit(1);
}

// Microseconds that a child takes for its first step.
static uint32_t time_of_a_step(CheckpointSetup *setup) {
    struct timespec begun, ended;
    clock_gettime(CLOCK_MONOTONIC, &begun);
    pid_t child = fork();
    if (child == 0) {
        save_twice_and_retain(setup, 1);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    return (uint32_t)((ended.tv_sec - begun.tv_sec) * 1000000 + (ended.tv_nsec - begun.tv_nsec) / 1000);
}

static void test_kills_at_random_times(void **state) {
    CheckpointSetup *setup = *state;
    uint32_t word = (uint32_t)getpid();
    fflush(NULL);
    uint32_t longest = 3 * time_of_a_step(setup); // so that some are finished however slow the machine is
    int64_t highest = latest(setup);
    for (int round = 0; round < 40; round++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0)
            for (int64_t step = highest + 1;; step++) save_twice_and_retain(setup, step);
        word = word * 1664525 + 1013904223;
        usleep((useconds_t)((uint64_t)word * longest >> 32));
        kill(child, SIGKILL);
        int status = 0;
        waitpid(child, &status, 0);
        assert_true(WIFSIGNALED(status));
        int64_t newest = latest(setup);
        assert_true(newest >= highest);
        for (int64_t step = newest; step > 0 && step > newest - 4; step--) {
            const char *place = arena_format(&setup->arena, "%s/step_%lld", setup->folder, (long long)step);
            if (file_exists(place)) has_mark(setup, step, (int)step);
        }
        highest = newest;
    }
    assert_true(highest > 5);
}

// ---- worlds in which a save cannot succeed; each in a child

typedef enum Verdict { DIED, GOOD, BAD, IMPOSSIBLE } Verdict;

typedef struct Report {
    Verdict verdict;
    Error error;
} Report;

static void in_child(CheckpointSetup *setup, Verdict (*body)(CheckpointSetup *setup, Error *error)) {
    Report *report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(report != MAP_FAILED);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        report->verdict = body(setup, &report->error);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    Report copy = *report;
    munmap(report, sizeof *report);
    if (copy.verdict == IMPOSSIBLE) skip();
    if (copy.verdict != GOOD) fail_msg("%s", copy.verdict == DIED ? "the child died" : copy.error.text);
}

static Verdict bad(Error *error, const char *what) {
    error_set(error, "%s", what);
    return BAD;
}

// Saves step 2: GOOD when it was saved; IMPOSSIBLE when it was refused with `reason` and nothing of it is left, and the
// first is as it was.
static Verdict try_second(CheckpointSetup *setup, const char *reason, Error *error) {
    if (save(setup, 2, 20, error)) return checkpoint_setup_mark(setup, 2, error) == 20 ? GOOD : BAD;
    if (!strstr(error->text, "checkpoint of step 2 was not saved: ") || !strstr(error->text, reason)) return BAD;
    if (checkpoint_setup_mark(setup, 1, error) != 10) return BAD;
    const char *names = checkpoint_setup_names(setup);
    return strcmp(names, "step_1 ") ? bad(error, names) : IMPOSSIBLE;
}

static Verdict with_file_limits(CheckpointSetup *setup, Error *error) {
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    if (!save(setup, 1, 10, error)) return BAD;
    getrlimit(RLIMIT_FSIZE, &limit);
    Verdict verdict = IMPOSSIBLE;
    int refused = 0;
    for (rlim_t size = 1; verdict == IMPOSSIBLE && size < 1 << 20; size += 1 + size / 3, refused++) {
        limit.rlim_cur = size;
        setrlimit(RLIMIT_FSIZE, &limit);
        verdict = try_second(setup, "File too large", error);
    }
    if (verdict == GOOD && refused < 20) return bad(error, "too few refusals");
    return verdict == IMPOSSIBLE ? bad(error, "never saved") : verdict;
}

static void test_files_that_may_not_grow(void **state) {
    in_child(*state, with_file_limits);
}

// A file system of its own on the folder, which no other process sees.
static bool mount_memory(const char *folder) {
    if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS)) return false;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", folder, "tmpfs", 0, "size=4m,nr_inodes=200") == 0;
}

static Verdict on_full_disks(CheckpointSetup *setup, Error *error) {
    struct statfs disk;
    if (!mount_memory(setup->folder)) return IMPOSSIBLE;
    if (!save(setup, 1, 10, error)) return BAD;
    if (statfs(setup->folder, &disk)) return bad(error, "statfs");
    long long page = disk.f_bsize, pages = (long long)(disk.f_blocks - disk.f_bfree);
    long long inodes = (long long)(disk.f_files - disk.f_ffree);
    for (int round = 0; round < 2; round++) { // no room for data, then none for names
        Verdict verdict = IMPOSSIBLE;
        for (int more = 0; verdict == IMPOSSIBLE && more < 200; more++) {
            char options[64];
            snprintf(options, sizeof options, "size=%lld,nr_inodes=%lld", page * (round ? 1024 : pages + more),
                     round ? inodes + more : 200);
            if (mount("none", setup->folder, "tmpfs", MS_REMOUNT, options)) return bad(error, strerror(errno));
            verdict = try_second(setup, "No space left on device", error);
            if (verdict == GOOD && more < 8) return bad(error, "too few refusals");
        }
        if (verdict != GOOD) return verdict == BAD ? BAD : bad(error, "never saved");
        if (!file_remove_tree(checkpoint_setup_path(setup, "step_2"), error)) return BAD;
    }
    return GOOD;
}

static void test_full_disks(void **state) {
    in_child(*state, on_full_disks);
}

static Verdict on_a_read_only_disk(CheckpointSetup *setup, Error *error) {
    int64_t step = 0;
    if (!mount_memory(setup->folder)) return IMPOSSIBLE;
    if (!save(setup, 1, 10, error)) return BAD;
    if (mount("none", setup->folder, NULL, MS_REMOUNT | MS_RDONLY, NULL)) return bad(error, strerror(errno));
    Verdict verdict = try_second(setup, "Read-only file system", error);
    if (verdict != IMPOSSIBLE) return bad(error, verdict == GOOD ? "saved" : error->text);
    if (!checkpoint_latest(&step, setup->folder, error) || step != 1) return bad(error, "latest");
    if (mount("none", setup->folder, NULL, MS_REMOUNT, NULL)) return bad(error, strerror(errno));
    return try_second(setup, "", error);
}

static void test_read_only_disks(void **state) {
    in_child(*state, on_a_read_only_disk);
}

// ---- file systems that cannot exchange two names (network file systems, for one)

// renameat2 with flags fails with EINVAL from now on.
static bool forbid_exchange(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[4])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static Verdict without_exchange(CheckpointSetup *setup, Error *error) {
    if (!forbid_exchange()) return IMPOSSIBLE;
    if (!save(setup, 1, 10, error) || !save(setup, 2, 19, error) || !save(setup, 2, 20, error)) return BAD;
    if (checkpoint_setup_mark(setup, 1, error) != 10 || checkpoint_setup_mark(setup, 2, error) != 20) return BAD;
    const char *names = checkpoint_setup_names(setup);
    return strcmp(names, "step_1 step_2 ") ? bad(error, names) : GOOD;
}

static void test_replacing_without_exchange(void **state) {
    in_child(*state, without_exchange);
}

static void save_second_without_exchange(CheckpointSetup *setup) {
    if (!forbid_exchange()) _exit(UNTRACED);
    save_second(setup);
}

// For a moment there is no step 2: then the first is the latest, and the old second bears another name.
static void old_new_or_first(CheckpointSetup *setup) {
    Error error;
    int mark = latest(setup) == 2 ? checkpoint_setup_mark(setup, 2, &error) : 20;
    if (mark != 19 && mark != 20) fail_msg("%s", error.text);
    has_mark(setup, 1, 10);
    saved(setup, 2, 20);
    has_mark(setup, 2, 20);
    if (!retain(setup, -1, NULL, &error)) fail_msg("%s", error.text);
    assert_string_equal(checkpoint_setup_names(setup), "step_1 step_2 ");
}

static void test_a_kill_at_any_call_without_exchange(void **state) {
    assert_true(at_every_call(*state, start_with_both, save_second_without_exchange, old_new_or_first) > 50);
}

#define FAULT_TEST(test) cmocka_unit_test_setup_teardown(test, checkpoint_setup_open, checkpoint_setup_close)

int main(void) {
    const struct CMUnitTest tests[] = {
        FAULT_TEST(test_a_kill_at_any_call_of_a_save),
        FAULT_TEST(test_a_kill_at_any_call_of_a_replacement),
        FAULT_TEST(test_a_kill_at_any_call_of_a_removal),
        FAULT_TEST(test_kills_at_random_times),
        FAULT_TEST(test_files_that_may_not_grow),
        FAULT_TEST(test_full_disks),
        FAULT_TEST(test_read_only_disks),
        FAULT_TEST(test_replacing_without_exchange),
        FAULT_TEST(test_a_kill_at_any_call_without_exchange),
    };
    return cmocka_run_group_tests_name("checkpoint_faults", tests, NULL, NULL);
}
