#include "run/plan.h"

#include "base/int64.h"
#include "run/deal.h"
#include "run/learning.h"
#include "run/sft.h"
#include "run/supervision.h"

#include <string.h>

bool plan_lengths(int64_t *prompt, int64_t *answer, const Settings *s, const PlanOptions *options, Error *error) {
    bool sft = s->algorithm == ALGORITHM_SFT; // an answer there is what is learned
    int64_t room = sft ? s->policy.max_total_sequence_length : s->generation.max_length;
    int64_t longest = sft ? room : s->generation.max_new_tokens;
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

// What the engine would collect if every answer reached its limit, of the first `wanted` samples: dynamic sampling may roll out
// more than it trains on.
static void make_up(Samples *samples, const EngineRequest *requests, int64_t count, int64_t wanted,
                    const GenerationOptions *sampling, Arena *arena) {
    *samples = (Samples){.prompt = arena_array(arena, int32_t, wanted),
                         .question = arena_array(arena, int32_t, wanted),
                         .offset = arena_array(arena, int64_t, wanted + 1),
                         .prompt_length = arena_array(arena, int32_t, wanted),
                         .finish = arena_array(arena, FinishReason, wanted),
                         .stopped_by = arena_array(arena, int32_t, wanted)};
    for (int64_t p = 0; p < count; p++)
        for (int32_t i = 0; i < requests[p].samples && samples->count < wanted; i++) {
            int64_t b = samples->count++, limit = requests[p].count + sampling->max_new_tokens;
            samples->prompt[b] = requests[p].prompt;
            samples->prompt_length[b] = (int32_t)requests[p].count;
            samples->finish[b] = FINISH_STOP; // with its last token: overlong filtering would leave it out of the loss
            samples->stopped_by[b] = -1;
            samples->offset[b + 1] = samples->offset[b] + int64_smaller(limit, sampling->max_length);
        }
    samples->ids = arena_array(arena, int32_t, samples->offset[samples->count]);
    samples->generation_logprobs = arena_array(arena, float, samples->offset[samples->count]);
    for (int64_t b = 0; b < samples->count; b++) {
        const EngineRequest *request = &requests[samples->prompt[b]];
        memcpy(samples->ids + samples->offset[b], request->ids, (size_t)request->count * sizeof *request->ids);
    }
}

// The first rounds, up to one that only decodes: no other takes more. What ranks that share the weights exchange grows with the rows
// of a round, so all that have seats at the beginning take part there; elsewhere any round takes the same.
static bool begin(Trainer *t, const EngineRequest *requests, int64_t count, const GenerationOptions *sampling,
                  Error *error) {
    bool shared = t->sampling.mesh.tensor.size > 1, good;
    int64_t seats = sampling->max_sequences, group = requests->samples, own, walked = -1;
    int64_t seated = shared ? (seats + group - 1) / group : 1;
    EngineRequest *first;
    Arena scratch = {0};
    Deal deal;
    engine_set_sampling(t->engine, sampling);
    deal_open(&deal, &first, &own, &t->sampling.mesh, requests, count, seats, &scratch);
    good = engine_start(t->engine, first, int64_smaller(own, seated), (EngineRun){0}, error);
    for (bool more = good; more;) {
        good = !shared || deal_take_over(&deal, t->engine, error);
        more = good && engine_step(t->engine) && shared && engine_counts(t->engine).prompt_tokens > walked;
        walked = engine_counts(t->engine).prompt_tokens;
    }
    deal_close(&deal);
    arena_close(&scratch);
    return good;
}

// Every other sample is right. Of how many components a reward consists is not known before it answers: as many as have weights.
static void score(Samples *samples, const AdvantageOptions *options, Arena *arena) {
    samples->reward = arena_array(arena, float, samples->count);
    samples->valid = arena_array(arena, float, samples->count);
    for (int64_t b = 0; b < samples->count; b++) samples->reward[b] = (float)(b % 2), samples->valid[b] = 1;
    samples->component_count = options->reward_weight_count ? (int)options->reward_weight_count : 2;
    for (int c = 0; c < samples->component_count; c++) samples->component[c] = samples->reward;
}

static bool roll_out(Samples *samples, Trainer *t, const PlanOptions *options, const EngineRequest *requests,
                     int64_t count, int64_t wanted, const GenerationOptions *sampling, Arena *arena, Error *error) {
    bool complete;
    if (!options->memory_only) {
        if (!trainer_rollout(t, samples, NULL, &complete, arena, requests, count, sampling, (EngineRun){0}, "planning",
                             error))
            return false;
    } else if (!begin(t, requests, count, sampling, error)) {
        return false;
    }
    make_up(samples, requests, count, wanted, sampling, arena); // pretended ranks have brought none
    return true;
}

// Conversations of a prompt and an answer that is learned.
static TrainBatch conversations(const Trainer *t, int64_t count, const int64_t *prompt_tokens, Arena *arena) {
    int64_t answer = t->settings->generation.max_new_tokens, *offset = arena_array(arena, int64_t, count + 1);
    for (int64_t b = 0; b < count; b++) offset[b + 1] = offset[b] + prompt_tokens[b] + answer;
    int32_t *ids = arena_array(arena, int32_t, offset[count]);
    float *mask = arena_array(arena, float, offset[count]), *sample_mask = arena_array(arena, float, count);
    for (int64_t b = 0; b < count; b++) {
        sample_mask[b] = 1;
        for (int64_t i = offset[b] + prompt_tokens[b]; i < offset[b + 1]; i++) mask[i] = 1;
    }
    return (TrainBatch){.count = count, .offset = offset, .ids = ids, .mask = mask, .sample_mask = sample_mask};
}

static void step_of_sft(Trainer *t, const int64_t *prompt_tokens, StepReport *report) {
    Arena arena = {0};
    bool complete;
    TrainBatch batch = conversations(t, settings_prompts_per_batch(t->settings), prompt_tokens, &arena);
    sft_update(report, &complete, &batch, t);
    arena_close(&arena);
}

int64_t plan_validation_questions(const Settings *s, const PlanOptions *options) {
    bool sft = s->algorithm == ALGORITHM_SFT;
    int64_t size = sft ? s->sft.val_global_batch_size : s->grpo.val_batch_size;
    int64_t all = sft ? int64_larger(s->sft.val_batches, 1) * size : s->grpo.max_val_samples;
    return options->memory_only ? int64_smaller(all, size) : all;
}

static bool validation_of_sft(Trainer *t, const PlanOptions *options, const int64_t *prompt_tokens, Error *error) {
    int64_t total = plan_validation_questions(t->settings, options), size = t->settings->sft.val_global_batch_size;
    int64_t learned = 0;
    double loss = 0;
    Arena arena = {0};
    bool good = true;
    trainer_refit(t);
    MemoryPhase before = ledger_enter(&t->ops.device.ledger, PHASE_VALIDATE);
    for (int64_t first = 0; good && first < total; first += size) {
        TrainBatch batch = conversations(t, size, prompt_tokens + first, &arena);
        good = supervision_measure(&loss, &learned, t, &batch, &arena, error);
        arena_reset(&arena);
    }
    trainer_rest(t);
    ledger_enter(&t->ops.device.ledger, before);
    arena_close(&arena);
    return good;
}

// All updates take the same, and so does the reference beyond as many samples as each rank walks at once.
static int64_t samples_enough(const Trainer *t, int64_t all, int64_t tokens) {
    int64_t batch = t->settings->policy.train_global_batch_size;
    if (!t->has_reference) return batch;
    int64_t walked = (t->reference.max_rows / tokens + 1) * t->mesh.data.size;
    return int64_smaller(all, (walked + batch - 1) / batch * batch);
}

bool plan_step(Trainer *t, const PlanOptions *options, const int64_t *prompt_tokens, int64_t step, Error *error) {
    const Settings *s = t->settings;
    Ledger *ledger = &t->ops.device.ledger;
    int64_t prompts = settings_prompts_per_batch(s), group = s->grpo.num_generations_per_prompt;
    int64_t wanted = s->grpo.num_prompts_per_step * group;
    if (options->memory_only) wanted = samples_enough(t, wanted, *prompt_tokens + s->generation.max_new_tokens);
    Arena arena = {0};
    Samples samples;
    StepReport report = {.step = step, .last_step = step, .lr = s->optimizer.lr};
    bool complete;
    t->committed = true;
    ledger_reset_peaks(ledger);
    if (s->algorithm == ALGORITHM_SFT) {
        step_of_sft(t, prompt_tokens, &report);
        return true;
    }
    MemoryPhase before = ledger_enter(ledger, PHASE_ROLLOUT);
    EngineRequest *requests = requests_of(t, prompts, prompt_tokens, step, group, &arena);
    bool good = roll_out(&samples, t, options, requests, prompts, wanted, &s->generation, &arena, error);
    ledger_enter(ledger, before);
    if (good) {
        score(&samples, &s->adv_estimator, &arena);
        good = learning_run(&report, &complete, &samples, t, &arena, error);
    }
    arena_close(&arena);
    return good;
}

bool plan_validation(Trainer *t, const PlanOptions *options, const int64_t *prompt_tokens, Error *error) {
    if (t->settings->algorithm == ALGORITHM_SFT) return validation_of_sft(t, options, prompt_tokens, error);
    const GrpoOptions *grpo = &t->settings->grpo;
    Ledger *ledger = &t->ops.device.ledger;
    int64_t total = plan_validation_questions(t->settings, options);
    Arena arena = {0};
    bool good = true;
    MemoryPhase before = ledger_enter(ledger, PHASE_VALIDATE);
    for (int64_t first = 0; good && first < total; first += grpo->val_batch_size) {
        int64_t count = int64_smaller(total - first, grpo->val_batch_size);
        Samples samples;
        EngineRequest *requests =
            requests_of(t, count, prompt_tokens + first, first, grpo->val_num_generations_per_prompt, &arena);
        good = roll_out(&samples, t, options, requests, count, 0, &t->settings->val_generation, &arena, error);
        arena_reset(&arena);
    }
    ledger_enter(ledger, before);
    arena_close(&arena);
    return good;
}

static int64_t *equal_prompts(int64_t count, int64_t tokens, Arena *arena) {
    int64_t *all = arena_array(arena, int64_t, count);
    for (int64_t p = 0; p < count; p++) all[p] = tokens;
    return all;
}

// The peaks of a rank's phases from..to, where they are higher than those of the ranks before.
static void note_peaks(Plan *plan, const Ledger *ledger, int rank, MemoryPhase from, MemoryPhase to) {
    for (int phase = (int)from; phase <= (int)to; phase++) {
        const LedgerPeak *peak = &ledger->phase_peak[phase];
        if (peak->total > plan->by_phase[phase].total) plan->by_phase[phase] = *peak;
        if (phase == PHASE_LOAD) continue;
        if (peak->total > plan->peak.total)
            plan->peak = *peak, plan->peak_phase = (MemoryPhase)phase, plan->peak_rank = rank;
        bool update = phase == PHASE_FORWARD || phase == PHASE_BACKWARD || phase == PHASE_OPTIMIZER;
        if (update && peak->total > plan->update_peak.total)
            plan->update_peak = *peak, plan->update_phase = (MemoryPhase)phase, plan->update_rank = rank;
    }
}

// All communicators of a trainer, copies too.
enum { COMMS = 9 };
static void comms_of(Comm *comms[COMMS], Trainer *t) {
    Mesh *meshes[] = {&t->mesh, &t->training.mesh, &t->sampling.mesh};
    for (int i = 0; i < 3; i++) {
        comms[3 * i] = &meshes[i]->world;
        comms[3 * i + 1] = &meshes[i]->data;
        comms[3 * i + 2] = &meshes[i]->tensor;
    }
}

static void forget_work(Trainer *t) {
    Comm *comms[COMMS];
    comms_of(comms, t);
    memset(t->ops.work, 0, sizeof t->ops.work);
    for (int i = 0; i < COMMS; i++) comms[i]->counts = (CommCounts){0};
}

static void note_wire(PlanWire *wire, Trainer *t, const PlanMachine *machine) {
    Comm *comms[COMMS];
    uint64_t sum = 0;
    comms_of(comms, t);
    for (int i = 0; i < COMMS; i++)
        for (int call = 0; call < COMM_CALL_COUNT; call++) {
            wire->bytes[call] += comms[i]->counts.bytes[call];
            wire->calls[call] += comms[i]->counts.calls[call];
            sum += comms[i]->counts.bytes[call];
        }
    if (machine->link > 0) wire->seconds = (double)sum / machine->link;
}

static bool run_rank(Plan *plan, Trainer *t, int rank, const PlanOptions *options, Arena *arena, Error *error) {
    const Settings *s = t->settings;
    Ledger *ledger = &t->ops.device.ledger;
    int64_t prompts = settings_prompts_per_batch(s), questions = plan_validation_questions(s, options);
    const int64_t *tokens = equal_prompts(int64_larger(prompts, questions), plan->prompt_tokens, arena);
    if (s->algorithm == ALGORITHM_GRPO) trainer_refit(t);
    note_peaks(plan, ledger, rank, PHASE_LOAD, PHASE_LOAD);
    PlanOptions warm = *options; // what the first step counts is forgotten
    warm.memory_only = true;
    if (!options->memory_only && !plan_step(t, &warm, tokens, 0, error)) return false;
    forget_work(t);
    if (!plan_step(t, options, tokens, 1, error)) return false;
    note_peaks(plan, ledger, rank, PHASE_ROLLOUT, PHASE_REFIT);
    if (rank == 0) {
        note_wire(&plan->wire, t, &options->machine);
        memcpy(plan->work, t->ops.work, sizeof plan->work);
    }
    if (settings_validates(s)) {
        ledger_reset_peaks(ledger);
        if (!plan_validation(t, options, tokens, error)) return false;
        note_peaks(plan, ledger, rank, PHASE_VALIDATE, PHASE_VALIDATE);
    }
    if (rank == 0) plan->work[PHASE_VALIDATE] = t->ops.work[PHASE_VALIDATE];
    return true;
}

static int64_t whole_number(const Settings *settings, const char *key) {
    const Value *value = value_find(settings->tree, key);
    return value && value->kind == VALUE_INTEGER && value->integer > 0 ? value->integer : 1;
}

static bool count_ranks(int *ranks, const Settings *settings, const PlanOptions *options, Error *error) {
    double nodes = (double)whole_number(settings, "cluster.num_nodes");
    double all = options->ranks ? options->ranks : nodes * (double)whole_number(settings, "cluster.gpus_per_node");
    if (all > PLAN_MOST_RANKS)
        return error_set(error, "cluster.gpus_per_node · cluster.num_nodes: %.0f ranks; at most %d are planned", all,
                         PLAN_MOST_RANKS);
    *ranks = (int)all;
    return true;
}

static bool plan_rank(Plan *plan, const PlanModel *model, const Settings *settings, int rank,
                      const PlanOptions *options, Error *error) {
    Trainer trainer = {0};
    Comm world = comm_pretend(rank, plan->ranks);
    Arena arena = {0};
    bool good = trainer_open_plan(&trainer, settings, &world, &model->architecture, &model->parameters, error);
    if (good) {
        trainer.ops.machine = plan_machine_for(&options->machine, settings->policy.dtypes.compute);
        good = run_rank(plan, &trainer, rank, options, &arena, error);
    }
    trainer_close(&trainer);
    arena_close(&arena);
    plan->ranks_planned++;
    return good;
}

bool plan_make(Plan *plan, const Settings *settings, const PlanOptions *options, Error *error) {
    const PolicyOptions *policy = &settings->policy;
    PlanModel model;
    bool sft = settings->algorithm == ALGORITHM_SFT;
    *plan = (Plan){.samples = settings->grpo.num_prompts_per_step * settings->grpo.num_generations_per_prompt};
    if (sft) plan->samples = policy->train_global_batch_size;
    plan->updates = plan->samples / policy->train_global_batch_size;
    if (!count_ranks(&plan->ranks, settings, options, error) ||
        !plan_lengths(&plan->prompt_tokens, &plan->answer_tokens, settings, options, error) ||
        !plan_model_open(&model, policy->model_name, policy->hf_config_overrides, error))
        return false;
    Settings planned = *settings; // every answer reaches its limit there
    planned.generation.max_new_tokens = planned.val_generation.max_new_tokens = plan->answer_tokens;
    plan->parameters = model.parameters.total;
    plan->step_tokens = plan->samples * (plan->prompt_tokens + plan->answer_tokens);
    PlanOptions memory = *options;
    memory.memory_only = true;
    bool good = true;
    int64_t tensor = policy->tensor_parallel_size;
    for (int rank = 0; good && rank < plan->ranks; rank++) {
        bool skipped = plan->ranks > PLAN_ALL_RANKS && rank >= tensor && rank < plan->ranks - tensor;
        if (options->only) skipped = rank != options->only - 1;
        if (!skipped) good = plan_rank(plan, &model, &planned, rank, rank ? &memory : options, error);
    }
    plan_model_close(&model);
    return good;
}
