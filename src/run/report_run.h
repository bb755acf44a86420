// One run for its report: what its folder holds, as the JSON object that the page's scripts read.
#pragma once
#include "run/report_samples.h"

// {"name", "folder", "notes": [sentence, …],
//  "metrics": {"steps": ascending, "columns": {name: values, null where a step has none}},
//  "memory": {"list": [[step, rank, peak MiB, process peak MiB, number in profiles], …],
//             "profiles": [{"at_peak", "peak_by_tag", "peak_by_phase"} of memory.json, …]},
//  "environment": environment.json, "config": {"grpo.seed": "42", …}, "rollouts", "validations" (report_samples.h)}
// Parts that are not there are left out and noted. Texts go behind samples->chunks. rollout_steps: of how many steps; -1: as the budget lets. False: the folder
// holds nothing of a run. The caller owns *run.
bool report_run_collect(json_t **run, const ReportSamples *samples, const char *name, int64_t rollout_steps,
                        Error *error);
