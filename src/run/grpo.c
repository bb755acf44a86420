#include "run/grpo.h"

#include "base/jsonio.h"
#include "base/log.h"
#include "config/explain.h"
#include "model/score.h"
#include "run/experience.h"
#include "run/step_log.h"
#include "run/validate.h"
#include "train/checkpoint.h"
#include "train/reward_groups.h"
#include "train/update.h"

#include <math.h>
#include <string.h>

// Where the run stands: everything that a checkpoint keeps beside weights and moments.
typedef struct Progression {
    int64_t step;     // finished steps
    int64_t position; // training questions asked
    int64_t consumed_samples, total_valid_tokens;
    double seconds; // of the steps of this process
    int64_t measured;
    json_t *info; // what a checkpoint of the last step of this process would tell; NULL: no step yet
    bool saved;   // there is one
} Progression;

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
                            .policy = samples->generation_logprobs,
                            .reference = samples->reference_logprobs};
    bool good = advantage_estimate(samples->advantage, &input, options, &t->settings->loss_fn, error);
    report->times.advantage = log_seconds() - started;
    return good;
}

static void training(StepReport *report, const Samples *samples, const float *mask, Trainer *t) {
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
    int64_t updates = all.count / s->policy.train_global_batch_size, done = 0;
    Progress progress;
    progress_begin(&progress, "training", all.count);
    for (int64_t update = 0; update < updates; update++) {
        TrainBatch batch =
            batch_slice(&all, update * s->policy.train_global_batch_size, s->policy.train_global_batch_size);
        UpdateResult result;
        options.batching.round = (uint32_t)(report->step * updates + update);
        update_policy(&result, &t->walk, &batch, &s->loss_fn, &options, &progress, &done);
        // Until the first optimizer step the weights are the sampler's, so every log-prob must be too.
        if (update == 0) report->max_abs_logprob_error = result.max_abs_logprob_error;
        update_add(&report->update, &result);
    }
    report->valid_tokens = (int64_t)report->update.global_valid_toks;
    update_average(&report->update, updates);
    progress_end(&progress);
    report->times.training = log_seconds() - started;
}

// --- checkpoints ------------------------------------------------------------------------------------------------------

// training_info.json: where the run stands, what it was made from, what retention compares. New reference.
static json_t *training_info(const Progression *at, const StepReport *report, const Trainer *t) {
    const char *metric_name = t->settings->checkpointing.metric_name;
    json_t *info = json_object();
    json_object_set_new(info, "total_steps", json_integer(at->step));
    json_object_set_new(info, "asked_questions", json_integer(at->position));
    json_object_set_new(info, "current_epoch", json_integer(at->position / t->task.train_count));
    json_object_set_new(info, "current_step",
                        json_integer(at->position % t->task.train_count / t->task.prompts_per_batch));
    json_object_set_new(info, "consumed_samples", json_integer(at->consumed_samples));
    json_object_set_new(info, "total_valid_tokens", json_integer(at->total_valid_tokens));
    json_object_set_new(info, "model", json_string(t->model.path));
    json_object_set_new(info, "tokenizer", json_string(t->settings->policy.tokenizer_name));
    json_object_set_new(info, "chat_template", json_string(t->settings->policy.chat_template));
    json_object_set_new(info, "model_digest", json_string(t->model_digest));
    const char *const names[] = {"val:accuracy", "train:reward", metric_name};
    for (int i = 0; i < 3; i++) {
        Error ignored; // grpo_train has checked the name
        double value;
        if (names[i] && step_log_metric(&value, names[i], report, t, &ignored) && !isnan(value))
            json_object_set_new(info, names[i], jsonio_real(value));
    }
    return info;
}

