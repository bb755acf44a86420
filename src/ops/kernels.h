// The inner loops, one table an instruction set. Each body (*.inc) is written once and built by kernels_scalar.c,
// kernels_avx2.c and kernels_avx512.c on sixteen logical lanes (simd_*.h), so all tables give the same bits.
// A body defines one static function for each of its entries, named as the entry.
#pragma once
#include "ops/attention.h"
#include "ops/gemm.h"
#include "ops/rows.h"
#include "ops/softmax.h"

#include <stdint.h>

// Floats in the type in which they are stored (F32, BF16, F16).
typedef struct Numbers {
    void *data;
    DType dtype;
} Numbers;

// The scalars of one AdamW update, as the loop uses them (rows.h).
typedef struct AdamwFactors {
    float gradient_scale, keep, beta1, rest1, beta2, rest2, rate, correction, eps; // keep: 1 − lr·wd; rest: 1 − β
} AdamwFactors;

// Attention's fixed scratch on the stack of the thread that works on a block (attention.inc).
enum {
    ATTENTION_MAX_HEAD = 512, // largest head size
    ATTENTION_MAX_ROWS = 96,  // of one block
    ATTENTION_FLOATS = 8192,  // rows of one block, or positions of pages, × head size (both in multiples of sixteen)
    ATTENTION_SCORES = 65536, // rows × keys whose scores are kept in forward
    ATTENTION_GRADIENTS = 131072, // keys × head size whose gradients are summed in one pass of backward
};

// Rows of a block, for heads of this size rounded up to a multiple of sixteen.
static inline int64_t attention_rows(int64_t padded) {
    int64_t rows = ATTENTION_FLOATS / padded / 16 * 16;
    return rows < ATTENTION_MAX_ROWS ? rows : ATTENTION_MAX_ROWS;
}

// One task of attention: one key/value head of one span, and the rows first..first+count-1 of its count·group rows
// (row = position · group + query head of the group). attention_store: positions of the span instead;
// attention_backward_keys: pages.
typedef struct AttentionBlock {
    const AttentionShape *shape;
    AttentionSpan span;
    int64_t kv_head, first, count;
    int64_t columns;  // of qkv
    int64_t dcolumns; // of dqkv
    int64_t parts;    // of the query heads of a key/value head: kv_head counts heads · parts
    Numbers qkv, keys, values, out, dout, dqkv;
    float *lse;   // may be NULL in forward
    float *dkv;   // [parts][rows][2·K·E] takes the place of dqkv's key and value columns; or NULL
    int64_t rows; // of qkv
} AttentionBlock;

// ENTRY(result, name, (arguments)): one line a kernel.
#define GEMM_KERNELS(ENTRY)                                                                                            \
    ENTRY(double, gemm_peak, (float *out, int64_t repeats))                                                            \
    ENTRY(GemmSizes, gemm_sizes, (void))                                                                               \
    ENTRY(void, gemm_pack_strips, (const GemmPackStrips *pack))                                                        \
    ENTRY(void, gemm_pack_tile, (float *out, const GemmPackTile *pack))                                                \
    ENTRY(void, gemm_block, (const GemmBlock *block))                                                                  \
    ENTRY(void, gemm_column_sums,                                                                                      \
          (float *sums, const void *rows, DType dtype, int64_t stride, int64_t count, int64_t columns))                \
    ENTRY(void, gemm_fold_parts,                                                                                       \
          (Numbers out, const float *parts, int64_t apart, const int *folds, int count, int64_t n))
