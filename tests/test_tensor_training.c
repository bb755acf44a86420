// Training of a model that tensor-parallel ranks share gives the bits of one rank: metrics, the gradient's norm and all weights
// after two optimizer steps, on tensor-parallel ranks alone and with as many again that divide the micro-batches, and whether
// ranks divide rows or not. Every rank trains the whole model too, and compares its share.
// ranks: 1 2 4
#include "base/file.h"
#include "comm/mesh.h"
#include "model/random_model.h"
#include "support/family.h"
#include "support/ranked_test.h"
#include "support/toy_batch.h"
#include "train/update.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SEQUENCES = 5, VOCABULARY = 2700, POSITIONS = 128 };
static Comm world; // outlives the tests

static Architecture kind_of(ModelFamily family) {
    Architecture architecture = {.vocab_size = VOCABULARY,
                                 .hidden_size = 48,
                                 .intermediate_size = 88,
                                 .layer_count = 3,
                                 .query_heads = 8,
                                 .kv_heads = family == MODEL_SMOLLM3 ? 4 : 2,
                                 .head_dim = 8,
                                 .max_positions = POSITIONS,
                                 .rms_norm_eps = 1e-5f,
                                 .tied_head = family != MODEL_QWEN3,
                                 .bos_id = -1};
    family_apply(&architecture, family);
    return architecture;
}

static TrainBatch make_data(ToyBatch *data) {
    TrainBatch batch = toy_batch(data, (ToyBatchShape){SEQUENCES, 7, 33, -1, -7.5f});
    for (int b = 0; b < SEQUENCES; b++)
        for (int64_t at = data->offset[b]; at < data->offset[b + 1]; at++)
            data->ids[at] = (int32_t)((at * 377 + b * 1100) % VOCABULARY);
    return batch;
}

typedef struct Variant {
    ModelFamily family;
    PrecisionPolicy policy;
    WalkCheckpointing checkpointing;
    int64_t head_chunk, micro_batch_size;
    float top_p;
    bool overflows; // float16
} Variant;

// A model, or this rank's share of it, in training.
typedef struct Trained {
    Ops ops;
    ParameterTable table;
    Shards shards;
    Walk walk;
    UpdateResult result;
    CommCounts counts; // of tensor-parallel ranks
} Trained;

static void train(Trained *t, const ModelFile *file, const Architecture *share, Mesh *mesh, bool divides_rows,
                  Variant variant) {
    Error error;
    ToyBatch data;
    TrainBatch batch = make_data(&data);
    LossOptions loss = loss_options_default();
    if (!ops_open(&t->ops, (OpsOptions){.threads = mesh ? 2 : 1}, &error)) fail_msg("%s", error.text);
    if (mesh) mesh->tensor.device = mesh->data.device = &t->ops.device;
    parameters_open(&t->table, share);
    shard_open_ranks(&t->shards, &t->ops, &t->table,
                     (ShardOptions){.comm = mesh ? &mesh->data : NULL, .piece_rows = SOFTMAX_BLOCK});
    if (!shard_load(&t->shards, file, &error)) fail_msg("%s", error.text);
    walk_open(&t->walk, &t->ops, share, &t->shards,
              (WalkOptions){.policy = variant.policy,
                            .activation_checkpointing = variant.checkpointing,
                            .max_positions = POSITIONS,
                            .tensor = mesh ? &mesh->tensor : NULL,
                            .sequence_parallel = divides_rows});
    UpdateOptions options = {.batching = {.micro_batch_size = variant.micro_batch_size},
                             .head_chunk = variant.head_chunk,
                             .filter = {.temperature = 0.9f, .top_p = variant.top_p},
                             .optimizer = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .max_grad_norm = 1},
                             .lr = 1e-3};
    for (int step = 0; step < 2; step++) update_policy(&t->result, &t->walk, &batch, &loss, &options, NULL, NULL);
    if (mesh) t->counts = mesh->tensor.counts;
}