static bool save(const Progression *at, const Trainer *t, Error *error) {
    const CheckpointOptions *options = &t->settings->checkpointing;
    double started = log_seconds();
    StrBuf config = {0};
    explain_yaml(&config, t->settings);
    CheckpointSave checkpoint = {.folder = options->checkpoint_dir,
                                 .step = at->step,
                                 .shards = &t->shards,
                                 .architecture = t->model.architecture,
                                 .optimizer = options->save_optimizer,
                                 .info = at->info,
                                 .config = config.text};
    bool good = checkpoint_save(&checkpoint, error) &&
                checkpoint_retain(options->checkpoint_dir, options->keep_top_k, options->metric_name,
                                  options->higher_is_better, error);
    bool ranked = !options->metric_name || json_object_get(at->info, options->metric_name);
    if (good)
        log_info("  checkpoint %s/step_%lld, %.1f s%s%s%s", options->checkpoint_dir, (long long)at->step,
                 log_seconds() - started, ranked ? "" : "; without ", ranked ? "" : options->metric_name,
                 ranked ? "" : " at this step it ranks last");
    strbuf_close(&config);
    return good;
}

static bool read_count(int64_t *count, const json_t *info, const char *key, Error *error) {
    json_t *value = json_object_get(info, key);
    *count = json_integer_value(value);
    return (json_is_integer(value) && *count >= 0) || error_set(error, "training_info.json: %s is no count", key);
}

// Whether the checkpoint of step at->step belongs to its place and to this model; reads the counts.
static bool read_info(Progression *at, const json_t *info, const Trainer *t, Error *error) {
    const char *digest = json_string_value(json_object_get(info, "model_digest"));
    const char *model = json_string_value(json_object_get(info, "model"));
    int64_t total;
    if (!digest || strcmp(digest, t->model_digest))
        return error_set(error,
                         "trained from another model (%s) than policy.model_name %s; choose another "
                         "checkpointing.checkpoint_dir",
                         model ? model : "which is not named", t->model.path);
    if (!read_count(&total, info, "total_steps", error) || !read_count(&at->position, info, "asked_questions", error) ||
        !read_count(&at->consumed_samples, info, "consumed_samples", error) ||
        !read_count(&at->total_valid_tokens, info, "total_valid_tokens", error))
        return false;
    return total == at->step ||
           error_set(error, "training_info.json: total_steps is %lld; was the folder renamed?", (long long)total);
}

// A resumed run obeys the recipe that it is given; in what that differs from the checkpoint's is said.
static void say_changes(const Trainer *t, int64_t step) {
    Arena arena = {0};
    Settings *before;
    Error error;
    StrBuf changes = {0};
    const char *path =
        arena_format(&arena, "%s/step_%lld/config.yaml", t->settings->checkpointing.checkpoint_dir, (long long)step);
    if (!settings_load(&before, &arena, path, 0, NULL, &error))
        log_warn("whether the recipe has changed since is not known: %s", error.text);
    else if (explain_changes(&changes, ", ", before, t->settings))
        log_info("  in the recipe have changed since: %s", changes.text);
    strbuf_close(&changes);
    arena_close(&arena);
}

static bool load_checkpoint(Progression *at, Trainer *t, Error *error) {
    const char *folder = t->settings->checkpointing.checkpoint_dir;
    json_t *info = NULL, *again = NULL;
    bool optimizer;
    bool good = checkpoint_info(&info, folder, at->step, error) && read_info(at, info, t, error) &&
                checkpoint_load(&t->shards, folder, at->step, &again, &optimizer, error);
    if (good && !optimizer)
        log_warn("%s/step_%lld holds no optimizer state: AdamW starts afresh", folder, (long long)at->step);
    json_decref(info);
    json_decref(again);
    return good;
}

