// Scoring and the trainer find for every sampled token the very log-prob that the sampler recorded.
#include "model/score.h"
#include "rollout/engine.h"
#include "support/tiny_model.h"
#include "train/update.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 96, PROMPTS = 5, SAMPLES = 4 };

typedef struct Trainer {
    Shards shards;
    Walk walk;
} Trainer;

static void trainer_open(Trainer *trainer, TinyModel *model, bool checkpointing) {
    *trainer = (Trainer){0};
    shard_open(&trainer->shards, &model->ops, &model->table);
    for (int unit = 0; unit < model->table.unit_count; unit++)
        tiny_model_weights(&model->table, unit, trainer->shards.weight[unit].data);
    walk_open(&trainer->walk, &model->ops, &model->architecture, &trainer->shards,
              (WalkOptions){.policy = model->resident.policy,
                            .activation_checkpointing = checkpointing,
                            .max_positions = TINY_POSITIONS});
}

static void trainer_close(Trainer *trainer) {
    walk_close(&trainer->walk);
    shard_close(&trainer->shards);
}

static Samples sample(TinyModel *model, const GenerationOptions *options, uint32_t step, Arena *arena) {
    static const int32_t lengths[PROMPTS] = {3, 16, 20, 47, 31};
    int32_t ids[48];
    for (int32_t t = 0; t < 48; t++) ids[t] = (t * 41 + t * t) % TINY_VOCABULARY;
    EngineRequest requests[PROMPTS];
    for (int32_t i = 0; i < PROMPTS; i++)
        requests[i] = (EngineRequest){.ids = ids, .count = lengths[i], .prompt = i, .samples = SAMPLES};
    Error error;
    Engine *engine;
    EngineRun run = {.seed = 42, .purpose = RNG_SAMPLE_TOKEN, .step = step};
    if (!engine_open(&engine, &model->resident, options, (EngineStops){.ids = (int32_t[]){3, 77}, .count = 2},
                     &error) ||
        !engine_start(engine, requests, PROMPTS, run, &error))
        fail_msg("%s", error.text);
    while (engine_step(engine)) {
    }
    Samples samples;
    engine_collect(engine, &samples, arena);
    engine_close(engine);
    return samples;
}

static TrainBatch batch_of(const Samples *samples, Arena *arena) {
    int64_t tokens = samples->offset[samples->count];
    float *mask = arena_array(arena, float, tokens), *advantage = arena_array(arena, float, tokens);
    float *sample_mask = arena_array(arena, float, samples->count);
    for (int64_t b = 0; b < samples->count; b++) {
        sample_mask[b] = 1;
        for (int64_t t = samples->offset[b]; t < samples->offset[b + 1]; t++) {
            mask[t] = t >= samples->offset[b] + samples->prompt_length[b];
            advantage[t] = b % SAMPLES ? 0.5f : -1.5f;
        }
    }
    return (TrainBatch){.count = samples->count,
                        .offset = samples->offset,
                        .ids = samples->ids,
                        .mask = mask,
                        .sample_mask = sample_mask,
                        .generation = samples->generation_logprobs,
                        .advantage = advantage};
}

static UpdateResult update_batched(Trainer *trainer, const TrainBatch *batch, const GenerationOptions *options,
                                   const BatchingOptions *batching, int64_t head_chunk) {
    UpdateResult result;
    LossOptions loss = loss_options_default();
    loss.reference_policy_kl_penalty = 0;
    UpdateOptions update_options = {.batching = *batching,
                                    .head_chunk = head_chunk,
                                    .filter = sampler_filter(options),
                                    .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .max_grad_norm = 1},
                                    .lr = 1e-3};
    update_policy(&result, &trainer->walk, batch, &loss, &update_options, NULL, NULL);
    return result;
}

static UpdateResult update(Trainer *trainer, const TrainBatch *batch, const GenerationOptions *options,
                           int64_t micro_batch_size, int64_t head_chunk) {
    return update_batched(trainer, batch, options, &(BatchingOptions){.micro_batch_size = micro_batch_size},
                          head_chunk);
}

