#include "model/block.h"

#include "base/arena.h"
#include "ops/norm.h"
#include "ops/rows.h"

#include <math.h>

BlockShape block_shape(const Architecture *a, int64_t layer, Comm *tensor) {
    return (BlockShape){
        .hidden = a->hidden_size,
        .ffn = a->intermediate_size,
        .qkv_columns = (a->query_heads + 2 * a->kv_heads) * a->head_dim,
        .heads_columns = a->query_heads * a->head_dim,
        .attention = {.query_heads = a->query_heads,
                      .kv_heads = a->kv_heads,
                      .head_dim = a->head_dim,
                      .scale = 1.0f / sqrtf((float)a->head_dim),
                      .window = layer_kinds_window(&a->layers, layer)},
        .rms_norm_eps = a->rms_norm_eps,
        .qk_norm = a->qk_norm,
        .rotates = !layer_set_has(&a->layers.unrotated, layer),
        .sums = tensor_share_sums(a),
        .tensor = tensor,
    };
}

void block_rope_table(Ops *ops, Tensor *cos_sin_PE, const Architecture *architecture) {
    Arena arena = {0};
    float *inv_freq = arena_array(&arena, float, architecture->head_dim / 2);
    rotary_inv_freq(&architecture->rope, architecture->head_dim, inv_freq);
    rope_table(ops, cos_sin_PE, inv_freq, rotary_attention_scale(&architecture->rope));
    arena_close(&arena);
}

// Whether the parameters first..last of a unit, which lie next to each other, are there and in the part, which begins at `origin`
// of the flat array; view: as one matrix (or one vector).
static bool find(Tensor *view, const ParameterTable *table, int unit, const Tensor *part, int64_t origin,
                 ParameterRole first, ParameterRole last) {
    const Parameter *from = parameters_find(table, unit, first), *to = parameters_find(table, unit, last);
    if (!from || from->offset < origin || from->offset >= origin + part->size[0]) return false;
    CHECK(to && from->cols == to->cols, "unit %d, roles %d to %d", unit, (int)first, (int)last);
    int64_t rows = (to->offset - from->offset) / from->cols + to->rows;
    Tensor elements = tensor_rows(part, from->offset - origin, rows * from->cols);
    *view = from->vector ? elements : TENSOR_RESHAPE(&elements, rows, from->cols);
    return true;
}

void block_weights_view(BlockWeights *weights, const ParameterTable *table, int unit, const Tensor *part,
                        int64_t origin) {
    const struct {
        LinearWeight *weight;
        ParameterRole first, last;
    } matrices[] = {{&weights->qkv, PARAMETER_Q, PARAMETER_V},
                    {&weights->o, PARAMETER_O, PARAMETER_O},
                    {&weights->gate_up, PARAMETER_GATE, PARAMETER_UP},
                    {&weights->down, PARAMETER_DOWN, PARAMETER_DOWN}};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        LinearWeight *weight = matrices[i].weight;
        if (!find(&weight->rows, table, unit, part, origin, matrices[i].first, matrices[i].last)) continue;
        weight->n = weight->rows.size[0];
        weight->k = weight->rows.size[1];
    }
    find(&weights->qkv_bias_C, table, unit, part, origin, PARAMETER_Q_BIAS, PARAMETER_V_BIAS);
    find(&weights->input_norm_D, table, unit, part, origin, PARAMETER_INPUT_NORM, PARAMETER_INPUT_NORM);
    find(&weights->middle_norm_D, table, unit, part, origin, PARAMETER_MIDDLE_NORM, PARAMETER_MIDDLE_NORM);
    find(&weights->q_norm_E, table, unit, part, origin, PARAMETER_Q_NORM, PARAMETER_Q_NORM);
    find(&weights->k_norm_E, table, unit, part, origin, PARAMETER_K_NORM, PARAMETER_K_NORM);
}

void block_weights_share(BlockWeights *weights, const TensorShareSums *sums) {
    weights->o.over_k = sums->heads;
    weights->down.over_k = sums->ffn;
    weights->qkv.over_n = sums->qkv;
    weights->gate_up.over_n = sums->gate_up;
}

