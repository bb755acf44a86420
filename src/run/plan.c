#include "run/plan.h"

#include "base/int64.h"
#include "run/learning.h"

#include <string.h>

bool plan_lengths(int64_t *prompt, int64_t *answer, const Settings *s, const PlanOptions *options, Error *error) {
    int64_t room = s->generation.max_length, longest = s->generation.max_new_tokens;
    int64_t most_prompt = int64_smaller(room - 1, s->data.max_input_seq_length);
    *prompt = options->prompt_tokens;
    if (!*prompt) {
        int64_t beside = int64_larger(room - longest, int64_larger(room / 4, 1));
        if (options->answer_tokens) beside = int64_larger(room - options->answer_tokens, 1);
        *prompt = int64_smaller(beside, most_prompt);
    }
    if (*prompt > most_prompt)
        return error_set(error, "--prompt-tokens is %lld; the recipe allows at most %lld", (long long)*prompt,
                         (long long)most_prompt);
    int64_t most_answer = int64_smaller(longest, room - *prompt);
    *answer = options->answer_tokens ? options->answer_tokens : most_answer;
    return *answer <= most_answer || error_set(error,
                                               "--answer-tokens is %lld; behind a prompt of %lld tokens the recipe "
                                               "allows at most %lld",
                                               (long long)*answer, (long long)*prompt, (long long)most_answer);
}

// Prompts that begin differently, so that they share no pages.
static EngineRequest *requests_of(const Trainer *t, int64_t count, const int64_t *tokens, int64_t step, int64_t samples,
                                  Arena *arena) {
    int64_t vocabulary = t->model.architecture->vocab_size;
    EngineRequest *requests = arena_array(arena, EngineRequest, count);
    for (int64_t p = 0; p < count; p++) {
        int32_t *ids = arena_array(arena, int32_t, tokens[p]);
        int64_t number = step * count + p;
        for (int64_t i = 0; i < tokens[p]; i++, number /= vocabulary) ids[i] = (int32_t)(number % vocabulary);
        requests[p] = (EngineRequest){.ids = ids,
                                      .count = tokens[p],
                                      .prompt = (int32_t)p,
                                      .samples = (int32_t)samples,
                                      .question = (int32_t)p};
    }
    return requests;
}

// What the engine would collect if every answer reached its limit.
static void make_up(Samples *samples, const EngineRequest *requests, int64_t count, const GenerationOptions *sampling,
                    Arena *arena) {
    int64_t total = 0;
    for (int64_t p = 0; p < count; p++) total += requests[p].samples;
    *samples = (Samples){.prompt = arena_array(arena, int32_t, total),
                         .question = arena_array(arena, int32_t, total),
                         .offset = arena_array(arena, int64_t, total + 1),
                         .prompt_length = arena_array(arena, int32_t, total),
                         .finish = arena_array(arena, FinishReason, total),
                         .stopped_by = arena_array(arena, int32_t, total)};
    for (int64_t p = 0; p < count; p++)
        for (int32_t i = 0; i < requests[p].samples; i++) {
            int64_t b = samples->count++, limit = requests[p].count + sampling->max_new_tokens;
            samples->prompt[b] = requests[p].prompt;
            samples->prompt_length[b] = (int32_t)requests[p].count;
            samples->finish[b] = FINISH_LENGTH;
            samples->stopped_by[b] = -1;
            samples->offset[b + 1] = samples->offset[b] + int64_smaller(limit, sampling->max_length);
        }
    samples->ids = arena_array(arena, int32_t, samples->offset[total]);
    samples->generation_logprobs = arena_array(arena, float, samples->offset[total]);
    for (int64_t b = 0; b < total; b++) {
        const EngineRequest *request = &requests[samples->prompt[b]];
        memcpy(samples->ids + samples->offset[b], request->ids, (size_t)request->count * sizeof *request->ids);
    }
}

static bool roll_out(Samples *samples, Trainer *t, const PlanOptions *options, const EngineRequest *requests,
                     int64_t count, const GenerationOptions *sampling, Arena *arena, Error *error) {
    bool complete;
    if (!options->memory_only) {
        if (!trainer_rollout(t, samples, NULL, &complete, arena, requests, count, sampling, (EngineRun){0}, "planning",
                             error))
            return false;
    } else { // the first round takes all that a run takes
        engine_set_sampling(t->engine, sampling);
        if (!engine_start(t->engine, requests, count, (EngineRun){0}, error)) return false;
        engine_step(t->engine);
    }
    make_up(samples, requests, count, sampling, arena); // pretended ranks have brought none
    return true;
}

bool plan_step(Trainer *t, const PlanOptions *options, const int64_t *prompt_tokens, int64_t step, Error *error) {
    const Settings *s = t->settings;
    Ledger *ledger = &t->ops.device.ledger;
    int64_t prompts = settings_prompts_per_batch(s), group = s->grpo.num_generations_per_prompt;
    int64_t wanted = s->grpo.num_prompts_per_step * group;
    Arena arena = {0};
    Samples samples;
    StepReport report = {.step = step, .last_step = step, .lr = s->optimizer.lr};
    bool complete;
    t->committed = true;
    ledger_reset_peaks(ledger);
    MemoryPhase before = ledger_enter(ledger, PHASE_ROLLOUT);
    EngineRequest *requests = requests_of(t, prompts, prompt_tokens, step, group, &arena);
    bool good = roll_out(&samples, t, options, requests, prompts, &s->generation, &arena, error);
    ledger_enter(ledger, before);
    if (good) {
        samples.count = int64_smaller(samples.count, wanted); // dynamic sampling may roll out more than it trains on
        samples.reward = arena_array(&arena, float, samples.count);
        samples.valid = arena_array(&arena, float, samples.count);
        for (int64_t b = 0; b < samples.count; b++) samples.reward[b] = (float)(b % 2), samples.valid[b] = 1;
        good = learning_run(&report, &complete, &samples, t, &arena, error);
    }
    arena_close(&arena);
    return good;
}

