// Properties of the optimizer step: its sum over micro-batches; head chunks, recomputation, threads and instruction sets change no bit,
// and the output dtype acts where the contract says.
#include "support/family.h"
#include "support/model_setup.h"
#include "support/toy_batch.h"
#include "train/update.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static char folder[FAMILY_COUNT][FAMILY_PATH];

static Architecture tiny(ModelFamily family, bool tied) {
    Architecture architecture = {.vocab_size = 131,
                                 .hidden_size = 48,
                                 .intermediate_size = 80,
                                 .layer_count = 3,
                                 .query_heads = 6,
                                 .kv_heads = 2,
                                 .head_dim = 8,
                                 .max_positions = 128,
                                 .rms_norm_eps = 1e-5f,
                                 .tied_head = tied,
                                 .bos_id = -1,
                                 .eos_ids = {2},
                                 .eos_count = 1};
    family_apply(&architecture, family);
    return architecture;
}

static int setup_models(void **state) {
    (void)state;
    const Architecture sizes = tiny(MODEL_LLAMA, true);
    return family_write_models(folder, "walk", &sizes);
}

static int remove_models(void **state) {
    (void)state;
    family_remove_models(folder);
    return 0;
}

enum { SEQUENCES = 7, LONGEST = TOY_BATCH_LONGEST };

static TrainBatch make_data(ToyBatch *data) {
    TrainBatch batch = toy_batch(data, (ToyBatchShape){SEQUENCES, 5, 36, 3, -4.5f});
    for (int b = 0; b < SEQUENCES; b++)
        for (int64_t at = data->offset[b]; at < data->offset[b + 1]; at++)
            data->ids[at] = (int32_t)((at * 37 + b * 11) % 131);
    return batch;
}

typedef struct Variant {
    PrecisionPolicy policy;
    BatchingOptions batching; // max_tokens 0: micro_batch_size
    int64_t micro_batch_size, head_chunk;
    WalkCheckpointing checkpointing;
    OpsOptions ops;
    SoftmaxFilter filter;
    void (*loss)(LossOptions *options); // NULL: the default loss
} Variant;

static const Variant plain = {.policy = {DTYPE_F32, DTYPE_F32},
                              .micro_batch_size = SEQUENCES,
                              .head_chunk = 1000,
                              .ops = {.threads = 1},
                              .filter = {.temperature = 1, .top_p = 1}};

// All weights after two optimizer steps, appended to *weights; returns the last step's result.
static UpdateResult train(int model, Variant variant, StrBuf *weights) {
    Error error = {0};
    ModelSetup setup;
    if (!model_setup_open(&setup, folder[model], variant.policy, variant.ops, 8, 128, &error))
        fail_msg("%s", error.text);
    setup.walk.options.activation_checkpointing = variant.checkpointing;
    ToyBatch data;
    TrainBatch batch = make_data(&data);
    LossOptions loss = loss_options_default();
    if (variant.loss) variant.loss(&loss);
    if (!loss_options_check(&loss, &error)) fail_msg("%s", error.text);
    UpdateOptions options = {.batching = variant.batching,
                             .head_chunk = variant.head_chunk,
                             .filter = variant.filter,
                             .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .max_grad_norm = 1},
                             .lr = 1e-3};
    if (!options.batching.max_tokens) options.batching.micro_batch_size = variant.micro_batch_size;
    UpdateResult result = {0};
    for (int step = 0; step < 2; step++) update_policy(&result, &setup.walk, &batch, &loss, &options, NULL, NULL);
    for (int unit = 0; unit < setup.parameters->unit_count; unit++)
        strbuf_append(weights, setup.shards.weight[unit].data, tensor_bytes(&setup.shards.weight[unit]));
    assert_true(isfinite(result.grad_norm) && result.grad_norm > 0);
    assert_int_equal(setup.ops.device.ledger.live[MEMORY_ACTIVATION], 0);
    assert_int_equal(setup.ops.device.ledger.live[MEMORY_GRADIENT_SHARD], 0);
    assert_int_equal(setup.ops.device.ledger.live[MEMORY_LOGITS], 0);
    model_setup_close(&setup);
    return result;
}

