#include "run/bench_phases.h"

#include "base/int64.h"
#include "base/log.h"
#include "rollout/engine.h"
#include "train/update.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>

enum { PREFILL = 512, REPEATS = 3 };
#define PEAK_SECONDS 0.15 // of each measurement that a phase is compared with

typedef struct Phases {
    BenchMachine *machine;
    Ops *ops;
    const LoadedModel *model;
    const BenchPhases *asked;
    Resident resident;
    Shards shards;
    Walk walk;
    double block_weights, head_weights; // numbers that a token is multiplied with
    Arena arena;
} Phases;

// ---- what is printed

typedef struct Line {
    const char *phase;
    double seconds, tokens, flops, bytes; // flops, bytes: 0 where no share is meant
} Line;

// A phase is the best of REPEATS runs, and so is what it is compared with.
static double peak(Phases *p, double (*measure)(BenchMachine *machine, double seconds)) {
    return bench_machine_best(p->machine, measure, REPEATS, PEAK_SECONDS);
}

static void report(Phases *p, Line line) {
    if (p->asked->memory) line.flops = line.bytes = 0; // reading as much as no cache holds would be in the account
    double flops_share = line.flops > 0 ? line.flops / line.seconds / peak(p, bench_machine_flops) : 0;
    double bytes_share = line.bytes > 0 ? line.bytes / line.seconds / peak(p, bench_machine_bytes) : 0;
    const char *dtype = dtype_name(p->asked->policy.compute);
    if (p->asked->options.json) {
        printf("{\"phase\":\"%s\",\"dtype\":\"%s\",\"seconds\":%.6g", line.phase, dtype, line.seconds);
        if (line.tokens > 0) printf(",\"tokens_per_second\":%.2f", line.tokens / line.seconds);
        if (line.flops > 0) printf(",\"share_of_flops\":%.4f", flops_share);
        if (line.bytes > 0) printf(",\"share_of_bandwidth\":%.4f", bytes_share);
        printf("}\n");
    } else {
        printf("  %-38s %-8s %8.3f s", line.phase, dtype, line.seconds);
        if (line.tokens > 0) printf("  %8.1f tokens/s", line.tokens / line.seconds);
        if (line.flops > 0) printf("  %5.1f %% of multiply-adds", 100 * flops_share);
        if (line.bytes > 0) printf("  %5.1f %% of bandwidth", 100 * bytes_share);
        printf("\n");
    }
    fflush(stdout);
}

// Bytes by tag at the peak since the last reset, and the most that the process ever held.
static void report_memory(Phases *p, const char *phase) {
    if (!p->asked->memory) return;
    const LedgerPeak *peak = &p->ops->device.ledger.peak;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    for (int tag = 0; tag < MEMORY_TAG_COUNT; tag++) {
        if (!peak->by_tag[tag]) continue;
        if (p->asked->options.json)
            printf("{\"memory\":\"%s\",\"tag\":\"%s\",\"bytes\":%llu}\n", phase, ledger_tag_name((MemoryTag)tag),
                   (unsigned long long)peak->by_tag[tag]);
        else
            printf("    %-36s %10.1f MiB\n", ledger_tag_name((MemoryTag)tag), (double)peak->by_tag[tag] / 0x1p20);
    }
    if (p->asked->options.json)
        printf("{\"memory\":\"%s\",\"bytes\":%llu,\"process_bytes\":%lld}\n", phase, (unsigned long long)peak->total,
               (long long)usage.ru_maxrss * 1024);
    else
        printf("    %-36s %10.1f MiB; the process held %.1f MiB at most\n", "in all", (double)peak->total / 0x1p20,
               (double)usage.ru_maxrss / 0x1p10);
}

// ---- rollout

static EngineRequest *requests_of(Phases *p, int64_t distinct, int64_t length, int64_t samples) {
    EngineRequest *requests = arena_array(&p->arena, EngineRequest, distinct);
    for (int64_t r = 0; r < distinct; r++) {
        int32_t *ids = arena_array(&p->arena, int32_t, length);
        for (int64_t i = 0; i < length; i++) {
            RngCounter at = {.prompt = (uint32_t)r, .token = (uint32_t)i};
            ids[i] = (int32_t)(rng_uniform(0, RNG_TEST_WEIGHTS, at) * (float)p->model->architecture->vocab_size);
        }
        requests[r] = (EngineRequest){.ids = ids,
                                      .count = length,
                                      .prompt = (int32_t)r,
                                      .samples = (int32_t)samples,
                                      .question = (int32_t)r};
    }
    return requests;
}

typedef struct Rollout {
    int64_t distinct, prompt, samples, answer;
} Rollout;

// The best of some runs, in seconds. samples may be NULL.
static bool roll_out(double *seconds, Phases *p, Rollout r, Samples *samples, Error *error) {
    GenerationOptions options = {.max_new_tokens = r.answer,
                                 .temperature = 1,
                                 .top_p = 1,
                                 .ignore_eos = true,
                                 .max_length = r.prompt + r.answer,
                                 .max_sequences = r.distinct * r.samples,
                                 .prefill_chunk = PREFILL};
    EngineRequest *requests = requests_of(p, r.distinct, r.prompt, r.samples);
    EngineRun run = {.seed = 1, .purpose = RNG_SAMPLE_TOKEN};
    *seconds = INFINITY;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        Engine *engine; // a new one each time: pages of the last run would serve this one
        if (!engine_open(&engine, &p->resident, &options, (EngineStops){0}, error)) return false;
        double begun = log_seconds();
        bool good = engine_start(engine, requests, r.distinct, run, error);
        while (good && engine_step(engine)) continue;
        *seconds = fmin(*seconds, log_seconds() - begun);
        if (good && samples && repeat == 0) engine_collect(engine, samples, &p->arena);
        engine_close(engine);
        if (!good) return false;
    }
    return true;
}