bool plan_validation(Trainer *t, const PlanOptions *options, int64_t prompt_tokens, Error *error) {
    const GrpoOptions *grpo = &t->settings->grpo;
    Ledger *ledger = &t->ops.device.ledger;
    int64_t total =
        options->memory_only ? int64_smaller(grpo->max_val_samples, grpo->val_batch_size) : grpo->max_val_samples;
    Arena arena = {0};
    bool good = true;
    MemoryPhase before = ledger_enter(ledger, PHASE_VALIDATE);
    for (int64_t first = 0; good && first < total; first += grpo->val_batch_size) {
        int64_t count = int64_smaller(total - first, grpo->val_batch_size);
        int64_t *tokens = arena_array(&arena, int64_t, count);
        Samples samples;
        for (int64_t i = 0; i < count; i++) tokens[i] = prompt_tokens;
        EngineRequest *requests = requests_of(t, count, tokens, first, grpo->val_num_generations_per_prompt, &arena);
        good = roll_out(&samples, t, options, requests, count, &t->settings->val_generation, &arena, error);
        arena_reset(&arena);
    }
    ledger_enter(ledger, before);
    arena_close(&arena);
    return good;
}

static void note_peaks(Plan *plan, const Ledger *ledger, MemoryPhase from, MemoryPhase to) {
    for (int phase = (int)from; phase <= (int)to; phase++) {
        plan->by_phase[phase] = ledger->phase_peak[phase];
        if (ledger->phase_peak[phase].total > plan->peak.total)
            plan->peak = ledger->phase_peak[phase], plan->peak_phase = (MemoryPhase)phase;
        bool update = phase == PHASE_FORWARD || phase == PHASE_BACKWARD || phase == PHASE_OPTIMIZER;
        if (update && ledger->phase_peak[phase].total > plan->update_peak.total)
            plan->update_peak = ledger->phase_peak[phase], plan->update_phase = (MemoryPhase)phase;
    }
}

static bool run_steps(Plan *plan, Trainer *t, const PlanOptions *options, Arena *arena, Error *error) {
    const Settings *s = t->settings;
    Ledger *ledger = &t->ops.device.ledger;
    int64_t prompts = settings_prompts_per_batch(s), *tokens = arena_array(arena, int64_t, prompts);
    for (int64_t p = 0; p < prompts; p++) tokens[p] = plan->prompt_tokens;
    trainer_refit(t);
    plan->by_phase[PHASE_LOAD] = ledger->phase_peak[PHASE_LOAD];
    for (int step = options->memory_only; step < 2; step++) {
        memset(t->ops.work, 0, sizeof t->ops.work);
        if (!plan_step(t, options, tokens, step, error)) return false;
    }
    note_peaks(plan, ledger, PHASE_ROLLOUT, PHASE_REFIT);
    if (settings_validates(s)) {
        ledger_reset_peaks(ledger);
        if (!plan_validation(t, options, plan->prompt_tokens, error)) return false;
        note_peaks(plan, ledger, PHASE_VALIDATE, PHASE_VALIDATE);
    }
    memcpy(plan->work, t->ops.work, sizeof plan->work);
    return true;
}

bool plan_make(Plan *plan, const Settings *settings, const PlanOptions *options, Error *error) {
    const PolicyOptions *policy = &settings->policy;
    PlanModel model;
    Trainer trainer = {0};
    Comm world = comm_pretend(options->rank, options->ranks);
    Arena arena = {0};
    *plan = (Plan){.samples = settings->grpo.num_prompts_per_step * settings->grpo.num_generations_per_prompt};
    plan->updates = plan->samples / policy->train_global_batch_size;
    if (settings->algorithm != ALGORITHM_GRPO)
        return error_set(error, "%s: a plan of supervised fine-tuning is not made yet; expected a recipe of GRPO",
                         settings->recipe_path);
    bool good = plan_lengths(&plan->prompt_tokens, &plan->answer_tokens, settings, options, error) &&
                plan_model_open(&model, policy->model_name, policy->hf_config_overrides, error);
    if (!good) return false;
    Settings planned = *settings; // every answer reaches its limit there
    planned.generation.max_new_tokens = planned.val_generation.max_new_tokens = plan->answer_tokens;
    plan->parameters = model.parameters.total;
    plan->step_tokens = plan->samples * (plan->prompt_tokens + plan->answer_tokens);
    good = trainer_open_plan(&trainer, &planned, &world, &model.architecture, &model.parameters, error);
    if (good) {
        trainer.ops.machine = plan_machine_for(&options->machine, policy->dtypes.compute);
        good = run_steps(plan, &trainer, options, &arena, error);
    }
    trainer_close(&trainer);
    plan_model_close(&model);
    arena_close(&arena);
    return good;
}