static void same(int model, Variant a, Variant b, bool equal) {
    StrBuf one = {0}, other = {0};
    UpdateResult first = train(model, a, &one), second = train(model, b, &other);
    assert_int_equal(one.length, other.length);
    assert_int_equal(memcmp(one.text, other.text, one.length) == 0, equal);
    if (equal) {
        assert_memory_equal(&first.metrics, &second.metrics, sizeof first.metrics);
        assert_true(first.grad_norm == second.grad_norm);
    }
    strbuf_close(&one);
    strbuf_close(&other);
}

static const PrecisionPolicy policies[] = {{DTYPE_F32, DTYPE_F32},  {DTYPE_F32, DTYPE_BF16},  {DTYPE_F32, DTYPE_F16},
                                           {DTYPE_BF16, DTYPE_F32}, {DTYPE_BF16, DTYPE_BF16}, {DTYPE_BF16, DTYPE_F16},
                                           {DTYPE_F16, DTYPE_F32},  {DTYPE_F16, DTYPE_BF16},  {DTYPE_F16, DTYPE_F16}};
enum { POLICIES = sizeof policies / sizeof *policies };

// The gradients of a batch, in the shards' order, appended to *gradients: of the whole, or of the micro-batches of `size`.
static void gradients_of(ModelSetup *setup, int64_t size, StrBuf *gradients, bool each_alone) {
    ToyBatch data;
    TrainBatch all = make_data(&data);
    LossCounts counts = batch_counts(&all);
    Walk *walk = &setup->walk;
    for (int64_t first = 0; first < SEQUENCES; first += size) {
        Arena arena = {0};
        MicroBatch micro = batch_micro(&all, first, SEQUENCES - first < size ? SEQUENCES - first : size, &arena);
        if (first == 0 || each_alone) walk_begin(walk, data.ids, data.offset[SEQUENCES]);
        if (micro.loss_count) {
            int64_t N = micro.loss_count, V = setup->architecture->vocab_size;
            Tensor logits = DEVICE_TENSOR_RAW(&setup->ops.device, MEMORY_LOGITS, DTYPE_F32, N, V);
            SoftmaxRow *rows = arena_array(&arena, SoftmaxRow, N);
            float *dlogprob = arena_array(&arena, float, N);
            for (int64_t i = 0; i < N; i++) dlogprob[i] = (float)(-1 / counts.valid_toks);
            walk_forward(walk, &micro.tokens, micro.page_count);
            walk_head_open(walk, micro.loss_rows, N);
            walk_head_forward(walk, &logits, 0);
            softmax_rows(&setup->ops, rows, &logits, V, plain.filter);
            softmax_backward(&setup->ops, &logits, rows, NULL, micro.loss_targets, dlogprob, NULL, V, plain.filter);
            walk_head_backward(walk, &logits, 0);
            walk_head_close(walk);
            walk_backward(walk);
            device_release(&setup->ops.device, &logits);
        }
        if (first + size >= SEQUENCES || each_alone) {
            walk_end(walk);
            for (int unit = 0; unit < setup->parameters->unit_count; unit++)
                strbuf_append(gradients, setup->shards.gradient[unit].data,
                              tensor_bytes(&setup->shards.gradient[unit]));
            shard_gradients_close(&setup->shards);
        }
        arena_close(&arena);
    }
}

