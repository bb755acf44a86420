// One decoder block (pre-norm attention and SwiGLU, Llama and its relatives), forward and backward. The training walk and the
// resident walk call the same forward on the same kernels, so their numbers are the same bits.
//
// Forward, in the compute dtype unless said otherwise (each arrow one operation, one rounding):
//   norm = rms_norm(x)             qkv = norm·Wqkvᵀ + b; norm of each head of q and k (Qwen3); rotate q and k unless the
//                                  layer has no rotation; store k, v in pages
//   attn = attention(q, pages)     mid = x + attn·Woᵀ
//   norm = rms_norm(mid)           gate_up = norm·Wguᵀ;  act = silu(gate)·up
//   out = mid + act·Wdownᵀ         rounded once to out's dtype: the policy's output dtype
//
// Of a rank's share (model/tensor_share.h) heads and MLP are this rank's part. The products with Wo and Wdown, and in backward those
// that leave Wqkv and Wgu, are summed over the ranks; x, norms, mid and out are whole on every rank, or (shape.divides_rows) each has
// its rows of them (model/row_share.h), and norms, in backward gradients too, are gathered for the products that read them.
#pragma once
#include "model/architecture.h"
#include "model/overflow.h"
#include "model/parameters.h"
#include "model/row_share.h"
#include "model/tensor_share.h"
#include "model/tensor_sum.h"
#include "ops/attention.h"
#include "ops/linear.h"

// Sizes and options of one block; only window and rotates differ between the blocks of a model. C = (H + 2K)·E, O = H·E.
typedef struct BlockShape {
    int64_t hidden, ffn, qkv_columns, heads_columns; // D, F, C, O
    AttentionShape attention;
    float rms_norm_eps;
    bool qk_norm, rotates;
    TensorShareSums sums;
    Comm *tensor;      // ranks that share the block; NULL: none
    bool divides_rows; // over them
} BlockShape;

// Of a model or a rank's share of it; does not divide rows.
BlockShape block_shape(const Architecture *architecture, int64_t layer, Comm *tensor);

// Fills the rotary table cos_sin_PE (fp32) for positions 0..P-1.
void block_rope_table(Ops *ops, Tensor *cos_sin_PE, const Architecture *architecture);

// Weights of one block in the compute dtype: rows (training) or panels (resident) of each matrix.
typedef struct BlockWeights {
    LinearWeight qkv, o, gate_up, down;             // [C, D], [D, O], [2F, D], [D, F]
    Tensor qkv_bias_C, input_norm_D, middle_norm_D; // qkv_bias_C.data is NULL without biases
    Tensor q_norm_E, k_norm_E;                      // data NULL without norms of heads
} BlockWeights;

// fp32 gradients, added to.
typedef struct BlockGradients {
    Tensor qkv_CD, o_DO, gate_up_2FD, down_DF, qkv_bias_C, input_norm_D, middle_norm_D, q_norm_E, k_norm_E;
} BlockGradients;

// Views into a part of a unit's flat array (model/parameters.h), from its element `origin` on: of what the part holds; the others
// and a weight's panels stay as they are.
void block_weights_view(BlockWeights *weights, const ParameterTable *table, int unit, const Tensor *part,
                        int64_t origin);
void block_gradients_view(BlockGradients *gradients, const ParameterTable *table, int unit, const Tensor *part,
                          int64_t origin);
void block_weights_share(BlockWeights *weights, const TensorShareSums *sums); // how their sums are cut

// The rows that a walk pushes through the model. Host arrays, owned by the caller.
typedef struct TokenBatch {
    int64_t count;            // T
    const int32_t *ids;       // [T]
    const int32_t *positions; // [T]
    const AttentionSpan *spans;
    int64_t span_count;
} TokenBatch;

// What backward reads, in the dtype in which it reads it. lse_TH.data NULL: forward only. qkv_TC: after the rotation; it may
// have room for the query columns alone, as keys and values are read from kv. With norms of heads and scratch for them: all
// columns, before the norms, which are computed again in backward.
typedef struct BlockActivations { // of x and mid this rank's rows
    Tensor x_TD, qkv_TC, attn_TO, mid_TD, gate_up_T2F;
    Tensor lse_TH; // fp32
    KvPages kv;
} BlockActivations;

// Temporaries that every block of a walk uses in turn, in the compute dtype.
typedef struct BlockScratch {
    Tensor norm_TD; // row_share_room
    Tensor proj_TD; // this rank's rows
    Tensor act_TF;
    Tensor qkv_TC; // for a backward through norms of heads; else data NULL
} BlockScratch;

// activations->x_TD is the input; the other activations are written. out_TD may have another dtype than the rest. It is three
// stages, each of which reads one group of matrices, and norms and biases: to mid; to gate_up_T2F; to out.
void block_forward(Ops *ops, const BlockShape *shape, const BlockWeights *weights, const Tensor *cos_sin_PE,
                   const TokenBatch *batch, BlockActivations *activations, BlockScratch *scratch, Tensor *out_TD);
void block_attention_forward(Ops *ops, const BlockShape *shape, const BlockWeights *weights, const Tensor *cos_sin_PE,
                             const TokenBatch *batch, BlockActivations *activations, BlockScratch *scratch);
void block_gate_up_forward(Ops *ops, const BlockShape *shape, const BlockWeights *weights,
                           BlockActivations *activations, BlockScratch *scratch);
void block_down_forward(Ops *ops, const BlockShape *shape, const BlockWeights *weights,
                        const BlockActivations *activations, BlockScratch *scratch, Tensor *out_TD);

// After block_forward with float16 in play: counts lost values of out_TD, the output of block `unit`. When they are the first,
// the last sum is made again in fp32, for its largest magnitude.
void block_note_overflow(Ops *ops, const BlockShape *shape, Overflow *overflow, int unit, const BlockWeights *weights,
                         const BlockActivations *activations, const BlockScratch *scratch, const Tensor *out_TD);

// The stages backward, in this order. d_TD, in the compute dtype: the gradient of the output becomes that of mid, then that of the
// input; gradients are added to. Spans are whole sequences. What is cheap (norms, SwiGLU) is computed again instead of kept. The
// gradient of gate_up stands in gate_up's place, which is then released; act stands where its gradient stood. The own gradient of
// an MLP's matrix needs no matrix, so that both need not stand at a time; where they do, that of gate and up is made at once with the
// gradient of their input (weight_too). The first two want the d_TD of all rows.
void block_down_backward(Ops *ops, const BlockWeights *weights, BlockActivations *activations, BlockScratch *scratch,
                         const Tensor *d_TD);
void block_down_backward_weight(Ops *ops, BlockGradients *gradients, const BlockScratch *scratch, const Tensor *d_TD);
void block_gate_up_backward_weight(Ops *ops, const BlockShape *shape, const BlockWeights *weights,
                                   BlockGradients *gradients, const BlockActivations *activations,
                                   BlockScratch *scratch);
void block_gate_up_backward(Ops *ops, const BlockShape *shape, const BlockWeights *weights, BlockGradients *gradients,
                            BlockActivations *activations, BlockScratch *scratch, Tensor *d_TD, bool weight_too);
void block_attention_backward(Ops *ops, const BlockShape *shape, const BlockWeights *weights, BlockGradients *gradients,
                              const Tensor *cos_sin_PE, const TokenBatch *batch, BlockActivations *activations,
                              BlockScratch *scratch, Tensor *d_TD);
