// What the ranks of a run settle among themselves before they work.
#pragma once
#include "comm/comm.h"

// Threads of this rank: the cores that it may use, divided by the ranks of this host that may use one of them too. Says so when the
// ranks of the host may use less than half of its cores. All ranks call it.
int ranks_threads(Comm *world);

// Refuses ranks that do not agree on `what` (a model, a recipe): text must be the same everywhere. All ranks call it.
bool ranks_same(Comm *world, const char *what, const char *text, Error *error);
