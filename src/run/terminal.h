// The terminal, if there is one, that the program talks to.
#pragma once
#include <stdbool.h>

// Columns that text on standard output may fill: those of the terminal, else COLUMNS, else 80; within 40 to 110.
int terminal_width(void);
bool terminal_is_dialogue(void); // standard input and output are a terminal

// Between begin and end, SIGINT (Ctrl-C) does not end the program but is asked for: whether it came since the last time.
// For the main thread; the threads of ops/team.h leave signals to it.
void terminal_hold_interrupt(void);
bool terminal_interrupted(void);
void terminal_release_interrupt(void); // forgets what came and was not asked for
