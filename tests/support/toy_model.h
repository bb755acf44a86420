// A tiny random model with a byte tokenizer and a chat template in a folder: small enough for seconds, with digits frequent
// enough among its tokens that some answers are right.
#pragma once
#include "model/architecture.h"

// Makes the folder. Llama: tied head; Qwen2: biases and a head of its own. Vocabulary 272, 512 positions.
bool toy_model_write(const char *folder, ModelFamily family, uint64_t seed, Error *error);
