// Shards on many ranks: loss, gradient norm and weights after two optimizer steps are those of one rank, bit by bit, and the bytes
// on the wire are those of the theory. Every rank trains alone too, to compare.
// ranks: 1 2 3 4
#include "comm/mesh.h"
#include "support/family.h"
#include "support/ranked_test.h"
#include "support/toy_batch.h"
#include "train/update.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { SEQUENCES = 11, V = 1300, D = 48, PIECE = 512 };

static Comm world;
static char folder[FAMILY_COUNT][FAMILY_PATH];

static int setup_models(void **state) {
    (void)state;
    const Architecture sizes = {.vocab_size = V,
                                .hidden_size = D,
                                .intermediate_size = 80,
                                .layer_count = 2,
                                .query_heads = 4,
                                .kv_heads = 2,
                                .head_dim = 12,
                                .max_positions = 128,
                                .rms_norm_eps = 1e-5f,
                                .bos_id = -1,
                                .eos_ids = {2},
                                .eos_count = 1};
    return family_write_models(folder, "shard", &sizes);
}

static int remove_models(void **state) {
    (void)state;
    family_remove_models(folder);
    return 0;
}

static TrainBatch make_data(ToyBatch *data) {
    TrainBatch batch = toy_batch(data, (ToyBatchShape){SEQUENCES, 5, 36, 3, -7});
    for (int b = 0; b < SEQUENCES; b++)
        for (int64_t at = data->offset[b]; at < data->offset[b + 1]; at++) {
            int64_t t = at - data->offset[b];
            data->ids[at] = (int32_t)(t % 3 ? (at * 377 + b * 11) % V : b); // some in all pieces, some again and again
        }
    return batch;
}

typedef struct Variant {
    int model;
    PrecisionPolicy policy;
    BatchingOptions batching;
    int64_t head_chunk;
    WalkCheckpointing checkpointing;
    int64_t kept_blocks;
    float temperature, top_p;           // top_p 0: 1
    void (*loss)(LossOptions *options); // NULL: the default loss
} Variant;

static const Variant plain = {
    .policy = {DTYPE_F32, DTYPE_F32}, .batching = {.micro_batch_size = 2}, .head_chunk = 1000, .temperature = 1};

// What a training of two steps leaves: weights and moments in the order of the flat arrays.
typedef struct Trained {
    StrBuf numbers;
    UpdateResult result;
    CommCounts counts; // of the second step
    LedgerPeak peak;
    uint64_t live;
} Trained;

static void keep(StrBuf *out, Shards *shards, const Tensor *array, int unit) {
    for (int slice = 0; slice < shards->units[unit].slice_count; slice++) {
        Tensor whole = shard_gather(shards, array, unit, slice, DTYPE_F32);
        strbuf_append(out, whole.data, (size_t)shards->units[unit].slices[slice].count * sizeof(float));
        shard_release(shards, &whole);
    }
}

static void train(Trained *trained, Variant variant, Comm *comm, Comm *tensor) {
    Error error = {0};
    Ops ops;
    ModelFile *file;
    Shards shards;
    Walk walk;
    *trained = (Trained){0};
    if (!ops_open(&ops, (OpsOptions){.threads = 1}, &error) || !model_file_open(&file, folder[variant.model], &error))
        fail_msg("%s", error.text);
    Architecture share = *model_file_architecture(file);
    ParameterTable table = {0};
    const ParameterTable *parameters = model_file_parameters(file);
    if (comm) comm->device = &ops.device;
    if (tensor) {
        tensor->device = &ops.device;
        if (!tensor_share_open(&share, model_file_architecture(file), tensor->rank, tensor->size, 0, "ranks", &error))
            fail_msg("%s", error.text);
        parameters_open(&table, &share);
        parameters = &table;
    }
    shard_open_ranks(&shards, &ops, parameters, (ShardOptions){.comm = comm, .piece_rows = PIECE});
    walk_open(&walk, &ops, &share, &shards,
              (WalkOptions){.policy = variant.policy,
                            .activation_checkpointing = variant.checkpointing,
                            .kept_blocks = variant.kept_blocks,
                            .max_positions = 128,
                            .tensor = tensor});
    if (!shard_load(&shards, file, &error)) fail_msg("%s", error.text);
    ToyBatch data;
    TrainBatch batch = make_data(&data);
    LossOptions loss = loss_options_default();
    if (variant.loss) variant.loss(&loss);
    UpdateOptions options = {.batching = variant.batching,
                             .head_chunk = variant.head_chunk,
                             .filter = {.temperature = variant.temperature, .top_p = variant.top_p ? variant.top_p : 1},
                             .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .max_grad_norm = 1},
                             .lr = 1e-3};
    for (int step = 0; step < 2; step++) {
        if (comm) comm->counts = (CommCounts){0};
        ledger_reset_peaks(&ops.device.ledger);
        update_policy(&trained->result, &walk, &batch, &loss, &options, NULL, NULL);
    }
    if (comm) trained->counts = comm->counts;
    trained->peak = ops.device.ledger.peak;
    trained->live = ops.device.ledger.live_total;
    assert_true(trained->result.grad_norm > 0);
    for (int unit = 0; unit < shards.table->unit_count; unit++) {
        keep(&trained->numbers, &shards, &shards.weight[unit], unit);
        keep(&trained->numbers, &shards, &shards.moment1[unit], unit);
        keep(&trained->numbers, &shards, &shards.moment2[unit], unit);
    }
    walk_close(&walk);
    shard_close(&shards);
    parameters_close(&table);
    model_file_close(file);
    ops_close(&ops);
}

