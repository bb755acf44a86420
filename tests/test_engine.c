// The rollout engine: every way to schedule the same requests gives the same bits, which are those of a walk that knows
// nothing of pages, batches and sharing.
#include "support/engine_setup.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

// ---- the plain road: the whole sequence anew for every token, alone, in pages of its own

typedef struct Plain {
    int64_t count;
    int32_t ids[64];
    float logprobs[64];
    FinishReason finish;
} Plain;

static void plain_logits(TinyModel *model, KvCache *cache, Tensor *logits_1V, const int32_t *ids, int64_t count) {
    int32_t positions[TINY_POSITIONS], pages[TINY_POSITIONS / KV_PAGE_TOKENS];
    for (int32_t i = 0; i < count; i++) positions[i] = i;
    for (int32_t i = 0; i < TINY_POSITIONS / KV_PAGE_TOKENS; i++) pages[i] = i;
    AttentionSpan span = {.count = count, .pages = pages};
    TokenBatch batch = {.count = count, .ids = ids, .positions = positions, .spans = &span, .span_count = 1};
    int32_t last = (int32_t)count - 1;
    resident_forward(&model->resident, cache, &batch);
    resident_logits(&model->resident, logits_1V, &last);
}

static int32_t most_likely(const float *logits) {
    int32_t best = 0;
    for (int32_t v = 1; v < TINY_VOCABULARY; v++)
        if (logits[v] > logits[best]) best = v;
    return best;
}

static Plain plain_answer(TinyModel *model, const GenerationOptions *options, const EngineRequest *request,
                          int32_t sample) {
    Ops *ops = &model->ops;
    KvCache cache = kv_cache_open(ops, MEMORY_KV_CACHE, &model->architecture, model->resident.policy.compute,
                                  TINY_POSITIONS / KV_PAGE_TOKENS);
    Tensor logits = DEVICE_TENSOR_RAW(&ops->device, MEMORY_LOGITS, DTYPE_F32, 1, TINY_VOCABULARY);
    bool greedy = options->temperature == 0;
    SoftmaxFilter filter = {.temperature = greedy ? 1 : (float)options->temperature,
                            .top_p = greedy ? 1 : (float)options->top_p,
                            .top_k = greedy ? 0 : (int32_t)options->top_k,
                            .min_p = greedy ? 0 : (float)options->min_p};
    Plain plain = {0};
    int32_t ids[TINY_POSITIONS];
    memcpy(ids, request->ids, (size_t)request->count * sizeof *ids);
    for (int64_t length = request->count;;) {
        plain_logits(model, &cache, &logits, ids, length);
        SoftmaxRow row;
        int32_t id;
        RngCounter at = {engine_setup_run.step, (uint32_t)request->prompt, (uint32_t)sample, (uint32_t)plain.count};
        float uniform = rng_uniform(engine_setup_run.seed, engine_setup_run.purpose, at);
        softmax_rows(ops, &row, &logits, TINY_VOCABULARY, filter);
        softmax_sample(ops, &id, &logits, &row, TINY_VOCABULARY, &uniform, filter);
        if (greedy) id = most_likely(logits.data);
        softmax_logprobs(ops, &plain.logprobs[plain.count], &logits, &row, &id, filter);
        plain.ids[plain.count++] = ids[length++] = id;
        plain.finish = id == engine_setup_stops.ids[0] || id == engine_setup_stops.ids[1] ? FINISH_STOP : FINISH_LENGTH;
        if (plain.finish == FINISH_STOP || plain.count == options->max_new_tokens || length == options->max_length)
            break;
    }
    device_release(&ops->device, &logits);
    kv_cache_close(ops, &cache);
    return plain;
}

