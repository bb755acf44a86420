// The rollout engine: prompts in, samples out. Continuous batching over a paged KV cache; the samples of one prompt share
// the prompt's pages; every sampled token's log-prob is recorded. Scheduling never changes a bit: each token depends on its
// own sequence and on Philox numbers by coordinates (seed, purpose; step, prompt, sample, token).
#pragma once
#include "base/rng.h"
#include "model/resident.h"
#include "rollout/generation_options.h"
