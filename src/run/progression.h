// Where a run stands, and how checkpoints tell of it: what training_info.json holds, saving, going on from the newest.
#pragma once
#include "run/step_log.h"

// Everything that a checkpoint keeps beside weights and moments. Zero-initialise.
typedef struct Progression {
    int64_t step;     // finished steps
    int64_t position; // training questions asked
    int64_t consumed_samples, total_valid_tokens;
    double seconds; // of the steps of this process, checkpoints included
    int64_t measured;
    double save_seconds; // of its last checkpoint
    double stop_metric;  // grpo.stop_at_validation_metric at this step; NAN: not validated
    json_t *info;        // what a checkpoint of the last step of this process tells; NULL: no step yet
    bool saved;          // there is one
    bool exhausted;      // the questions ended within the step behind it
} Progression;

// The step that the report tells of is finished; the counts are up to date.
void progression_finish(Progression *at, const StepReport *report, const Trainer *trainer);

// The last finished step has been validated after all.
void progression_validated(Progression *at, const Validation *validation, const Trainer *trainer);

// Writes the checkpoint of the last finished step, and removes those that are to go.
bool progression_save(Progression *at, Trainer *trainer, Error *error);

// Goes on from the newest checkpoint, if there is one and checkpoints are enabled. Refuses that of another model. The reference
// policy was copied from the base model before: a resume does not re-anchor the KL term.
bool progression_resume(Progression *at, Trainer *trainer, Error *error);

void progression_close(Progression *at);
