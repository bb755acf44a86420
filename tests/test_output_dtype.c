// What fsdp_output_dtype changes: where the first bit differs, and what it costs in memory, to the byte.
#include "support/family.h"
#include "support/walk_run.h"
#include "train/update.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

// A vocabulary so large that the step's peak is where its logits are; a number of tokens whose tensors are whole units of 64
// bytes, as the ledger counts.
enum { SEQUENCES = 5, LONGEST = 48, LAYERS = 3, VOCABULARY = 1031, HIDDEN = 48, FFN = 80 };

static char folder[FAMILY_COUNT][FAMILY_PATH];

static int setup_models(void **state) {
    (void)state;
    const Architecture sizes = {.vocab_size = VOCABULARY,
                                .hidden_size = HIDDEN,
                                .intermediate_size = FFN,
                                .layer_count = LAYERS,
                                .query_heads = 6,
                                .kv_heads = 2,
                                .head_dim = 8,
                                .max_positions = 128,
                                .rms_norm_eps = 1e-5f,
                                .bos_id = -1,
                                .eos_ids = {2},
                                .eos_count = 1};
    return family_write_models(folder, "output-dtype", &sizes);
}

static int remove_models(void **state) {
    (void)state;
    family_remove_models(folder);
    return 0;
}

static TrainBatch make_batch(Arena *arena) {
    int64_t *offset = arena_array(arena, int64_t, SEQUENCES + 1);
    int32_t *ids = arena_array(arena, int32_t, SEQUENCES * LONGEST);
    static const int lengths[SEQUENCES] = {9, 40, 31, 48, 32}; // 160 in all
    float *columns[4], *sample_mask = arena_array(arena, float, SEQUENCES);
    for (int i = 0; i < 4; i++) columns[i] = arena_array(arena, float, SEQUENCES *LONGEST);
    for (int b = 0; b < SEQUENCES; b++) {
        sample_mask[b] = 1;
        offset[b + 1] = offset[b] + lengths[b];
        for (int64_t t = offset[b]; t < offset[b + 1]; t++) {
            ids[t] = (int32_t)(t * 37 % VOCABULARY);
            columns[0][t] = t >= offset[b] + 3;
            columns[1][t] = -6.9f - 0.01f * (float)(t % 13);
            columns[2][t] = -7.0f - 0.02f * (float)(t % 7);
            columns[3][t] = (float)(b % 3) - 0.9f;
        }
    }
    return (TrainBatch){.count = SEQUENCES,
                        .offset = offset,
                        .ids = ids,
                        .mask = columns[0],
                        .sample_mask = sample_mask,
                        .generation = columns[1],
                        .reference = columns[2],
                        .advantage = columns[3]};
}

static void setup_open(ModelSetup *setup, int model, PrecisionPolicy policy, bool checkpointing) {
    Error error;
    if (!model_setup_open(setup, folder[model], policy, (OpsOptions){.threads = 1}, 8, 128, &error))
        fail_msg("%s", error.text);
    setup->walk.options.activation_checkpointing = checkpointing;
}

static const DType dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

// ---- bits

// float32 outputs against another dtype: blocks that compute in that dtype see nothing of it, and the first bit differs in the
// final norm; other blocks see it where they cast on entry.
static void the_first_difference_is_where_the_page_says(void **state) {
    (void)state;
    for (int model = 0; model < FAMILY_COUNT; model++)
        for (int compute = 0; compute < 3; compute++)
            for (int output = 1; output < 3; output++) {
                Arena arena = {0};
                WalkRun runs[2];
                int64_t elements;
                TrainBatch batch = make_batch(&arena);
                for (int i = 0; i < 2; i++) {
                    ModelSetup setup;
                    setup_open(&setup, model, (PrecisionPolicy){dtypes[compute], i ? dtypes[output] : DTYPE_F32},
                               false);
                    walk_run(&runs[i], &setup, &batch, 11, &arena);
                    assert_int_equal(runs[i].overflow.count, 0);
                    model_setup_close(&setup);
                }
                int first = walk_run_first_difference(&runs[0], &runs[1], &elements);
                assert_true(first >= 0);
                const WalkTensor *tensor = &runs[0].tensors[first];
                bool unseen = compute == output;
                assert_int_equal(tensor->unit, unseen ? LAYERS : 1);
                assert_string_equal(tensor->name, unseen ? "norm" : "x");
                assert_true(elements > 0 && elements <= tensor->count);
                // Rounded twice on the way in, few elements differ; rounded to fewer bits, most.
                if (!unseen) assert_int_equal(elements > tensor->count / 2, compute != 1);
                for (int i = 0; i < runs[0].count; i++)
                    assert_int_equal(runs[0].tensors[i].dtype, runs[1].tensors[i].dtype);
                arena_close(&arena);
            }
}