// The gradient of a global batch is the sum of its micro-batches' own, in their order; nothing of one goes on in the next.
// (The embedding's rows are summed token by token over all of them, so that model has a head of its own.)
static void gradients_are_sums_over_micro_batches(void **state) {
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        Error error = {0};
        ModelSetup setup;
        StrBuf found = {0}, parts = {0};
        if (!model_setup_open(&setup, folder[MODEL_QWEN2], policies[p], plain.ops, 8, 128, &error))
            fail_msg("%s", error.text);
        gradients_of(&setup, 2, &found, false);
        gradients_of(&setup, 2, &parts, true);
        int root = setup.parameters->unit_count - 1;
        int64_t count = (int64_t)found.length / 4, of_embedding = 131 * 48, before_root = 0;
        for (int unit = 0; unit < root; unit++) before_root += setup.parameters->unit_sizes[unit];
        for (int64_t i = 0; i < count; i++) {
            if (i >= before_root && i < before_root + of_embedding) continue;
            float sum = 0, whole = ((const float *)found.text)[i];
            for (int64_t part = 0; part < (int64_t)parts.length / 4 / count; part++)
                sum += ((const float *)parts.text)[part * count + i];
            if (sum != whole) fail_msg("element %lld: %.9g, not %.9g", (long long)i, (double)whole, (double)sum);
        }
        strbuf_close(&found);
        strbuf_close(&parts);
        model_setup_close(&setup);
    }
}

static BatchingOptions in_order(int64_t tokens) {
    return (BatchingOptions){.mode = BATCHING_PACKED,
                             .max_tokens = tokens,
                             .algorithm = PACKING_CONCATENATIVE,
                             .pad_multiple = 1};
}

// The cut is all that is in the bits: bins that hold what static micro-batches hold are the same step.
static void the_same_cut_is_the_same_step(void **state) {
    (void)state;
    for (int model = 0; model < 2; model++) {
        Variant packed = plain, single = plain;
        packed.batching = in_order(4 * LONGEST * SEQUENCES);
        same(model, plain, packed, true);
        packed.batching = in_order(LONGEST);
        single.micro_batch_size = 2;
        same(model, single, packed, false);
    }
}

// Another order of summation is all that the other algorithms bring: the same loss and norm to rounding, and the same bits
// with any threads and instruction set.
static void packing_and_dynamic_batching_are_the_same_step(void **state) {
    (void)state;
    BatchingOptions ways[] = {
        {.mode = BATCHING_PACKED,
         .max_tokens = 64,
         .algorithm = PACKING_MODIFIED_FIRST_FIT_DECREASING,
         .pad_multiple = 1},
        {.mode = BATCHING_PACKED, .max_tokens = 50, .algorithm = PACKING_FIRST_FIT_DECREASING, .pad_multiple = 1},
        {.mode = BATCHING_PACKED,
         .max_tokens = 70,
         .algorithm = PACKING_FIRST_FIT_SHUFFLE,
         .pad_multiple = 1,
         .seed = 4},
        {.mode = BATCHING_DYNAMIC, .max_tokens = 80, .length_round = 16},
    };
    StrBuf ignored = {0};
    UpdateResult expected = train(0, plain, &ignored);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        Variant packed = plain, other = plain;
        packed.batching = other.batching = ways[w];
        other.ops.threads = 3;
        other.ops.isa = "scalar";
        other.head_chunk = 9;
        same(0, packed, other, true);
        UpdateResult found = train(0, packed, &ignored);
        assert_true(fabs(found.metrics.loss - expected.metrics.loss) < 1e-6 * (1 + fabs(expected.metrics.loss)));
        assert_true(fabs(found.grad_norm - expected.grad_norm) < 1e-5 * expected.grad_norm);
        assert_true(found.global_valid_toks == expected.global_valid_toks);
    }
    strbuf_close(&ignored);
}

static void head_chunks_change_no_bit(void **state) {
    (void)state;
    for (int64_t chunk = 1; chunk < 80; chunk += 33) {
        Variant cut = plain, whole = plain;
        cut.head_chunk = chunk;
        cut.micro_batch_size = whole.micro_batch_size = chunk % 2 ? SEQUENCES : 3;
        for (int model = (int)chunk % 2; model < FAMILY_COUNT; model += 2) same(model, whole, cut, true);
    }
}

// ---- losses over whole sequences

static void mean_over_sequences(LossOptions *options) {
    options->token_level_loss = false;
}

