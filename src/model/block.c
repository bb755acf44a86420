#include "model/block.h"

#include "base/arena.h"
#include "ops/rows.h"

#include <math.h>

BlockShape block_shape(const Architecture *a) {
    return (BlockShape){
        .hidden = a->hidden_size,
        .ffn = a->intermediate_size,
        .qkv_columns = (a->query_heads + 2 * a->kv_heads) * a->head_dim,
        .heads_columns = a->query_heads * a->head_dim,
        .attention = {.query_heads = a->query_heads,
                      .kv_heads = a->kv_heads,
                      .head_dim = a->head_dim,
                      .scale = 1.0f / sqrtf((float)a->head_dim)},
        .rms_norm_eps = a->rms_norm_eps,
    };
}

void block_rope_table(Ops *ops, Tensor *cos_sin_PE, const Architecture *architecture) {
    Arena arena = {0};
    float *inv_freq = arena_array(&arena, float, architecture->head_dim / 2);
    architecture_inv_freq(architecture, inv_freq);
    rope_table(ops, cos_sin_PE, inv_freq);
    arena_close(&arena);
}

// The parameters first..last of a unit, which lie next to each other, as one matrix (or one vector).
static Tensor view(const ParameterTable *table, int unit, const Tensor *flat, ParameterRole first, ParameterRole last) {
    const Parameter *from = parameters_find(table, unit, first), *to = parameters_find(table, unit, last);
    if (!from) return (Tensor){0};
    CHECK(to && from->cols == to->cols, "unit %d, roles %d to %d", unit, (int)first, (int)last);
    int64_t rows = (to->offset - from->offset) / from->cols + to->rows;
    Tensor part = tensor_rows(flat, from->offset, rows * from->cols);
    return from->vector ? part : TENSOR_RESHAPE(&part, rows, from->cols);
}

static void weight_view(LinearWeight *weight, Tensor rows) {
    weight->rows = rows;
    weight->n = rows.size[0];
    weight->k = rows.size[1];
}

void block_weights_view(BlockWeights *weights, const ParameterTable *table, int unit, const Tensor *flat) {
    weight_view(&weights->qkv, view(table, unit, flat, PARAMETER_Q, PARAMETER_V));
    weight_view(&weights->o, view(table, unit, flat, PARAMETER_O, PARAMETER_O));
    weight_view(&weights->gate_up, view(table, unit, flat, PARAMETER_GATE, PARAMETER_UP));
    weight_view(&weights->down, view(table, unit, flat, PARAMETER_DOWN, PARAMETER_DOWN));
    weights->qkv_bias_C = view(table, unit, flat, PARAMETER_Q_BIAS, PARAMETER_V_BIAS);
    weights->input_norm_D = view(table, unit, flat, PARAMETER_INPUT_NORM, PARAMETER_INPUT_NORM);
    weights->middle_norm_D = view(table, unit, flat, PARAMETER_MIDDLE_NORM, PARAMETER_MIDDLE_NORM);
}

BlockGradients block_gradients_view(const ParameterTable *table, int unit, const Tensor *flat) {
    return (BlockGradients){
        .qkv_CD = view(table, unit, flat, PARAMETER_Q, PARAMETER_V),
        .o_DO = view(table, unit, flat, PARAMETER_O, PARAMETER_O),
        .gate_up_2FD = view(table, unit, flat, PARAMETER_GATE, PARAMETER_UP),
        .down_DF = view(table, unit, flat, PARAMETER_DOWN, PARAMETER_DOWN),
        .qkv_bias_C = view(table, unit, flat, PARAMETER_Q_BIAS, PARAMETER_V_BIAS),
        .input_norm_D = view(table, unit, flat, PARAMETER_INPUT_NORM, PARAMETER_INPUT_NORM),
        .middle_norm_D = view(table, unit, flat, PARAMETER_MIDDLE_NORM, PARAMETER_MIDDLE_NORM),
    };
}

static const Tensor *present(const Tensor *tensor) {
    return tensor->data ? tensor : NULL;
}

