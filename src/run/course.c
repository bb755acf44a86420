#include "run/course.h"

#include "base/log.h"
#include "base/stop_signal.h"
#include "run/validate.h"

#include <string.h>

// ---- what is due

// Steps that the questions are enough for.
static int64_t steps_left(const Progression *at, const Trainer *t) {
    return (task_questions(&t->task) - at->position) / t->task.prompts_per_batch;
}

static int64_t last_step(const Progression *at, const Trainer *t) {
    int64_t possible = at->step + steps_left(at, t);
    return possible < t->settings->run.max_num_steps ? possible : t->settings->run.max_num_steps;
}

static bool validation_due(const RunOptions *run, int64_t step, int64_t last) {
    bool periodic = run->val_period > 0 && step % run->val_period == 0 && step >= run->val_start_at;
    return periodic || (run->val_at_end && step == last);
}

static bool checkpoint_due(const CheckpointOptions *options, int64_t step) {
    return step % options->save_period == 0 || (options->ft_save_period > 0 && step % options->ft_save_period == 0);
}

// Whether the last finished step's validation says that the run has come to its end.
static bool goal_reached(const Progression *at, const GrpoOptions *grpo) {
    return grpo->stop_at_validation_metric && at->stop_metric >= grpo->stop_at_validation_threshold;
}

// Whether another step and a checkpoint might not be through by checkpointing.checkpoint_must_save_by.
static bool deadline_near(const Progression *at, Trainer *t) {
    const CheckpointOptions *options = &t->settings->checkpointing;
    double mean = at->seconds / (double)at->measured;
    bool late = log_seconds() - t->started + mean + at->save_seconds >= options->must_save_seconds;
    return options->enabled && options->must_save_seconds > 0 && comm_any(&t->mesh.world, late);
}

// ---- beginning

static bool check_metric(const Trainer *t, Error *error) {
    const CheckpointOptions *options = &t->settings->checkpointing;
    const Samples none = {0};
    double value;
    if (!options->enabled || !options->metric_name) return true;
    if (!step_log_metric(&value, options->metric_name, &(StepReport){.samples = &none}, t, error)) return false;
    if (!strncmp(options->metric_name, "val:", 4) && !settings_validates(t->settings) && options->keep_top_k >= 0)
        log_warn("checkpointing.metric_name %s: there is no validation, so the newest checkpoints stay",
                 options->metric_name);
    return true;
}

static void show_run(const Trainer *t) {
    const int ranks = t->mesh.world.size;
    char many[32] = "";
    if (ranks > 1) snprintf(many, sizeof many, "%d ranks of ", ranks);
    log_info("%s: %lld parameters, %lld training questions, %lld held out; %s, outputs in %s, %s%d threads, %s",
             t->model.path, (long long)t->model.parameters->total, (long long)t->task.train_count,
             (long long)t->task.validation_count, dtype_name(t->walk.options.policy.compute),
             dtype_name(t->walk.options.policy.output), many, team_size(t->ops.team), t->ops.isa);
}

static bool open_board(Trainer *t, int64_t step, Error *error) {
    const LoggerOptions *logger = &t->settings->logger;
    if (!logger->tensorboard_enabled) return true;
    Arena arena = {0};
    bool good = tensorboard_open(&t->board, arena_format(&arena, "%s/tensorboard", logger->log_dir), step, error) &&
                tensorboard_hparams(&t->board, t->settings->tree, error);
    arena_close(&arena);
    return good;
}

bool course_begin(Course *course, Trainer *t, Error *error) {
    Progression *at = &course->at;
    bool good = check_metric(t, error) && progression_resume(at, t, error) &&
                (!trainer_writes(t) ||
                 (step_log_resume(t->settings->logger.log_dir, at->step, error) && open_board(t, at->step, error)));
    if (!comm_agree(&t->mesh.world, good, error)) return false;
    course->last = last_step(at, t);
    course->over = at->step >= course->last || goal_reached(at, &t->settings->grpo);
    show_run(t);
    if (course->over) log_info("nothing left to do: step %lld of %lld", (long long)at->step, (long long)course->last);
    return true;
}

bool course_validate_first(Course *course, Trainer *t, Error *error) {
    Validation first = {0};
    if (course->at.step > 0 || !t->settings->run.val_at_start) return true;
    return validate_policy(&first, t, 0, error) && step_log_validation(&first, 0, t, error);
}

