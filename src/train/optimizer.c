#include "train/optimizer.h"

#include <math.h>
#include <string.h>

// ---- checks

static bool check_range(const char *key, double value, bool good, const char *range, Error *error) {
    return good || error_set(error, "policy.%s: %g: expected a number %s", key, value, range);
}

bool optimizer_options_check(const OptimizerOptions *options, Error *error) {
    if (!options->name || (strcmp(options->name, "torch.optim.AdamW") != 0 && strcmp(options->name, "AdamW") != 0))
        return error_set(error, "policy.optimizer.name: \"%s\": expected \"torch.optim.AdamW\"",
                         options->name ? options->name : "null");
    double lr = options->lr, decay = options->weight_decay, beta1 = options->beta1, beta2 = options->beta2;
    double eps = options->eps, norm = options->max_grad_norm;
    return check_range("optimizer.kwargs.lr", lr, lr >= 0 && isfinite(lr), "that is at least 0", error) &&
           check_range("optimizer.kwargs.weight_decay", decay, decay >= 0 && isfinite(decay), "that is at least 0",
                       error) &&
           check_range("optimizer.kwargs.betas[0]", beta1, beta1 >= 0 && beta1 < 1, "from 0 to below 1", error) &&
           check_range("optimizer.kwargs.betas[1]", beta2, beta2 >= 0 && beta2 < 1, "from 0 to below 1", error) &&
           check_range("optimizer.kwargs.eps", eps, eps >= 0 && isfinite(eps), "that is at least 0", error) &&
           check_range("max_grad_norm", norm, norm >= 0, "that is at least 0, or null", error);
}

static bool check_part(const SchedulePart *part, Error *error) {
    double start = part->start_factor, end = part->end_factor, length = part->total_iters;
    switch (part->kind) {
    case SCHEDULE_CONSTANT:
        if (!(start >= 0 && start <= 1)) return error_set(error, "factor: %g: expected a number from 0 to 1", start);
        return length >= 0 || error_set(error, "total_iters: %g: expected a number that is at least 0", length);
    case SCHEDULE_LINEAR:
        if (!(start > 0 && start <= 1))
            return error_set(error, "start_factor: %g: expected a number above 0 and up to 1", start);
        if (!(end >= 0 && end <= 1)) return error_set(error, "end_factor: %g: expected a number from 0 to 1", end);
        return length > 0 || error_set(error, "total_iters: %g: expected a number above 0", length);
    case SCHEDULE_COSINE: break;
    }
    if (!isfinite(part->eta_min)) return error_set(error, "eta_min: %g: expected a number", part->eta_min);
    return (length > 0 && isfinite(length)) || error_set(error, "T_max: %g: expected a number above 0", length);
}

bool optimizer_schedule_check(const ScheduleOptions *schedule, Error *error) {
    if (schedule->part_count < 0 || schedule->part_count > SCHEDULE_MAX_PARTS)
        return error_set(error, "policy.scheduler: %d schedulers: expected at most %d", schedule->part_count,
                         SCHEDULE_MAX_PARTS);
    int64_t before = 0;
    for (int i = 0; i < schedule->part_count; i++) {
        if (!check_part(&schedule->parts[i], error)) return error_prefix(error, "policy.scheduler[%d].kwargs.", i);
        if (i + 1 == schedule->part_count) break;
        if (schedule->milestones[i] <= before)
            return error_set(error, "policy.scheduler: milestone %lld: expected one above %lld",
                             (long long)schedule->milestones[i], (long long)before);
        before = schedule->milestones[i];
    }
    return true;
}

// ---- schedules

// sin(πx/2) for 0 <= x <= 1: a Taylor series, so that no machine's libm has a say.
static double sine_of_quarter_turns(double x) {
    double angle = x * 0x1.921fb54442d18p+0, square = angle * angle, sum = 1;
    for (int k = 26; k > 0; k -= 2) sum = 1 - sum * square / (k * (k + 1));
    return angle * sum;
}

static double part_rate(const SchedulePart *part, double base, double t) {
    double length = part->total_iters;
    switch (part->kind) {
    case SCHEDULE_CONSTANT: return t < length ? base * part->start_factor : base;
    case SCHEDULE_LINEAR: {
        double done = t < length ? t / length : 1;
        return base * (part->start_factor + (part->end_factor - part->start_factor) * done);
    }
    case SCHEDULE_COSINE: break;
    }
    // (1 + cos πu) / 2 = sin²(π(1 − u)/2), which is exactly 0 at the end and keeps its digits near it.
    double to_end = fabs(1 - fmod(t, 2 * length) / length), sine = sine_of_quarter_turns(to_end);
    return part->eta_min + (base - part->eta_min) * sine * sine;
}

double optimizer_learning_rate(const ScheduleOptions *schedule, double base_lr, int64_t index) {
    if (schedule->part_count == 0) return base_lr;
    int part = 0;
    while (part + 1 < schedule->part_count && index >= schedule->milestones[part]) part++;
    int64_t began = part ? schedule->milestones[part - 1] : 0;
    return part_rate(&schedule->parts[part], base_lr, (double)(index - began));
}

double optimizer_clip_factor(double norm, double max_norm) {
    if (max_norm == 0) return 1;
    double factor = max_norm / (norm + 1e-6);
    return factor > 1 ? 1 : factor;
}
