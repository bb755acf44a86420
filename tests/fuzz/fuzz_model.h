// What the targets that read whole models do with one that opens.
#pragma once
#include "run/loaded_model.h"

// Opens the model at path with its text side; reads every parameter, its digest, encodes and decodes a text, renders a chat.
void fuzz_model_walk(const char *path);

// Gives a model without weights the tokenizer and the chat template of SmolLM2, from tests/data.
void fuzz_model_text_side(LoadedModel *model);
