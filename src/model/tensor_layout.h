// From the shares of tensor-parallel ranks to the whole model and back, unit by unit (flat arrays of model/parameters.h): for
// ranks that train with one division of the model and sample with another.
#pragma once
#include "comm/comm.h"
#include "model/parameters.h"
#include "model/tensor_share.h"
#include "ops/ops.h"

// whole_X (as flat_X in dtype) from the shares flat_X of all ranks of `tensor`. Each passes its own `share`.
void tensor_layout_join(Ops *ops, Comm *tensor, const Architecture *share, const ParameterTable *whole, int unit,
                        Tensor *whole_X, const Tensor *flat_X);

// flat_X, the share that `part` is the table of, out of whole_X.
void tensor_layout_cut(Ops *ops, const ParameterTable *part, const ParameterTable *whole, int unit, Tensor *flat_X,
                       const Tensor *whole_X);
