// One log stream for people: lines on stderr, and a progress bar that is redrawn in place on a terminal.
#pragma once
#include <stdbool.h>
#include <stdint.h>

typedef enum LogLevel { LOG_QUIET, LOG_WARNINGS, LOG_NORMAL, LOG_VERBOSE } LogLevel;
void log_set_level(LogLevel level); // the program's only global mutable state

void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));    // shown from LOG_NORMAL
void log_verbose(const char *format, ...) __attribute__((format(printf, 1, 2))); // shown from LOG_VERBOSE
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2))); // "warning: …", shown from LOG_WARNINGS

double log_seconds(void); // monotonic clock

// A bar with percentage and time left. Draws on a terminal only, at most ten times a second.
typedef struct Progress {
    const char *label; // not owned, must outlive the bar
    int64_t total, first;
    double started, drawn;
    bool shown, bytes;
} Progress;

void progress_begin(Progress *progress, const char *label, int64_t total);
// Counts bytes, of which `first` are there already, and shows the rate besides. total -1: not known.
void progress_begin_bytes(Progress *progress, const char *label, int64_t first, int64_t total);
void progress_update(Progress *progress, int64_t done);
void progress_end(Progress *progress); // wipes the bar