static void assert_plain(TinyModel *model, const GenerationOptions *options) {
    Arena arena = {0};
    EngineRequest requests[PROMPTS];
    engine_setup_requests(requests, &arena);
    Samples samples = engine_setup_generate(model, options, requests, PROMPTS, NULL, &arena);
    int64_t b = 0, stopped = 0;
    for (int32_t number = 0; number <= 1000000; number++)
        for (int i = 0; i < PROMPTS; i++)
            for (int32_t k = 0; requests[i].prompt == number && k < requests[i].samples; k++, b++) {
                Plain plain = plain_answer(model, options, &requests[i], k);
                int64_t start = samples.offset[b] + requests[i].count;
                assert_int_equal(samples.prompt[b], number);
                assert_int_equal(samples.question[b], 100 + i);
                assert_int_equal(samples.prompt_length[b], requests[i].count);
                assert_int_equal(samples.offset[b + 1] - start, plain.count);
                assert_memory_equal(samples.ids + samples.offset[b], requests[i].ids,
                                    (size_t)requests[i].count * sizeof *samples.ids);
                assert_memory_equal(samples.ids + start, plain.ids, (size_t)plain.count * sizeof *plain.ids);
                engine_setup_same_floats(samples.generation_logprobs + start, plain.logprobs, plain.count);
                for (int64_t t = samples.offset[b]; t < start; t++) assert_true(samples.generation_logprobs[t] == 0);
                assert_int_equal(samples.finish[b], plain.finish);
                stopped += plain.finish == FINISH_STOP;
            }
    assert_int_equal(b, samples.count);
    if (options->temperature == 1 && options->top_p == 1)
        assert_in_range(stopped, 1, samples.count - 1); // both ends occur
    arena_close(&arena);
}

static void test_answers_are_those_of_the_plain_road(void **state) {
    (void)state;
    static const DType outputs[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    for (int i = 0; i < FAMILY_COUNT + 1; i++) {
        TinyModel model;
        PrecisionPolicy policy = {precisions[i % PRECISIONS].compute, outputs[i % 2 + i / FAMILY_COUNT]};
        tiny_model_open(&model, (ModelFamily)(i % FAMILY_COUNT), policy, one_thread, ROWS);
        GenerationOptions options = engine_setup_options();
        if (i % 2 == 0) assert_plain(&model, &options);
        options.temperature = 0.7;
        options.top_p = 0.9;
        if (i % 2) assert_plain(&model, &options);
        options.temperature = 1.3;
        options.top_k = 9;
        options.min_p = 0.1;
        assert_plain(&model, &options);
        options.temperature = 0;
        if (i < PRECISIONS) assert_plain(&model, &options);
        tiny_model_close(&model);
    }
}

// ---- scheduling

static void test_batch_size_chunk_and_rows_change_nothing(void **state) {
    (void)state;
    static const int64_t sequences[] = {1, 5, 64}, chunks[] = {1, 16, 64, 1000}, rows[] = {ROWS, 3};
    for (int family = 0; family < FAMILY_COUNT; family++) {
        Arena arena = {0};
        Samples first = {0};
        for (int r = 0; r < 2; r++) {
            TinyModel model;
            tiny_model_open(&model, (ModelFamily)family, precisions[family % PRECISIONS], one_thread, rows[r]);
            for (int s = 0; s < 3; s++)
                for (int c = 0; c < 4; c += 1 + r) {
                    GenerationOptions options = engine_setup_options();
                    options.max_sequences = sequences[s];
                    options.prefill_chunk = chunks[c];
                    Samples samples = engine_setup_usual(&model, &options, &arena);
                    if (!first.count) first = samples;
                    engine_setup_same(&first, &samples);
                }
            tiny_model_close(&model);
        }
        arena_close(&arena);
    }
}

static void test_threads_and_instruction_sets_change_nothing(void **state) {
    (void)state;
    static const char *const isas[] = {"scalar", "avx2", "avx512"};
    for (int family = MODEL_QWEN2; family < FAMILY_COUNT; family++) {
        Arena arena = {0};
        Samples first = {0};
        for (int i = 0; i < 3; i++)
            for (int threads = 1; threads <= (i == 1 && family < MODEL_MISTRAL ? 3 : 1); threads++) {
                Error error;
                Ops probe;
                OpsOptions options = {.threads = threads, .isa = isas[i]};
                if (!ops_open(&probe, options, &error)) continue; // this CPU lacks it
                ops_close(&probe);
                TinyModel model;
                tiny_model_open(&model, (ModelFamily)family, precisions[(family + 1) % PRECISIONS], options, ROWS);
                GenerationOptions generation = engine_setup_options();
                Samples samples = engine_setup_usual(&model, &generation, &arena);
                if (!first.count) first = samples;
                engine_setup_same(&first, &samples);
                tiny_model_close(&model);
            }
        arena_close(&arena);
    }
}

// A prompt alone, and among 1, 6 and 63 others, first or last.
static void test_company_changes_nothing(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 7, 64};
    for (int precision = 0; precision < PRECISIONS; precision++) {
        Arena arena = {0};
        TinyModel model;
        tiny_model_open(&model, MODEL_LLAMA, precisions[precision], one_thread, ROWS);
        GenerationOptions options = engine_setup_options();
        Samples alone = {0};
        for (int s = 0; s < 4; s++)
            for (int64_t place = 0; place<sizes[s]; place += sizes[s]> 1 ? sizes[s] - 1 : 1) {
                EngineRequest requests[64], base[PROMPTS];
                engine_setup_requests(base, &arena);
                for (int32_t i = 0; i < sizes[s]; i++) {
                    requests[i] = base[i % PROMPTS];
                    requests[i].prompt = 5000 + i;
                    requests[i].samples = 1 + i % 2;
                }
                requests[place] = base[4];
                requests[place].prompt = 42; // the least: first in Samples
                requests[place].samples = 2;
                Samples samples = engine_setup_generate(&model, &options, requests, sizes[s], NULL, &arena);
                if (s == 0) alone = samples;
                assert_int_equal(alone.count, 2);
                samples.count = 2;
                engine_setup_same(&alone, &samples);
            }
        tiny_model_close(&model);
        arena_close(&arena);
    }
}