// Weights of the trainer into the resident: the refit of a step.
static void refit(TinyModel *model, Trainer *trainer) {
    for (int unit = 0; unit < model->table.unit_count; unit++)
        resident_load_unit(&model->resident, unit, &trainer->shards.weight[unit]);
}

static void assert_parity(ModelFamily family, PrecisionPolicy policy, double temperature, double top_p, OpsOptions ops,
                          const BatchingOptions *batching, bool checkpointing) {
    TinyModel model;
    Trainer trainer;
    tiny_model_open(&model, family, policy, ops, ROWS);
    trainer_open(&trainer, &model, checkpointing);
    GenerationOptions options = {.max_new_tokens = 24,
                                 .temperature = temperature,
                                 .top_p = top_p,
                                 .min_p = top_p < 1 ? 0.01 : 0,
                                 .max_length = 64,
                                 .max_sequences = 7,
                                 .prefill_chunk = 24};
    for (uint32_t step = 0; step < 2; step++) { // also after updates: the refit hands over every weight
        Arena arena = {0};
        Samples samples = sample(&model, &options, step, &arena);
        TrainBatch batch = batch_of(&samples, &arena);
        // Two optimizer steps of one rollout: the first walks the sampler's weights, the second others.
        TrainBatch half = batch_slice(&batch, 0, samples.count / 2);
        TrainBatch rest = batch_slice(&batch, samples.count / 2, samples.count - samples.count / 2);
        UpdateResult result = update_batched(&trainer, &half, &options, batching, 10);
        assert_true(result.max_abs_logprob_error == 0);
        assert_true(result.metrics.probs_ratio_min == 1 && result.metrics.probs_ratio_max == 1);
        assert_true(result.global_valid_toks > PROMPTS * SAMPLES);
        assert_true(update_batched(&trainer, &rest, &options, batching, 10).max_abs_logprob_error > 0);
        assert_true(result.grad_norm > 1e-4); // something was learnt, so the next step is another model
        refit(&model, &trainer);
        Samples other = sample(&model, &options, step, &arena);
        assert_memory_not_equal(other.generation_logprobs, samples.generation_logprobs, 64 * sizeof(float));
        arena_close(&arena);
    }
    trainer_close(&trainer);
    tiny_model_close(&model);
}

// Under the sanitizers, which slow the kernels a hundredfold, each pair of dtypes takes one way in turn.
#ifdef __SANITIZE_ADDRESS__
enum { WAYS_OF_EACH = 1 };
#else
enum { WAYS_OF_EACH = 4 };
#endif

// Every precision with every output dtype, in every way to cut a batch, with recomputation and filters in turn.
static void test_no_error_in_any_precision(void **state) {
    (void)state;
    static const DType computes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16}, *outputs = computes;
    const BatchingOptions ways[] = {
        {.micro_batch_size = 3},
        {.mode = BATCHING_DYNAMIC, .max_tokens = 130, .length_round = 8},
        {.mode = BATCHING_PACKED,
         .max_tokens = 140,
         .algorithm = PACKING_MODIFIED_FIRST_FIT_DECREASING,
         .pad_multiple = 1},
        {.mode = BATCHING_PACKED, .max_tokens = 100, .algorithm = PACKING_CONCATENATIVE, .pad_multiple = 1},
    };
    for (int compute = 0; compute < 3; compute++)
        for (int output = 0; output < 3; output++)
            for (int turn = 0; turn < WAYS_OF_EACH; turn++) {
                int way = (compute + output + turn) % 4;
                PrecisionPolicy policy = {computes[compute], outputs[output]};
                ModelFamily family = (ModelFamily)((12 * compute + 4 * output + way) % FAMILY_COUNT);
                bool filtered = way % 2, checkpointing = (compute + output + way / 2) % 2;
                assert_parity(family, policy, filtered ? 0.7 : 1, filtered ? 0.9 : 1, (OpsOptions){.threads = 2},
                              &ways[way], checkpointing);
            }
}

