// The team of threads: every task once, all done on return, also when threads sleep, crowd or are missing after a fork.
#include "ops/team.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST_TASKS = 1000, MOST_THREADS = 16 };

typedef struct Count {
    int runs[MOST_TASKS]; // plain: tasks are ordered before team_run's return
    int size;
    _Atomic int wrong_workers;
    _Atomic int busy[MOST_THREADS]; // a worker's number is never in use twice
} Count;

static void count_task(void *context, int64_t index, int worker) {
    Count *count = context;
    if (worker < 0 || worker >= count->size || atomic_fetch_add(&count->busy[worker], 1)) count->wrong_workers++;
    count->runs[index]++;
    atomic_fetch_sub(&count->busy[worker], 1);
}

static void nap(long microseconds) {
    nanosleep(&(struct timespec){.tv_nsec = microseconds * 1000}, NULL);
}

static void run_jobs(Team *team, int jobs) {
    static Count count;
    count.size = team_size(team);
    for (int job = 0; job < jobs; job++) {
        int64_t tasks = job * 7 % 50;
        if (job % 100 == 99) tasks = MOST_TASKS;
        for (int i = 0; i < MOST_TASKS; i++) count.runs[i] = 0;
        team_run(team, tasks, count_task, &count);
        for (int i = 0; i < MOST_TASKS; i++) assert_int_equal(count.runs[i], i < tasks);
        if (job % 64 == 63) nap(100); // long enough for the others to sleep
    }
    assert_int_equal(count.wrong_workers, 0);
}

static void test_every_task_once(void **state) {
    (void)state;
    static const int sizes[] = {1, 2, 3, MOST_THREADS}; // the last crowds most machines
    for (int i = 0; i < 4; i++) {
        Team *team = team_open(sizes[i]);
        assert_int_equal(team_size(team), sizes[i]);
        run_jobs(team, 1000);
        team_close(team);
    }
    team_close(NULL);
}

static void slow_task(void *context, int64_t index, int worker) {
    (void)worker;
    nap(index % 2 ? 2000 : 50);
    atomic_fetch_add((_Atomic int *)context, 1);
}

// The caller, out of tasks, sleeps until the last one is done.
static void test_caller_waits(void **state) {
    (void)state;
    Team *team = team_open(3);
    for (int i = 0; i < 20; i++) {
        _Atomic int done = 0;
        team_run(team, 7, slow_task, &done);
        assert_int_equal(done, 7);
    }
    team_close(team);
}

// Waiting costs no processor time: threads park.
static void test_idle_team_sleeps(void **state) {
    (void)state;
    Team *team = team_open(4);
    run_jobs(team, 10);
    clock_t before = clock();
    nap(300000);
    assert_true((double)(clock() - before) / CLOCKS_PER_SEC < 0.05);
    team_close(team);
}

static void test_fork(void **state) {
    (void)state;
    Team *team = team_open(3);
    run_jobs(team, 10);
    pid_t child = fork();
    if (!child) { // has the caller's thread only
        alarm(20);
        run_jobs(team, 10);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    team_close(team);
}

static void look_at_mask(void *context, int64_t index, int worker) {
    sigset_t mask;
    (void)index;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    ((_Atomic int *)context)[worker] = sigismember(&mask, SIGBUS) * 2 + sigismember(&mask, SIGINT) + 1;
    nap(2000);
}

// Signals from outside come to the caller; a thread's own fault comes to its handler.
static void test_signals(void **state) {
    (void)state;
    Team *team = team_open(3);
    _Atomic int seen[3] = {0};
    for (int i = 0; i < 200 && !(seen[1] && seen[2]); i++) team_run(team, 6, look_at_mask, seen);
    assert_int_equal(seen[1], 2);
    assert_int_equal(seen[2], 2);
    team_close(team);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_task_once),  cmocka_unit_test(test_caller_waits),
        cmocka_unit_test(test_idle_team_sleeps), cmocka_unit_test(test_fork),
        cmocka_unit_test(test_signals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
