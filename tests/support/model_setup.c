#include "support/model_setup.h"

bool model_setup_open(ModelSetup *setup, const char *path, PrecisionPolicy policy, OpsOptions options, int64_t rows,
                      int64_t positions, Error *error) {
    *setup = (ModelSetup){0};
    if (!ops_open(&setup->ops, options, error) || !model_file_open(&setup->file, path, error)) return false;
    setup->architecture = model_file_architecture(setup->file);
    setup->parameters = model_file_parameters(setup->file);
    shard_open(&setup->shards, &setup->ops, setup->parameters);
    resident_open(&setup->resident, &setup->ops, setup->architecture, setup->parameters, NULL, policy,
                  MEMORY_ROLLOUT_WEIGHTS, rows, positions);
    walk_open(&setup->walk, &setup->ops, setup->architecture, &setup->shards,
              (WalkOptions){.policy = policy, .max_positions = positions});
    return shard_load(&setup->shards, setup->file, error) && resident_load_file(&setup->resident, setup->file, error);
}

void model_setup_close(ModelSetup *setup) {
    walk_close(&setup->walk);
    resident_close(&setup->resident);
    shard_close(&setup->shards);
    model_file_close(setup->file);
    if (setup->ops.kernels) ops_close(&setup->ops);
    *setup = (ModelSetup){0};
}

void model_setup_greedy(ModelSetup *setup, int32_t *ids, int64_t count, int64_t more,
                        void (*look)(void *context, int64_t index, const float *logits), void *context) {
    Arena arena = {0};
    int64_t V = setup->architecture->vocab_size, page_count = (count + more) / KV_PAGE_TOKENS + 1;
    int32_t *positions = arena_array(&arena, int32_t, count + more);
    int32_t *pages = arena_array(&arena, int32_t, page_count);
    for (int32_t i = 0; i < page_count; i++) pages[i] = (int32_t)page_count - 1 - i;
    for (int32_t i = 0; i < count + more; i++) positions[i] = i;
    KvCache cache =
        kv_cache_open(&setup->ops, MEMORY_KV_CACHE, setup->architecture, setup->resident.policy.compute, page_count);
    Tensor logits_1V = DEVICE_TENSOR(&setup->ops.device, MEMORY_LOGITS, DTYPE_F32, 1, V);
    const SoftmaxFilter plain = {.temperature = 1, .top_p = 1};
    for (int64_t start = 0, end = count; end < count + more; start = end, end++) {
        AttentionSpan span = {.count = end - start, .start = start, .pages = pages};
        TokenBatch batch = {.count = end - start,
                            .ids = ids + start,
                            .positions = positions + start,
                            .spans = &span,
                            .span_count = 1};
        SoftmaxRow row;
        int32_t last = (int32_t)(batch.count - 1);
        resident_forward(&setup->resident, &cache, &batch);
        resident_logits(&setup->resident, &logits_1V, &last);
        softmax_rows(&setup->ops, &row, &logits_1V, V, plain);
        softmax_sample(&setup->ops, &ids[end], &logits_1V, &row, V, NULL, plain);
        look(context, end, logits_1V.data);
    }
    device_release(&setup->ops.device, &logits_1V);
    kv_cache_close(&setup->ops, &cache);
    arena_close(&arena);
}
