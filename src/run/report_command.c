#include "run/report_command.h"

#include "base/file.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "run/report.h"

#include <string.h>
#include <time.h>

enum { REFRESH = 5 }; // seconds between two looks, and of an open page

typedef struct Watched {
    const char **folders;
    ReportRun *runs;
    int count;
    const char *output;
    ReportOptions options;
} Watched;

// What changes when a run writes something.
static uint64_t state_of(const Watched *w) {
    static const char *const names[] = {".", "metrics.jsonl", "memory.json"};
    Arena arena = {0};
    uint64_t sum = 0;
    for (int i = 0; i < w->count; i++)
        for (int n = 0; n < 3; n++) {
            Error ignored;
            FileStamp stamp = {0};
            file_stamp(&stamp, arena_format(&arena, "%s/%s", w->folders[i], names[n]), &ignored);
            sum = sum * 31 + stamp.size * 17 + (uint64_t)stamp.nanoseconds;
        }
    arena_close(&arena);
    return sum;
}

static bool any_goes_on(const Watched *w) {
    Arena arena = {0};
    bool any = false;
    for (int i = 0; i < w->count && !any; i++) any = file_locked(arena_format(&arena, "%s/.lock", w->folders[i]));
    arena_close(&arena);
    return any;
}

// Writes again whenever a run has written, at most a twentieth of the time, until none goes on or a signal comes; then a page
// that does not read itself again.
static bool watch(Watched *w, Error *error) {
    bool good = true, goes_on = any_goes_on(w);
    stop_signal_catch();
    if (!goes_on) log_info("none of the runs goes on: written once");
    w->options.refresh = REFRESH;
    for (uint64_t state = 0; good && goes_on && !stop_signal_taken(); goes_on = any_goes_on(w)) {
        double started = log_seconds(), wait = REFRESH;
        uint64_t now = state_of(w);
        if (now != state) {
            good = report_write(w->output, w->runs, w->count, &w->options, error);
            wait += 20 * (log_seconds() - started);
            if (!state && good) log_info("%s; Ctrl-C ends the watch", w->output);
            state = now;
        }
        while (good && log_seconds() - started < wait && !stop_signal_taken() && any_goes_on(w))
            nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    }
    w->options.refresh = 0;
    return good && report_write(w->output, w->runs, w->count, &w->options, error);
}

static bool run_report(Arguments *arguments, Error *error) {
    Arena arena = {0};
    int count = arguments->operand_count;
    Watched w = {.folders = arena_array(&arena, const char *, count),
                 .runs = arena_array(&arena, ReportRun, count),
                 .count = count,
                 .output = command_text(arguments, "--output"),
                 .options = {.title = command_text(arguments, "--title"),
                             .summary = command_text(arguments, "--summary"),
                             .rollout_steps = -1}};
    bool good = command_integer(arguments, "--rollout-steps", &w.options.rollout_steps, 0, INT32_MAX, error);
    for (int i = 0; i < count; i++) w.runs[i].folder = arguments->operands[i];
    for (int i = 0; good && i < count; i++) good = report_folder(&w.folders[i], w.runs[i].folder, &arena, error);
    if (!w.output) w.output = arena_format(&arena, "%s/report.html", w.runs[0].folder);
    if (good && command_switch(arguments, "--watch")) {
        w.options.known = json_object();
        good = watch(&w, error);
        json_decref(w.options.known);
    } else if (good) {
        good = report_write(w.output, w.runs, w.count, &w.options, error);
    }
    if (good) log_info("%s", w.output);
    arena_close(&arena);
    return good;
}

const Command report_command = {
    .verb = "report",
    .operands = "RUN…",
    .summary = "Writes one HTML file about one or several runs: curves, memory, time, rollouts, validations, settings.",
    .min_operands = 1,
    .max_operands = -1,
    .details = "RUN is the folder that a run writes its logs into (logger.log_dir). The file needs nothing besides: it "
               "opens offline, in "
               "any browser, and may be sent to somebody. Several runs are drawn over each other. What is missing or "
               "damaged in a run is "
               "named, and the rest is shown.\n\n"
               "With --watch the file is written again while a run goes on, and a browser that shows it reads it "
               "again; both end with the "
               "run.",
    .examples = "whet report results/arithmetic                     # results/arithmetic/report.html\n"
                "whet report results/fp32 results/bf16 --output compared.html\n"
                "whet report results/arithmetic --watch\n",
    .options =
        {{"--output", "FILE", "default: report.html in the first RUN"},
         {"--watch", NULL, "go on writing while a run goes on"},
         {"--title", "TEXT", "default: the names of the runs"},
         {"--summary", "FILE", "summary.json of `whet compare`, shown in front"},
         {"--rollout-steps", "N",
          "of how many steps of each run the page holds the rollouts (default: as many as keep it below about 48 MB)"}},
    .run = run_report,
};
