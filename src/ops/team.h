// The threads of one process: a fixed team that runs independent tasks and parks while it waits.
// Not OpenMP, whose waiting threads spin for long and stall a busy machine: these look for the next job for a millisecond, after its
// first microseconds yielding to others, and then sleep on a futex.
#pragma once
#include <stdint.h>

typedef struct Team Team;

int team_usable_cores(void); // that this process may run on, >= 1

// threads >= 1, the caller included. Ends the program (OBTAINED) when threads cannot be made.
Team *team_open(int threads);
void team_close(Team *team); // accepts NULL
int team_size(const Team *team);

// Runs task(context, i, worker) for every i in 0..count-1 and returns when all are done. Tasks are handed out by an atomic
// counter, in any order, so they must be independent; worker is 0..size-1 and names the thread, for scratch.
// A task must not call team_run.
typedef void TeamTask(void *context, int64_t index, int worker);
void team_run(Team *team, int64_t count, TeamTask *task, void *context);
