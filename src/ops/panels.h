// Rows of a weight that is held in panels only (linear_pack). A tied head is the table of embeddings too: reading the rows out
// of its panels saves a second copy of the largest matrix there is.
#pragma once
#include "ops/linear.h"

// y_TK[t] = W[ids[t]], the very numbers, or −0 everywhere when the id is -1. y has the dtype of the panels. ids are host memory,
// -1 <= id < N (CHECKed).
void panels_gather(Ops *ops, Tensor *y_TK, const LinearWeight *weight, const int32_t *ids);
