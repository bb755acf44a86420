// Validation: the policy answers held-out questions; every answer is recorded.
#pragma once
#include "run/trainer.h"

typedef struct Validation {
    bool done;
    double accuracy;   // mean reward
    double avg_length; // tokens of an answer
    double seconds;
    int64_t samples;
} Validation;

// Asks the first grpo.max_val_samples held-out questions in batches of val_batch_size and writes
// log_dir/val_data_step<N>.jsonl. Draws depend on (seed, question) and not on the step, so equal weights give equal records.
bool validate_policy(Validation *validation, Trainer *trainer, int64_t step, Error *error);
