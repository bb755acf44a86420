// From scored samples to a better policy: reference log-probs, advantages, optimizer steps, refit. What every algorithm that
// learns from rewards does behind its rollout, and what `whet plan` does on a device that allocates nothing.
#pragma once
#include "run/step_log.h"

// report->step, last_step and lr are set; fills its samples, sample_mask, baseline, update, valid_tokens,
// max_abs_logprob_error and times, and the samples' reference_logprobs and advantage. The rollout rests meanwhile
// (trainer_rest). *complete is false when the step is abandoned before its first optimizer step (trainer_stops).
bool learning_run(StepReport *report, bool *complete, Samples *samples, Trainer *trainer, Arena *arena, Error *error);
