// One decoder block of the training walk. Its unit is gathered, and its gradient of a micro-batch reduced, slice by slice
// (train/shard.h): each slice comes when its stage of the block (model/block.h) begins and goes when it is through, and no two of
// the matrices' gradients exist at a time. Norms and biases, which are small, stay for the whole block.
//
// A rank without tokens (batch->count 0) makes the same calls with a NULL tensor: the others need its parts, and theirs it.
#pragma once
#include "train/walk.h"

// From activations[unit].x_TD, the caller's; leaves what the walk keeps of the activations.
void walk_block_forward(Walk *walk, int unit, Tensor *out_TD);

// Releases what is kept, but for the input; accepts what is released already.
void walk_block_close(Walk *walk, int unit);

// d_TD, in the compute dtype: the gradient of the output becomes that of the input. Makes again what was not kept; gathered for
// that, a slice stays until its backward. Releases all activations, the input too.
void walk_block_backward(Walk *walk, int unit, Tensor *d_TD);
