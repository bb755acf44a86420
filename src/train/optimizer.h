// Options of AdamW, clipping by the global norm, and learning-rate schedules in closed form. The update itself is
// adamw_update (ops/rows.h), over the shards (train/shard.h).
#pragma once
#include "base/error.h"

#include <stdint.h>

typedef struct OptimizerOptions {
    const char *name; // "torch.optim.AdamW"
    double lr, weight_decay, beta1, beta2, eps;
    double max_grad_norm; // 0: no clipping (null)
    bool spares_vectors;  // no weight decay for norms and biases, as Megatron has it; torch's AdamW lowers them too
} OptimizerOptions;

// Refuses what cannot be obeyed, naming policy.optimizer.<key> or policy.max_grad_norm.
bool optimizer_options_check(const OptimizerOptions *options, Error *error);

// With t steps since the part took over:
//   constant (ConstantLR): base · start_factor while t < total_iters, then base
//   linear (LinearLR):     base · (start_factor + (end_factor − start_factor) · min(t, total_iters) / total_iters)
//   cosine (CosineAnnealingLR): eta_min + (base − eta_min) · (1 + cos(π·t / total_iters)) / 2; behind total_iters (T_max)
//                               the cosine goes on, so the rate rises again
typedef enum ScheduleKind { SCHEDULE_CONSTANT, SCHEDULE_LINEAR, SCHEDULE_COSINE } ScheduleKind;

typedef struct SchedulePart {
    ScheduleKind kind;
    double start_factor, end_factor, total_iters, eta_min;
} SchedulePart;

enum { SCHEDULE_MAX_PARTS = 8 };

// policy.scheduler: a list of schedulers with the milestones at which the next takes over (SequentialLR: each starts its own
// count there). No part: the base rate throughout.
typedef struct ScheduleOptions {
    int part_count;
    SchedulePart parts[SCHEDULE_MAX_PARTS];
    int64_t milestones[SCHEDULE_MAX_PARTS]; // part_count - 1 of them
} ScheduleOptions;

// Refuses factors, lengths and milestones that torch refuses or divides by zero with, naming policy.scheduler[i].
bool optimizer_schedule_check(const ScheduleOptions *schedule, Error *error);

// Learning rate of the training step `index`, counted from 0 (a step is one rollout batch, whatever number of updates it
// has). No state; within 1e-12 of torch's recursions; the same bits on every machine.
double optimizer_learning_rate(const ScheduleOptions *schedule, double base_lr, int64_t index);

// Factor min(1, max_norm / (norm + 1e-6)) for the gradients; 1 when max_norm is 0. NaN for a NaN norm.
double optimizer_clip_factor(double norm, double max_norm);
