// Causal grouped-query attention over pages of keys and values. Rollout and training use the same pages and the same
// kernel: a page holds 16 consecutive positions of one sequence, so decode, chunked prefill and packed training see the
// same blocks in the same order.
//
// For one query, keys j = 0..i (or i−window+1..i): score_j = scale · chain over head_dim of q·k_j; m = max_j score_j (exact
// whatever the order); p_j = exp(score_j − m); l = lanes sum of p_j with lane = j mod 16; o_e = (chain over j ascending of
// p_j·v_je) / l. Two passes over the scores instead of a running maximum: no rescaling, so no block size is in the result.
// Keys that a query does not see take no part: what stands in a page behind a sequence's last position does not matter.
#pragma once
#include "ops/ops.h"

enum { KV_PAGE_TOKENS = 16 };
static inline int64_t kv_pages_of(int64_t tokens) {
    return (tokens + KV_PAGE_TOKENS - 1) / KV_PAGE_TOKENS;
}

typedef struct AttentionShape {
    int64_t query_heads, kv_heads, head_dim; // head h reads kv head h / (H/K), a whole number; head_dim <= 512
    float scale;                             // 1/sqrt(head_dim)
    int64_t window;                          // 0: none, else a query sees this many newest keys, itself included
} AttentionShape;

// One layer's pages, in the compute dtype.
typedef struct KvPages {
    Tensor keys;   // [pages, K, E, 16]: transposed, so that 16 keys are one vector
    Tensor values; // [pages, K, 16, E]
} KvPages;

// Consecutive rows of a token matrix that are consecutive positions of one sequence.
typedef struct AttentionSpan {
    int64_t row, count;   // rows row..row+count-1
    int64_t start;        // position of the first
    const int32_t *pages; // host: pages[i] holds positions 16i..16i+15, for all i <= (start+count-1)/16
} AttentionSpan;

KvPages kv_pages_open(Ops *ops, MemoryTag tag, DType dtype, int64_t pages, const AttentionShape *shape); // zeroed
void kv_pages_close(Ops *ops, KvPages *kv);

// Copies one page (all heads): for a shared page that a sample is about to extend.
void kv_pages_copy(Ops *ops, KvPages *kv, int32_t to, int32_t from);

// Writes the key and value columns of qkv_TC (C = (H + 2K)·E: H query heads, K key heads, K value heads) into the pages,
// converting to their dtype. Spans must not write the same page slots.
void kv_store(Ops *ops, KvPages *kv, const Tensor *qkv_TC, const AttentionShape *shape, const AttentionSpan *spans,
              int64_t span_count);

// out_TO (O = H·E) for the rows of all spans; their own keys must have been stored before. lse_TH (fp32, may be NULL)
// receives m + log(l) for backward.
void attention_forward(Ops *ops, Tensor *out_TO, Tensor *lse_TH, const Tensor *qkv_TC, const KvPages *kv,
                       const AttentionShape *shape, const AttentionSpan *spans, int64_t span_count);

// dqkv_TC (all columns of the spans' rows written) from dout_TO. Spans must start at position 0 (whole sequences). With
// p_ij = exp(score_ij − lse_i), dot_i = lanes sum over head_dim of dout_i·out_i and
// ds_ij = p_ij · (chain over head_dim of dout_i·v_j − dot_i):
//   dq_i = scale · chain over j ascending of ds_ij·k_j
//   dk_j = scale · chain over (query position i, query head of the group) ascending of ds_ij·q_i
//   dv_j = chain over the same of p_ij·dout_i
// dkv_PTC (fp32, P·T·2KE; else NULL): the query heads of a key/value head are P groups, whose dk and dv are sums of their own and go
// there, [part][row][K keys, K values], in place of dqkv's columns.
// qkv_TC may be its query columns alone: keys and values are read from the pages.
// Scores are computed again for dq and for dk, dv, so that every block of rows and every block of keys is a task of its own.
void attention_backward(Ops *ops, Tensor *dqkv_TC, Tensor *dkv_PTC, const Tensor *dout_TO, const Tensor *out_TO,
                        const Tensor *lse_TH, const Tensor *qkv_TC, const KvPages *kv, const AttentionShape *shape,
                        const AttentionSpan *spans, int64_t span_count);

// The key and value columns of dqkv_TC from the fold of P parts (linear_fold), rounded once.
void attention_fold_keys(Ops *ops, Tensor *dqkv_TC, const Tensor *dkv_PTC, const AttentionShape *shape);
