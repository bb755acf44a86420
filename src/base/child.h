// A program of the user's that runs beside this one and answers in lines: its standard input and output are pipes, its standard
// error is a file. It has a process group of its own, which ends when the child is stopped; the kernel ends the child itself when this
// program dies.
#pragma once
#include "base/error.h"
#include "base/strbuf.h"

#include <sys/types.h>

typedef struct Child {
    pid_t pid;   // 0: none
    int in, out; // its input and output, this end
    StrBuf rest; // read beyond the last line asked for
} Child;

// Starts command[] (closed by NULL; found by PATH). error_path: the file that its standard error is appended to. Refuses what
// cannot be run, naming it.
bool child_start(Child *child, const char *const *command, const char *error_path, Error *error);

// Writes input[size] and takes `lines` lines ("\n" at each end) off its output, reading while it writes, so that neither side
// waits for the other however much there is. Fails when they have not come after `seconds`, and when the child ends before; it is
// stopped then, and every further exchange fails.
bool child_exchange(Child *child, StrBuf *output, const char *input, size_t size, int64_t lines, double seconds,
                    Error *error);

// Closes its input, gives it two seconds to end by itself, and ends its process group. Accepts a zero-initialised one.
void child_stop(Child *child);