static void trained_close(Trained *t) {
    walk_close(&t->walk);
    shard_close(&t->shards);
    parameters_close(&t->table);
    ops_close(&t->ops);
}

static void assert_elements(const Trained *whole, const Trained *shared, const Parameter *part, ShardPart own) {
    const Parameter *all = parameters_find(&whole->table, part->unit, part->role);
    const float *got = (const float *)shared->shards.weight[part->unit].data + own.local;
    const float *expected = (const float *)whole->shards.weight[part->unit].data + all->offset;
    for (int64_t i = 0; i < own.count; i++) {
        int64_t row = (own.first + i) / part->cols, column = (own.first + i) % part->cols;
        int64_t at = (part->first_row + row) * all->cols + part->first_col + column;
        float value = row < part->real_rows ? expected[at] : 0;
        if (dtype_bits(got[i]) != dtype_bits(value))
            fail_msg("rank %d of %d: %s, row %lld, column %lld is %a, expected %a", world.rank, world.size, part->name,
                     (long long)row, (long long)column, (double)got[i], (double)value);
    }
}

static void assert_share(const Trained *whole, const Trained *shared) {
    for (int i = 0; i < shared->table.count; i++) {
        const Parameter *part = &shared->table.items[i];
        for (int slice = 0; slice < shared->shards.units[part->unit].slice_count; slice++)
            assert_elements(whole, shared, part, shard_part(&shared->shards, part, slice));
    }
}

static void assert_same(const Trained *alone, const Trained *together) {
    const UpdateResult *a = &alone->result, *b = &together->result;
    assert_true(a->grad_norm == b->grad_norm || (isnan(a->grad_norm) && isnan(b->grad_norm)));
    assert_memory_equal(&a->metrics, &b->metrics, sizeof a->metrics);
    assert_int_equal(a->overflow.count, b->overflow.count);
    assert_int_equal(a->overflow.unit, b->overflow.unit);
    assert_int_equal(a->overflow.backward, b->overflow.backward);
    assert_int_equal(a->overflow.unit_count, b->overflow.unit_count);
    assert_true(a->overflow.largest == b->overflow.largest);
    assert_share(alone, together);
}

static void check_mesh(CommCounts *counts, const Trained *alone, const ModelFile *file, int tensor, bool divides_rows,
                       Variant variant) {
    Error error;
    Mesh mesh;
    Trained together;
    Architecture share;
    assert_true(mesh_open(&mesh, &world, tensor, NULL, &error));
    if (!tensor_share_open(&share, model_file_architecture(file), mesh.tensor.rank, tensor, 0, "ranks", &error))
        fail_msg("%s", error.text);
    train(&together, file, &share, &mesh, divides_rows, variant);
    assert_same(alone, &together);
    *counts = together.counts;
    trained_close(&together);
    mesh_close(&mesh);
}

// What dividing rows changes on the wire, of two steps: where a product's fp32 sums were exchanged and the result gathered, the sums
// are exchanged, and each of the two norms and two gradients that a block's backward reads is gathered; so is what the head reads and
// the embedding's gradient. What is made again costs the same again. Chains of norms' gradients go from rank to rank.
static void check_wire(const CommCounts *whole, const CommCounts *divided, const Architecture *a, const Variant *v) {
    ToyBatch data;
    TrainBatch batch = make_data(&data);
    int64_t others = world.size - 1, L = a->layer_count, D = a->hidden_size;
    int64_t element = (int64_t)dtype_size(v->policy.compute), gathered = 0, summed = 0, chains = 0;
    bool inputs = v->checkpointing == WALK_KEEPS_INPUTS, attention = v->checkpointing == WALK_KEEPS_ATTENTION;
    int64_t sums = (inputs ? 5 : 4) * L + 1, gathers = (inputs ? 8 : attention ? 7 : 6) * L + 2;
    for (int64_t first = 0; first < batch.count; first += v->micro_batch_size) {
        int64_t end = first + v->micro_batch_size < batch.count ? first + v->micro_batch_size : batch.count;
        int64_t T = batch.offset[end] - batch.offset[first], part = (T + world.size - 1) / world.size;
        gathered += 2 * others * element * (gathers * part * D - sums * T * D / world.size);
        summed += 2 * others * 4 * sums * (part * D - T * D / world.size);
        chains += others ? 2 * (2 * L + 1) * 4 * D : 0;
    }
    assert_int_equal((int64_t)divided->bytes[COMM_ALL_GATHER] - (int64_t)whole->bytes[COMM_ALL_GATHER], gathered);
    assert_int_equal((int64_t)divided->bytes[COMM_ALL_TO_ALL] - (int64_t)whole->bytes[COMM_ALL_TO_ALL], summed);
    assert_int_equal(whole->bytes[COMM_BROADCAST], 0);
    assert_int_equal(divided->bytes[COMM_BROADCAST], chains);
}