static void same_as_alone(Variant variant) {
    Trained alone, together;
    train(&alone, variant, NULL, NULL);
    train(&together, variant, &world, NULL);
    assert_int_equal(alone.numbers.length, together.numbers.length);
    const float *a = (const float *)alone.numbers.text, *b = (const float *)together.numbers.text;
    if (alone.result.metrics.loss != together.result.metrics.loss)
        fail_msg("loss %.17g, alone %.17g", together.result.metrics.loss, alone.result.metrics.loss);
    if (alone.result.grad_norm != together.result.grad_norm)
        fail_msg("norm %.17g, alone %.17g", together.result.grad_norm, alone.result.grad_norm);
    for (size_t i = 0; i < alone.numbers.length / sizeof *a; i++)
        if (dtype_bits(a[i]) != dtype_bits(b[i]))
            fail_msg("number %zu is %.9g, alone %.9g", i, (double)b[i], (double)a[i]);
    assert_memory_equal(&alone.result.metrics, &together.result.metrics, sizeof alone.result.metrics);
    strbuf_close(&alone.numbers);
    strbuf_close(&together.numbers);
}

static const DType dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};

static void every_precision_and_family(void **state) {
    (void)state;
    for (int p = 0; p < 9; p++) {
        Variant variant = plain;
        variant.model = p % FAMILY_COUNT;
        variant.policy = (PrecisionPolicy){dtypes[p / 3], dtypes[p % 3]};
        variant.batching.micro_batch_size = 1 + p % 3;
        variant.temperature = p % 2 ? 0.7f : 1;
        same_as_alone(variant);
    }
}

// Fewer micro-batches than ranks too: some ranks only lend their parts.
static void every_way_of_batching(void **state) {
    (void)state;
    static const BatchingOptions ways[] = {
        {.micro_batch_size = SEQUENCES},
        {.micro_batch_size = 4},
        {.mode = BATCHING_PACKED,
         .max_tokens = 64,
         .algorithm = PACKING_MODIFIED_FIRST_FIT_DECREASING,
         .pad_multiple = 1},
        {.mode = BATCHING_PACKED, .max_tokens = 100, .algorithm = PACKING_CONCATENATIVE, .pad_multiple = 1},
        {.mode = BATCHING_DYNAMIC, .max_tokens = 80, .length_round = 16},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        Variant variant = plain;
        variant.model = i % 2 ? MODEL_QWEN2 : MODEL_LLAMA;
        variant.batching = ways[i];
        variant.policy.compute = i % 2 ? DTYPE_BF16 : DTYPE_F32;
        same_as_alone(variant);
    }
}

static void gspo(LossOptions *options) {
    options->token_level_loss = false;
    options->sequence_level_importance_ratios = true;
    options->use_importance_sampling_correction = true;
}

static void chunks_recomputation_and_losses_over_sequences(void **state) {
    (void)state;
    static const WalkCheckpointing ways[] = {WALK_KEEPS_INPUTS, WALK_KEEPS_ATTENTION};
    for (int i = 0; i < 2; i++) {
        Variant variant = plain;
        variant.head_chunk = 7;
        variant.checkpointing = ways[i];
        variant.policy.compute = DTYPE_BF16;
        variant.loss = i ? gspo : NULL;
        same_as_alone(variant);
        variant.top_p = 0.9f; // some sampled tokens are dropped
        variant.kept_blocks = 1;
        same_as_alone(variant);
    }
}

// Shards of what tensor-parallel ranks share: loss and norm of the second step tell of every weight.
static void with_tensor_parallel_ranks(void **state) {
    (void)state;
    Error error;
    if (world.size % 2) skip();
    for (int p = 0; p < 4; p++) {
        Mesh mesh;
        Variant variant = plain;
        variant.model = p % 2 ? MODEL_QWEN2 : MODEL_QWEN3;
        variant.policy = (PrecisionPolicy){p < 2 ? DTYPE_F32 : DTYPE_BF16, DTYPE_F32};
        variant.head_chunk = p % 2 ? 1000 : 11;
        variant.top_p = p == 3 ? 0.9f : 0;
        if (!mesh_open(&mesh, &world, 2, NULL, &error)) fail_msg("%s", error.text);
        Trained alone, together;
        train(&alone, variant, NULL, NULL);
        train(&together, variant, &mesh.data, &mesh.tensor);
        assert_memory_equal(&alone.result.metrics, &together.result.metrics, sizeof alone.result.metrics);
        assert_true(alone.result.grad_norm == together.result.grad_norm);
        strbuf_close(&alone.numbers);
        strbuf_close(&together.numbers);
        mesh_close(&mesh);
    }
}

