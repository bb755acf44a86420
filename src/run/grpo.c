#include "run/grpo.h"

#include "base/log.h"
#include "base/stop_signal.h"
#include "model/score.h"
#include "run/experience.h"
#include "run/progression.h"
#include "run/validate.h"
#include "train/reward_groups.h"
#include "train/update.h"

#include <math.h>
#include <string.h>

// --- the phases of a step ---------------------------------------------------------------------------------------------

// token_mask · sample_mask of every token: answers of samples that take part.
static float *loss_mask(const Samples *samples, const float *sample_mask, Arena *arena) {
    float *mask = arena_array(arena, float, samples->offset[samples->count]);
    for (int64_t b = 0; b < samples->count; b++)
        for (int64_t i = samples->offset[b] + samples->prompt_length[b]; i < samples->offset[b + 1]; i++)
            mask[i] = sample_mask[b];
    return mask;
}

// Which samples take part in the loss. The baseline still counts those that overlong_filtering leaves out.
static float *loss_samples(const Samples *samples, const GrpoOptions *grpo, Arena *arena) {
    float *sample_mask = arena_array(arena, float, samples->count);
    for (int64_t b = 0; b < samples->count; b++)
        sample_mask[b] = grpo->overlong_filtering && samples->finish[b] == FINISH_LENGTH ? 0 : samples->valid[b];
    return sample_mask;
}

static bool reference_logprobs(StepReport *report, Samples *samples, Trainer *t, const float *mask, Arena *arena,
                               Error *error) {
    if (!t->has_reference) return true;
    double started = log_seconds();
    MemoryPhase before = ledger_enter(&t->ops.device.ledger, PHASE_LOGPROB);
    int64_t tokens = samples->offset[samples->count];
    samples->reference_logprobs = arena_array(arena, float, tokens);
    ScoreInput input = {.count = samples->count,
                        .offset = samples->offset,
                        .ids = samples->ids,
                        .wanted = mask,
                        .logit_rows = t->settings->policy.logprob_chunk_size};
    // Tempered, not filtered: reference section 2.1.
    SoftmaxFilter filter = {.temperature = sampler_filter(&t->settings->generation).temperature, .top_p = 1};
    Progress progress;
    progress_begin(&progress, "reference", tokens);
    const PolicyOptions *policy = &t->settings->policy;
    int64_t budget = policy->sequence_packing.enabled ? policy->sequence_packing.logprob_mb_tokens
                     : policy->dynamic_batching.enabled
                         ? policy->dynamic_batching.logprob_mb_tokens
                         : policy->logprob_batch_size * policy->max_total_sequence_length;
    bool good = score_sequences(&t->reference, samples->reference_logprobs, &input, filter, budget, &progress, error);
    progress_end(&progress);
    ledger_enter(&t->ops.device.ledger, before);
    report->times.logprob = log_seconds() - started;
    return good;
}

static bool advantages(StepReport *report, Samples *samples, const Trainer *t, const float *mask, Arena *arena,
                       Error *error) {
    double started = log_seconds();
    const AdvantageOptions *options = &t->settings->adv_estimator;
    int64_t count = samples->count;
    float *baseline = arena_array(arena, float, count), *spread = arena_array(arena, float, count);
    int32_t *group = arena_array(arena, int32_t, count);
    reward_groups_of_prompts(group, samples->ids, samples->offset, samples->prompt_length, count);
    reward_groups_baseline(baseline, spread, samples->reward, samples->valid, group, count,
                           options->use_leave_one_out_baseline);
    report->baseline = baseline;
    samples->advantage = arena_array(arena, float, samples->offset[count]);
    AdvantageInput input = {.count = count,
                            .offset = samples->offset,
                            .reward = samples->reward,
                            .valid = samples->valid,
                            .group = group,
                            .mask = mask,
                            .component_count = samples->component_count,
                            .components = (const float *const *)samples->component,
                            .policy = samples->generation_logprobs,
                            .reference = samples->reference_logprobs};
    bool good = advantage_estimate(samples->advantage, &input, options, &t->settings->loss_fn, error);
    report->times.advantage = log_seconds() - started;
    return good;
}