#define ROWS_KERNELS(ENTRY)                                                                                            \
    ENTRY(void, vmath_exps, (float *out, const float *in, int64_t n))                                                  \
    ENTRY(void, vmath_logs, (float *out, const float *in, int64_t n))                                                  \
    ENTRY(void, rows_convert, (Numbers out, Numbers in, int64_t n))                                                    \
    ENTRY(int64_t, rows_convert_counting, (Numbers out, Numbers in, float limit, int64_t n))                           \
    ENTRY(int64_t, rows_nonfinite, (Numbers in, int64_t n))                                                            \
    ENTRY(float, rows_magnitude_block, (Numbers in, int64_t n))                                                        \
    ENTRY(void, rows_squares_block, (Numbers in, int64_t n, RowsSquares grid, RowsSquares * sums))                     \
    ENTRY(void, rows_accumulate, (float *sum, Numbers in, int64_t n))                                                  \
    ENTRY(void, rows_plus, (Numbers out, Numbers a, Numbers b, int64_t n))                                             \
    ENTRY(void, rms_norm_row, (Numbers y, Numbers x, Numbers w, int64_t n, float eps))                                 \
    ENTRY(float, rms_norm_rstd, (Numbers x, int64_t n, float eps))                                                     \
    ENTRY(float, rms_norm_row_backward,                                                                                \
          (Numbers dx, Numbers dy, Numbers x, Numbers w, Numbers residual, int64_t n, float eps))                      \
    ENTRY(void, rms_norm_weight_row, (float *dw, Numbers dy, Numbers x, float rstd, int64_t n))                        \
    ENTRY(void, swiglu_row, (Numbers act, Numbers gate, Numbers up, int64_t n))                                        \
    ENTRY(void, swiglu_row_backward,                                                                                   \
          (Numbers dgate, Numbers dup, Numbers act, Numbers dact, Numbers gate, Numbers up, int64_t n))                \
    ENTRY(void, rope_row, (Numbers x, const float *cos_sin, int64_t heads, int64_t head_dim, float sign))              \
    ENTRY(void, adamw_block, (float *w, float *m, float *v, const float *gradient, int64_t n, const AdamwFactors *f))
#define ATTENTION_KERNELS(ENTRY)                                                                                       \
    ENTRY(void, attention_store, (const AttentionBlock *block))                                                        \
    ENTRY(void, attention_forward_block, (const AttentionBlock *block))                                                \
    ENTRY(void, attention_backward_head, (const AttentionBlock *block))                                                \
    ENTRY(void, attention_backward_queries, (const AttentionBlock *block))                                             \
    ENTRY(void, attention_backward_keys, (const AttentionBlock *block))
#define SOFTMAX_KERNELS(ENTRY)                                                                                         \
    ENTRY(void, softmax_row, (SoftmaxRow * row, const float *logits, int64_t n, SoftmaxFilter filter))                 \
    ENTRY(void, softmax_row_blocks, (SoftmaxBlock * blocks, const float *logits, int64_t count, float temperature))    \
    ENTRY(void, softmax_fold_row, (SoftmaxRow * row, const SoftmaxBlock *blocks, int64_t count))                       \
    ENTRY(float, softmax_logprob, (const float *logits, int64_t id, const SoftmaxRow *row, SoftmaxFilter filter))      \
    ENTRY(int32_t, softmax_likeliest, (const float *logits, int64_t n, const SoftmaxRow *row, SoftmaxFilter filter))   \
    ENTRY(int32_t, softmax_pick,                                                                                       \
          (const float *logits, int64_t n, const SoftmaxRow *row, float uniform, SoftmaxFilter filter))                \
    ENTRY(void, softmax_row_backward,                                                                                  \
          (float *logits, int64_t n, const SoftmaxRow *row, const SoftmaxRow *unfiltered, int64_t id, float g,         \
           float h, SoftmaxFilter filter))
#define ALL_KERNELS(ENTRY) GEMM_KERNELS(ENTRY) ROWS_KERNELS(ENTRY) ATTENTION_KERNELS(ENTRY) SOFTMAX_KERNELS(ENTRY)

#define KERNEL_MEMBER(result, name, arguments) result(*name) arguments;
#define KERNEL_VALUE(result, name, arguments) .name = name,

typedef struct Kernels {
    const char *isa; // "scalar", "avx2", "avx512"
    ALL_KERNELS(KERNEL_MEMBER)
} Kernels;

extern const Kernels kernels_scalar, kernels_avx2, kernels_avx512;
