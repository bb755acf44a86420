#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static LogLevel log_level = LOG_NORMAL;

void log_set_level(LogLevel level) {
    log_level = level;
}

static void line(LogLevel level, const char *before, const char *format, va_list arguments) {
    if (log_level < level) return;
    char text[4096];
    vsnprintf(text, sizeof text, format, arguments);
    fprintf(stderr, "%s%s\n", before, text);
}

#define LINE(level, before)                                                                                            \
    do {                                                                                                               \
        va_list arguments;                                                                                             \
        va_start(arguments, format);                                                                                   \
        line(level, before, format, arguments);                                                                        \
        va_end(arguments);                                                                                             \
    } while (0)

void log_info(const char *format, ...) {
    LINE(LOG_NORMAL, "");
}

void log_verbose(const char *format, ...) {
    LINE(LOG_VERBOSE, "");
}

void log_warn(const char *format, ...) {
    LINE(LOG_WARNINGS, "warning: ");
}

double log_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void progress_begin(Progress *progress, const char *label, int64_t total) {
    *progress = (Progress){.label = label, .total = total > 0 ? total : 1, .started = log_seconds()};
    progress->shown = log_level >= LOG_NORMAL && isatty(STDERR_FILENO);
}

void progress_begin_bytes(Progress *progress, const char *label, int64_t first, int64_t total) {
    progress_begin(progress, label, total);
    progress->first = first;
    progress->bytes = true;
}

void progress_update(Progress *progress, int64_t done) {
    double now = log_seconds();
    if (!progress->shown || (now - progress->drawn < 0.1 && done != progress->total)) return;
    progress->drawn = now;
    enum { WIDTH = 24 };
    double share = (double)done / (double)progress->total;
    if (share > 1) share = 1;
    int full = (int)(share * WIDTH + 0.5);
    char bar[WIDTH + 1];
    memset(bar, '-', WIDTH);
    memset(bar, '#', (size_t)full);
    bar[WIDTH] = 0;
    double rate = (double)(done - progress->first) / (now - progress->started + 1e-9);
    double left = rate > 0 && done < progress->total ? (double)(progress->total - done) / rate : 0;
    char text[256];
    int used =
        snprintf(text, sizeof text, "  %-12.60s [%s] %3.0f%%  %.0f s left", progress->label, bar, 100 * share, left);
    if (progress->bytes && done > progress->total) // which is not known
        snprintf(text, sizeof text, "  %-12.60s  %.1f MB, %.1f MB/s", progress->label, 1e-6 * (double)done,
                 1e-6 * rate);
    else if (progress->bytes)
        snprintf(text + used, sizeof text - (size_t)used, ", %.1f of %.1f MB, %.1f MB/s", 1e-6 * (double)done,
                 1e-6 * (double)progress->total, 1e-6 * rate);
    // A line that wraps could not be wiped.
    struct winsize window;
    int columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) || !window.ws_col ? 80 : window.ws_col;
    fprintf(stderr, "\r\033[K%.*s", columns - 1, text);
    fflush(stderr);
}

void progress_end(Progress *progress) {
    if (progress->shown) fprintf(stderr, "\r\033[K");
    progress->shown = false;
}
