// What a training step tells: one line on the console, one object in metrics.jsonl with NeMo-RL's names (reference section
// 4.4), the samples with their rewards in train_data_step<N>.jsonl.
#pragma once
#include "run/trainer.h"
#include "run/validate.h"
#include "train/update.h"

// Seconds of the phases of a step.
typedef struct StepTimes {
    double total, refit, generation, reward, logprob, advantage, training, checkpoint;
} StepTimes;

typedef struct StepReport {
    int64_t step, last_step;
    const Samples *samples;
    UpdateResult update; // metrics of all optimizer steps of this rollout, averaged as NeMo-RL does
    double lr, max_abs_logprob_error;
    int64_t groups, equal_groups; // groups, and those whose rewards were all equal: no gradient
    StepTimes times;
    Validation validation;
} StepReport;

// Appends to log_dir/metrics.jsonl and prints the line. seconds_left: estimate for the console.
bool step_log_write(const StepReport *report, const Trainer *trainer, double seconds_left, Error *error);

bool step_log_samples(const StepReport *report, const Trainer *trainer, Error *error);
bool step_log_validation(const Validation *validation, int64_t step, const Trainer *trainer, Error *error);

// Makes log_dir ready for a run that goes on behind `step`: lines of later steps are dropped from metrics.jsonl; when step is
// 0 an existing metrics.jsonl is moved aside to metrics.jsonl.old.
bool step_log_resume(const char *log_dir, int64_t step, Error *error);
