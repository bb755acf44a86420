// What the runs of a comparison must show before their difference may be laid to the varied key: the same model and questions,
// the same answers before training, the same prompts in every batch.
#pragma once
#include "run/compare_arms.h"

// The arm at (value, seed) against the baseline of the same seed; true for the baseline itself. Proved are
//   the digests of model and data (unless the key is the model's);
//   as many steps, and validations at the same ones;
//   the records of the validation before training, byte by byte. A key that changes what the untrained model computes or how it
//   is sampled (precision, fsdp_output_dtype, policy.generation…; a group with such a key too) may change answers, never
//   questions: see compare_pairs_initial;
//   the prompts of every batch, in their order.
bool compare_pairs_check(const Comparison *comparison, int value, int seed, Error *error);

// Whether the key reaches the answers of the model before training.
bool compare_pairs_key_is_forward(const char *key);

// How many of the *count answers before training differ from the baseline's.
bool compare_pairs_initial(int64_t *differing, int64_t *count, const Comparison *comparison, int value, int seed,
                           Error *error);