static void test_order_of_requests_changes_nothing(void **state) {
    (void)state;
    Arena arena = {0};
    TinyModel model;
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    GenerationOptions options = engine_setup_options();
    options.max_sequences = 3;
    Samples first = engine_setup_usual(&model, &options, &arena);
    EngineRequest requests[PROMPTS], turned[PROMPTS];
    engine_setup_requests(requests, &arena);
    for (int i = 0; i < PROMPTS; i++) turned[i] = requests[(i * 5 + 3) % PROMPTS];
    Samples second = engine_setup_generate(&model, &options, turned, PROMPTS, NULL, &arena);
    engine_setup_same(&first, &second);
    tiny_model_close(&model);
    arena_close(&arena);
}

// ---- pages

// A cache so small that samples wait for pages, down to the smallest that holds any of them.
static void test_small_cache_only_delays(void **state) {
    (void)state;
    Arena arena = {0};
    TinyModel model;
    tiny_model_open(&model, MODEL_QWEN2, bf16, one_thread, ROWS);
    GenerationOptions options = engine_setup_options();
    Samples first = engine_setup_usual(&model, &options, &arena);
    for (int64_t pages = 4; pages <= 20; pages += 4) { // 60 tokens are 4 pages
        options.kv_cache_tokens = pages * KV_PAGE_TOKENS;
        options.prefill_chunk = pages == 12 ? 7 : 64;
        Samples samples = engine_setup_usual(&model, &options, &arena);
        engine_setup_same(&first, &samples);
    }
    tiny_model_close(&model);
    arena_close(&arena);
}

