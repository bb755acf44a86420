#include "run/progression.h"

#include "base/jsonio.h"
#include "base/log.h"
#include "config/explain.h"
#include "train/checkpoint.h"

#include <math.h>
#include <string.h>

// training_info.json but for the metrics: where the run stands and what it was made from. New reference.
static json_t *training_info(const Progression *at, const Trainer *t) {
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
    json_object_set_new(info, "data_digest", json_string(t->task.data_digest));
    return info;
}

// The value of grpo.stop_at_validation_metric in a training_info; NAN: none.
static double stop_metric(const json_t *info, const Settings *settings) {
    Arena arena = {0};
    const char *name = settings->grpo.stop_at_validation_metric;
    const json_t *value = name ? json_object_get(info, arena_format(&arena, "val:%s", name)) : NULL;
    arena_close(&arena);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

// What retention and early stopping compare, as far as the report has it.
static void note_metrics(Progression *at, const StepReport *report, const Trainer *t) {
    const char *const names[ALGORITHM_COUNT][5] = {
        [ALGORITHM_GRPO] = {"val:accuracy", "val:pass_k", "val:avg_length", "train:reward"},
        [ALGORITHM_SFT] = {"val:val_loss", "train:loss"}};
    for (int i = 0; i < 6; i++) {
        Error ignored; // grpo_train has checked the recipe's name; a single sample of each question has no pass_k
        double value;
        const char *name = i < 5 ? names[t->settings->algorithm][i] : t->settings->checkpointing.metric_name;
        if (!name || (!report->step && strncmp(name, "val:", 4))) continue;
        if (step_log_metric(&value, name, report, t, &ignored) && !isnan(value))
            json_object_set_new(at->info, name, jsonio_real(value));
    }
    at->stop_metric = stop_metric(at->info, t->settings);
}

void progression_finish(Progression *at, const StepReport *report, const Trainer *t) {
    json_decref(at->info);
    at->info = training_info(at, t);
    at->saved = false;
    note_metrics(at, report, t);
}

void progression_validated(Progression *at, const Validation *validation, const Trainer *t) {
    const Samples none = {0};
    note_metrics(at, &(StepReport){.samples = &none, .validation = *validation}, t);
}

bool progression_save(Progression *at, Trainer *t, Error *error) {
    const CheckpointOptions *options = &t->settings->checkpointing;
    const CheckpointRetention retention = {.save_period = options->save_period,
                                           .keep_top_k = options->keep_top_k,
                                           .metric = options->metric_name,
                                           .higher_is_better = options->higher_is_better,
                                           .ft_keep_latest_k = options->ft_keep_latest_k};
    double started = log_seconds();
    StrBuf config = {0};
    explain_yaml(&config, t->settings);
    CheckpointSave checkpoint = {.folder = options->checkpoint_dir,
                                 .step = at->step,
                                 .shards = &t->shards,
                                 .architecture = t->model.architecture,
                                 .ranks = &t->mesh.world,
                                 .optimizer = options->save_optimizer,
                                 .info = at->info,
                                 .config = config.text};
    bool good = checkpoint_save(&checkpoint, error) &&
                comm_agree(&t->mesh.world,
                           !trainer_writes(t) || checkpoint_retain(options->checkpoint_dir, &retention, error), error);
    at->saved = good;
    at->save_seconds = log_seconds() - started;
    bool ranked = !options->metric_name || json_object_get(at->info, options->metric_name);
    if (good)
        log_info("  checkpoint %s/step_%lld, %.1f s%s%s%s", options->checkpoint_dir, (long long)at->step,
                 at->save_seconds, ranked ? "" : "; without ", ranked ? "" : options->metric_name,
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
    const char *data = json_string_value(json_object_get(info, "data_digest"));
    if (data && strcmp(data, t->task.data_digest))
        log_warn("the questions are not those of the checkpoint: which come next is decided anew");
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
    bool fits = checkpoint_info(&info, folder, at->step, error) && read_info(at, info, t, error);
    bool good = comm_agree(&t->mesh.world, fits, error) &&
                checkpoint_load(&t->shards, &t->mesh.world, folder, at->step, &again, &optimizer, error);
    if (good) at->stop_metric = stop_metric(info, t->settings);
    if (good && !optimizer)
        log_warn("%s/step_%lld holds no optimizer state: AdamW starts afresh", folder, (long long)at->step);
    json_decref(info);
    json_decref(again);
    return good;
}

bool progression_resume(Progression *at, Trainer *t, Error *error) {
    const CheckpointOptions *options = &t->settings->checkpointing;
    at->stop_metric = (double)NAN;
    if (!options->enabled) return true;
    // What rank 0 finds: a shared folder may look different from elsewhere for a while.
    bool found = !trainer_writes(t) || checkpoint_latest(&at->step, options->checkpoint_dir, error);
    if (!comm_agree(&t->mesh.world, found, error)) return false;
    comm_broadcast(&t->mesh.world, &at->step, sizeof at->step, 0);
    if (at->step == 0) return true;
    if (!load_checkpoint(at, t, error))
        return error_prefix(error, "cannot resume from %s/step_%lld (an older one serves when it is moved away): ",
                            options->checkpoint_dir, (long long)at->step);
    log_info("resuming from %s/step_%lld", options->checkpoint_dir, (long long)at->step);
    say_changes(t, at->step);
    return true;
}

void progression_close(Progression *at) {
    json_decref(at->info);
    *at = (Progression){0};
}
