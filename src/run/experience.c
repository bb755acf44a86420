#include "run/experience.h"

#include "base/log.h"

#include <string.h>

static void add_counts(EngineCounts *sum, const EngineCounts *part) {
    sum->samples += part->samples;
    sum->finished += part->finished;
    sum->nan += part->nan;
    sum->prompt_tokens += part->prompt_tokens;
    sum->answer_tokens += part->answer_tokens;
    sum->cached_tokens += part->cached_tokens;
    sum->preemptions += part->preemptions;
    sum->recomputed_tokens += part->recomputed_tokens;
    sum->free_pages = part->free_pages;
    sum->pages = part->pages;
}

static bool rollout(Experience *e, Samples *samples, bool *complete, Trainer *t, int64_t step, int64_t position,
                    Arena *arena, Error *error) {
    const GrpoOptions *grpo = &t->settings->grpo;
    EngineRequest *requests;
    EngineCounts counts = {0};
    EngineRun run = {.seed = (uint64_t)t->settings->run.seed, .purpose = RNG_SAMPLE_TOKEN, .step = (uint32_t)step};
    double started = log_seconds();
    MemoryPhase before = ledger_enter(&t->ops.device.ledger, PHASE_ROLLOUT);
    int64_t batch = t->task.prompts_per_batch;
    bool good = task_train_requests(&t->task, &requests, position, e->counts.gen_batches * batch,
                                    (int32_t)grpo->num_generations_per_prompt, arena, error) &&
                trainer_rollout(t, samples, &counts, complete, arena, requests, batch, &t->settings->generation, run,
                                "generating", error);
    ledger_enter(&t->ops.device.ledger, before);
    add_counts(&e->counts.rollout, &counts);
    e->counts.generation_seconds += log_seconds() - started;
    return good;
}

static void shape(Samples *samples, const Settings *s, Arena *arena) {
    int64_t *tokens = arena_array(arena, int64_t, samples->count);
    bool *truncated = arena_array(arena, bool, samples->count);
    for (int64_t b = 0; b < samples->count; b++) {
        tokens[b] = samples->offset[b + 1] - samples->offset[b] - samples->prompt_length[b];
        truncated[b] = samples->finish[b] == FINISH_LENGTH;
    }
    reward_shaping_apply(samples->reward, samples->valid, tokens, truncated, samples->count, &s->reward_shaping);
}

// Scores, scales and shapes. Returns which samples are of groups whose rewards differ; NULL: a reward has failed.
static bool *score(Experience *e, Samples *samples, Trainer *t, int64_t step, Arena *arena, Error *error) {
    const Settings *s = t->settings;
    double started = log_seconds();
    int64_t count = samples->count, scored = e->counts.generated - e->counts.unscored, missing = 0;
    bool *differs = arena_array(arena, bool, count);
    int32_t *group = arena_array(arena, int32_t, count);
    if (!trainer_reward(t, samples, false, step, arena, error)) return NULL;
    int64_t outside = reward_shaping_scale(samples->reward, samples->valid, count, &s->reward_scaling);
    if (outside)
        log_warn("%lld of %lld rewards are outside grpo.reward_scaling %g to %g and count as its ends",
                 (long long)outside, (long long)count, s->reward_scaling.source_min, s->reward_scaling.source_max);
    // Dynamic sampling looks at the task's rewards: lengths alone are no difference.
    float *unshaped = arena_array(arena, float, count);
    memcpy(unshaped, samples->reward, (size_t)count * sizeof *unshaped);
    shape(samples, s, arena);
    reward_groups_of_prompts(group, samples->ids, samples->offset, samples->prompt_length, count);
    const float *compared = s->grpo.use_dynamic_sampling ? unshaped : samples->reward;
    RewardGroupCounts groups = reward_groups_compare(differs, compared, samples->valid, group, count);
    e->counts.groups.groups += groups.groups, e->counts.groups.equal += groups.equal;

    double sum = e->counts.reward * (double)scored;
    for (int64_t b = 0; b < count; b++) {
        if (samples->valid[b] != 0) sum += (double)samples->reward[b];
        missing += samples->valid[b] == 0;
    }
    e->counts.generated += count, e->counts.unscored += missing;
    scored = e->counts.generated - e->counts.unscored;
    e->counts.reward = scored ? sum / (double)scored : 0;
    e->counts.reward_seconds += log_seconds() - started;
    return differs;
}

static bool refuse_more(const Experience *e, int64_t wanted, Error *error) {
    return error_set(error,
                     "grpo.dynamic_sampling_max_gen_batches: after %lld rollouts of this step %lld of the %lld samples "
                     "that it needs are in groups whose rewards differ; raise it, or ask questions that are neither "
                     "too easy nor too hard",
                     (long long)e->counts.gen_batches, (long long)e->samples.count, (long long)wanted);
}

bool experience_collect(Experience *e, bool *complete, Trainer *t, int64_t step, int64_t *position, Arena *arena,
                        Error *error) {
    const GrpoOptions *grpo = &t->settings->grpo;
    int64_t wanted = grpo->num_prompts_per_step * grpo->num_generations_per_prompt;
    *e = (Experience){0};
    for (*complete = false; !*complete;) {
        Samples samples;
        if (*position + t->task.prompts_per_batch > task_questions(&t->task)) return true;
        if (e->counts.gen_batches && e->counts.gen_batches == grpo->dynamic_sampling_max_gen_batches)
            return refuse_more(e, wanted, error);
        bool sampled;
        if (!rollout(e, &samples, &sampled, t, step, *position, arena, error)) return false;
        if (!sampled) return true;
        *position += t->task.prompts_per_batch;
        e->counts.gen_batches++;
        const bool *differs = score(e, &samples, t, step, arena, error);
        if (!differs) return false;
        if (grpo->use_dynamic_sampling)
            e->counts.discarded += samples_append(&e->samples, &samples, differs, wanted - e->samples.count, arena);
        else
            e->samples = samples;
        *complete = e->samples.count == wanted;
    }
    return true;
}
