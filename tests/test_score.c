// Log-probs of given sequences: the same bits however the sequences are cut and grouped, checked against a direct walk.
#include "model/score.h"
#include "support/tiny_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 256, SEQUENCES = 9, START = 5 };
static const SoftmaxFilter plain = {.temperature = 1, .top_p = 1};
static const OpsOptions one_thread = {.threads = 1};
static const PrecisionPolicy bf16 = {DTYPE_BF16, DTYPE_F32};

// Sequences of lengths 0 to 150; the columns begin at START.
typedef struct Texts {
    int64_t offset[SEQUENCES + 1], tokens;
    int32_t ids[512];
    ScoreInput input;
} Texts;

static void texts_fill(Texts *texts) {
    static const int64_t lengths[SEQUENCES] = {17, 0, 1, 150, 16, 2, 33, 0, 64};
    texts->offset[0] = START;
    for (int b = 0; b < SEQUENCES; b++) {
        texts->offset[b + 1] = texts->offset[b] + lengths[b];
        for (int64_t t = 0; t < lengths[b]; t++)
            texts->ids[texts->offset[b] + t] = (int32_t)((t * 29 + b * 13 + t * t) % TINY_VOCABULARY);
    }
    texts->tokens = texts->offset[SEQUENCES];
    texts->input = (ScoreInput){.count = SEQUENCES, .offset = texts->offset, .ids = texts->ids};
}

static void assert_same_floats(const float *a, const float *b, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (dtype_bits(a[i]) != dtype_bits(b[i])) fail_msg("%lld: %a is not %a", (long long)i, a[i], b[i]);
}

static void score(TinyModel *model, float *logprobs, const ScoreInput *input, SoftmaxFilter filter, int64_t budget) {
    Error error;
    if (!score_sequences(&model->resident, logprobs, input, filter, budget, NULL, &error)) fail_msg("%s", error.text);
}

// Logits of all tokens of one sequence, walked alone.
static Tensor walk(TinyModel *model, const int32_t *ids, int64_t count) {
    int32_t numbers[TINY_POSITIONS];
    for (int32_t i = 0; i < count; i++) numbers[i] = i;
    AttentionSpan span = {.count = count, .pages = numbers};
    TokenBatch batch = {.count = count, .ids = ids, .positions = numbers, .spans = &span, .span_count = 1};
    KvCache cache = kv_cache_open(&model->ops, MEMORY_KV_CACHE, &model->architecture, model->resident.policy.compute,
                                  TINY_POSITIONS / KV_PAGE_TOKENS);
    Tensor logits = DEVICE_TENSOR_RAW(&model->ops.device, MEMORY_LOGITS, DTYPE_F32, count, TINY_VOCABULARY);
    resident_forward(&model->resident, &cache, &batch);
    resident_logits(&model->resident, &logits, numbers);
    kv_cache_close(&model->ops, &cache);
    return logits;
}

// log p of the tokens from their logits, in double.
static void test_logprobs_of_a_direct_walk(void **state) {
    (void)state;
    static const float temperatures[] = {1, 0.7f, 1.3f};
    for (int i = 0; i < 3; i++) {
        TinyModel model;
        Texts texts;
        texts_fill(&texts);
        tiny_model_open(&model, i == 1 ? MODEL_QWEN2 : MODEL_LLAMA, bf16, one_thread, ROWS);
        float logprobs[512];
        memset(logprobs, 0xff, sizeof logprobs);
        SoftmaxFilter filter = {.temperature = temperatures[i], .top_p = 1};
        score(&model, logprobs, &texts.input, filter, 0);
        for (int b = 0; b < SEQUENCES; b++) {
            int64_t start = texts.offset[b], count = texts.offset[b + 1] - start;
            if (!count) continue;
            assert_true(logprobs[start] == 0);
            Tensor logits = walk(&model, texts.ids + start, count);
            for (int64_t t = 1; t < count; t++) {
                const float *row = (const float *)logits.data + (t - 1) * TINY_VOCABULARY;
                double sum = 0, temperature = (double)temperatures[i];
                for (int v = 0; v < TINY_VOCABULARY; v++) sum += exp((double)row[v] / temperature);
                double expected = (double)row[texts.ids[start + t]] / temperature - log(sum);
                assert_true(fabs((double)logprobs[start + t] - expected) < 2e-6);
            }
            device_release(&model.ops.device, &logits);
        }
        for (int64_t t = 0; t < 512; t++) // other columns are not touched
            if (t < START || t >= texts.tokens) assert_int_equal(dtype_bits(logprobs[t]), 0xffffffffu);
        tiny_model_close(&model);
    }
}