void block_gradients_view(BlockGradients *gradients, const ParameterTable *table, int unit, const Tensor *part,
                          int64_t origin) {
    find(&gradients->qkv_CD, table, unit, part, origin, PARAMETER_Q, PARAMETER_V);
    find(&gradients->o_DO, table, unit, part, origin, PARAMETER_O, PARAMETER_O);
    find(&gradients->gate_up_2FD, table, unit, part, origin, PARAMETER_GATE, PARAMETER_UP);
    find(&gradients->down_DF, table, unit, part, origin, PARAMETER_DOWN, PARAMETER_DOWN);
    find(&gradients->qkv_bias_C, table, unit, part, origin, PARAMETER_Q_BIAS, PARAMETER_V_BIAS);
    find(&gradients->input_norm_D, table, unit, part, origin, PARAMETER_INPUT_NORM, PARAMETER_INPUT_NORM);
    find(&gradients->middle_norm_D, table, unit, part, origin, PARAMETER_MIDDLE_NORM, PARAMETER_MIDDLE_NORM);
    find(&gradients->q_norm_E, table, unit, part, origin, PARAMETER_Q_NORM, PARAMETER_Q_NORM);
    find(&gradients->k_norm_E, table, unit, part, origin, PARAMETER_K_NORM, PARAMETER_K_NORM);
}

static const Tensor *present(const Tensor *tensor) {
    return tensor->data ? tensor : NULL;
}

// Norms and rotates query and key heads first..last-1 of qkv_TC in place.
static void turn_heads(Ops *ops, const BlockShape *shape, const BlockWeights *weights, const Tensor *cos_sin_PE,
                       const TokenBatch *batch, Tensor *qkv_TC, bool keys_too) {
    int64_t queries = shape->attention.query_heads, keys = keys_too ? shape->attention.kv_heads : 0;
    if (shape->qk_norm) {
        head_norm_forward(ops, qkv_TC, &weights->q_norm_E, 0, queries, shape->rms_norm_eps);
        if (keys) head_norm_forward(ops, qkv_TC, &weights->k_norm_E, queries, keys, shape->rms_norm_eps);
    }
    if (shape->rotates)
        rope_apply(ops, qkv_TC, cos_sin_PE, batch->positions, queries + keys, shape->attention.head_dim, false);
}

// The norm of x_TD, of all rows: in scratch->norm_TD.
static Tensor norm_of(Ops *ops, const BlockShape *shape, const RowShare *rows, BlockScratch *scratch,
                      const Tensor *x_TD, const Tensor *w_D) {
    Tensor own_TD = row_share_own(rows, &scratch->norm_TD);
    rms_norm_forward(ops, &own_TD, x_TD, w_D, shape->rms_norm_eps);
    return row_share_gather(rows, &scratch->norm_TD);
}

static RowShare rows_of(const BlockShape *shape, int64_t count) {
    return row_share_of(count, shape->tensor, shape->divides_rows);
}

void block_attention_forward(Ops *ops, const BlockShape *shape, const BlockWeights *weights, const Tensor *cos_sin_PE,
                             const TokenBatch *batch, BlockActivations *a, BlockScratch *scratch) {
    const AttentionShape *attention = &shape->attention;
    RowShare rows = rows_of(shape, batch->count);

    Tensor norm_TD = norm_of(ops, shape, &rows, scratch, &a->x_TD, &weights->input_norm_D);
    bool queries_kept = a->qkv_TC.size[1] < shape->qkv_columns;
    Tensor whole_TC = {0}, *product_TC = &a->qkv_TC;
    if (queries_kept) {
        whole_TC =
            DEVICE_TENSOR_RAW(&ops->device, MEMORY_ACTIVATION, a->qkv_TC.dtype, a->qkv_TC.size[0], shape->qkv_columns);
        product_TC = &whole_TC;
    }
    linear_forward(ops, product_TC, &norm_TD, &weights->qkv, present(&weights->qkv_bias_C));
    Tensor *qkv_TC = scratch->qkv_TC.data ? &scratch->qkv_TC : product_TC;
    if (qkv_TC != product_TC) rows_cast(ops, qkv_TC, product_TC);
    turn_heads(ops, shape, weights, cos_sin_PE, batch, qkv_TC, true);
    kv_store(ops, &a->kv, qkv_TC, attention, batch->spans, batch->span_count);
    attention_forward(ops, &a->attn_TO, a->lse_TH.data ? &a->lse_TH : NULL, qkv_TC, &a->kv, attention, batch->spans,
                      batch->span_count);
    if (queries_kept) rows_first_columns(ops, &a->qkv_TC, qkv_TC);
    device_release(&ops->device, &whole_TC);
    row_share_forward(ops, &rows, &scratch->proj_TD, &a->attn_TO, &weights->o);
    rows_add(ops, &a->mid_TD, &a->x_TD, &scratch->proj_TD);
}