static void gspo(LossOptions *options) {
    options->token_level_loss = false;
    options->sequence_level_importance_ratios = true;
    options->use_importance_sampling_correction = true;
}

static void masked_sequences(LossOptions *options) {
    options->force_on_policy_ratio = true; // the weights are of this walk's log-probs
    options->use_importance_sampling_correction = true;
    options->truncated_importance_sampling_type = "seq-mask-tis";
    options->truncated_importance_sampling_ratio = 2;
    options->truncated_importance_sampling_ratio_min = 0.6;
}

static void positive_examples(LossOptions *options) {
    options->positive_example_nll_weight = 0.1;
}

static void losses_over_sequences_depend_on_no_cut(void **state) {
    (void)state;
    void (*const losses[])(LossOptions *) = {mean_over_sequences, gspo, masked_sequences, positive_examples};
    StrBuf unlike = {0};
    train(0, plain, &unlike);
    for (int i = 0; i < 4; i++) {
        StrBuf expected = {0};
        Variant whole = plain;
        whole.loss = losses[i];
        if (i % 2) whole.filter = (SoftmaxFilter){.temperature = 0.7f, .top_p = 0.9f};
        UpdateResult all = train(0, whole, &expected);
        assert_memory_not_equal(expected.text, unlike.text, unlike.length);
        // Chunks of 7 rows end inside of sequences, and sequences inside of chunks.
        for (int64_t size = 1; size <= SEQUENCES; size += 3) {
            StrBuf found = {0};
            Variant cut = whole;
            cut.micro_batch_size = size;
            cut.head_chunk = 7;
            UpdateResult part = train(0, cut, &found);
            if (size == SEQUENCES) {
                assert_memory_equal(found.text, expected.text, expected.length);
                assert_memory_equal(&part.metrics, &all.metrics, sizeof all.metrics);
            }
            assert_true(fabs(part.metrics.loss - all.metrics.loss) < 1e-5 * (1 + fabs(all.metrics.loss)));
            assert_true(fabs(part.grad_norm - all.grad_norm) < 1e-4 * all.grad_norm);
            strbuf_close(&found);
        }
        strbuf_close(&expected);
    }
    strbuf_close(&unlike);
}

// The account of a GSPO step: logits of one chunk only, although the head is walked twice.
static void sequences_keep_no_logits(void **state) {
    (void)state;
    int64_t peak[2];
    for (int i = 0; i < 2; i++) {
        Error error = {0};
        ModelSetup setup;
        if (!model_setup_open(&setup, folder[0], policies[0], plain.ops, 8, 128, &error)) fail_msg("%s", error.text);
        ToyBatch data;
        TrainBatch batch = make_data(&data);
        LossOptions loss = loss_options_default();
        if (i) gspo(&loss);
        UpdateOptions options = {.batching = {.micro_batch_size = 3},
                                 .head_chunk = 5,
                                 .filter = plain.filter,
                                 .lr = 1e-3};
        UpdateResult result;
        update_policy(&result, &setup.walk, &batch, &loss, &options, NULL, NULL);
        peak[i] = (int64_t)setup.ops.device.ledger.tag_peak[MEMORY_LOGITS];
        model_setup_close(&setup);
    }
    assert_true(peak[0] < 6 * 131 * 4 && peak[1] == peak[0]);
}

// Keeping all takes most, then all but gate·up, then block inputs alone.
static void recomputation_saves_memory(void **state) {
    (void)state;
    static const WalkCheckpointing order[] = {WALK_KEEPS_ALL, WALK_KEEPS_ATTENTION, WALK_KEEPS_INPUTS};
    uint64_t last = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        Error error = {0};
        ModelSetup setup;
        if (!model_setup_open(&setup, folder[0], policies[0], plain.ops, 8, 128, &error)) fail_msg("%s", error.text);
        setup.walk.options.activation_checkpointing = order[i];
        ToyBatch data;
        TrainBatch batch = make_data(&data);
        LossOptions loss = loss_options_default();
        UpdateOptions options = {.batching = {.micro_batch_size = SEQUENCES},
                                 .head_chunk = 5,
                                 .filter = plain.filter,
                                 .lr = 1e-3};
        UpdateResult result;
        update_policy(&result, &setup.walk, &batch, &loss, &options, NULL, NULL);
        uint64_t peak = setup.ops.device.ledger.tag_peak[MEMORY_ACTIVATION];
        if (peak >= last) fail_msg("%llu bytes, %llu before", (unsigned long long)peak, (unsigned long long)last);
        last = peak;
        model_setup_close(&setup);
    }
}

