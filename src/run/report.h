// One HTML page about one or several runs: self-contained (it opens offline, from a file), for light and dark, wide and narrow
// screens. Its frame is share/report/ and Chart.js (report_page.h); the data stand in it as JSON, in which "<" is written \u003c,
// so that no text of a model can end them.
#pragma once
#include "base/arena.h"
#include "base/error.h"

#include <jansson.h>
#include <stdint.h>

typedef struct ReportRun {
    const char *folder; // logger.log_dir, or a folder that has it as logs/
    const char *name;   // NULL: the end of the folder's path by which the runs differ
} ReportRun;

typedef struct ReportOptions {
    const char *title;     // NULL: the runs' names
    const char *summary;   // summary.json of a comparison of these runs, or NULL
    int64_t rollout_steps; // of each run, whose rollouts stand in the page, evenly spread; -1: as many as keep it below
                           // about REPORT_PAGE_MB. The page says so when some are left out
    double refresh;        // seconds after which an open page reads itself again; 0: never
    json_t
        *known; // an empty object at first: files of rollouts that were read, for the next page of these runs; or NULL
} ReportOptions;

enum { REPORT_PAGE_MB = 48 };

// The folder that a run's logs are in: the given one or its logs/. Refuses what is no folder.
bool report_folder(const char **folder, const char *given, Arena *arena, Error *error);

// Writes the page to path (file_write). What is missing or damaged in a run is told by name, in the page and as warnings, and the
// rest is shown; refused is only a folder that is none or holds nothing of a run, and a summary that cannot be read.
bool report_write(const char *path, const ReportRun *runs, int count, const ReportOptions *options, Error *error);