// The recomputed blocks obey the same policy: no bit of a log-probability or gradient tells.
static void recomputation_obeys_the_policy(void **state) {
    (void)state;
    for (int model = 0; model < FAMILY_COUNT; model++)
        for (int policy = model % 2; policy < 9; policy += 2) {
            Arena arena = {0};
            WalkRun runs[3]; // the last: of all blocks but one
            TrainBatch batch = make_batch(&arena);
            ModelSetup setup;
            setup_open(&setup, model, (PrecisionPolicy){dtypes[policy / 3], dtypes[policy % 3]}, false);
            for (int i = 0; i < 3; i++) {
                setup.walk.options.activation_checkpointing = i > 0;
                setup.walk.options.kept_blocks = i == 2;
                walk_run(&runs[i], &setup, &batch, 1000, &arena);
            }
            for (int i = 0; i < setup.parameters->count; i++) {
                const Parameter *parameter = &setup.parameters->items[i];
                int64_t count = parameter->rows * parameter->cols;
                for (int run = 1; run < 3; run++)
                    assert_int_equal(walk_run_differing(runs[0].gradients[i], runs[run].gradients[i], count), 0);
            }
            for (int b = 0; b < SEQUENCES; b++)
                assert_true(runs[0].losses[b] == runs[1].losses[b] && runs[0].losses[b] == runs[2].losses[b]);
            model_setup_close(&setup);
            arena_close(&arena);
        }
}

// ---- bytes

static int64_t live_walk_bytes(const ModelSetup *setup) {
    const Ledger *ledger = &setup->ops.device.ledger;
    return (int64_t)(ledger->live[MEMORY_ACTIVATION] + ledger->live[MEMORY_UNIT_OUTPUT]);
}

// What is alive between forward and head: what backward reads, in the compute dtype; of outputs the last alone. A checkpointed block keeps its input after the cast on entry, not what the block before handed on.
static void only_the_last_output_is_kept(void **state) {
    (void)state;
    for (int model = 0; model < FAMILY_COUNT; model++)
        for (int policy = 0; policy < 9; policy++)
            for (int keeping = LAYERS; keeping >= 0;
                 keeping -= keeping == LAYERS ? LAYERS - 1 : 1) { // blocks that keep all
                Arena arena = {0};
                ModelSetup setup;
                PrecisionPolicy dtype = {dtypes[policy / 3], dtypes[policy % 3]};
                setup_open(&setup, model, dtype, keeping < LAYERS);
                if (keeping < LAYERS) setup.walk.options.kept_blocks = keeping;
                TrainBatch batch = make_batch(&arena);
                MicroBatch micro = batch_micro(&batch, 0, SEQUENCES, &arena);
                int64_t T = micro.tokens.count, compute = (int64_t)dtype_size(dtype.compute);
                int64_t output = (int64_t)dtype_size(dtype.output), columns = (6 + 2 * 2) * 8, heads = 6 * 8;
                int64_t pages = 2 * micro.page_count * KV_PAGE_TOKENS * 2 * 8;
                int64_t queries = model == MODEL_QWEN3 ? columns : heads; // norms of heads read all columns again
                int64_t kept = T * (queries + heads + HIDDEN + 2 * FFN) * compute + T * 6 * 4 + pages * compute;
                int64_t expected = keeping * kept + LAYERS * T * HIDDEN * compute + T * HIDDEN * output;
                int64_t before = live_walk_bytes(&setup); // the resident walk's
                walk_begin(&setup.walk, batch.ids, batch.offset[SEQUENCES]);
                walk_forward(&setup.walk, &micro.tokens, micro.page_count);
                assert_int_equal(live_walk_bytes(&setup) - before, expected);
                walk_drop(&setup.walk);
                walk_end(&setup.walk);
                shard_gradients_close(&setup.shards);
                model_setup_close(&setup);
                arena_close(&arena);
            }
}

