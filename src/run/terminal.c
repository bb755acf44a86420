#include "run/terminal.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { NARROWEST = 40, WIDEST = 110, USUAL = 80 };

int terminal_width(void) {
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    long width = 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    else if (columns)
        width = strtol(columns, NULL, 10);
    if (width <= 0) width = USUAL;
    return width < NARROWEST ? NARROWEST : width > WIDEST ? WIDEST : (int)width;
}

bool terminal_is_dialogue(void) {
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static sigset_t interrupt_set(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    return set;
}

void terminal_hold_interrupt(void) {
    sigset_t set = interrupt_set();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

bool terminal_interrupted(void) {
    sigset_t set = interrupt_set();
    return sigtimedwait(&set, NULL, &(struct timespec){0}) == SIGINT;
}

void terminal_release_interrupt(void) {
    sigset_t set = interrupt_set();
    while (terminal_interrupted()) continue;
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
