// The one matrix product behind linear.h: C = A · B, every element one chain over k (ops.h), cut into blocks for caches
// and threads.
#pragma once
#include "ops/ops.h"

Tensor gemm_scratch(Device *device); // the packed blocks' memory, of fixed size, for ops_open
