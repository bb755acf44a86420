// The gradient of a norm's weight where the rows lie on several ranks: one chain over all of them, which goes from rank to rank.
#pragma once
#include "ops/ops.h"

// The chain of rms_norm_backward's dw_D alone (ops/rows.h): chain_D (fp32) goes on over these rows, or begins with them. So the
// bits of rows in parts, one after the other, are those of all rows at once. Rows may be none.
void norm_chain_add(Ops *ops, Tensor *chain_D, const Tensor *dy_TD, const Tensor *x_TD, float eps, bool begins);
