// Operations on rows of tokens. Inputs and outputs may be F32, BF16 or F16 in any mix unless said otherwise.
#pragma once
#include "ops/ops.h"

// y_TD[t] = table_VD[ids[t]], or −0 everywhere when the id is -1. ids are host memory, -1 <= id < V (CHECKed).
void embedding_forward(Ops *ops, Tensor *y_TD, const Tensor *table_VD, const int32_t *ids);

// dtable_UD[rows[t]] += dy_TD[t] (fp32, tokens ascending), unless the row is -1. rows is host memory.
void embedding_backward(Ops *ops, Tensor *dtable_UD, const Tensor *dy_TD, const int32_t *rows);

// out_TD[i] = x_SD[rows[i]]: picks rows (host indices), converting the dtype.
void rows_gather(Ops *ops, Tensor *out_TD, const Tensor *x_SD, const int32_t *rows);

// out_TO = the first O columns of x_TC, of the same dtype.
void rows_first_columns(Ops *ops, Tensor *out_TO, const Tensor *x_TC);

// out_SD[rows[i]] = x_TD[i], rows distinct; other rows of out are left alone.
void rows_scatter(Ops *ops, Tensor *out_SD, const Tensor *x_TD, const int32_t *rows);

// out = a + b, elementwise. out may be a or b when the dtypes agree.
void rows_add(Ops *ops, Tensor *out, const Tensor *a, const Tensor *b);

// out = in, rounded to out's dtype. Returns how many finite inputs became infinite (fp16 overflow), 0 on plan.
int64_t rows_cast(Ops *ops, Tensor *out, const Tensor *in);

// act_TF = silu(gate) · up, where gate_up_T2F holds gate in columns 0..F-1 and up in F..2F-1. silu(x) = x / (1 + exp(−x)).
void swiglu_forward(Ops *ops, Tensor *act_TF, const Tensor *gate_up_T2F);
// Also writes act_TF again, which may be the tensor dact; dgate_up may be the tensor gate_up.
void swiglu_backward(Ops *ops, Tensor *dgate_up_T2F, Tensor *act_TF, const Tensor *dact_TF, const Tensor *gate_up_T2F);

// Rotates the first `heads` heads of every row in place: columns j and j + E/2 of a head are one pair ("rotate half").
// x_TC has C >= heads·E columns. cos_sin_PE holds for each position E/2 cosines, then E/2 sines (fp32). positions are host
// memory. inverse rotates back, with the same scale (the gradient).
void rope_apply(Ops *ops, Tensor *x_TC, const Tensor *cos_sin_PE, const int32_t *positions, int64_t heads,
                int64_t head_dim, bool inverse);

// Fills cos_sin_PE[p] for positions 0..P-1 from E/2 inverse frequencies (host): angle = (float)p · inv_freq[i] rounded to
// fp32, cosine and sine by our own routine (double inside, the same on every machine), rounded to fp32, times scale (YaRN).
void rope_table(Ops *ops, Tensor *cos_sin_PE, const float *inv_freq, float scale);

// Σ x² over all elements of any number of tensors on any number of ranks, the same bits however they lie: every x² is rounded
// to a multiple of a number so coarse that sums of all of them are exact, and what is left of it to one of a finer number
// (Demmel & Nguyen 2013); with 2^n elements the sum is right to some 2^(3n - 106) of its largest x². `largest` is that of
// rows_magnitude over all of them, finite, and `count` at least how many they are. The sums may be added in any order.
typedef struct RowsSquares {
    double coarse, fine; // of a grid: 1.5 · 2^52 times the multiple
} RowsSquares;
RowsSquares rows_squares_grid(float largest, int64_t count);
RowsSquares rows_squares(Ops *ops, const Tensor *x, RowsSquares grid); // 0 on plan
float rows_magnitude(Ops *ops, const Tensor *x);                       // the largest |x|; NaN if one is NaN; 0 on plan
double rows_square_sum(Ops *ops, const Tensor *x); // of one tensor; NaN or infinite if an element is

int64_t rows_count_nonfinite(Ops *ops, const Tensor *x); // NaN and infinite elements; 0 on plan
float rows_largest(Ops *ops, const Tensor *x); // the largest finite magnitude, slowly, for a diagnosis; 0 on plan

// One AdamW update (Loshchilov & Hutter 2019, as torch.optim.AdamW): with g = gradient · gradient_scale,
//   w *= 1 − lr·wd;  m = β1·m + (1−β1)·g;  v = β2·v + (1−β2)·g²;  w −= (lr/(1−β1^t)) · m / (sqrt(v)/sqrt(1−β2^t) + eps).
// All tensors F32 and of one size. step t starts at 1. Scalars are doubles rounded once to fp32 where torch's CPU kernel does.
typedef struct AdamwStep {
    double lr, beta1, beta2, eps, weight_decay, gradient_scale;
    int64_t step;
} AdamwStep;
void adamw_update(Ops *ops, Tensor *w, Tensor *m, Tensor *v, const Tensor *gradient, AdamwStep step);
