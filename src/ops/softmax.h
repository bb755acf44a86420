// Log-probabilities: the one function that sampler and trainer share.
//
// A row of fp32 logits is divided by the temperature (t ≠ 1: x = logit / t) and filtered (min-p and top-k, then top-p on what
// is left):
//   sum = Σ blocks of 512 tokens (by id), added in order: (lanes sum of exp(x_v − m) over its kept tokens) · exp(m − max), where
//         m is the block's own largest x_v, so that a block can be summed where the others are not seen
//   log p(v) = (x_v − max) − log_sum,  log_sum = log(sum).
// Order of tokens for filters: by logit descending, equal logits by id ascending. Min-p keeps the tokens at least min_p times as
// likely as the likeliest one: x_v >= max + log(min_p). Top-k keeps the first k. With e_v = exp(x_v − max), top-p keeps the shortest prefix, at least one
// token, whose weight reaches top_p · sum (of what the other two kept); all when rounding lets none reach it. The weight of a prefix is a sum of integers, floor(e_v · 2^40), against ceil(top_p · sum · 2^40): exact, so no way of
// searching can change the kept set. It is "logit above cut, or equal to cut with id <= cut_id".
//
// A row that holds NaN or +inf, or nothing but −inf, has no distribution: its max, sum and log_sum are NaN, its log-probs NaN,
// its sampled id is 0. The caller sees it by isnan(max).
#pragma once
#include "ops/ops.h"

enum { SOFTMAX_BLOCK = 512 }; // tokens whose exponentials are summed together

typedef struct SoftmaxFilter {
    float temperature; // > 0
    float top_p;       // in (0, 1]; 1: off
    int32_t top_k;     // 0: off
    float min_p;       // in [0, 1]; 0: off
} SoftmaxFilter;

// Whether the filter can drop a token at all.
static inline bool softmax_filters(SoftmaxFilter filter) {
    return filter.top_p < 1 || filter.top_k > 0 || filter.min_p > 0;
}

// What the distribution of one row comes to. cut = -INFINITY and cut_id = INT32_MAX when nothing is filtered.
typedef struct SoftmaxRow {
    float max, sum, log_sum; // of the tempered logits
    float cut;               // tempered logit of the last kept token
    int32_t cut_id;
} SoftmaxRow;

// rows_T (host) for every row of logits_TV (fp32). Columns beyond `vocabulary` (padding) take no part.
void softmax_rows(Ops *ops, SoftmaxRow *rows_T, const Tensor *logits_TV, int64_t vocabulary, SoftmaxFilter filter);

// logprob_T[t] = log p(ids[t]) (host); -INFINITY when the filter dropped it.
void softmax_logprobs(Ops *ops, float *logprob_T, const Tensor *logits_TV, const SoftmaxRow *rows_T, const int32_t *ids,
                      SoftmaxFilter filter);

// ids[t] = the token at uniform_T[t] in [0, 1) of the row's cumulative distribution (tokens by id ascending; the blocks of
// `sum`, and inside the block that passes uniform · sum the tokens one by one); uniform_T NULL: the most likely token, lowest
// id among equals. Never a token that the filter dropped or whose probability is 0.
void softmax_sample(Ops *ops, int32_t *ids, const Tensor *logits_TV, const SoftmaxRow *rows_T, int64_t vocabulary,
                    const float *uniform_T, SoftmaxFilter filter);

// Turns logits into their gradient, in place: with g = dlogprob_T[t] and h = dunfiltered_T[t] (gradients of the filtered
// and of the unfiltered, tempered log-prob of ids[t]; host; h may be NULL, then unfiltered_T is not read),
//   dlogits_v = (g·(1[v = id] − p_v) + h·(1[v = id] − p'_v)) / temperature; padding columns become 0.
// A row whose g and h are 0 becomes 0 whatever its logits are.
void softmax_backward(Ops *ops, Tensor *logits_TV, const SoftmaxRow *rows_T, const SoftmaxRow *unfiltered_T,
                      const int32_t *ids, const float *dlogprob_T, const float *dunfiltered_T, int64_t vocabulary,
                      SoftmaxFilter filter);

// ---- rows in pieces, for a vocabulary of which nobody holds all logits at once. Without filters, but for the gradient.
//
// A piece is logits_TP (fp32) of the tokens first..first+count-1; first is a multiple of SOFTMAX_BLOCK, and count too unless the
// vocabulary ends there; columns beyond count are padding. The bits are those of the whole rows.

// What a block comes to: its largest tempered logit, and the sum of exp(x_v − max).
typedef struct SoftmaxBlock {
    float max, sum;
} SoftmaxBlock;

static inline int64_t softmax_block_count(int64_t vocabulary) {
    return (vocabulary + SOFTMAX_BLOCK - 1) / SOFTMAX_BLOCK;
}

// The blocks of a piece, into blocks_TS[t · stride + first / SOFTMAX_BLOCK …] (host).
void softmax_blocks(Ops *ops, SoftmaxBlock *blocks_TS, int64_t stride, const Tensor *logits_TP, int64_t first,
                    int64_t count, float temperature);

// softmax_rows of `rows` rows, from all `blocks` blocks of each.
void softmax_fold(Ops *ops, SoftmaxRow *rows_T, const SoftmaxBlock *blocks_TS, int64_t rows, int64_t blocks);

// x_T[t] = tempered logit of ids[t] (host), where the piece has it; else left alone. log p = (x − max) − log_sum.
void softmax_targets(Ops *ops, float *x_T, const Tensor *logits_TP, const int32_t *ids, int64_t first, int64_t count,
                     float temperature);
static inline float softmax_logprob_of(float x, const SoftmaxRow *row) {
    return (x - row->max) - row->log_sum;
}

// softmax_backward of a piece; the other arguments are those of the whole rows.
void softmax_backward_piece(Ops *ops, Tensor *logits_TP, const SoftmaxRow *rows_T, const SoftmaxRow *unfiltered_T,
                            const int32_t *ids, const float *dlogprob_T, const float *dunfiltered_T, int64_t first,
                            int64_t count, SoftmaxFilter filter);
