// The beginning of a unit test that runs alone or as one of several ranks (`// ranks: 2 4` in its source).
#pragma once
#include "comm/comm.h"

// Opens the ranks of mpirun, or one. Only the first one's report is shown: the others tell faults on the other stream. False: said why.
bool ranked_test_open(Comm *world);
