// SIGINT (Ctrl-C), SIGTERM and SIGUSR1 (which mpirun hands on to its ranks) as a wish to stop: the first is noted, and asked for
// between pieces of work; the next one ends the program at once.
#pragma once

void stop_signal_catch(void); // from now on; a SIGINT that is ignored, as in a shell's background, stays so
int stop_signal_taken(void);  // the signal once one came, else 0
const char *stop_signal_name(int number);
void stop_signal_obey(int number); // ends the program by that signal (shells: status 130, 143)