// *complete: false when the step is abandoned before its first optimizer step.
static void training(StepReport *report, bool *complete, const Samples *samples, const float *mask, Trainer *t) {
    const Settings *s = t->settings;
    double started = log_seconds();
    TrainBatch all = {.count = samples->count,
                      .offset = samples->offset,
                      .ids = samples->ids,
                      .mask = mask,
                      .sample_mask = report->sample_mask,
                      .generation = samples->generation_logprobs,
                      .reference = samples->reference_logprobs,
                      .advantage = samples->advantage,
                      .reward = samples->reward};
    UpdateOptions options = {.batching = s->policy.batching,
                             .head_chunk = s->policy.logprob_chunk_size ? s->policy.logprob_chunk_size : 256,
                             .filter = sampler_filter(&s->generation),
                             .optimizer = s->optimizer,
                             .lr = report->lr};
    report->update = update_none();
    resident_drop_weights(&t->rollout); // trainer_refit loads it again
    int64_t updates = all.count / s->policy.train_global_batch_size, done = 0;
    Progress progress;
    progress_begin(&progress, "training", all.count);
    *complete = true;
    for (int64_t update = 0; update < updates; update++) {
        TrainBatch batch =
            batch_slice(&all, update * s->policy.train_global_batch_size, s->policy.train_global_batch_size);
        UpdateResult result;
        options.batching.round = (uint32_t)(report->step * updates + update);
        options.may_stop = !t->committed;
        *complete = update_policy(&result, &t->walk, &batch, &s->loss_fn, &options, &progress, &done);
        if (!*complete) break;
        t->committed = true;
        trainer_stops(t);
        // Until the first optimizer step the weights are the sampler's, so every log-prob must be too.
        if (update == 0) report->max_abs_logprob_error = result.max_abs_logprob_error;
        update_add(&report->update, &result);
    }
    report->valid_tokens = (int64_t)report->update.global_valid_toks;
    update_average(&report->update, updates);
    progress_end(&progress);
    report->times.training = log_seconds() - started;
}

// --- the algorithm ----------------------------------------------------------------------------------------------------

// Rollouts that the questions are enough for.
static int64_t questions_left(const Progression *at, const Trainer *t) {
    return (experience_questions(t) - at->position) / t->task.prompts_per_batch;
}

static bool validation_due(const GrpoOptions *grpo, int64_t step, int64_t last) {
    bool periodic = grpo->val_period > 0 && step % grpo->val_period == 0 && step >= grpo->val_start_at;
    return periodic || (grpo->val_at_end && step == last);
}

static bool checkpoint_due(const CheckpointOptions *options, int64_t step) {
    return step % options->save_period == 0 || (options->ft_save_period > 0 && step % options->ft_save_period == 0);
}

// Whether the last finished step's validation says that the run has come to its end.
static bool goal_reached(const Progression *at, const GrpoOptions *grpo) {
    return grpo->stop_at_validation_metric && at->stop_metric >= grpo->stop_at_validation_threshold;
}

// Whether another step and a checkpoint might not be through by checkpointing.checkpoint_must_save_by.
static bool deadline_near(const Progression *at, const Trainer *t) {
    const CheckpointOptions *options = &t->settings->checkpointing;
    double mean = at->seconds / (double)at->measured;
    return options->enabled && options->must_save_seconds > 0 &&
           log_seconds() - t->started + mean + at->save_seconds >= options->must_save_seconds;
}

// Samples, scores and trains. *complete is false when the step was not made: the questions ended before it was full, or
// the run was asked to stop; then the policy is as it was.
static bool learn(StepReport *report, bool *complete, Samples *samples, int64_t *position, Trainer *t, Arena *arena,
                  Error *error) {
    const Settings *s = t->settings;
    Experience experience;
    if (!experience_collect(&experience, complete, t, report->step, position, arena, error)) return false;
    if (!*complete) return true;
    *samples = experience.samples;
    report->samples = samples;
    report->collected = experience.counts;
    report->sample_mask = loss_samples(samples, &s->grpo, arena);
    float *mask = loss_mask(samples, report->sample_mask, arena);
    if (!reference_logprobs(report, samples, t, mask, arena, error) ||
        !advantages(report, samples, t, mask, arena, error))
        return false;
    training(report, complete, samples, mask, t);
    if (!*complete) return true;
    double refit = log_seconds();
    trainer_refit(t);
    report->times.refit = log_seconds() - refit;
    return true;
}