static void recomputation_changes_no_bit(void **state) {
    (void)state;
    for (int p = 0; p < POLICIES; p++) {
        Variant kept = plain, again = plain;
        kept.policy = again.policy = policies[p];
        kept.micro_batch_size = again.micro_batch_size = 3;
        again.checkpointing = WALK_KEEPS_INPUTS;
        same(p % FAMILY_COUNT, kept, again, true);
        again.checkpointing = WALK_KEEPS_ATTENTION;
        same(p % FAMILY_COUNT, kept, again, true);
    }
}

static void threads_and_isa_change_no_bit(void **state) {
    (void)state;
    const char *isas[] = {"scalar", "avx2", "avx512"};
    for (int i = 0; i < 3; i++) {
        Ops ops;
        Error error;
        if (!ops_open(&ops, (OpsOptions){.threads = 1, .isa = isas[i]}, &error)) continue; // not on this CPU
        ops_close(&ops);
        for (int model = i % 2; model < FAMILY_COUNT; model += 2) {
            Variant one = plain, other = plain;
            one.policy = other.policy = policies[(3 * model + model / 3) % POLICIES];
            other.ops = (OpsOptions){.threads = 1 + i, .isa = isas[i]};
            same(model, one, other, true);
        }
    }
}

static void output_dtype_acts(void **state) {
    (void)state;
    for (int compute = 0; compute < 3; compute++) {
        Variant one = plain, other = plain;
        one.policy = policies[3 * compute];
        other.policy = policies[3 * compute + 1];
        same(0, one, other, false);
        other.policy = policies[3 * compute + 2];
        same(1, one, other, false);
    }
}

static void filters_train(void **state) {
    (void)state;
    Variant one = plain, other = plain;
    one.filter = other.filter = (SoftmaxFilter){.temperature = 0.7f, .top_p = 0.999f};
    one.micro_batch_size = other.micro_batch_size = 2;
    other.head_chunk = 5;
    same(0, one, other, true);
    same(0, plain, one, false);
}

// A gradient that float16 cannot hold is counted, and the step is left out.
static void lost_gradients_are_counted(void **state) {
    (void)state;
    Error error = {0};
    ModelSetup setup;
    if (!model_setup_open(&setup, folder[0], policies[5], plain.ops, 8, 128, &error)) fail_msg("%s", error.text);
    ToyBatch data;
    TrainBatch batch = make_data(&data);
    for (int64_t t = 0; t < data.offset[SEQUENCES]; t++) data.advantage[t] *= 1e9f;
    LossOptions loss = loss_options_default();
    UpdateOptions options = {.batching = {.micro_batch_size = SEQUENCES},
                             .head_chunk = 1000,
                             .filter = plain.filter,
                             .lr = 1e-3};
    UpdateResult result;
    StrBuf before = {0};
    Tensor *weight = &setup.shards.weight[0];
    strbuf_append(&before, weight->data, tensor_bytes(weight));
    update_policy(&result, &setup.walk, &batch, &loss, &options, NULL, NULL);
    assert_true(result.overflow.count > 0);
    assert_int_equal(result.nonfinite_gradients, 1);
    assert_int_equal(setup.shards.step, 0);
    assert_memory_equal(weight->data, before.text, before.length);
    strbuf_close(&before);
    model_setup_close(&setup);
}