// The reference policy was copied from the base model before: a resume does not re-anchor the KL term.
static bool resume(Progression *at, Trainer *t, Error *error) {
    const CheckpointOptions *options = &t->settings->checkpointing;
    if (!options->enabled) return true;
    if (!checkpoint_latest(&at->step, options->checkpoint_dir, error)) return false;
    if (at->step == 0) return true;
    if (!load_checkpoint(at, t, error))
        return error_prefix(error, "cannot resume from %s/step_%lld (an older one serves when it is moved away): ",
                            options->checkpoint_dir, (long long)at->step);
    log_info("resuming from %s/step_%lld", options->checkpoint_dir, (long long)at->step);
    say_changes(t, at->step);
    return true;
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

static bool checkpoint_due(const CheckpointOptions *options, int64_t step, int64_t last) {
    return options->enabled && (step == last || (options->save_period > 0 && step % options->save_period == 0));
}

// *over: the questions ended before the step was full, and it was not made.
static bool one_step(Progression *at, bool *over, Trainer *t, int64_t last, Arena *arena, Error *error) {
    const Settings *s = t->settings;
    Experience experience;
    Samples *samples = &experience.samples;
    StepReport report = {.step = at->step + 1, .last_step = last, .samples = samples};
    double started = log_seconds();
    bool complete;
    ledger_reset_peaks(&t->ops.device.ledger);
    report.lr = optimizer_learning_rate(&s->scheduler, s->optimizer.lr, at->step);

    if (!experience_collect(&experience, &complete, t, report.step, &at->position, arena, error)) return false;
    *over = !complete;
    if (*over) return true;
    report.collected = experience.counts;
    report.sample_mask = loss_samples(samples, &s->grpo, arena);
    float *mask = loss_mask(samples, report.sample_mask, arena);
    if (!reference_logprobs(&report, samples, t, mask, arena, error) ||
        !advantages(&report, samples, t, mask, arena, error))
        return false;
    training(&report, samples, mask, t);
    double refit = log_seconds();
    trainer_refit(t);
    report.times.refit = log_seconds() - refit;

    at->step++;
    at->consumed_samples += experience.counts.generated;
    at->total_valid_tokens += report.valid_tokens;
    if (questions_left(at, t) < 1) last = at->step;
    if (validation_due(&s->grpo, at->step, last) && !validate_policy(&report.validation, t, at->step, error))
        return false;
    report.times.total = log_seconds() - started;
    double left = (at->seconds + report.times.total) / (double)++at->measured * (double)(last - at->step);
    // Logs first: a run that is killed between the two repeats the step and writes the same lines again.
    if (!step_log_write(&report, t, left, error) || !step_log_validation(&report.validation, at->step, t, error) ||
        !step_log_samples(&report, t, error))
        return false;
    json_decref(at->info);
    at->info = training_info(at, &report, t);
    at->saved = checkpoint_due(&s->checkpointing, at->step, last);
    bool good = !at->saved || save(at, t, error);
    at->seconds += log_seconds() - started;
    return good;
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
static bool finish_early(const Progression *at, Trainer *t, Error *error) {
    const Settings *s = t->settings;
    Validation validation = {0};
    log_warn("the questions are over before step %lld is full; grpo.max_num_epochs: %lld", (long long)at->step + 1,
             (long long)s->grpo.max_num_epochs);
    if (!at->info) return true;
    if (s->grpo.val_at_end && !validation_due(&s->grpo, at->step, -1) &&
        (!validate_policy(&validation, t, at->step, error) || !step_log_validation(&validation, at->step, t, error)))
        return false;
    return at->saved || !s->checkpointing.enabled || save(at, t, error);
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

bool grpo_train(Trainer *t, Error *error) {
    const GrpoOptions *grpo = &t->settings->grpo;
    Progression at = {0};
    Arena arena = {0};
    if (!check_metric(t, error) || !resume(&at, t, error) ||
        !step_log_resume(t->settings->logger.log_dir, at.step, error) || !open_board(t, at.step, error))
        return false;
    int64_t last = last_step(&at, t);
    show_run(t);
    if (at.step >= last) log_info("nothing left to do: step %lld of %lld", (long long)at.step, (long long)last);
    trainer_refit(t);
    bool good = true, over = false;
    if (at.step == 0 && grpo->val_at_start) {
        Validation first = {0};
        good = validate_policy(&first, t, 0, error) && step_log_validation(&first, 0, t, error);
    }
    while (good && !over && at.step < last) {
        good = one_step(&at, &over, t, last, &arena, error);
        last = last_step(&at, t);
        arena_reset(&arena);
    }
    if (good && over) good = finish_early(&at, t, error);
    json_decref(at.info);
    arena_close(&arena);
    return good;
}
