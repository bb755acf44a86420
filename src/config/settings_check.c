#include "config/settings_check.h"

#include "config/settings_data.h"
#include "config/settings_megatron.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct Check {
    Settings *settings;
    Arena *arena;
    Error *error;
} Check;

// "place of the key: key: message".
__attribute__((format(printf, 3, 4))) static bool refuse(const Check *check, const char *key, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(check->error->text, sizeof check->error->text, format, arguments);
    va_end(arguments);
    return error_prefix(check->error, "%s: %s: ", settings_origin(check->settings, check->arena, key), key);
}

// Puts the place before a message of another room that begins with the key.
static bool with_place(const Check *check) {
    const char *key = arena_bytes(check->arena, check->error->text, strcspn(check->error->text, ":"));
    const Value *value = value_find(check->settings->tree, key);
    return error_prefix(check->error, "%s: ", value ? value_origin(check->arena, value->origin) : "settings");
}

static bool check_precision(const Check *check) {
    PolicyOptions *policy = &check->settings->policy;
    PrecisionPolicy *dtypes = &policy->dtypes;
    if (!precision_parse_compute(&dtypes->compute, "policy.precision", policy->precision, check->error) ||
        !precision_parse_output(&dtypes->output, "policy.automodel_cfg.fsdp_output_dtype", policy->fsdp_output_dtype,
                                dtypes->compute, check->error))
        return with_place(check);
    const char *key = "policy.generation.vllm_cfg.precision";
    const Value *sampler = value_find(check->settings->tree, key);
    if (sampler && sampler->text && strcmp(sampler->text, policy->precision))
        return refuse(check, key, "'%s' is not policy.precision '%s': sampler and trainer compute the same",
                      sampler->text, policy->precision);
    return true;
}

static bool check_micro_batches(const Check *check) {
    PolicyOptions *policy = &check->settings->policy;
    if (!micro_batches_options(&policy->batching, policy->train_micro_batch_size, policy->max_total_sequence_length,
                               &policy->dynamic_batching, &policy->sequence_packing, check->error) ||
        !micro_batches_reduce_by(&policy->batching, check->settings->whet.reduction_block, check->error))
        return with_place(check);
    policy->batching.seed = (uint64_t)check->settings->run.seed;
    return true;
}

static bool check_batches(const Check *check) {
    const GrpoOptions *grpo = &check->settings->grpo;
    int64_t samples = grpo->num_prompts_per_step * grpo->num_generations_per_prompt; // both at most 1e6
    int64_t batch = check->settings->policy.train_global_batch_size;
    if (samples % batch)
        return refuse(check, "policy.train_global_batch_size",
                      "%lld does not divide grpo.num_prompts_per_step · grpo.num_generations_per_prompt = %lld",
                      (long long)batch, (long long)samples);
    if (check->settings->loss_fn.force_on_policy_ratio && batch != samples)
        return refuse(check, "loss_fn.force_on_policy_ratio",
                      "true needs policy.train_global_batch_size = %lld, the samples of a step; it is %lld",
                      (long long)samples, (long long)batch);
    return true;
}

static bool check_loss(const Check *check) {
    const LossOptions *loss = &check->settings->loss_fn;
    if (!loss_options_check(loss, check->error)) return with_place(check);
    if (!advantage_options_check(&check->settings->adv_estimator, loss, check->error)) return with_place(check);
    if (check->settings->grpo.skip_reference_policy_logprobs_calculation && loss->reference_policy_kl_penalty != 0)
        return refuse(check, "grpo.skip_reference_policy_logprobs_calculation",
                      "true needs loss_fn.reference_policy_kl_penalty 0; it is %g", loss->reference_policy_kl_penalty);
    return true;
}

static bool check_rewards(const Check *check) {
    const GrpoOptions *grpo = &check->settings->grpo;
    if (!reward_shaping_check_scaling(&check->settings->reward_scaling, check->error) ||
        !reward_shaping_check(&check->settings->reward_shaping, check->error))
        return with_place(check);
    if (grpo->batch_multiplier != 1 && !grpo->use_dynamic_sampling)
        return refuse(check, "grpo.batch_multiplier", "%g needs grpo.use_dynamic_sampling: true",
                      grpo->batch_multiplier);
    return settings_prompts_per_batch(check->settings) >= 1 ||
           refuse(check, "grpo.batch_multiplier", "%g leaves no prompt of grpo.num_prompts_per_step %lld",
                  grpo->batch_multiplier, (long long)grpo->num_prompts_per_step);
}

// Megatron's keys, checked by their names, become the other ones' fields.
static bool check_training(const Check *check) {
    if (check->settings->megatron.enabled)
        return settings_megatron_apply(check->settings, check->error) || with_place(check);
    return (optimizer_options_check(&check->settings->optimizer, check->error) &&
            optimizer_schedule_check(&check->settings->scheduler, check->error)) ||
           with_place(check);
}