// ---- a step

bool course_goes_on(const Course *course, Trainer *t) {
    return !course->over && !trainer_asked(t);
}

StepReport course_begin_step(Course *course, Trainer *t) {
    const Progression *at = &course->at;
    const Settings *s = t->settings;
    course->started = log_seconds();
    t->committed = false;
    if (t->ops.trace) t->ops.trace->step = at->step + 1;
    ledger_reset_peaks(&t->ops.device.ledger);
    return (StepReport){.step = at->step + 1,
                        .last_step = course->last,
                        .position = at->position,
                        .lr = optimizer_learning_rate(&s->scheduler, s->optimizer.lr, at->step)};
}

void course_leave_step(Course *course, Trainer *t) {
    course->at.exhausted = course->over = !trainer_asked(t);
}

static void count_step(Progression *at, const StepReport *report) {
    at->step = report->step;
    at->position = report->position;
    at->consumed_samples += report->consumed_samples;
    at->total_valid_tokens += report->valid_tokens;
}

bool course_finish_step(Course *course, StepReport *report, Trainer *t, Error *error) {
    const Settings *s = t->settings;
    Progression *at = &course->at;
    count_step(at, report);
    int64_t last = steps_left(at, t) < 1 ? at->step : report->last_step;
    if (validation_due(&s->run, at->step, last) && !validate_policy(&report->validation, t, at->step, error))
        return false;
    report->times.total = log_seconds() - course->started;
    at->seconds += report->times.total;
    double left = at->seconds / (double)++at->measured * (double)(last - at->step);
    // Logs first: a run that is killed between the two repeats the step and writes the same lines again.
    // Samples first of all: who sees the step in the metrics finds them.
    bool written = step_log_samples(report, t, error) && step_log_write(report, t, left, error) &&
                   step_log_validation(&report->validation, at->step, t, error);
    if (!comm_agree(&t->mesh.world, written, error)) return false;
    progression_finish(at, report, t);
    bool goal = goal_reached(at, &s->grpo), late = deadline_near(at, t);
    if (goal)
        log_info("validation's %s is %g: grpo.stop_at_validation_threshold, %g, is reached",
                 s->grpo.stop_at_validation_metric, at->stop_metric, s->grpo.stop_at_validation_threshold);
    else if (late)
        log_info("checkpointing.checkpoint_must_save_by %s: another step might be too late, so the run ends here",
                 s->checkpointing.checkpoint_must_save_by);
    course->over = goal || late || at->step == last;
    bool due = s->checkpointing.enabled && (course->over || checkpoint_due(&s->checkpointing, at->step));
    double saving = log_seconds();
    bool good = !due || progression_save(at, t, error);
    at->seconds += log_seconds() - saving;
    course->last = last_step(at, t);
    return good;
}

// ---- the end

// The questions ended within a step: the last whole one is the run's last.
static bool finish_early(Progression *at, Trainer *t, Error *error) {
    const Settings *s = t->settings;
    Validation validation = {0};
    t->committed = true;
    log_warn("the questions are over before step %lld is full; %s.max_num_epochs: %lld", (long long)at->step + 1,
             settings_key_section(s->algorithm), (long long)s->run.max_num_epochs);
    if (!at->info) return true;
    if (s->run.val_at_end && !validation_due(&s->run, at->step, -1)) {
        if (!validate_policy(&validation, t, at->step, error) || !step_log_validation(&validation, at->step, t, error))
            return false;
        progression_validated(at, &validation, t);
    }
    return at->saved || !s->checkpointing.enabled || progression_save(at, t, error);
}

// A signal asked the run to stop: the last finished step is kept.
static bool stop(Progression *at, Trainer *t, Error *error) {
    bool enabled = t->settings->checkpointing.enabled;
    if (enabled && at->info && !at->saved && !progression_save(at, t, error)) return false;
    t->stopped = true;
    log_info("%s: stopped after step %lld; %s", stop_signal_name(t->stop), (long long)at->step,
             enabled ? "the same command goes on from there" : "nothing is kept, checkpointing.enabled is false");
    return true;
}

bool course_end(Course *course, Trainer *t, Error *error) {
    if (course->at.exhausted) return finish_early(&course->at, t, error);
    return course->over || !t->stop || stop(&course->at, t, error);
}

void course_close(Course *course) {
    progression_close(&course->at);
}
