#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Names out of damaged files may hold anything: the message stays one printable line.
static void blank_controls(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = ' ';
}

bool error_set(Error *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    blank_controls(error->text);
    return false;
}

bool error_prefix(Error *error, const char *format, ...) {
    char old[sizeof error->text];
    memcpy(old, error->text, sizeof old);
    va_list arguments;
    va_start(arguments, format);
    int used = vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    if (used >= 0 && (size_t)used < sizeof error->text)
        snprintf(error->text + used, sizeof error->text - (size_t)used, "%s", old);
    blank_controls(error->text);
    return false;
}

// No exit handlers: other threads may be at work.
_Noreturn void error_exhausted(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("whet: cannot get ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    fflush(stdout);
    if (error_end_others) error_end_others();
    _exit(1);
}

_Noreturn void error_abort(const char *file, int line, const char *condition, const char *format, ...) {
    fprintf(stderr, "whet: internal error at %s:%d: %s: ", file, line, condition);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    if (error_end_others) error_end_others();
    abort();
}