// Also at the last boundary, where the head's gradient crosses.
static void lost_gradients_of_the_head_are_counted(void **state) {
    (void)state;
    Error error = {0};
    ModelSetup setup;
    Arena arena = {0};
    if (!model_setup_open(&setup, folder[0], policies[2], plain.ops, 8, 128, &error)) fail_msg("%s", error.text);
    ToyBatch data;
    TrainBatch batch = make_data(&data);
    MicroBatch micro = batch_micro(&batch, 0, 1, &arena);
    Walk *walk = &setup.walk;
    Device *device = &setup.ops.device;
    walk_begin(walk, data.ids, data.offset[SEQUENCES]);
    walk_forward(walk, &micro.tokens, micro.page_count);
    Tensor logits = DEVICE_TENSOR(device, MEMORY_LOGITS, DTYPE_F32, 1, 131);
    walk_head_open(walk, micro.loss_rows, 1);
    walk_head_forward(walk, &logits, 0);
    memset(logits.data, 0, tensor_bytes(&logits));
    ((float *)logits.data)[5] = 1e12f; // the gradient of one logit
    assert_int_equal(walk->overflow.count, 0);
    walk_head_backward(walk, &logits, 0);
    walk_head_close(walk);
    assert_in_range(walk->overflow.count, 1, 48);
    walk_drop(walk);
    walk_end(walk);
    shard_gradients_close(&setup.shards);
    device_release(device, &logits);
    model_setup_close(&setup);
    arena_close(&arena);
}

// The unit that lost values first is named, with what it would have handed on; the resident walk sees the same.
static void lost_outputs_name_their_unit(void **state) {
    (void)state;
    static const PrecisionPolicy narrow[] = {{DTYPE_F16, DTYPE_F32}, {DTYPE_F16, DTYPE_F16}, {DTYPE_BF16, DTYPE_F16}};
    for (int p = 0; p < 3; p++) {
        Error error = {0};
        ModelSetup setup;
        Arena arena = {0};
        if (!model_setup_open(&setup, folder[0], narrow[p], plain.ops, 64, 128, &error)) fail_msg("%s", error.text);
        Tensor *weight = &setup.shards.weight[1];
        Tensor down = shard_view(weight, parameters_find(setup.parameters, 1, PARAMETER_DOWN));
        for (int64_t i = 0; i < down.size[1]; i++) ((float *)down.data)[5 * down.size[1] + i] = 30000; // of column 5
        resident_load_unit(&setup.resident, 1, weight);
        ToyBatch data;
        TrainBatch batch = make_data(&data);
        MicroBatch micro = batch_micro(&batch, 0, 1, &arena);
        walk_begin(&setup.walk, data.ids, data.offset[SEQUENCES]);
        walk_forward(&setup.walk, &micro.tokens, micro.page_count);
        KvCache cache = kv_cache_open(&setup.ops, MEMORY_KV_CACHE, setup.architecture, narrow[p].compute, 8);
        resident_forward(&setup.resident, &cache, &micro.tokens);
        const Overflow *found[] = {&setup.walk.overflow, &setup.resident.overflow};
        for (int i = 0; i < 2; i++) {
            assert_int_equal(found[i]->unit, 1);
            assert_false(found[i]->backward);
            assert_in_range(found[i]->unit_count, 1, micro.tokens.count);
            assert_true(found[i]->count >= found[i]->unit_count);
            assert_true(found[i]->count == setup.walk.overflow.count);
        }
        char text[192];
        assert_true(setup.walk.overflow.largest > 65504);
        overflow_text(text, &setup.walk.overflow, setup.architecture->layer_count);
        assert_non_null(strstr(text, "the output of block 1"));
        assert_non_null(strstr(text, "before rounding"));
        walk_drop(&setup.walk);
        walk_end(&setup.walk);
        shard_gradients_close(&setup.shards);
        kv_cache_close(&setup.ops, &cache);
        model_setup_close(&setup);
        arena_close(&arena);
    }
}