// Of a step: in each round every block is gathered twice and the head twice in the compute dtype, the embedding not at all, and all
// is reduced once in fp32; the embedding's rows travel for themselves.
static void bytes_on_the_wire(void **state) {
    (void)state;
    for (int model = 0; model < 2; model++) {
        Variant variant = plain;
        variant.model = model ? MODEL_QWEN2 : MODEL_LLAMA;
        variant.policy.compute = DTYPE_BF16;
        Trained t;
        Error error;
        ModelFile *file;
        train(&t, variant, &world, NULL);
        if (!model_file_open(&file, folder[variant.model], &error)) fail_msg("%s", error.text);
        const ParameterTable *table = model_file_parameters(file);
        uint64_t R = (uint64_t)world.size, rounds = (5 + R - 1) / R, weights = 0; // 5 of 6 micro-batches carry loss
        for (int i = 0; i < table->count; i++) {
            const Parameter *p = &table->items[i];
            if (p->role == PARAMETER_EMBEDDING && model) continue; // a tied one is the head
            weights += (uint64_t)(p->rows * p->cols);
        }
        uint64_t gathered = 2 * weights * 2 * (R - 1) / R * rounds, reduced = weights * 4 * (R - 1) / R * rounds;
        uint64_t padding = 64 * 1024 * R * rounds; // parts are whole blocks, and parts of results
        if (R > 1) {
            assert_in_range(t.counts.bytes[COMM_ALL_GATHER], gathered, gathered + padding);
            assert_true(t.counts.bytes[COMM_ALL_TO_ALL] >= reduced &&
                        t.counts.bytes[COMM_ALL_TO_ALL] < reduced + padding);
        }
        strbuf_close(&t.numbers);
        model_file_close(file);
    }
}

// Without gradients an update is its weight decay alone.
static void decay_of_vectors(void **state) {
    (void)state;
    for (int spared = 0; spared < 2; spared++) {
        Error error = {0};
        Ops ops;
        ModelFile *file;
        Shards shards;
        Arena arena = {0};
        if (!ops_open(&ops, (OpsOptions){.threads = 1}, &error) || !model_file_open(&file, folder[MODEL_QWEN2], &error))
            fail_msg("%s", error.text);
        const ParameterTable *table = model_file_parameters(file);
        world.device = &ops.device;
        shard_open_ranks(&shards, &ops, table, (ShardOptions){.comm = &world, .piece_rows = PIECE});
        if (!shard_load(&shards, file, &error)) fail_msg("%s", error.text);
        shard_gradients_open(&shards);
        float **before = arena_array(&arena, float *, table->unit_count);
        for (int unit = 0; unit < table->unit_count; unit++) {
            int64_t own = shards.units[unit].own;
            before[unit] = arena_array(&arena, float, own + 1);
            if (own) memcpy(before[unit], shards.weight[unit].data, (size_t)own * sizeof(float));
        }
        OptimizerOptions options = {.weight_decay = 0.5,
                                    .beta1 = 0.9,
                                    .beta2 = 0.99,
                                    .eps = 1e-8,
                                    .spares_vectors = spared};
        shard_update(&shards, &options, 0.5, 1);
        int64_t vectors = 0;
        for (int i = 0; i < table->count; i++) {
            const Parameter *parameter = &table->items[i];
            float kept = spared && parameter->vector ? 1 : 0.75f;
            vectors += parameter->vector;
            for (int slice = 0; slice < shards.units[parameter->unit].slice_count; slice++) {
                ShardPart part = shard_part(&shards, parameter, slice);
                const float *weight = shards.weight[parameter->unit].data;
                for (int64_t at = part.local; at < part.local + part.count; at++)
                    assert_true(weight[at] == kept * before[parameter->unit][at]);
            }
        }
        assert_true(vectors > 2 * 5); // two norms and three biases of each block, and the last norm
        shard_gradients_close(&shards);
        shard_close(&shards);
        model_file_close(file);
        ops_close(&ops);
        arena_close(&arena);
    }
}

int main(void) {
    if (!ranked_test_open(&world)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_precision_and_family),
        cmocka_unit_test(every_way_of_batching),
        cmocka_unit_test(chunks_recomputation_and_losses_over_sequences),
        cmocka_unit_test(with_tensor_parallel_ranks),
        cmocka_unit_test(bytes_on_the_wire),
        cmocka_unit_test(decay_of_vectors),
    };
    int failed = cmocka_run_group_tests(tests, setup_models, remove_models);
    comm_close_world(&world);
    return failed;
}