void block_gate_up_forward(Ops *ops, const BlockShape *shape, const BlockWeights *weights, BlockActivations *a,
                           BlockScratch *scratch) {
    RowShare rows = rows_of(shape, a->gate_up_T2F.size[0]);
    Tensor norm_TD = norm_of(ops, shape, &rows, scratch, &a->mid_TD, &weights->middle_norm_D);
    linear_forward(ops, &a->gate_up_T2F, &norm_TD, &weights->gate_up, NULL);
}

void block_down_forward(Ops *ops, const BlockShape *shape, const BlockWeights *weights, const BlockActivations *a,
                        BlockScratch *scratch, Tensor *out_TD) {
    RowShare rows = rows_of(shape, a->gate_up_T2F.size[0]);
    swiglu_forward(ops, &scratch->act_TF, &a->gate_up_T2F);
    row_share_forward(ops, &rows, &scratch->proj_TD, &scratch->act_TF, &weights->down);
    rows_add(ops, out_TD, &a->mid_TD, &scratch->proj_TD);
}

void block_forward(Ops *ops, const BlockShape *shape, const BlockWeights *weights, const Tensor *cos_sin_PE,
                   const TokenBatch *batch, BlockActivations *a, BlockScratch *scratch, Tensor *out_TD) {
    block_attention_forward(ops, shape, weights, cos_sin_PE, batch, a, scratch);
    block_gate_up_forward(ops, shape, weights, a, scratch);
    block_down_forward(ops, shape, weights, a, scratch, out_TD);
}

void block_note_overflow(Ops *ops, const BlockShape *shape, Overflow *overflow, int unit, const BlockWeights *weights,
                         const BlockActivations *a, const BlockScratch *scratch, const Tensor *out_TD) {
    RowShare rows = rows_of(shape, scratch->act_TF.size[0]);
    int64_t lost = rows_count_nonfinite(ops, out_TD);
    if (!row_share_total(&rows, lost)) return;
    Tensor sum_TD = DEVICE_TENSOR_RAW(&ops->device, MEMORY_SCRATCH, DTYPE_F32, out_TD->size[0], out_TD->size[1]);
    row_share_forward(ops, &rows, &sum_TD, &scratch->act_TF, &weights->down);
    rows_add(ops, &sum_TD, &sum_TD, &a->mid_TD);
    overflow_note(overflow, ops, &rows, lost, unit, false, &sum_TD);
    device_release(&ops->device, &sum_TD);
}