// Above what was alive before the step.
typedef struct Peak {
    int64_t all, unit_output;
} Peak;

static Peak peak_of_step(PrecisionPolicy policy, bool checkpointing, int64_t head_chunk, int64_t *tokens) {
    ModelSetup setup;
    Arena arena = {0};
    setup_open(&setup, MODEL_LLAMA, policy, checkpointing);
    TrainBatch batch = make_batch(&arena);
    LossOptions loss = loss_options_default();
    UpdateOptions options = {.batching = {.micro_batch_size = SEQUENCES},
                             .head_chunk = head_chunk,
                             .filter = {.temperature = 1, .top_p = 1},
                             .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .max_grad_norm = 1},
                             .lr = 1e-3};
    UpdateResult result;
    Ledger *ledger = &setup.ops.device.ledger;
    ledger_reset_peaks(ledger);
    Peak before = {(int64_t)ledger->peak.total, (int64_t)ledger->tag_peak[MEMORY_UNIT_OUTPUT]};
    update_policy(&result, &setup.walk, &batch, &loss, &options, NULL, NULL);
    *tokens = batch.offset[SEQUENCES];
    Peak peak = {(int64_t)ledger->peak.total - before.all,
                 (int64_t)ledger->tag_peak[MEMORY_UNIT_OUTPUT] - before.unit_output};
    model_setup_close(&setup);
    arena_close(&arena);
    return peak;
}

// With many logits at a time the step's peak is in the head. There another output dtype changes the last output:
// one boundary, with recomputation or without, whatever the number of layers.
// With few the peak is behind the head, where a cast holds at most one gradient twice.
static void an_output_dtype_costs_one_boundary(void **state) {
    (void)state;
    enum { MANY = 128, FEW = 11 };
    for (int policy = 0; policy < 9; policy++)
        for (int checkpointing = 0; checkpointing < 2; checkpointing++) {
            DType compute = dtypes[policy / 3], output = dtypes[policy % 3];
            if (output == compute) continue;
            int64_t T, wide = (int64_t)dtype_size(output), narrow = (int64_t)dtype_size(compute);
            Peak own = peak_of_step((PrecisionPolicy){compute, compute}, checkpointing, MANY, &T);
            Peak other = peak_of_step((PrecisionPolicy){compute, output}, checkpointing, MANY, &T);
            assert_int_equal(other.all - own.all, T * HIDDEN * (wide - narrow));
            assert_int_equal(other.unit_output, T * HIDDEN * wide);
            own = peak_of_step((PrecisionPolicy){compute, compute}, checkpointing, FEW, &T);
            other = peak_of_step((PrecisionPolicy){compute, output}, checkpointing, FEW, &T);
            int64_t more = other.all - own.all, boundary = T * HIDDEN * (wide - narrow);
            assert_true(more <= T * HIDDEN * wide && more >= (boundary < 0 ? boundary : 0));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_difference_is_where_the_page_says),
        cmocka_unit_test(recomputation_obeys_the_policy),
        cmocka_unit_test(only_the_last_output_is_kept),
        cmocka_unit_test(an_output_dtype_costs_one_boundary),
    };
    return cmocka_run_group_tests(tests, setup_models, remove_models);
}
