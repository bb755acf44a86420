// Speed of one GRPO step's work: generation, then log-probs, loss, backward, clipping and AdamW, timed apart, with the shapes
// that scripts of other systems use for a comparison. Prints one JSON line; rates are the best of the repetitions, shares of the
// peak the median one, as a machine that others use too has another peak each time.
// usage: bench_step MODEL [dtype] [sequences] [prompt] [new] [micro] [distinct prompts] [output dtype] [threads]
#include "base/log.h"
#include "base/rng.h"
#include "ops/kernels.h"
#include "rollout/engine.h"
#include "support/model_setup.h"
#include "train/update.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct Shape {
    int64_t sequences, prompt, answer, micro, distinct;
} Shape;

static void peak_task(void *context, int64_t index, int worker) {
    (void)index, (void)worker;
    float out[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    ((Ops *)context)->kernels->gemm_peak(out, 1000000);
}

// Fused multiply-adds that all threads do in registers, in GFLOP/s.
static double peak_gflops(Ops *ops) {
    float out[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    double operations = ops->kernels->gemm_peak(out, 1000000) * team_size(ops->team), best = 0;
    for (int i = 0; i < 8; i++) {
        double begin = log_seconds();
        team_run(ops->team, team_size(ops->team), peak_task, ops);
        double rate = operations / (log_seconds() - begin) * 1e-9;
        if (rate > best) best = rate;
    }
    return best;
}

static double generate(ModelSetup *setup, const Shape *shape, Samples *samples, Arena *arena) {
    Error error;
    Engine *engine;
    GenerationOptions options = {.max_new_tokens = shape->answer,
                                 .temperature = 1,
                                 .top_p = 1,
                                 .ignore_eos = true,
                                 .max_length = shape->prompt + shape->answer,
                                 .max_sequences = shape->sequences,
                                 .prefill_chunk = 256};
    EngineRequest *requests = arena_array(arena, EngineRequest, shape->distinct);
    for (int64_t p = 0; p < shape->distinct; p++) {
        int32_t *ids = arena_array(arena, int32_t, shape->prompt);
        for (int64_t i = 0; i < shape->prompt; i++) {
            uint32_t words[4];
            rng_words(words, 0, RNG_TEST_WEIGHTS, (RngCounter){.prompt = (uint32_t)p, .token = (uint32_t)i});
            ids[i] = (int32_t)(10 + words[0] % (uint32_t)(setup->architecture->vocab_size - 20));
        }
        requests[p] = (EngineRequest){.ids = ids,
                                      .count = shape->prompt,
                                      .prompt = (int32_t)p,
                                      .samples = (int32_t)(shape->sequences / shape->distinct)};
    }
    EngineRun run = {.seed = 1, .purpose = RNG_SAMPLE_TOKEN};
    double best = 1e9;
    if (!engine_open(&engine, &setup->resident, &options, (EngineStops){0}, &error)) CHECK(false, "%s", error.text);
    for (int repeat = 0; repeat < 3; repeat++) {
        double begin = log_seconds();
        if (!engine_start(engine, requests, shape->distinct, run, &error)) CHECK(false, "%s", error.text);
        while (engine_step(engine)) continue;
        double seconds = log_seconds() - begin;
        if (seconds < best) best = seconds;
    }
    engine_collect(engine, samples, arena);
    engine_close(engine);
    return best;
}

enum { REPEATS = 3 };

typedef struct Training {
    double seconds; // the fewest
    double peak;    // the highest, in GFLOP/s
    double share;   // of the peak for each operation: the median, each by the higher peak of before and after
    UpdateResult result;
} Training;

static int by_size(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static Training train(ModelSetup *setup, const Shape *shape, const Samples *samples, Arena *arena) {
    int64_t tokens = samples->offset[samples->count];
    float *mask = arena_array(arena, float, tokens), *advantage = arena_array(arena, float, tokens);
    float *sample_mask = arena_array(arena, float, samples->count);
    for (int64_t b = 0; b < samples->count; b++) {
        sample_mask[b] = 1;
        for (int64_t t = samples->offset[b]; t < samples->offset[b + 1]; t++) {
            mask[t] = t >= samples->offset[b] + shape->prompt;
            advantage[t] = b % 2 ? 1 : -1;
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
    UpdateOptions options = {.batching = {.micro_batch_size = shape->micro},
                             .filter = {.temperature = 1, .top_p = 1},
                             .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .max_grad_norm = 1},
                             .lr = 1e-6};
    Training training = {.seconds = 1e9};
    double peak = peak_gflops(&setup->ops), rates[REPEATS];
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        UpdateResult now;
        double begin = log_seconds(), before = peak;
        update_policy(&now, &setup->walk, &batch, &loss, &options, NULL, NULL);
        double seconds = log_seconds() - begin;
        peak = peak_gflops(&setup->ops);
        rates[repeat] = 1e-9 / seconds / fmax(before, peak);
        training.peak = fmax(training.peak, fmax(before, peak));
        training.seconds = fmin(training.seconds, seconds);
        if (repeat == 0) training.result = now;
    }
    qsort(rates, REPEATS, sizeof *rates, by_size);
    training.share = rates[REPEATS / 2];
    return training;
}

static int64_t number(int argc, char **argv, int index, int64_t otherwise) {
    return argc > index ? strtoll(argv[index], NULL, 10) : otherwise;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr,
                "usage: bench_step MODEL [dtype] [sequences] [prompt] [new] [micro] [distinct prompts] [output dtype] "
                "[threads]\n");
        return 2;
    }
    Error error;
    ModelSetup setup;
    Arena arena = {0};
    Samples samples;
    PrecisionPolicy policy;
    Shape shape = {.sequences = number(argc, argv, 3, 64),
                   .prompt = number(argc, argv, 4, 24),
                   .answer = number(argc, argv, 5, 24),
                   .micro = number(argc, argv, 6, 16)};
    shape.distinct = number(argc, argv, 7, shape.sequences);
    OpsOptions ops = {.threads = (int)number(argc, argv, 9, 0)};
    const char *output = argc > 8 ? argv[8] : NULL;
    if (!precision_parse_compute(&policy.compute, "DTYPE", argc > 2 ? argv[2] : "float32", &error) ||
        !precision_parse_output(&policy.output, "OUTPUT", output, policy.compute, &error) ||
        !model_setup_open(&setup, argv[1], policy, ops, 256, shape.prompt + shape.answer, &error)) {
        fprintf(stderr, "bench_step: %s\n", error.text);
        return 1;
    }
    double generation = generate(&setup, &shape, &samples, &arena);
    resident_drop_weights(&setup.resident); // as a run does before its update
    resident_drop_scratch(&setup.resident);
    ledger_reset_peaks(&setup.ops.device.ledger);
    uint64_t before = ops_worked(&setup.ops).flops;
    Training training = train(&setup, &shape, &samples, &arena);
    double executed = (double)(ops_worked(&setup.ops).flops - before) / REPEATS;
    // Model FLOPs: 2 for each weight and token forward, twice that backward; the head only where loss falls. Attention left out.
    double body = (double)(setup.parameters->total - setup.architecture->vocab_size * setup.architecture->hidden_size *
                                                         (setup.architecture->tied_head ? 1 : 2));
    double head = (double)(setup.architecture->vocab_size * setup.architecture->hidden_size);
    double tokens = (double)(shape.sequences * (shape.prompt + shape.answer));
    double model = 6 * (body * tokens + head * (double)(shape.sequences * shape.answer));
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"dtype\": \"%s\", \"output\": \"%s\", \"isa\": \"%s\", \"threads\": %d, \"peak_gflops\": %.1f, "
           "\"gen_s\": %.3f, "
           "\"gen_tok_s\": %.1f, \"train_s\": %.3f, \"train_tok_s\": %.1f, \"train_share_of_peak\": %.3f, "
           "\"executed_share_of_peak\": %.3f, \"max_abs_logprob_error\": %g, \"ledger_peak_gb\": %.2f, "
           "\"peak_rss_gb\": %.2f}\n",
           dtype_name(policy.compute), dtype_name(policy.output), setup.ops.isa, team_size(setup.ops.team),
           training.peak, generation, (double)(shape.sequences * shape.answer) / generation, training.seconds,
           tokens / training.seconds, model * training.share, executed * training.share,
           training.result.max_abs_logprob_error, (double)setup.ops.device.ledger.peak.total / 0x1p30,
           (double)usage.ru_maxrss / 0x1p20);
    model_setup_close(&setup);
    arena_close(&arena);
    return 0;
}