// float16 gradients of many tokens' mean are as good as those of few: they travel as if the loss were a sum.
static void small_gradients_survive_float16(void **state) {
    (void)state;
    static const PrecisionPolicy narrow[] = {{DTYPE_F32, DTYPE_F32},
                                             {DTYPE_F16, DTYPE_F32},
                                             {DTYPE_F32, DTYPE_F16},
                                             {DTYPE_BF16, DTYPE_F16}};
    double norms[4];
    for (int i = 0; i < 4; i++) {
        Error error = {0};
        ModelSetup setup;
        if (!model_setup_open(&setup, folder[0], narrow[i], plain.ops, 8, 128, &error)) fail_msg("%s", error.text);
        ToyBatch data;
        TrainBatch batch = make_data(&data);
        for (int64_t t = 0; t < data.offset[SEQUENCES]; t++) data.advantage[t] *= 1e-4f;
        LossOptions loss = loss_options_default();
        loss.reference_policy_kl_penalty = 0;
        UpdateOptions options = {.batching = {.micro_batch_size = SEQUENCES},
                                 .head_chunk = 1000,
                                 .filter = plain.filter,
                                 .lr = 1e-3};
        UpdateResult result;
        update_policy(&result, &setup.walk, &batch, &loss, &options, NULL, NULL);
        norms[i] = result.grad_norm;
        model_setup_close(&setup);
    }
    for (int i = 1; i < 4; i++) assert_true(fabs(norms[i] / norms[0] - 1) < 0.01);
}

// Several optimizer steps of one rollout are reported as one.
static void steps_add_up(void **state) {
    (void)state;
    UpdateResult sum = update_none(), one = update_none(), other = update_none();
    one.metrics.loss = 1, one.metrics.probs_ratio_min = 0.5, one.metrics.probs_ratio_max = 1;
    other.metrics.loss = 4, other.metrics.probs_ratio_min = 0.75, other.metrics.probs_ratio_max = 2;
    one.global_valid_toks = 100, other.global_valid_toks = 50;
    one.global_valid_seqs = 8, other.global_valid_seqs = 7;
    one.grad_norm = 3, other.grad_norm = 5;
    one.overflow = (Overflow){.count = 2, .unit = 1}, other.filtered_tokens = 6, other.nonfinite_gradients = 1;
    update_add(&sum, &one);
    update_add(&sum, &other);
    assert_true(sum.global_valid_toks == 150);
    update_average(&sum, 2);
    assert_true(sum.metrics.loss == 2.5 && sum.metrics.probs_ratio_min == 0.5 && sum.metrics.probs_ratio_max == 2);
    assert_true(sum.global_valid_toks == 75 && sum.global_valid_seqs == 7.5 && sum.grad_norm == 5);
    assert_int_equal(sum.overflow.count, 2);
    assert_int_equal(sum.filtered_tokens, 6);
    assert_int_equal(sum.nonfinite_gradients, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_sums_over_micro_batches),
        cmocka_unit_test(the_same_cut_is_the_same_step),
        cmocka_unit_test(packing_and_dynamic_batching_are_the_same_step),
        cmocka_unit_test(head_chunks_change_no_bit),
        cmocka_unit_test(losses_over_sequences_depend_on_no_cut),
        cmocka_unit_test(sequences_keep_no_logits),
        cmocka_unit_test(recomputation_changes_no_bit),
        cmocka_unit_test(recomputation_saves_memory),
        cmocka_unit_test(threads_and_isa_change_no_bit),
        cmocka_unit_test(output_dtype_acts),
        cmocka_unit_test(filters_train),
        cmocka_unit_test(lost_gradients_are_counted),
        cmocka_unit_test(lost_gradients_of_the_head_are_counted),
        cmocka_unit_test(lost_outputs_name_their_unit),
        cmocka_unit_test(small_gradients_survive_float16),
        cmocka_unit_test(steps_add_up),
    };
    return cmocka_run_group_tests(tests, setup_models, remove_models);
}
