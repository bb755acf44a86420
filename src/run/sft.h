// Supervised fine-tuning: the policy learns to say what the assistant says in given conversations, as NeMo-RL's
// algorithms/sft.py runs it.
#pragma once
#include "run/step_log.h"
#include "train/batch.h"

// Trains from the latest checkpoint, or from the start, up to sft.max_num_steps.
bool sft_train(Trainer *trainer, Error *error);

// One optimizer step on a batch: fills the report's update, valid_tokens and time. *complete: false when it is abandoned.
void sft_update(StepReport *report, bool *complete, const TrainBatch *batch, Trainer *trainer);
