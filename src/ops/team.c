#include "ops/team.h"

#include "base/arena.h"
#include "base/error.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef struct TeamMember {
    Team *team;
    int worker;
} TeamMember;

// A job is published by its number in the upper half of `ticket`; the lower half is the next task. A thread claims a task
// by compare-and-swap on the whole ticket, so a thread that wakes late can neither take a task of a job that is over nor
// delay it: the caller waits for tasks, not for threads. That also holds in a forked child, where only the caller is left.
struct Team {
    _Alignas(64) _Atomic uint64_t ticket; // job << 32 | next task
    _Alignas(64) _Atomic uint32_t job;    // the job's number again: the word on which idle threads sleep
    _Atomic uint32_t sleepers;
    _Atomic uint32_t stop;
    _Alignas(64) _Atomic uint32_t done; // finished tasks of the job: the word on which the caller sleeps
    _Atomic uint32_t caller_sleeps;
    _Alignas(64) _Atomic uint32_t count;
    _Atomic(TeamTask *) task;
    _Atomic(void *) context;
    int size;
    int64_t spin_nanoseconds;
    pthread_t *threads; // size − 1
    TeamMember *members;
    Arena arena; // holds all of this
};

// A thread that sleeps takes long to wake, where the processor is a virtual one most of all, and jobs follow each other within a
// millisecond. After some microseconds it lets others run that want its processor. A team of more threads than cores would be in
// its own way: it sleeps then.
enum { SPIN_NANOSECONDS = 1000000, SPIN_ALONE_NANOSECONDS = 15000, PAUSES_A_LOOK = 8 };

static int64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void futex_sleep(_Atomic uint32_t *word, uint32_t while_value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, int threads) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

// Looks at the word for a while; true as soon as it is (equal: not any more) value.
static bool spin(const Team *team, _Atomic uint32_t *word, uint32_t value, bool equal) {
    int64_t begun = nanoseconds(), spent = 0;
    do {
        if (spent > SPIN_ALONE_NANOSECONDS) sched_yield();
        for (int i = 0; i < PAUSES_A_LOOK; i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) == value) == equal) return true;
            __builtin_ia32_pause();
        }
        spent = nanoseconds() - begun;
    } while (spent < team->spin_nanoseconds);
    return false;
}

// Runs tasks of this job until none is left to claim.
static void work(Team *team, uint32_t job, int worker) {
    // Acquire, against the release in team_run: whoever reads a later job's value also sees that the ticket is not ours.
    TeamTask *task = atomic_load_explicit(&team->task, memory_order_acquire);
    void *context = atomic_load_explicit(&team->context, memory_order_acquire);
    uint32_t count = atomic_load_explicit(&team->count, memory_order_acquire), finished = 0;
    uint64_t ticket = atomic_load_explicit(&team->ticket, memory_order_acquire);
    while (ticket >> 32 == job && (uint32_t)ticket < count) {
        // A successful exchange proves that the job is still on, thus that task, context and count were its own.
        if (!atomic_compare_exchange_weak_explicit(&team->ticket, &ticket, ticket + 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        task(context, (uint32_t)ticket, worker);
        finished++;
        ticket = atomic_load_explicit(&team->ticket, memory_order_acquire);
    }
    if (!finished) return;
    uint32_t done = atomic_fetch_add(&team->done, finished) + finished;
    if (done == count && atomic_load(&team->caller_sleeps)) futex_wake(&team->done, 1);
}

static void *member_main(void *argument) {
    TeamMember *member = argument;
    Team *team = member->team;
    uint32_t seen = 0;
    for (;;) {
        while (!spin(team, &team->job, seen, false)) {
            atomic_fetch_add(&team->sleepers, 1);
            if (atomic_load(&team->job) == seen) futex_sleep(&team->job, seen);
            atomic_fetch_sub(&team->sleepers, 1);
        }
        seen = atomic_load_explicit(&team->job, memory_order_acquire);
        if (atomic_load_explicit(&team->stop, memory_order_relaxed)) return NULL;
        work(team, seen, member->worker);
    }
}

int team_usable_cores(void) {
    cpu_set_t set;
    int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
    return cores >= 1 ? cores : 1;
}

Team *team_open(int threads) {
    CHECK(threads >= 1, "%d threads", threads);
    Arena arena = {0};
    Team *team = arena_alloc(&arena, sizeof *team);
    team->size = threads;
    team->spin_nanoseconds = threads <= team_usable_cores() ? SPIN_NANOSECONDS : SPIN_ALONE_NANOSECONDS;
    team->threads = arena_array(&arena, pthread_t, threads);
    team->members = arena_array(&arena, TeamMember, threads);
    team->arena = arena;
    sigset_t all, before; // signals are the caller's: its mask alone decides whether they come
    sigfillset(&all);
    sigdelset(&all,
              SIGBUS); // a thread's own fault, which would kill it at once when blocked: file_guard_maps has the say
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 1; i < threads; i++) {
        team->members[i] = (TeamMember){team, i};
        int failed = pthread_create(&team->threads[i], NULL, member_main, &team->members[i]);
        OBTAINED(!failed, "thread %d of %d: %s", i, threads, strerror(failed));
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return team;
}

void team_close(Team *team) {
    if (!team) return;
    atomic_store_explicit(&team->stop, 1, memory_order_relaxed);
    atomic_fetch_add(&team->job, 1);
    futex_wake(&team->job, INT_MAX);
    for (int i = 1; i < team->size; i++) pthread_join(team->threads[i], NULL);
    Arena arena = team->arena;
    arena_close(&arena);
}

int team_size(const Team *team) {
    return team->size;
}

void team_run(Team *team, int64_t count, TeamTask *task, void *context) {
    CHECK(count >= 0 && count < UINT32_MAX, "%lld tasks", (long long)count);
    if (team->size == 1 || count <= 1) {
        for (int64_t i = 0; i < count; i++) task(context, i, 0);
        return;
    }
    uint32_t job = atomic_load_explicit(&team->job, memory_order_relaxed) + 1;
    atomic_store(&team->ticket, (uint64_t)job << 32 | UINT32_MAX); // closed while the job is written
    atomic_store_explicit(&team->task, task, memory_order_release);
    atomic_store_explicit(&team->context, context, memory_order_release);
    atomic_store_explicit(&team->count, (uint32_t)count, memory_order_release);
    atomic_store_explicit(&team->done, 0, memory_order_relaxed);
    atomic_store(&team->ticket, (uint64_t)job << 32);
    atomic_store(&team->job, job);
    if (atomic_load(&team->sleepers)) futex_wake(&team->job, count - 1 < team->size ? (int)count - 1 : INT_MAX);
    work(team, job, 0);
    while (!spin(team, &team->done, (uint32_t)count, true)) {
        atomic_store(&team->caller_sleeps, 1);
        uint32_t done = atomic_load(&team->done);
        if (done != (uint32_t)count) futex_sleep(&team->done, done);
        atomic_store(&team->caller_sleeps, 0);
    }
}