static void test_samples_share_the_pages_of_their_prompt(void **state) {
    (void)state;
    Error error;
    Engine *engine;
    TinyModel model;
    int32_t ids[40] = {0};
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    GenerationOptions options = engine_setup_options();
    options.max_new_tokens = 8;
    options.ignore_eos = true;
    assert_true(engine_open(&engine, &model.resident, &options, engine_setup_stops, &error));
    EngineRequest request = {.ids = ids, .count = 40, .samples = 6};
    assert_true(engine_start(engine, &request, 1, engine_setup_run, &error));
    assert_true(engine_step(engine));
    // Two full pages shared; the third, half filled, six times (the last sample has the original). 47 tokens are 3 pages.
    EngineCounts counts = engine_counts(engine);
    assert_int_equal(counts.pages - counts.free_pages, 2 + 6);
    assert_int_equal(counts.prompt_tokens, 40); // walked once
    assert_int_equal(counts.answer_tokens, 6);  // from the prompt's last row
    while (engine_step(engine)) {
    }
    assert_int_equal(engine_counts(engine).free_pages, counts.pages);
    engine_close(engine);
    tiny_model_close(&model);
}

// What freed pages still hold is never read: here NaN everywhere.
static void test_garbage_in_pages_is_harmless(void **state) {
    (void)state;
    for (int precision = 0; precision < PRECISIONS; precision++) {
        TinyModel model;
        tiny_model_open(&model, MODEL_LLAMA, precisions[precision], one_thread, ROWS);
        Ops *ops = &model.ops;
        KvCache cache = kv_cache_open(ops, MEMORY_KV_CACHE, &model.architecture, model.resident.policy.compute, 12);
        Tensor logits = DEVICE_TENSOR(&ops->device, MEMORY_LOGITS, DTYPE_F32, 1, TINY_VOCABULARY);
        int32_t ids[37] = {1, 2, 3};
        float clean[TINY_VOCABULARY];
        plain_logits(&model, &cache, &logits, ids, 37);
        memcpy(clean, logits.data, sizeof clean);
        for (int layer = 0; layer < cache.layer_count; layer++) {
            memset(cache.layers[layer].keys.data, 0xff, tensor_bytes(&cache.layers[layer].keys));
            memset(cache.layers[layer].values.data, 0xff, tensor_bytes(&cache.layers[layer].values));
        }
        plain_logits(&model, &cache, &logits, ids, 37);
        engine_setup_same_floats(logits.data, clean, TINY_VOCABULARY);
        device_release(&ops->device, &logits);
        kv_cache_close(ops, &cache);
        tiny_model_close(&model);
    }
}

// ---- ends of answers

static void test_stop_ids(void **state) {
    (void)state;
    Arena arena = {0};
    TinyModel model;
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    GenerationOptions options = engine_setup_options();
    options.ignore_eos = true;
    Samples endless = engine_setup_usual(&model, &options, &arena);
    bool seen = false;
    for (int64_t b = 0; b < endless.count; b++) {
        int64_t limit = endless.prompt_length[b] + options.max_new_tokens;
        assert_int_equal(endless.finish[b], FINISH_LENGTH);
        assert_int_equal(endless.offset[b + 1] - endless.offset[b], limit < 60 ? limit : 60);
        for (int64_t t = endless.offset[b] + endless.prompt_length[b]; t < endless.offset[b + 1]; t++)
            seen = seen || endless.ids[t] == engine_setup_stops.ids[0] || endless.ids[t] == engine_setup_stops.ids[1];
    }
    assert_true(seen); // and was gone past

    // Own stop ids are taken although the model's are ignored: one that ends an answer with its last token, one that ends another at once.
    options.stop_count = 2;
    options.stop_ids[0] = endless.ids[endless.offset[1] - 1];
    options.stop_ids[1] = endless.ids[endless.offset[5] + endless.prompt_length[5]];
    Samples stopped = engine_setup_usual(&model, &options, &arena);
    for (int64_t b = 0; b < stopped.count; b++) {
        int64_t start = endless.offset[b], t = start + endless.prompt_length[b], end = endless.offset[b + 1];
        while (t < end && endless.ids[t] != options.stop_ids[0] && endless.ids[t] != options.stop_ids[1]) t++;
        int64_t length = (t < end ? t + 1 : end) - start;
        assert_int_equal(stopped.finish[b], t < end ? FINISH_STOP : FINISH_LENGTH);
        assert_int_equal(stopped.stopped_by[b], t < end ? endless.ids[t] : -1);
        assert_int_equal(stopped.offset[b + 1] - stopped.offset[b], length);
        assert_memory_equal(stopped.ids + stopped.offset[b], endless.ids + start, (size_t)length * sizeof *endless.ids);
        engine_setup_same_floats(stopped.generation_logprobs + stopped.offset[b], endless.generation_logprobs + start,
                                 length);
    }
    // They are added to the model's.
    options.ignore_eos = false;
    options.stop_count = 0;
    Samples usual = engine_setup_usual(&model, &options, &arena);
    options.stop_count = 2;
    Samples both = engine_setup_usual(&model, &options, &arena);
    for (int64_t b = 0; b < both.count; b++) {
        int64_t of_model = usual.offset[b + 1] - usual.offset[b], own = stopped.offset[b + 1] - stopped.offset[b];
        const Samples *first = own < of_model || stopped.finish[b] == FINISH_STOP ? &stopped : &usual;
        if (of_model < own) first = &usual;
        assert_int_equal(both.offset[b + 1] - both.offset[b], own < of_model ? own : of_model);
        assert_int_equal(both.finish[b], first->finish[b]);
        assert_int_equal(both.stopped_by[b], first->stopped_by[b]);
    }
    assert_int_equal(stopped.finish[0], FINISH_STOP);
    assert_int_equal(stopped.offset[6] - stopped.offset[5], stopped.prompt_length[5] + 1);
    tiny_model_close(&model);
    arena_close(&arena);
}

