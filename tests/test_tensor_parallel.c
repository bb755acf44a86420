// A model shared by tensor-parallel ranks gives the bits of one rank: prefill, decode, sampling and scores. Every rank walks the
// whole model too, and compares.
// ranks: 1 2 4
#include "model/score.h"
#include "support/engine_setup.h"
#include "support/ranked_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static Comm *world_of(void **state) {
    return *state;
}

// The share of this rank of a tiny model.
typedef struct SharedModel {
    TinyModel whole; // on this rank alone
    Architecture share;
    ParameterTable table;
    Resident resident;
} SharedModel;

static void shared_open(SharedModel *m, Comm *comm, ModelFamily family, PrecisionPolicy policy, int threads) {
    Error error;
    tiny_model_open(&m->whole, family, policy, (OpsOptions){.threads = threads}, ROWS);
    comm->device = &m->whole.ops.device;
    if (!tensor_share_open(&m->share, &m->whole.architecture, comm->rank, comm->size, 0, "ranks", &error))
        fail_msg("%s", error.text);
    parameters_open(&m->table, &m->share);
    resident_open(&m->resident, &m->whole.ops, &m->share, &m->table, comm, policy, MEMORY_ROLLOUT_WEIGHTS, ROWS,
                  TINY_POSITIONS);
    for (int unit = 0; unit < m->table.unit_count; unit++) {
        Tensor flat = DEVICE_TENSOR(&m->whole.ops.device, MEMORY_WEIGHT_SHARD, DTYPE_F32, m->table.unit_sizes[unit]);
        Tensor all =
            DEVICE_TENSOR(&m->whole.ops.device, MEMORY_WEIGHT_SHARD, DTYPE_F32, m->whole.table.unit_sizes[unit]);
        tiny_model_weights(&m->whole.table, unit, all.data);
        for (int i = 0; i < m->table.count; i++) {
            const Parameter *part = &m->table.items[i];
            if (part->unit != unit) continue;
            const Parameter *from = parameters_find(&m->whole.table, unit, part->role);
            for (int64_t j = 0; j < part->real_rows * part->cols; j++)
                ((float *)flat.data)[part->offset + j] =
                    ((float *)all.data)[from->offset + (part->first_row + j / part->cols) * from->cols +
                                        part->first_col + j % part->cols];
        }
        resident_load_unit(&m->resident, unit, &flat);
        device_release(&m->whole.ops.device, &flat);
        device_release(&m->whole.ops.device, &all);
    }
}

static void shared_close(SharedModel *m) {
    resident_close(&m->resident);
    parameters_close(&m->table);
    tiny_model_close(&m->whole);
}

static Samples generate(Resident *resident, const GenerationOptions *options, Arena *arena) {
    Error error;
    Engine *engine;
    EngineRequest requests[PROMPTS];
    engine_setup_requests(requests, arena);
    if (!engine_open(&engine, resident, options, engine_setup_stops, &error)) fail_msg("%s", error.text);
    Samples samples = engine_setup_run_on(engine, requests, PROMPTS, arena);
    engine_close(engine);
    return samples;
}

static void test_generations(void **state) {
    Comm *comm = world_of(state);
    for (int family = 0; family < FAMILY_COUNT; family++)
        for (int precision = 0; precision < PRECISIONS; precision++) {
            SharedModel m;
            Arena arena = {0};
            GenerationOptions options = engine_setup_options();
            options.top_p = precision ? 0.9 : 1;
            shared_open(&m, comm, (ModelFamily)family, precisions[precision], 1 + precision % 2);
            Samples alone = generate(&m.whole.resident, &options, &arena);
            Samples together = generate(&m.resident, &options, &arena);
            engine_setup_same(&alone, &together);
            shared_close(&m);
            arena_close(&arena);
        }
}

static void test_scores(void **state) {
    Comm *comm = world_of(state);
    enum { COUNT = 90 };
    SharedModel m;
    Error error;
    int32_t ids[COUNT];
    int64_t offset[] = {0, 50, COUNT};
    float alone[COUNT], together[COUNT];
    for (int i = 0; i < COUNT; i++) ids[i] = (i * 37 + i * i) % TINY_VOCABULARY;
    shared_open(&m, comm, MODEL_QWEN3, bf16, 2);
    ScoreInput input = {.count = 2, .ids = ids, .offset = offset};
    SoftmaxFilter filter = {.temperature = 1.3f, .top_p = 1};
    assert_true(score_sequences(&m.whole.resident, alone, &input, filter, 0, NULL, &error));
    assert_true(score_sequences(&m.resident, together, &input, filter, 17, NULL, &error));
    engine_setup_same_floats(alone, together, COUNT);
    shared_close(&m);
}

int main(void) {
    static Comm world; // outlives the tests
    if (!ranked_test_open(&world)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_generations, &world),
        cmocka_unit_test_prestate(test_scores, &world),
    };
    int failed = cmocka_run_group_tests_name("tensor_parallel", tests, NULL, NULL);
    comm_close_world(&world);
    return failed;
}
