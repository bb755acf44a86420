// A tiny model of random weights as a Hugging Face folder (config.json and model.safetensors in F32), for tests and benches.
#pragma once
#include "model/architecture.h"

// Makes the folder. Weights and biases are normal with the given deviation, norms 1 + 0.1·normal, all by Philox
// (RNG_TEST_WEIGHTS) from the seed and the parameter's place in the table. The architecture must pass architecture_check.
bool random_model_write(const char *folder, const Architecture *architecture, uint64_t seed, double deviation,
                        Error *error);