static bool check_generation(const Check *check) {
    GenerationOptions *training = &check->settings->generation, *validation = &check->settings->val_generation;
    if (training->top_k < 0) training->top_k = 0;
    if (validation->top_k < 0) validation->top_k = 0;
    GenerationOptions sampling = *training;
    sampling.temperature = validation->temperature;
    sampling.top_p = validation->top_p;
    sampling.top_k = validation->top_k;
    sampling.min_p = validation->min_p;
    *validation = sampling;
    if (training->temperature == 0)
        return refuse(check, "policy.generation.temperature",
                      "0 (greedy) gives every sample of a prompt the same answer; expected above 0");
    if (!generation_options_check(training, check->error)) return with_place(check);
    int64_t most_tokens = check->settings->policy.max_total_sequence_length;
    if (training->max_length > most_tokens)
        return refuse(check, "policy.generation.vllm_cfg.max_model_len",
                      "%lld is more than policy.max_total_sequence_length, %lld", (long long)training->max_length,
                      (long long)most_tokens);
    double least = GENERATION_MIN_TEMPERATURE, most = GENERATION_MAX_TEMPERATURE, given = validation->temperature;
    if (given != 0 && (given < least || given > most))
        return refuse(check, "policy.generation.val_temperature", "%g is neither 0 (greedy) nor in %g..%g", given,
                      least, most);
    return true;
}

// A command's components are known when it answers.
static bool check_components(const Check *check) {
    const DataOptions *data = &check->settings->data;
    bool gdpo = !strcmp(check->settings->adv_estimator.name, "gdpo");
    for (int64_t i = 0; gdpo && i < data->train_count; i++) {
        const char *name = data->train[i].env_name;
        const Reward *reward = reward_find(name, settings_data_reward(check->settings, name), check->error);
        if (reward->component_count == 1)
            return refuse(check, "grpo.adv_estimator.name",
                          "\"gdpo\" needs a reward of two components or more; %s.env_name '%s' gives one",
                          data->train[i].key, name);
    }
    return true;
}

static bool check_data(const Check *check) {
    return settings_data_check(check->settings, check->error) || with_place(check);
}

static bool check_validation(const Check *check) {
    GrpoOptions *grpo = &check->settings->grpo;
    if (!grpo->val_batch_size) grpo->val_batch_size = grpo->max_val_samples;
    if (!settings_validates(check->settings)) return true;
    if (grpo->val_batch_size > grpo->max_val_samples)
        return refuse(check, "grpo.val_batch_size", "%lld is more than grpo.max_val_samples, %lld",
                      (long long)grpo->val_batch_size, (long long)grpo->max_val_samples);
    return true;
}

static bool check_early_end(const Check *check) {
    const GrpoOptions *grpo = &check->settings->grpo;
    const char *metric = grpo->stop_at_validation_metric;
    if (!metric && isnan(grpo->stop_at_validation_threshold)) return true;
    if (!metric)
        return refuse(check, "grpo.stop_at_validation_threshold", "%g without grpo.stop_at_validation_metric",
                      grpo->stop_at_validation_threshold);
    if (isnan(grpo->stop_at_validation_threshold))
        return refuse(check, "grpo.stop_at_validation_metric", "'%s' without grpo.stop_at_validation_threshold",
                      metric);
    if (!strcmp(metric, "pass_k") && grpo->val_num_generations_per_prompt < 2)
        return refuse(check, "grpo.stop_at_validation_metric",
                      "'pass_k' needs grpo.val_num_generations_per_prompt above 1");
    if (!settings_validates(check->settings))
        return refuse(check, "grpo.stop_at_validation_metric", "'%s', but there is no validation; see grpo.val_period",
                      metric);
    return true;
}

// "DD:HH:MM:SS".
static bool check_deadline(const Check *check) {
    CheckpointOptions *options = &check->settings->checkpointing;
    const char *text = options->checkpoint_must_save_by;
    unsigned days, hours, minutes, seconds;
    int end = -1;
    if (!text) return true;
    bool digits = strspn(text, "0123456789:") == strlen(text);
    if (!digits || sscanf(text, "%6u:%6u:%6u:%6u%n", &days, &hours, &minutes, &seconds, &end) != 4 || end < 0 ||
        text[end])
        return refuse(check, "checkpointing.checkpoint_must_save_by", "'%s' is no DD:HH:MM:SS, as 00:03:45:00", text);
    options->must_save_seconds = 86400.0 * days + 3600.0 * hours + 60.0 * minutes + seconds;
    return options->must_save_seconds > 0 ||
           refuse(check, "checkpointing.checkpoint_must_save_by", "'%s' leaves no time", text);
}

static bool check_checkpoints(const Check *check) {
    const char *name = check->settings->checkpointing.metric_name;
    bool fine = !name || ((!strncmp(name, "val:", 4) || !strncmp(name, "train:", 6)) && strchr(name, ':')[1]);
    if (fine) return true;
    return refuse(check, "checkpointing.metric_name", "'%s' is neither val:<metric> nor train:<metric>", name);
}

bool settings_check(Settings *settings, Arena *arena, Error *error) {
    if (!settings->policy.chat_template)
        settings->policy.chat_template = "{% for message in messages %}{{ message.content }}{% endfor %}";
    Check check = {.settings = settings, .arena = arena, .error = error};
    if (!check_precision(&check) || !check_micro_batches(&check) || !check_training(&check) || !check_data(&check) ||
        !check_deadline(&check) || !check_checkpoints(&check))
        return false;
    return settings->algorithm == ALGORITHM_SFT ||
           (check_batches(&check) && check_loss(&check) && check_rewards(&check) && check_generation(&check) &&
            check_components(&check) && check_validation(&check) && check_early_end(&check));
}
