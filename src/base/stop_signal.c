#include "base/stop_signal.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t taken;

static void take(int number) {
    taken = number;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGUSR1, SIG_DFL);
}

void stop_signal_catch(void) {
    struct sigaction before, action = {.sa_handler = take, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGINT, &action, &before);
    if (before.sa_handler == SIG_IGN) sigaction(SIGINT, &before, NULL);
}

int stop_signal_taken(void) {
    return taken;
}

const char *stop_signal_name(int number) {
    return number == SIGTERM ? "SIGTERM" : number == SIGUSR1 ? "SIGUSR1" : "SIGINT";
}

void stop_signal_obey(int number) {
    signal(number, SIG_DFL);
    raise(number);
}