// Gradients of keys and values are sums over the query heads that read them: of segments where those are cut, of ranks where
// several hold the same head. All such ranks then have the same.
static void backward_attention(Ops *ops, const BlockShape *shape, const TokenBatch *batch, Tensor *dqkv_TC,
                               const Tensor *qkv_TC, const BlockActivations *a, const Tensor *dattn_TO) {
    const AttentionShape *attention = &shape->attention;
    int64_t parts = shape->sums.kv_parts, sharers = shape->sums.kv_sharers, T = qkv_TC->size[0];
    int64_t width = 2 * attention->kv_heads * attention->head_dim;
    Device *device = &ops->device;
    if (parts * sharers == 1) {
        attention_backward(ops, dqkv_TC, NULL, dattn_TO, &a->attn_TO, &a->lse_TH, qkv_TC, &a->kv, attention,
                           batch->spans, batch->span_count);
        return;
    }
    Tensor dkv_PTC = DEVICE_TENSOR_RAW(device, MEMORY_ACTIVATION, DTYPE_F32, parts, T, width);
    attention_backward(ops, dqkv_TC, &dkv_PTC, dattn_TO, &a->attn_TO, &a->lse_TH, qkv_TC, &a->kv, attention,
                       batch->spans, batch->span_count);
    if (sharers == 1) {
        attention_fold_keys(ops, dqkv_TC, &dkv_PTC, attention);
    } else {
        int rank = shape->tensor->rank;
        Tensor all = DEVICE_TENSOR_RAW(device, MEMORY_COMMUNICATION, DTYPE_F32, shape->tensor->size, T, width);
        Tensor own = tensor_rows(&all, rank, 1), same = tensor_rows(&all, rank / sharers * sharers, sharers);
        linear_fold(ops, &own, &dkv_PTC);
        comm_all_gather(shape->tensor, all.data, (size_t)(T * width) * sizeof(float));
        attention_fold_keys(ops, dqkv_TC, &same, attention);
        device_release(device, &all);
    }
    device_release(device, &dkv_PTC);
}

// head_norm_backward of group 0 (queries) or 1 (keys) of qkv, whose weight's gradient is a sum over heads, by segments and ranks.
static void backward_heads(Ops *ops, const BlockShape *shape, Tensor *d_TC, Tensor *dw_E, const Tensor *x_TC,
                           const Tensor *w_E, int group) {
    const AttentionShape *attention = &shape->attention;
    int segments = shape->sums.qkv.count;
    int64_t first = group ? attention->query_heads : 0, heads = group ? attention->kv_heads : attention->query_heads;
    if (segments == 1 && !tensor_sum_shared(shape->tensor)) {
        head_norm_backward(ops, d_TC, dw_E, x_TC, w_E, first, heads, shape->rms_norm_eps);
        return;
    }
    int64_t pieces = shape->sums.qkv.groups[group].pieces, runs = pieces ? pieces : 1;
    Tensor sums_SE = DEVICE_TENSOR(&ops->device, MEMORY_ACTIVATION, DTYPE_F32, segments + 1, attention->head_dim);
    for (int64_t i = 0; i < runs; i++) { // the last row is for what another rank counts
        Tensor sum = tensor_rows(&sums_SE, pieces ? i * segments / pieces : segments, 1);
        Tensor sum_E = TENSOR_RESHAPE(&sum, attention->head_dim);
        int64_t from = first + heads * i / runs, to = first + heads * (i + 1) / runs;
        head_norm_backward(ops, d_TC, &sum_E, x_TC, w_E, from, to - from, shape->rms_norm_eps);
    }
    Tensor counted_SE = tensor_rows(&sums_SE, 0, segments);
    tensor_sum_add(ops, shape->tensor, dw_E, &counted_SE);
    device_release(&ops->device, &sums_SE);
}

void block_down_backward(Ops *ops, const BlockWeights *weights, BlockActivations *a, BlockScratch *scratch,
                         const Tensor *d_TD) {
    Tensor *act_TF = &scratch->act_TF, *gate_up_T2F = &a->gate_up_T2F;
    linear_backward_input(ops, act_TF, d_TD, &weights->down);
    swiglu_backward(ops, gate_up_T2F, act_TF, act_TF, gate_up_T2F);
}

void block_down_backward_weight(Ops *ops, BlockGradients *g, const BlockScratch *scratch, const Tensor *d_TD) {
    linear_backward_weight(ops, &g->down_DF, d_TD, &scratch->act_TF);
}

void block_gate_up_backward_weight(Ops *ops, const BlockShape *shape, const BlockWeights *weights, BlockGradients *g,
                                   const BlockActivations *a, BlockScratch *scratch) {
    RowShare rows = rows_of(shape, a->gate_up_T2F.size[0]);
    Tensor norm_TD = norm_of(ops, shape, &rows, scratch, &a->mid_TD, &weights->middle_norm_D);
    linear_backward_weight(ops, &g->gate_up_2FD, &a->gate_up_T2F, &norm_TD);
}