void block_forward(Ops *ops, const BlockShape *shape, const BlockWeights *weights, const Tensor *cos_sin_PE,
                   const TokenBatch *batch, BlockActivations *a, BlockScratch *scratch, Tensor *out_TD) {
    const AttentionShape *attention = &shape->attention;
    int64_t rotated = attention->query_heads + attention->kv_heads;

    rms_norm_forward(ops, &scratch->norm_TD, &a->x_TD, &weights->input_norm_D, shape->rms_norm_eps);
    linear_forward(ops, &a->qkv_TC, &scratch->norm_TD, &weights->qkv, present(&weights->qkv_bias_C));
    rope_apply(ops, &a->qkv_TC, cos_sin_PE, batch->positions, rotated, attention->head_dim, false);
    kv_store(ops, &a->kv, &a->qkv_TC, attention, batch->spans, batch->span_count);
    attention_forward(ops, &a->attn_TO, a->lse_TH.data ? &a->lse_TH : NULL, &a->qkv_TC, &a->kv, attention, batch->spans,
                      batch->span_count);
    linear_forward(ops, &scratch->proj_TD, &a->attn_TO, &weights->o, NULL);
    rows_add(ops, &a->mid_TD, &a->x_TD, &scratch->proj_TD);

    rms_norm_forward(ops, &scratch->norm_TD, &a->mid_TD, &weights->middle_norm_D, shape->rms_norm_eps);
    linear_forward(ops, &a->gate_up_T2F, &scratch->norm_TD, &weights->gate_up, NULL);
    if (!out_TD) return;
    swiglu_forward(ops, &scratch->act_TF, &a->gate_up_T2F);
    linear_forward(ops, &scratch->proj_TD, &scratch->act_TF, &weights->down, NULL);
    rows_add(ops, out_TD, &a->mid_TD, &scratch->proj_TD);
}

void block_backward(Ops *ops, const BlockShape *shape, const BlockWeights *weights, const BlockGradients *gradients,
                    const Tensor *cos_sin_PE, const TokenBatch *batch, const BlockActivations *a, BlockScratch *scratch,
                    BlockBackwardScratch *backward, const Tensor *dout_TD, Tensor *dx_TD) {
    const AttentionShape *attention = &shape->attention;
    int64_t rotated = attention->query_heads + attention->kv_heads;
    BlockGradients g = *gradients;

    // out = mid + act·Wdownᵀ
    swiglu_forward(ops, &scratch->act_TF, &a->gate_up_T2F);
    linear_backward_weight(ops, &g.down_DF, dout_TD, &scratch->act_TF);
    linear_backward_input(ops, &backward->dact_TF, dout_TD, &weights->down);
    swiglu_backward(ops, &backward->dgate_up_T2F, &backward->dact_TF, &a->gate_up_T2F);
    rms_norm_forward(ops, &scratch->norm_TD, &a->mid_TD, &weights->middle_norm_D, shape->rms_norm_eps);
    linear_backward_weight(ops, &g.gate_up_2FD, &backward->dgate_up_T2F, &scratch->norm_TD);
    linear_backward_input(ops, &scratch->proj_TD, &backward->dgate_up_T2F, &weights->gate_up);
    rms_norm_backward(ops, &backward->dmid_TD, &g.middle_norm_D, &scratch->proj_TD, &a->mid_TD, &weights->middle_norm_D,
                      dout_TD, shape->rms_norm_eps);

    // mid = x + attn·Woᵀ
    linear_backward_weight(ops, &g.o_DO, &backward->dmid_TD, &a->attn_TO);
    linear_backward_input(ops, &backward->dattn_TO, &backward->dmid_TD, &weights->o);
    attention_backward(ops, &backward->dqkv_TC, &backward->dattn_TO, &a->attn_TO, &a->lse_TH, &a->qkv_TC, &a->kv,
                       attention, batch->spans, batch->span_count);
    rope_apply(ops, &backward->dqkv_TC, cos_sin_PE, batch->positions, rotated, attention->head_dim, true);
    rms_norm_forward(ops, &scratch->norm_TD, &a->x_TD, &weights->input_norm_D, shape->rms_norm_eps);
    linear_backward_weight(ops, &g.qkv_CD, &backward->dqkv_TC, &scratch->norm_TD);
    if (g.qkv_bias_C.data) linear_backward_bias(ops, &g.qkv_bias_C, &backward->dqkv_TC);
    linear_backward_input(ops, &scratch->proj_TD, &backward->dqkv_TC, &weights->qkv);
    rms_norm_backward(ops, dx_TD, &g.input_norm_D, &scratch->proj_TD, &a->x_TD, &weights->input_norm_D,
                      &backward->dmid_TD, shape->rms_norm_eps);
}
