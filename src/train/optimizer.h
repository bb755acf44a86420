// AdamW over the shards, clipping by the global norm, and learning-rate schedules (reference/nemo_rl.md sections 5.3, 5.4).
#pragma once
#include "base/error.h"

#include <stdint.h>

typedef struct OptimizerOptions {
    const char *name; // "torch.optim.AdamW"
    double lr, weight_decay, beta1, beta2, eps;
    double max_grad_norm; // 0: no clipping (null)
} OptimizerOptions;

enum { SCHEDULE_MAX_PARTS = 8 };
typedef enum ScheduleKind { SCHEDULE_CONSTANT, SCHEDULE_LINEAR } ScheduleKind;

// policy.scheduler: a list of schedulers with the milestones at which the next takes over (SequentialLR: each restarts its
// own count there). No part: constant 1.
typedef struct ScheduleOptions {
    int part_count;
    struct {
        ScheduleKind kind;
        double start_factor, end_factor; // linear; constant uses start_factor until total_iters, then 1
        double total_iters;
    } parts[SCHEDULE_MAX_PARTS];
    int64_t milestones[SCHEDULE_MAX_PARTS]; // part_count - 1 of them
} ScheduleOptions;

// Learning rate of training step `index`, counted from 0. Closed form (no state), 1e-12 relative of torch's recursion.
double optimizer_learning_rate(const ScheduleOptions *schedule, double base_lr, int64_t index);

// Factor min(1, max_norm / (norm + 1e-6)); 1 when max_norm is 0.
double optimizer_clip_factor(double norm, double max_norm);
