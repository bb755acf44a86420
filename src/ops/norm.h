// The norm of rows, and of heads in them, with its gradients. Inputs and outputs may be F32, BF16 or F16 in any mix unless said otherwise.
#pragma once
#include "ops/ops.h"

// y = x · rsqrt(mean(x²) + eps) · w, in fp32, rounded once (Zhang & Sennrich 2019; Llama). mean: lanes over D.
void rms_norm_forward(Ops *ops, Tensor *y_TD, const Tensor *x_TD, const Tensor *w_D, float eps);

// dx_TD = residual_TD (NULL: 0) + rstd · (dy·w − x · (lanes Σ dy·w·x) · rstd² / D), rstd = 1/sqrt(mean(x²) + eps);
// dw_D += Σ_t dy·x·rstd (fp32, tokens ascending, a chain from 0 that is added when it is finished). dw_D may be NULL. dx may be
// the same tensor as residual, but not as dy or x.
void rms_norm_backward(Ops *ops, Tensor *dx_TD, Tensor *dw_D, const Tensor *dy_TD, const Tensor *x_TD,
                       const Tensor *w_D, const Tensor *residual_TD, float eps);

// The chain of rms_norm_backward's dw_D alone, where the rows lie on several ranks: chain_D (fp32) goes on over these rows, or begins
// with them. So the bits of rows in parts, one after the other, are those of all rows at once. Rows may be none.
void norm_chain_add(Ops *ops, Tensor *chain_D, const Tensor *dy_TD, const Tensor *x_TD, float eps, bool begins);

// rms_norm_forward, in place, of heads first..first+heads-1 of every row of x_TC; each is as long as w_E (Qwen3).
void head_norm_forward(Ops *ops, Tensor *x_TC, const Tensor *w_E, int64_t first, int64_t heads, float eps);

// Its gradients: of x in place of d_TC, which held those of the output; dw_E += a chain from 0 over tokens, and a token's heads,
// ascending. x_TC is the input of forward.
void head_norm_backward(Ops *ops, Tensor *d_TC, Tensor *dw_E, const Tensor *x_TC, const Tensor *w_E, int64_t first,
                        int64_t heads, float eps);