static void test_no_error_on_any_instruction_set(void **state) {
    (void)state;
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    for (int i = 0; i < 3; i++) {
        Error error;
        Ops probe;
        OpsOptions options = {.threads = 1 + i, .isa = isas[i]};
        if (!ops_open(&probe, options, &error)) continue; // this CPU lacks it
        ops_close(&probe);
        for (int turn = 0; turn < WAYS_OF_EACH; turn++) // families but the first, as many as there are ways
            assert_parity((ModelFamily)(MODEL_QWEN2 + (i + turn) % (FAMILY_COUNT - 1)),
                          (PrecisionPolicy){DTYPE_BF16, DTYPE_F32}, 1, 1, options,
                          &(BatchingOptions){.micro_batch_size = 20}, false);
    }
}

static void assert_scored(TinyModel *model, const GenerationOptions *options) {
    Arena arena = {0};
    Error error;
    Samples samples = sample(model, options, 0, &arena);
    TrainBatch batch = batch_of(&samples, &arena);
    int64_t tokens = samples.offset[samples.count], answers = 0;
    float *scores = arena_array(&arena, float, tokens);
    ScoreInput input = {.count = samples.count, .offset = samples.offset, .ids = samples.ids, .wanted = batch.mask};
    if (!score_sequences(&model->resident, scores, &input, sampler_filter(options), 0, NULL, &error))
        fail_msg("%s", error.text);
    for (int64_t t = 0; t < tokens; t++) {
        float recorded = samples.generation_logprobs[t];
        answers += batch.mask[t] != 0;
        assert_true(isfinite(recorded) && recorded <= 0);
        assert_int_equal(dtype_bits(scores[t]), dtype_bits(recorded));
    }
    assert_true(answers > samples.count);
    arena_close(&arena);
}

