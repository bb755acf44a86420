// Validation. GRPO: the policy answers held-out questions; every answer is recorded. SFT: the loss of held-out conversations.
#pragma once
#include "run/trainer.h"

typedef struct Validation {
    bool done;         // false: none, or abandoned (trainer_stops)
    double accuracy;   // mean reward of the samples that could be scored; NAN: none could
    double pass_k;     // share of the questions of which any of the k samples has a reward above 0
    double avg_length; // tokens of an answer
    double loss;       // SFT: mean −log p of the tokens that the assistant says; NAN: there were none
    double seconds;
    int64_t questions, samples, unscored;
    int64_t tokens; // SFT: with loss
} Validation;

// Asks the first grpo.max_val_samples held-out questions, grpo.val_num_generations_per_prompt times each, in batches of
// val_batch_size questions of which the last may be smaller, and writes log_dir/val_data_step<N>.jsonl: reward null where a
// sample could not be scored. Draws depend on (seed, question, sample) and not on the step, so equal weights give equal records.
//
// SFT: the first sft.val_batches · val_global_batch_size held-out conversations, walked by the sampler's policy, which is loaded for
// it and given back.
bool validate_policy(Validation *validation, Trainer *trainer, int64_t step, Error *error);
