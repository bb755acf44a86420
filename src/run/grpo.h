// GRPO: Shao et al. 2024 ("DeepSeekMath"), as NeMo-RL runs it (reference/nemo_rl.md section 4).
#pragma once
#include "run/trainer.h"

// Trains from the latest checkpoint, or from the start, up to grpo.max_num_steps.
bool grpo_train(Trainer *trainer, Error *error);
