// What a comparison found, as one JSON object: summary.json. Tables, plots and documents are made from it alone.
//
//   {"key", "values", "baseline", "seeds", "steps", "questions", "answers_each", "validation_temperature", "margin", "warm_up",
//    "command": [word, …], "validations": [step, …],
//    "arms":     [{"value", "seed", "folder", "seconds", "seconds_per_step", "accuracy": [one for each validation],
//                  "reward": [one for each step], "reward_average": [moving mean of 10], "peak_mb": [for each step, of all ranks]}],
//    "accuracy": [{"step", "by_value": [mean over seeds]}],
//    "memory":   [{"rank", "by_value": [{"updates", "peak_mb": mean, "largest_mb", "step_peak_mb", "at_peak_mb": {tag: mean},
//                  "by_phase_mb": {phase: mean over the steps with it}}]}],
//    "proofs":   {"differing_key", "computed_keys", "initial": [{"value", "seed", "answers", "differing"}],
//                 "steps_with_the_same_prompts"},
//    "environment": {…},
//    "differences": [{"value", "against", "questions", "left_out", "effect", "seed_deviation", "degrees_of_freedom",
//                  "interval_questions": [low, high], "interval_seeds": [low, high], "decisive": [low, high], "verdict",
//                  "by_seed": [{"seed", "effect", "interval": [low, high], "gained", "lost", "mcnemar_p"}]}]}
//
// Memory is that of the updates (forward, backward, optimizer) behind the first warm_up ones, averaged over updates and seeds. Differences are
// those after the last step (paired_verdict.h, paired_sign.h). What is no number is null.
#pragma once
#include "run/compare_arms.h"

#include <jansson.h>

enum { COMPARE_SUMMARY_AVERAGE = 10, COMPARE_SUMMARY_BOOTSTRAP_SEED = 42 };

typedef struct CompareOptions {
    double margin;   // of held-out accuracy
    int64_t warm_up; // updates that memory leaves out
} CompareOptions;

// New reference; NULL on failure: a validation that asked other questions than the baseline's, or none that could be scored.
json_t *compare_summary(const Comparison *comparison, const CompareOptions *options, const char *const *command,
                        Error *error);