void block_gate_up_backward(Ops *ops, const BlockShape *shape, const BlockWeights *weights, BlockGradients *g,
                            BlockActivations *a, BlockScratch *scratch, Tensor *d_TD, bool weight_too) {
    RowShare rows = rows_of(shape, a->gate_up_T2F.size[0]);
    const Tensor *dgate_up_T2F = &a->gate_up_T2F;
    if (weight_too) {
        Tensor norm_TD = norm_of(ops, shape, &rows, scratch, &a->mid_TD, &weights->middle_norm_D);
        row_share_backward(ops, &rows, &scratch->proj_TD, &g->gate_up_2FD, dgate_up_T2F, &norm_TD, &weights->gate_up);
    } else {
        row_share_backward_input(ops, &rows, &scratch->proj_TD, dgate_up_T2F, &weights->gate_up);
    }
    device_release(&ops->device, &a->gate_up_T2F);
    row_share_norm_backward(ops, &rows, d_TD, &g->middle_norm_D, &scratch->proj_TD, &a->mid_TD, &weights->middle_norm_D,
                            d_TD, shape->rms_norm_eps);
}

void block_attention_backward(Ops *ops, const BlockShape *shape, const BlockWeights *weights, BlockGradients *g,
                              const Tensor *cos_sin_PE, const TokenBatch *batch, BlockActivations *a,
                              BlockScratch *scratch, Tensor *d_TD) {
    const AttentionShape *attention = &shape->attention;
    int64_t queries = attention->query_heads, keys = attention->kv_heads, T = batch->count;
    RowShare rows = rows_of(shape, T);

    // mid = x + attn·Woᵀ
    Tensor dattn_TO = DEVICE_TENSOR_RAW(&ops->device, MEMORY_ACTIVATION, d_TD->dtype, T, shape->heads_columns);
    Tensor dqkv_TC = DEVICE_TENSOR_RAW(&ops->device, MEMORY_ACTIVATION, d_TD->dtype, T, shape->qkv_columns);
    Tensor room, dmid_TD = row_share_spread(ops, &rows, &room, d_TD);
    linear_backward(ops, &dattn_TO, &g->o_DO, &dmid_TD, &a->attn_TO, &weights->o);
    device_release(&ops->device, &room);
    const Tensor *qkv_TC = &a->qkv_TC;
    if (shape->qk_norm) { // keys and values lie in the pages
        rows_cast(ops, &scratch->qkv_TC, &a->qkv_TC);
        turn_heads(ops, shape, weights, cos_sin_PE, batch, &scratch->qkv_TC, false);
        qkv_TC = &scratch->qkv_TC;
    }
    backward_attention(ops, shape, batch, &dqkv_TC, qkv_TC, a, &dattn_TO);
    if (shape->rotates)
        rope_apply(ops, &dqkv_TC, cos_sin_PE, batch->positions, queries + keys, attention->head_dim, true);
    if (shape->qk_norm) {
        backward_heads(ops, shape, &dqkv_TC, &g->q_norm_E, &a->qkv_TC, &weights->q_norm_E, 0);
        backward_heads(ops, shape, &dqkv_TC, &g->k_norm_E, &a->qkv_TC, &weights->k_norm_E, 1);
    }
    Tensor norm_TD = norm_of(ops, shape, &rows, scratch, &a->x_TD, &weights->input_norm_D);
    row_share_backward(ops, &rows, &scratch->proj_TD, &g->qkv_CD, &dqkv_TC, &norm_TD, &weights->qkv);
    if (g->qkv_bias_C.data) linear_backward_bias(ops, &g->qkv_bias_C, &dqkv_TC);
    row_share_norm_backward(ops, &rows, d_TD, &g->input_norm_D, &scratch->proj_TD, &a->x_TD, &weights->input_norm_D,
                            d_TD, shape->rms_norm_eps);
    device_release(&ops->device, &dattn_TO);
    device_release(&ops->device, &dqkv_TC);
}