static void test_one_token_answers_and_no_requests(void **state) {
    (void)state;
    Arena arena = {0};
    TinyModel model;
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    GenerationOptions options = engine_setup_options();
    Samples full = engine_setup_usual(&model, &options, &arena);
    options.max_new_tokens = 1;
    for (int64_t sequences = 1; sequences <= 4; sequences += 3) {
        options.max_sequences = sequences;
        Samples samples = engine_setup_usual(&model, &options, &arena);
        assert_int_equal(samples.count, full.count);
        for (int64_t b = 0; b < samples.count; b++) {
            int64_t last = samples.offset[b + 1] - 1, of_full = full.offset[b] + full.prompt_length[b];
            assert_int_equal(last - samples.offset[b], samples.prompt_length[b]);
            assert_int_equal(samples.ids[last], full.ids[of_full]);
            engine_setup_same_floats(&samples.generation_logprobs[last], &full.generation_logprobs[of_full], 1);
        }
    }
    Samples none = engine_setup_generate(&model, &options, NULL, 0, NULL, &arena);
    assert_int_equal(none.count, 0);
    assert_int_equal(none.offset[0], 0);
    tiny_model_close(&model);
    arena_close(&arena);
}

// ---- runs

static void test_coordinates_make_the_numbers(void **state) {
    (void)state;
    Error error;
    Engine *engine;
    TinyModel model;
    Arena arena = {0};
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    GenerationOptions options = engine_setup_options();
    assert_true(engine_open(&engine, &model.resident, &options, (EngineStops){0}, &error));
    EngineRequest requests[PROMPTS];
    engine_setup_requests(requests, &arena);
    EngineRun runs[] = {engine_setup_run, engine_setup_run, engine_setup_run, engine_setup_run, engine_setup_run};
    runs[1].seed++;
    runs[2].step++;
    runs[3].purpose = RNG_VALIDATE_TOKEN;
    Samples samples[5];
    for (int i = 0; i < 5; i++) {
        assert_true(engine_start(engine, requests, PROMPTS, runs[i], &error));
        // A run that is broken off leaves nothing behind.
        if (i == 4) {
            engine_step(engine);
            engine_step(engine);
            assert_true(engine_start(engine, requests, PROMPTS, runs[i], &error));
        }
        while (engine_step(engine)) {
        }
        engine_collect(engine, &samples[i], &arena);
    }
    engine_setup_same(&samples[0], &samples[4]);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(samples[i].offset[samples[i].count], samples[0].offset[samples[0].count]); // nobody stops
        assert_memory_not_equal(samples[i].ids, samples[0].ids, (size_t)samples[0].offset[samples[0].count] * 4);
    }
    // The samples of a prompt differ from each other.
    assert_int_equal(samples[0].prompt[1], samples[0].prompt[2]);
    assert_memory_not_equal(samples[0].ids + samples[0].offset[2] - 20, samples[0].ids + samples[0].offset[3] - 20, 80);
    engine_close(engine);
    tiny_model_close(&model);
    arena_close(&arena);
}