static void check_meshes(const Trained *alone, const ModelFile *file, Variant variant) {
    CommCounts counts[2], of_two;
    for (int divides_rows = 0; divides_rows < 2; divides_rows++) {
        check_mesh(&counts[divides_rows], alone, file, world.size, divides_rows, variant);
        if (world.size > 2 && variant.top_p == 1) check_mesh(&of_two, alone, file, 2, divides_rows, variant);
    }
    if (!overflow_possible(variant.policy) && variant.policy.compute == variant.policy.output)
        check_wire(&counts[0], &counts[1], model_file_architecture(file), &variant);
}

static void test_training(void **state) {
    (void)state;
    static const Variant variants[] = {
        {MODEL_QWEN2, {DTYPE_F32, DTYPE_F32}, WALK_KEEPS_ALL, 1000, 2, 1, false},
        {MODEL_QWEN2, {DTYPE_BF16, DTYPE_F32}, WALK_KEEPS_INPUTS, 7, SEQUENCES, 1, false},
        {MODEL_QWEN3, {DTYPE_BF16, DTYPE_BF16}, WALK_KEEPS_ATTENTION, 31, 3, 1, false},
        {MODEL_LLAMA, {DTYPE_F16, DTYPE_F16}, WALK_KEEPS_ALL, 1000, SEQUENCES, 0.9f, false},
        {MODEL_LLAMA, {DTYPE_F16, DTYPE_F32}, WALK_KEEPS_ALL, 1000, 2, 1, true},
        {MODEL_SMOLLM3, {DTYPE_F32, DTYPE_BF16}, WALK_KEEPS_ALL, 50, 1, 1, false},
        {MODEL_MISTRAL, {DTYPE_BF16, DTYPE_F16}, WALK_KEEPS_INPUTS, 50, 2, 1, false},
    };
    for (size_t v = 0; v < sizeof variants / sizeof *variants; v++) {
        char folder[64];
        Error error;
        ModelFile *file;
        Architecture kind = kind_of(variants[v].family);
        snprintf(folder, sizeof folder, "/tmp/whet-tensor-%d", (int)getpid());
        assert_true(file_make_folders(folder, &error) &&
                    random_model_write(folder, &kind, 7, variants[v].overflows ? 20 : 0.15, &error));
        if (!model_file_open(&file, folder, &error)) fail_msg("%s", error.text);
        Trained alone;
        train(&alone, file, model_file_architecture(file), NULL, false, variants[v]);
        assert_true(variants[v].overflows ? alone.result.overflow.count > 0
                                          : isfinite(alone.result.grad_norm) && alone.result.grad_norm > 0);
        check_meshes(&alone, file, variants[v]);
        trained_close(&alone);
        model_file_close(file);
        assert_true(file_remove_tree(folder, &error));
    }
}

int main(void) {
    if (!ranked_test_open(&world)) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_training)};
    int failed = cmocka_run_group_tests_name("tensor_training", tests, NULL, NULL);
    comm_close_world(&world);
    return failed;
}
