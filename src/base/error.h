// Three kinds of wrong, three manners (docs/tour.md).
//   The user or the world:  bool f(…, Error *error)  – returns false with one line in error.
//                           OBTAINED(condition, …)   – what the machine may run out of, too deep inside for an Error.
//   The program itself:     CHECK(condition, …)      – on in release, prints the values and aborts.
//   The numbers:            counted and reported by the room that sees them.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

// One line for the user: names the file, key or tensor, what was found, what was expected, the nearest valid choice.
typedef struct Error {
    char text[1024];
} Error;

// Writes the line; a text that is too long is cut, control characters become blanks. Always returns false, so that `return error_set(…)` reads well.
// error must not be NULL.
bool error_set(Error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Puts context ("recipe.yaml: ") before the text that is there already. Always returns false.
bool error_prefix(Error *error, const char *format, ...) __attribute__((format(printf, 2, 3)));

// A broken contract inside the program. The text must name the values that broke it.
#define CHECK(condition, ...)                                                                                          \
    do {                                                                                                               \
        if (__builtin_expect(!(condition), 0)) error_abort(__FILE__, __LINE__, #condition, __VA_ARGS__);               \
    } while (0)

// Memory or a thread that the machine did not give: one line on standard error, "whet: cannot get <text>", exit status 1.
#define OBTAINED(condition, ...)                                                                                       \
    do {                                                                                                               \
        if (__builtin_expect(!(condition), 0)) error_exhausted(__VA_ARGS__);                                           \
    } while (0)

// Ends the other ranks of a run, when there are any: the program must not end alone by OBTAINED or CHECK. Defined in comm/comm_mpi.c.
void error_end_others(void) __attribute__((weak));

_Noreturn void error_exhausted(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void error_abort(const char *file, int line, const char *condition, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
