// The memory of a comparison's values without running them: their steps on the plan device (run/plan.h).
#pragma once
#include "run/compare_arms.h"
#include "run/plan.h"

#include <jansson.h>

// A summary (compare_summary.h) of which there is
//
//   {"key", "values", "baseline", "command", "planned": {"ranks", "samples", "prompt_tokens", "answer_tokens", "parameters"},
//    "memory": [{"rank": 0, "by_value": [as there, of the rank that takes most]}]}
//
// for the baseline's seed. New reference; NULL where a value cannot be planned.
json_t *compare_plan(const Comparison *comparison, const PlanOptions *options, const char *const *command,
                     Error *error);