static void test_answers_can_be_read_while_they_grow(void **state) {
    (void)state;
    Error error;
    Engine *engine;
    TinyModel model;
    Arena arena = {0};
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    GenerationOptions options = engine_setup_options();
    options.ignore_eos = true;
    assert_true(engine_open(&engine, &model.resident, &options, engine_setup_stops, &error));
    EngineRequest request = {.ids = (int32_t[]){5, 6, 7}, .count = 3, .samples = 2};
    assert_true(engine_start(engine, &request, 1, engine_setup_run, &error));
    int64_t expected = 1;
    EngineAnswer answer = engine_answer(engine, 0, 1);
    const int32_t *ids = answer.ids;
    const float *logprobs = answer.logprobs;
    int32_t seen[20];
    assert_int_equal(answer.count, 0);
    for (bool more = true; more; expected++) {
        assert_false(answer.finished);
        more = engine_step(engine);
        answer = engine_answer(engine, 0, 1);
        assert_ptr_equal(answer.ids, ids);
        assert_ptr_equal(answer.logprobs, logprobs);
        assert_int_equal(answer.count, expected);
        assert_true(logprobs[expected - 1] < 0);
        seen[expected - 1] = ids[expected - 1];
        assert_int_equal(engine_counts(engine).answer_tokens, 2 * expected);
    }
    assert_int_equal(answer.count, 20);
    assert_true(answer.finished && answer.finish == FINISH_LENGTH && answer.stopped_by == -1);
    assert_memory_equal(seen, ids, 20 * sizeof *seen);
    assert_false(engine_step(engine));
    engine_close(engine);
    tiny_model_close(&model);
    arena_close(&arena);
}

// A model whose numbers are lost draws nothing, and each sample says so.
static void test_a_broken_model_ends_its_samples(void **state) {
    (void)state;
    static const float wrong[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 6; i++) {
        TinyModel model;
        Arena arena = {0};
        tiny_model_open(&model, MODEL_QWEN2, bf16, one_thread, ROWS);
        Tensor panels = model.resident.head.panels; // the embeddings too: the head is tied
        for (int64_t k = 0; k < tensor_count(&panels); k++) dtype_store(panels.data, DTYPE_BF16, k, wrong[i / 2]);
        GenerationOptions options = engine_setup_options();
        options.temperature = i % 2;
        EngineRequest requests[PROMPTS];
        engine_setup_requests(requests, &arena);
        EngineCounts counts;
        Samples samples = engine_setup_generate(&model, &options, requests, PROMPTS, &counts, &arena);
        assert_int_equal(counts.nan, samples.count);
        for (int64_t b = 0; b < samples.count; b++) {
            assert_int_equal(samples.finish[b], FINISH_NAN);
            assert_int_equal(samples.offset[b + 1] - samples.offset[b], samples.prompt_length[b]);
        }
        tiny_model_close(&model);
        arena_close(&arena);
    }
}

