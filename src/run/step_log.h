// What a training step tells: one line on the console, one object in metrics.jsonl with NeMo-RL's names (reference section
// 4.4), the samples with their rewards in train_data_step<N>.jsonl.
#pragma once
#include "run/experience.h"
#include "run/trainer.h"
#include "run/validate.h"
#include "train/update.h"

#include <jansson.h>

// Seconds of the phases of a step. A checkpoint is written when all else is, its time is told on the console only.
typedef struct StepTimes {
    double total, data, refit, logprob, advantage, training;
} StepTimes;

typedef struct StepReport {
    int64_t step, last_step;  // 0: no step, only a validation
    int64_t position;         // the next training question
    int64_t consumed_samples; // of this step, also those that it left out
    int64_t tokens, left_out; // SFT: of the step's conversations; how many of these were too long
    const Samples *samples;   // NULL with sft
    const float *sample_mask; // [B] 0: left out of the loss
    const float *baseline;    // [B] what the advantages were measured from
    UpdateResult update;      // of all optimizer steps of this rollout (update_average)
    int64_t valid_tokens;     // with loss, over all optimizer steps
    double lr, max_abs_logprob_error;
    ExperienceCounts collected;
    StepTimes times;
    Validation validation;
} StepReport;

// Appends to log_dir/metrics.jsonl and memory.json, and prints the line. seconds_left: estimate for the console. All ranks call
// these three, rank 0 writes.
bool step_log_write(const StepReport *report, Trainer *trainer, double seconds_left, Error *error);

bool step_log_samples(const StepReport *report, const Trainer *trainer, Error *error);
bool step_log_validation(const Validation *validation, int64_t step, const Trainer *trainer, Error *error);

// Adds what the sample's reward consists of, {name: value or null}, to a line of a sample log, if it has components.
void step_log_put_components(json_t *line, const Samples *samples, int64_t sample);

// The metric that checkpointing.metric_name means: "train:reward" is train/reward of the step, "val:accuracy" is
// validation/accuracy, NAN when the step had no validation. Refuses a name that no step has, telling the nearest; so an empty
// report (samples of count 0) serves to check a name.
bool step_log_metric(double *value, const char *metric_name, const StepReport *report, const Trainer *trainer,
                     Error *error);

// Makes log_dir ready for a run that goes on behind `step`: lines of later steps, and damaged ones with a warning, are
// dropped from metrics.jsonl and memory.json; when step is 0 an existing metrics.jsonl is moved aside to metrics.jsonl.1, .2, ….
bool step_log_resume(const char *log_dir, int64_t step, Error *error);