static bool bench_rollout(Phases *p, Samples *samples, Error *error) {
    const BenchPhases *b = p->asked;
    double seconds, walked, flops = 2 * (p->block_weights + p->head_weights);
    double weight_bytes = (p->block_weights + p->head_weights) * (double)dtype_size(b->policy.compute);
    int64_t groups = b->sequences % 8 ? 1 : b->sequences / 8;
    int64_t prefill = PREFILL;
    if (prefill > p->model->architecture->max_positions / 2) prefill = p->model->architecture->max_positions / 2;
    if (!roll_out(&walked, p, (Rollout){1, prefill, 1, 1}, NULL, error)) return false;
    report(p, (Line){"prefill, one prompt of 512", walked, (double)prefill, 2 * p->block_weights * (double)prefill, 0});
    if (!roll_out(&walked, p, (Rollout){1, b->prompt, 1, 1}, NULL, error) ||
        !roll_out(&seconds, p, (Rollout){1, b->prompt, 1, b->answer}, NULL, error))
        return false;
    double more = (double)(b->answer - 1);
    report(p, (Line){"decode, one answer", seconds - walked, more, 0, more * weight_bytes});
    Rollout together = {b->sequences, b->prompt, 1, b->answer},
            grouped = {groups, b->prompt, b->sequences / groups, b->answer};
    double tokens = (double)(b->sequences * b->answer), prompts = (double)(b->sequences * b->prompt);
    if (!roll_out(&seconds, p, together, samples, error)) return false;
    report(p, (Line){"rollout, distinct prompts", seconds, tokens, tokens * flops + prompts * 2 * p->block_weights, 0});
    if (!roll_out(&seconds, p, grouped, NULL, error)) return false;
    report(p, (Line){"rollout, groups that share a prompt", seconds, tokens, 0, 0});
    report_memory(p, "rollout");
    return true;
}

// ---- an optimizer step

static bool bench_training(Phases *p, const Samples *samples, Error *error) {
    const BenchPhases *b = p->asked;
    shard_open(&p->shards, p->ops, p->model->parameters);
    walk_open(&p->walk, p->ops, p->model->architecture, &p->shards,
              (WalkOptions){.policy = b->policy, .max_positions = b->prompt + b->answer});
    if (!shard_load(&p->shards, p->model->file, error)) return false;
    int64_t tokens = samples->offset[samples->count];
    float *mask = arena_array(&p->arena, float, tokens), *advantage = arena_array(&p->arena, float, tokens);
    float *sample_mask = arena_array(&p->arena, float, samples->count);
    for (int64_t s = 0; s < samples->count; s++) {
        sample_mask[s] = 1;
        for (int64_t t = samples->offset[s]; t < samples->offset[s + 1]; t++) {
            mask[t] = t >= samples->offset[s] + samples->prompt_length[s];
            advantage[t] = s % 2 ? 1 : -1;
        }
    }
    TrainBatch batch = {.count = samples->count,
                        .offset = samples->offset,
                        .ids = samples->ids,
                        .mask = mask,
                        .sample_mask = sample_mask,
                        .generation = samples->generation_logprobs,
                        .advantage = advantage};
    LossOptions loss = loss_options_default();
    loss.reference_policy_kl_penalty = 0;
    UpdateOptions options = {.batching = {.micro_batch_size = b->micro_batch},
                             .filter = {.temperature = 1, .top_p = 1},
                             .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .max_grad_norm = 1},
                             .lr = 1e-6};
    double seconds = INFINITY;
    ledger_reset_peaks(&p->ops->device.ledger);
    UpdateResult first = {0};
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        UpdateResult result;
        double begun = log_seconds();
        update_policy(&result, &p->walk, &batch, &loss, &options, NULL, NULL);
        seconds = fmin(seconds, log_seconds() - begun);
        if (repeat == 0) first = result;
    }
    // 2 for each weight and token forward, twice that backward; the head only where loss falls, attention left out.
    double flops = 6 * (p->block_weights * (double)tokens + p->head_weights * (double)(b->sequences * b->answer));
    report(p, (Line){"optimizer step", seconds, (double)tokens, flops, 0});
    report_memory(p, "training");
    if (first.max_abs_logprob_error != 0)
        return error_set(error, "sampler and trainer differ by %g", first.max_abs_logprob_error);
    return true;
}

bool bench_phases_run(BenchMachine *machine, const LoadedModel *model, const BenchPhases *asked, Error *error) {
    const Architecture *a = model->architecture;
    Phases p = {.machine = machine, .ops = machine->ops, .model = model, .asked = asked};
    p.head_weights = (double)(a->vocab_size * a->hidden_size);
    p.block_weights = (double)model->parameters->total - p.head_weights * (a->tied_head ? 1 : 2);
    int64_t positions = int64_larger(asked->prompt + asked->answer, int64_larger(PREFILL + 1, 2));
    if (positions > a->max_positions) positions = a->max_positions;
    Samples samples = {0};
    double begun = log_seconds();
    resident_open(&p.resident, p.ops, a, model->parameters, NULL, asked->policy, MEMORY_ROLLOUT_WEIGHTS,
                  int64_larger(PREFILL, asked->sequences), positions);
    bool good = resident_load_file(&p.resident, model->file, error);
    if (good) report(&p, (Line){"load into the rollout engine", log_seconds() - begun, 0, 0, 0});
    ledger_reset_peaks(&p.ops->device.ledger);
    good = good && bench_rollout(&p, &samples, error) && bench_training(&p, &samples, error);
    walk_close(&p.walk);
    shard_close(&p.shards);
    resident_close(&p.resident);
    arena_close(&p.arena);
    return good;
}
