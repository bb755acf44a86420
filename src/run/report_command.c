#include "run/report_command.h"

#include "base/file.h"
#include "base/log.h"
#include "run/report.h"

#include <string.h>

static bool run_report(Arguments *arguments, Error *error) {
    Arena arena = {0};
    const char *output = command_text(arguments, "--output");
    ReportOptions options = {.title = command_text(arguments, "--title"),
                             .summary = command_text(arguments, "--summary"),
                             .rollout_steps = REPORT_ROLLOUT_STEPS};
    bool good = command_integer(arguments, "--rollout-steps", &options.rollout_steps, 0, INT32_MAX, error);
    int count = arguments->operand_count;
    ReportRun *runs = arena_array(&arena, ReportRun, count);
    for (int i = 0; i < count; i++) runs[i].folder = arguments->operands[i];
    if (!output) output = arena_format(&arena, "%s/report.html", runs[0].folder);
    good = good && report_write(output, runs, count, &options, error);
    if (good) log_info("%s", output);
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
               "named, and the rest is shown.",
    .examples = "whet report results/arithmetic                     # results/arithmetic/report.html\n"
                "whet report results/fp32 results/bf16 --output compared.html\n",
    .options = {{"--output", "FILE", "default: report.html in the first RUN"},
                {"--title", "TEXT", "default: the names of the runs"},
                {"--summary", "FILE", "summary.json of `whet compare`, shown in front"},
                {"--rollout-steps", "N",
                 "of how many steps, of all runs together, the page holds the rollouts (default 100)"}},
    .run = run_report,
};