static void test_budget_and_rows_change_nothing(void **state) {
    (void)state;
    static const int64_t rows[] = {ROWS, 10}, budgets[] = {0, 1, 7, 16, 64, 100000};
    static const DType outputs[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    const SoftmaxFilter filter = {.temperature = 0.7f, .top_p = 0.9f};
    for (int i = 0; i < 3; i++) {
        Texts texts;
        texts_fill(&texts);
        float first[512] = {0}, again[512] = {0};
        for (int r = 0; r < 2; r++) {
            TinyModel model;
            PrecisionPolicy policy = {i ? DTYPE_BF16 : DTYPE_F32, outputs[i]};
            tiny_model_open(&model, i == 2 ? MODEL_QWEN2 : MODEL_LLAMA, policy, (OpsOptions){.threads = 1 + r},
                            rows[r]);
            for (int k = 0; k < 6; k++) {
                score(&model, r || k ? again : first, &texts.input, filter, budgets[k]);
                if (r || k) assert_same_floats(first, again, texts.tokens);
            }
            // Each sequence alone.
            for (int b = 0; b < SEQUENCES; b++) {
                ScoreInput alone = {.count = 1, .offset = texts.offset + b, .ids = texts.ids};
                score(&model, again, &alone, filter, 0);
            }
            assert_same_floats(first, again, texts.tokens);
            tiny_model_close(&model);
        }
    }
}

static void test_only_wanted_tokens(void **state) {
    (void)state;
    TinyModel model;
    Texts texts;
    texts_fill(&texts);
    tiny_model_open(&model, MODEL_LLAMA, bf16, one_thread, ROWS);
    float all[512] = {0}, some[512], wanted[512] = {0};
    score(&model, all, &texts.input, plain, 0);
    for (int64_t t = 0; t < 512; t++) wanted[t] = t % 3 == 0 ? 0.5f : 0;
    memset(some, 0xff, sizeof some);
    texts.input.wanted = wanted;
    score(&model, some, &texts.input, plain, 40);
    for (int64_t t = START; t < texts.tokens; t++) {
        float expected = wanted[t] != 0 ? all[t] : 0;
        assert_int_equal(dtype_bits(some[t]), dtype_bits(expected));
    }
    tiny_model_close(&model);
}

// The continuations of a prefix by every token of the vocabulary are all that can happen.
static void test_probabilities_sum_to_one(void **state) {
    (void)state;
    TinyModel model;
    tiny_model_open(&model, MODEL_QWEN2, bf16, one_thread, ROWS);
    static int32_t ids[TINY_VOCABULARY * 4];
    static int64_t offset[TINY_VOCABULARY + 1];
    static float logprobs[TINY_VOCABULARY * 4];
    for (int32_t v = 0; v < TINY_VOCABULARY; v++) {
        memcpy(ids + 4 * v, (int32_t[]){9, 8, 7, v}, 4 * sizeof *ids);
        offset[v + 1] = 4 * (v + 1);
    }
    ScoreInput input = {.count = TINY_VOCABULARY, .offset = offset, .ids = ids};
    static const SoftmaxFilter filters[] = {{1, 1, 0, 0}, {0.7f, 0.9f, 0, 0}, {1, 1, 5, 0}};
    for (int i = 0; i < 3; i++) {
        score(&model, logprobs, &input, filters[i], 0);
        double sum = 0;
        int kept = 0;
        for (int v = 0; v < TINY_VOCABULARY; v++) {
            sum += exp((double)logprobs[4 * v + 3]);
            kept += isfinite(logprobs[4 * v + 3]);
        }
        assert_true(fabs(sum - 1) < 1e-5);
        assert_true(i == 0 ? kept == TINY_VOCABULARY : i == 2 ? kept == 5 : kept < TINY_VOCABULARY);
    }
    tiny_model_close(&model);
}

// Logits of a few rows only; everything is given back; the plan device takes the same.
static void test_memory(void **state) {
    (void)state;
    TinyModel models[2];
    Texts texts;
    texts_fill(&texts);
    for (int i = 0; i < 2; i++) {
        float logprobs[512];
        tiny_model_open(&models[i], MODEL_LLAMA, bf16,
                        (OpsOptions){.threads = 1, .device = i ? DEVICE_PLAN : DEVICE_CPU}, ROWS);
        Ledger *ledger = &models[i].ops.device.ledger;
        uint64_t before = ledger->live_total;
        ledger->record = true;
        score(&models[i], logprobs, &texts.input, plain, 0);
        resident_drop_scratch(&models[i].resident);
        assert_int_equal(ledger->live_total, before);
        assert_in_range(ledger->tag_peak[MEMORY_LOGITS], 1, SCORE_MAX_ROWS * (TINY_VOCABULARY * 4 + 64));
    }
    const Ledger *real = &models[0].ops.device.ledger, *planned = &models[1].ops.device.ledger;
    assert_int_equal(real->event_count, planned->event_count);
    for (size_t i = 0; i < real->event_count; i++) assert_int_equal(real->events[i].bytes, planned->events[i].bytes);
    for (int i = 0; i < 2; i++) tiny_model_close(&models[i]);
}

static void test_refusals(void **state) {
    (void)state;
    TinyModel model;
    tiny_model_open(&model, MODEL_LLAMA, bf16, one_thread, ROWS);
    int32_t ids[TINY_POSITIONS + 1] = {0};
    float logprobs[TINY_POSITIONS + 1];
    Error error;
    int64_t offset[] = {0, 2, TINY_POSITIONS + 1};
    ScoreInput input = {.count = 2, .offset = offset, .ids = ids};
    assert_true(score_sequences(&model.resident, logprobs, &input, plain, 0, NULL, &error));
    ids[5] = TINY_VOCABULARY;
    assert_false(score_sequences(&model.resident, logprobs, &input, plain, 0, NULL, &error));
    assert_non_null(strstr(error.text, "sequence 1: token 3 has the id 131"));
    ids[5] = -2;
    assert_false(score_sequences(&model.resident, logprobs, &input, plain, 0, NULL, &error));
    ids[5] = offset[1] = 0;
    assert_false(score_sequences(&model.resident, logprobs, &input, plain, 0, NULL, &error));
    assert_non_null(strstr(error.text, "sequence 1 has 193 tokens"));
    input.count = 0;
    assert_true(score_sequences(&model.resident, logprobs, &input, plain, 0, NULL, &error));
    tiny_model_close(&model);
}

// As many logits as asked for exist at a time; the bits are the same.
static void test_rows_of_logits_are_bounded(void **state) {
    (void)state;
    TinyModel model;
    Texts texts;
    float first[512], again[512];
    tiny_model_open(&model, MODEL_LLAMA, bf16, one_thread, ROWS);
    texts_fill(&texts);
    score(&model, first, &texts.input, plain, 0);
    texts.input.logit_rows = 3;
    ledger_reset_peaks(&model.ops.device.ledger);
    score(&model, again, &texts.input, plain, 0);
    assert_in_range(model.ops.device.ledger.tag_peak[MEMORY_LOGITS], 1, 3 * 4 * (TINY_VOCABULARY + 16));
    assert_same_floats(first + START, again + START, texts.tokens - START);
    tiny_model_close(&model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_of_logits_are_bounded),
        cmocka_unit_test(test_logprobs_of_a_direct_walk),
        cmocka_unit_test(test_budget_and_rows_change_nothing),
        cmocka_unit_test(test_only_wanted_tokens),
        cmocka_unit_test(test_probabilities_sum_to_one),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("score", tests, NULL, NULL);
}
