#include "run/learning.h"

#include "base/log.h"
#include "model/score.h"
#include "run/share.h"
#include "train/reward_groups.h"

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
    int64_t first, last;
    share_part(&first, &last, samples->offset, samples->count, &t->mesh.data);
    ScoreInput input = {.count = last - first,
                        .offset = samples->offset + first,
                        .ids = samples->ids,
                        .wanted = mask,
                        .logit_rows = t->settings->policy.logprob_chunk_size};
    // Tempered, not filtered: reference section 2.1.
    SoftmaxFilter filter = {.temperature = sampler_filter(&t->settings->generation).temperature, .top_p = 1};
    Progress progress;
    progress_begin(&progress, "reference", samples->offset[last] - samples->offset[first]);
    const PolicyOptions *policy = &t->settings->policy;
    int64_t budget = policy->sequence_packing.enabled ? policy->sequence_packing.logprob_mb_tokens
                     : policy->dynamic_batching.enabled
                         ? policy->dynamic_batching.logprob_mb_tokens
                         : policy->logprob_batch_size * policy->max_total_sequence_length;
    bool good = comm_agree(&t->mesh.world, resident_load_file(&t->reference, t->model.file, error), error) &&
                score_sequences(&t->reference, samples->reference_logprobs, &input, filter, budget, &progress, error);
    progress_end(&progress);
    good = comm_agree(&t->mesh.world, good, error);
    if (good) share_by_token(samples->reference_logprobs, samples->offset, samples->count, &t->mesh.data);
    resident_drop_weights(&t->reference);
    resident_drop_scratch(&t->reference);
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
                             .head_chunk = s->policy.logprob_chunk_size,
                             .filter = sampler_filter(&s->generation),
                             .optimizer = s->optimizer,
                             .lr = report->lr};
    report->update = update_none();
    int64_t updates = all.count / s->policy.train_global_batch_size, done = 0;
    Progress progress;
    progress_begin(&progress, "training", all.count);
    *complete = true;
    for (int64_t update = 0; update < updates; update++) {
        TrainBatch batch =
            batch_slice(&all, update * s->policy.train_global_batch_size, s->policy.train_global_batch_size);
        UpdateResult result;
        options.batching.round = (uint32_t)(report->step * updates + update);
        options.stops = t->committed ? NULL : &t->mesh.world;
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

bool learning_run(StepReport *report, bool *complete, Samples *samples, Trainer *t, Arena *arena, Error *error) {
    report->samples = samples;
    report->sample_mask = loss_samples(samples, &t->settings->grpo, arena);
    float *mask = loss_mask(samples, report->sample_mask, arena);
    trainer_rest(t);
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