// Validation, logs and checkpoint of a step that was made. *over: it is the last.
static bool finish_step(Progression *at, bool *over, StepReport *report, Trainer *t, double started, Error *error) {
    const Settings *s = t->settings;
    int64_t last = questions_left(at, t) < 1 ? at->step : report->last_step;
    if (validation_due(&s->grpo, at->step, last) && !validate_policy(&report->validation, t, at->step, error))
        return false;
    report->times.total = log_seconds() - started;
    at->seconds += report->times.total;
    double left = at->seconds / (double)++at->measured * (double)(last - at->step);
    // Logs first: a run that is killed between the two repeats the step and writes the same lines again.
    if (!step_log_write(report, t, left, error) || !step_log_validation(&report->validation, at->step, t, error) ||
        !step_log_samples(report, t, error))
        return false;
    progression_finish(at, report, t);
    bool goal = goal_reached(at, &s->grpo), late = deadline_near(at, t);
    if (goal)
        log_info("validation's %s is %g: grpo.stop_at_validation_threshold, %g, is reached",
                 s->grpo.stop_at_validation_metric, at->stop_metric, s->grpo.stop_at_validation_threshold);
    else if (late)
        log_info("checkpointing.checkpoint_must_save_by %s: another step might be too late, so the run ends here",
                 s->checkpointing.checkpoint_must_save_by);
    *over = goal || late || at->step == last;
    bool due = s->checkpointing.enabled && (*over || checkpoint_due(&s->checkpointing, at->step));
    double saving = log_seconds();
    bool good = !due || progression_save(at, t, error);
    at->seconds += log_seconds() - saving;
    return good;
}

// *over: the run ends here, with the step or without it.
static bool one_step(Progression *at, bool *over, Trainer *t, int64_t last, Arena *arena, Error *error) {
    const Settings *s = t->settings;
    Samples samples;
    StepReport report = {.step = at->step + 1, .last_step = last};
    double started = log_seconds();
    int64_t position = at->position;
    bool complete;
    t->committed = false;
    ledger_reset_peaks(&t->ops.device.ledger);
    report.lr = optimizer_learning_rate(&s->scheduler, s->optimizer.lr, at->step);
    if (!learn(&report, &complete, &samples, &position, t, arena, error)) return false;
    at->exhausted = !complete && !stop_signal_taken();
    *over = at->exhausted;
    if (!complete) return true;
    at->step++;
    at->position = position;
    at->consumed_samples += report.collected.generated;
    at->total_valid_tokens += report.valid_tokens;
    return finish_step(at, over, &report, t, started, error);
}

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
    log_info("%s: %lld parameters, %lld training questions, %lld held out; %s, outputs in %s, %d threads, %s",
             t->model.path, (long long)t->model.parameters->total, (long long)t->task.train_count,
             (long long)t->task.validation_count, dtype_name(t->walk.options.policy.compute),
             dtype_name(t->walk.options.policy.output), team_size(t->ops.team), t->ops.isa);
}

// The last step that the recipe asks for; dynamic sampling may need several rollouts for one.
static int64_t last_step(const Progression *at, const Trainer *t) {
    int64_t possible = at->step + questions_left(at, t);
    return possible < t->settings->grpo.max_num_steps ? possible : t->settings->grpo.max_num_steps;
}

// The questions ended within a step: the last whole one is the run's last.
static bool finish_early(Progression *at, Trainer *t, Error *error) {
    const Settings *s = t->settings;
    Validation validation = {0};
    t->committed = true;
    log_warn("the questions are over before step %lld is full; grpo.max_num_epochs: %lld", (long long)at->step + 1,
             (long long)s->grpo.max_num_epochs);
    if (!at->info) return true;
    if (s->grpo.val_at_end && !validation_due(&s->grpo, at->step, -1)) {
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
    log_info("%s: stopped after step %lld; %s", stop_signal_name(stop_signal_taken()), (long long)at->step,
             enabled ? "the same command goes on from there" : "nothing is kept, checkpointing.enabled is false");
    return true;
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

static bool validate_first(Trainer *t, Error *error) {
    Validation first = {0};
    return validate_policy(&first, t, 0, error) && step_log_validation(&first, 0, t, error);
}

bool grpo_train(Trainer *t, Error *error) {
    Progression at = {0};
    Arena arena = {0};
    if (!check_metric(t, error) || !progression_resume(&at, t, error) ||
        !step_log_resume(t->settings->logger.log_dir, at.step, error) || !open_board(t, at.step, error))
        return false;
    int64_t last = last_step(&at, t);
    show_run(t);
    bool good = true, over = at.step >= last || goal_reached(&at, &t->settings->grpo);
    if (over) log_info("nothing left to do: step %lld of %lld", (long long)at.step, (long long)last);
    trainer_refit(t);
    if (at.step == 0 && t->settings->grpo.val_at_start) good = validate_first(t, error);
    while (good && !over && !stop_signal_taken()) {
        good = one_step(&at, &over, t, last, &arena, error);
        last = last_step(&at, t);
        arena_reset(&arena);
    }
    if (good && at.exhausted)
        good = finish_early(&at, t, error);
    else if (good && !over && stop_signal_taken())
        good = stop(&at, t, error);
    progression_close(&at);
    arena_close(&arena);
    return good;
}
