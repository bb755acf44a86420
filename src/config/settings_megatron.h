// What policy.megatron_cfg says, in the options that the rest of the program obeys.
#pragma once
#include "config/settings.h"

// Whether the recipe trains by policy.megatron_cfg: enabled is there and not false.
bool settings_megatron_enabled(const Value *tree);

// For a recipe with policy.megatron_cfg.enabled: fills the fields of policy.automodel_cfg, policy.optimizer and policy.scheduler from its keys:
//   learning rate of step n, from 0 (Megatron's OptimizerParamScheduler, which NeMo-RL moves on once a step):
//     lr_warmup_init + (lr − lr_warmup_init) · n / lr_warmup_iters   up to n = lr_warmup_iters, then with
//     u = min(1, (n − lr_warmup_iters) / (lr_decay_iters − lr_warmup_iters))
//     constant: lr;  linear: lr + (min_lr − lr) · u;  cosine: min_lr + (lr − min_lr) · (1 + cos πu) / 2
//   weight decay: scheduler.end_weight_decay, not of norms and biases.
// The error begins with the key that is refused.
bool settings_megatron_apply(Settings *settings, Error *error);
