// Weights as safetensors under Hugging Face's names, tensor by tensor: no more than some rows of one tensor are in memory.
#pragma once
#include "model/model_file.h"
#include "model/safetensors.h"

// Writes folder/model.safetensors, or, when that would be larger than max_shard bytes, folder/model-00001-of-0000N.safetensors …
// and model.safetensors.index.json. type: F32, BF16 or F16; refuses a value that is not finite, in F16 also one that becomes
// infinite, naming the tensor.
bool export_weights(const char *folder, const ModelFile *file, SafetensorsType type, int64_t max_shard, Error *error);
