// Supervised fine-tuning: the policy learns to say what the assistant says in given conversations, as NeMo-RL's
// algorithms/sft.py runs it.
#pragma once
#include "run/trainer.h"

// Trains from the latest checkpoint, or from the start, up to sft.max_num_steps.
bool sft_train(Trainer *trainer, Error *error);
