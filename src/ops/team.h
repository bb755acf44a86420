// The threads of one process: a fixed team that runs independent tasks and parks while it waits.
// Not OpenMP: its waiting threads spin for milliseconds, which stalls a busy machine; these spin for some microseconds
// and then sleep on a futex/condition variable.
#pragma once
#include <stdint.h>

typedef struct Team Team;

// threads >= 1, the caller included. Ends the program (OBTAINED) when threads cannot be made.
Team *team_open(int threads);
void team_close(Team *team); // accepts NULL
int team_size(const Team *team);

// Runs task(context, i, worker) for every i in 0..count-1 and returns when all are done. Tasks are handed out by an atomic
// counter, in any order, so they must be independent; worker is 0..size-1 and names the thread, for scratch.
// A task must not call team_run.
typedef void TeamTask(void *context, int64_t index, int worker);
void team_run(Team *team, int64_t count, TeamTask *task, void *context);