// One sample's numbers overflow: it ends where they do, and its neighbours go on as they would without it.
static void test_a_lost_sample_leaves_the_others_alone(void **state) {
    (void)state;
    TinyModel model;
    Arena arena = {0};
    tiny_model_open(&model, MODEL_LLAMA, fp32, one_thread, ROWS);
    GenerationOptions options = engine_setup_options();
    Samples whole = engine_setup_usual(&model, &options, &arena);
    // The embedding of an id that some answers come to: from there on there are no numbers.
    int32_t poison = whole.ids[whole.offset[3] - 5];
    float *embedding = model.resident.embedding_VD.data;
    embedding[poison * 40] = INFINITY;
    EngineRequest requests[PROMPTS];
    EngineCounts counts;
    engine_setup_requests(requests, &arena);
    Samples samples = engine_setup_generate(&model, &options, requests, PROMPTS, &counts, &arena);
    int64_t lost = 0;
    for (int64_t b = 0; b < samples.count; b++) {
        int64_t start = whole.offset[b], end = start, given = start + whole.prompt_length[b];
        while (end < whole.offset[b + 1] && whole.ids[end] != poison) end++;
        if (end < given) end = given - 1; // in the prompt: nothing is drawn
        bool cut = end + 1 < whole.offset[b + 1];
        int64_t length = cut ? end + 1 - start : whole.offset[b + 1] - start;
        lost += cut;
        assert_int_equal(samples.offset[b + 1] - samples.offset[b], length);
        assert_memory_equal(samples.ids + samples.offset[b], whole.ids + start, (size_t)length * sizeof *whole.ids);
        engine_setup_same_floats(samples.generation_logprobs + samples.offset[b], whole.generation_logprobs + start,
                                 length);
        assert_int_equal(samples.finish[b], cut ? FINISH_NAN : whole.finish[b]);
    }
    assert_in_range(lost, 1, samples.count - 1);
    assert_int_equal(counts.nan, lost);
    tiny_model_close(&model);
    arena_close(&arena);
}

// The plan device makes the same allocations as a run in which every answer reaches its limit.
static void test_plan_takes_the_same_memory(void **state) {
    (void)state;
    TinyModel models[2];
    Arena arena = {0};
    GenerationOptions options = engine_setup_options();
    options.ignore_eos = true;
    for (int i = 0; i < 2; i++) {
        tiny_model_open(&models[i], MODEL_LLAMA, bf16,
                        (OpsOptions){.threads = 1, .device = i ? DEVICE_PLAN : DEVICE_CPU}, ROWS);
        models[i].ops.device.ledger.record = true;
        engine_setup_usual(&models[i], &options, &arena);
    }
    const Ledger *real = &models[0].ops.device.ledger, *planned = &models[1].ops.device.ledger;
    assert_true(real->event_count > 4);
    assert_int_equal(real->event_count, planned->event_count);
    for (size_t i = 0; i < real->event_count; i++) {
        assert_int_equal(real->events[i].tag, planned->events[i].tag);
        assert_int_equal(real->events[i].bytes, planned->events[i].bytes);
    }
    assert_true(real->tag_peak[MEMORY_LOGITS] > 0 && real->tag_peak[MEMORY_KV_CACHE] > 0);
    // Nothing is drawn there, so nothing stops.
    options.stop_count = 1; // the id 0
    Samples samples = engine_setup_usual(&models[1], &options, &arena);
    for (int64_t b = 0; b < samples.count; b++) assert_int_equal(samples.finish[b], FINISH_LENGTH);
    for (int i = 0; i < 2; i++) tiny_model_close(&models[i]);
    arena_close(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers_are_those_of_the_plain_road),
        cmocka_unit_test(test_batch_size_chunk_and_rows_change_nothing),
        cmocka_unit_test(test_threads_and_instruction_sets_change_nothing),
        cmocka_unit_test(test_company_changes_nothing),
        cmocka_unit_test(test_order_of_requests_changes_nothing),
        cmocka_unit_test(test_small_cache_only_delays),
        cmocka_unit_test(test_samples_share_the_pages_of_their_prompt),
        cmocka_unit_test(test_garbage_in_pages_is_harmless),
        cmocka_unit_test(test_stop_ids),
        cmocka_unit_test(test_one_token_answers_and_no_requests),
        cmocka_unit_test(test_coordinates_make_the_numbers),
        cmocka_unit_test(test_answers_can_be_read_while_they_grow),
        cmocka_unit_test(test_a_broken_model_ends_its_samples),
        cmocka_unit_test(test_a_lost_sample_leaves_the_others_alone),
        cmocka_unit_test(test_plan_takes_the_same_memory),
    };
    return cmocka_run_group_tests_name("engine", tests, NULL, NULL);
}
