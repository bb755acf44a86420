#include "support/tiny_model.h"

#include "base/rng.h"

Architecture tiny_model_architecture(ModelFamily family) {
    Architecture architecture = {
        .vocab_size = TINY_VOCABULARY,
        .hidden_size = 40,
        .intermediate_size = 56,
        .layer_count = 2,
        .query_heads = 4,
        .kv_heads = 2,
        .head_dim = 10,
        .max_positions = TINY_POSITIONS,
        .rms_norm_eps = 1e-5f,
        .tied_head = family == MODEL_QWEN2,
        .bos_id = -1,
    };
    family_apply(&architecture, family);
    return architecture;
}

void tiny_model_weights(const ParameterTable *table, int unit, float *flat) {
    for (int64_t i = 0; i < table->unit_sizes[unit]; i++) flat[i] = 0;
    for (int i = 0; i < table->count; i++) {
        const Parameter *item = &table->items[i];
        if (item->unit != unit) continue;
        bool norm = parameters_is_norm(item->role);
        for (int64_t j = 0; j < item->rows * item->cols; j++) {
            RngCounter at = {.step = (uint32_t)i, .token = (uint32_t)j};
            float centred = rng_uniform(7, RNG_TEST_WEIGHTS, at) - 0.5f;
            flat[item->offset + j] = norm ? 1 + 0.4f * centred : centred;
        }
    }
}

void tiny_model_open(TinyModel *model, ModelFamily family, PrecisionPolicy policy, OpsOptions options, int64_t rows) {
    Error error;
    *model = (TinyModel){.architecture = tiny_model_architecture(family)};
    CHECK(ops_open(&model->ops, options, &error), "%s", error.text);
    parameters_open(&model->table, &model->architecture);
    resident_open(&model->resident, &model->ops, &model->architecture, &model->table, NULL, policy,
                  MEMORY_ROLLOUT_WEIGHTS, rows, TINY_POSITIONS);
    for (int unit = 0; unit < model->table.unit_count; unit++) {
        Tensor flat =
            DEVICE_TENSOR_RAW(&model->ops.device, MEMORY_WEIGHT_SHARD, DTYPE_F32, model->table.unit_sizes[unit]);
        if (ops_runs(&model->ops)) tiny_model_weights(&model->table, unit, flat.data);
        resident_load_unit(&model->resident, unit, &flat);
        device_release(&model->ops.device, &flat);
    }
}

void tiny_model_close(TinyModel *model) {
    resident_close(&model->resident);
    parameters_close(&model->table);
    ops_close(&model->ops);
}