static void test_scores_are_the_recorded_logprobs(void **state) {
    (void)state;
    static const DType outputs[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    static const double temperatures[] = {0, 0.7, 1, 1.3};
    for (int i = 0; i < 12; i++) {
        TinyModel model;
        PrecisionPolicy policy = {outputs[i % 3], outputs[i / 4]};
        tiny_model_open(&model, (ModelFamily)(i % FAMILY_COUNT), policy, (OpsOptions){.threads = 1}, ROWS);
        for (int k = 0; k < 12; k++) {
            GenerationOptions options = {.max_new_tokens = 20,
                                         .temperature = temperatures[k % 4],
                                         .top_p = k < 4 ? 1 : 0.9,
                                         .top_k = k < 8 ? 0 : 20,
                                         .min_p = k % 2 ? 0.02 : 0,
                                         .max_length = 60,
                                         .max_sequences = 9,
                                         .prefill_chunk = 40};
            assert_scored(&model, &options);
        }
        tiny_model_close(&model);
    }
}

// Sampled on one instruction set and team, trained on another.
static void test_no_error_across_machines(void **state) {
    (void)state;
    Arena arena = {0};
    TinyModel models[2];
    Trainer trainer;
    PrecisionPolicy policy = {DTYPE_BF16, DTYPE_BF16};
    tiny_model_open(&models[0], MODEL_LLAMA, policy, (OpsOptions){.threads = 3}, ROWS);
    tiny_model_open(&models[1], MODEL_LLAMA, policy, (OpsOptions){.threads = 1, .isa = "scalar"}, ROWS);
    trainer_open(&trainer, &models[1], false);
    GenerationOptions options = {.max_new_tokens = 30,
                                 .temperature = 0.7,
                                 .top_p = 0.9,
                                 .max_length = 100,
                                 .max_sequences = 64,
                                 .prefill_chunk = 96};
    Samples samples = sample(&models[0], &options, 1, &arena);
    TrainBatch batch = batch_of(&samples, &arena);
    float *previous = arena_array(&arena, float, samples.offset[samples.count]);
    ScoreInput input = {.count = samples.count, .offset = samples.offset, .ids = samples.ids, .wanted = batch.mask};
    Error error;
    assert_true(score_sequences(&models[1].resident, previous, &input, sampler_filter(&options), 0, NULL, &error));
    batch.previous = previous;
    UpdateResult result = update(&trainer, &batch, &options, 4, 1000);
    assert_true(result.max_abs_logprob_error == 0);
    assert_true(result.metrics.max_abs_logprob_error == 0); // of previous: recomputed log-probs are the sampler's
    trainer_close(&trainer);
    for (int i = 0; i < 2; i++) tiny_model_close(&models[i]);
    arena_close(&arena);
}

// A log-prob that is off by one bit is seen.
static void test_the_error_is_measured(void **state) {
    (void)state;
    Arena arena = {0};
    TinyModel model;
    Trainer trainer;
    tiny_model_open(&model, MODEL_LLAMA, (PrecisionPolicy){DTYPE_F32, DTYPE_F32}, (OpsOptions){.threads = 1}, ROWS);
    trainer_open(&trainer, &model, false);
    GenerationOptions options =
        {.max_new_tokens = 8, .temperature = 1, .top_p = 1, .max_length = 64, .max_sequences = 8, .prefill_chunk = 64};
    Samples samples = sample(&model, &options, 0, &arena);
    TrainBatch batch = batch_of(&samples, &arena);
    float *logprob = &samples.generation_logprobs[samples.offset[4] - 1], right = *logprob;
    *logprob = nextafterf(right, -INFINITY);
    UpdateResult result = update(&trainer, &batch, &options, 4, 64);
    assert_true(result.max_abs_logprob_error == fabs((double)right - (double)*logprob));
    assert_true(result.max_abs_logprob_error > 0);
    // One that is lost is not forgotten over those that come after it.
    samples.generation_logprobs[samples.offset[2] - 1] = NAN;
    result = update(&trainer, &batch, &options, 4, 64);
    assert_true(isnan(result.max_abs_logprob_error));
    trainer_close(&trainer);
    tiny_model_close(&model);
    arena_close(&arena);
}

// A sampled token that the trainer's filter does not keep is no agreement.
static void test_a_dropped_token_is_an_error(void **state) {
    (void)state;
    Arena arena = {0};
    TinyModel model;
    Trainer trainer;
    tiny_model_open(&model, MODEL_LLAMA, (PrecisionPolicy){DTYPE_F32, DTYPE_F32}, (OpsOptions){.threads = 1}, ROWS);
    trainer_open(&trainer, &model, false);
    GenerationOptions options =
        {.max_new_tokens = 8, .temperature = 1, .top_p = 1, .max_length = 64, .max_sequences = 8, .prefill_chunk = 64};
    Samples samples = sample(&model, &options, 0, &arena);
    TrainBatch batch = batch_of(&samples, &arena);
    options.top_k = 20;
    UpdateResult result = update(&trainer, &batch, &options, 4, 64);
    assert_in_range(result.filtered_tokens, 1, 8 * PROMPTS * SAMPLES);
    assert_true(result.max_abs_logprob_error == (double)INFINITY);
    assert_true(isfinite(result.metrics.loss) && isfinite(result.grad_norm));
    trainer_close(&trainer);
    tiny_model_close(&model);
    arena_close(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scores_are_the_recorded_logprobs),
        cmocka_unit_test(test_no_error_in_any_precision),
        cmocka_unit_test(test_no_error_on_any_instruction_set),
        cmocka_unit_test(test_no_error_across_machines),
        cmocka_unit_test(test_the_error_is_measured),
        cmocka_unit_test(test_a_dropped_token_is_an_error),
    };
    return cmocka_run_group_tests_name("parity", tests, NULL, NULL);
}
