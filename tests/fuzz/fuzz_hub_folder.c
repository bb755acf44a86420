// Fuzz target: a model folder: configs, index and shards, tokenizer, chat template, and what a checkpoint adds.
#include "fuzz/fuzz_files.h"
#include "fuzz/fuzz_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {
        "config.json",        "generation_config.json", "model.safetensors.index.json",
        "model.safetensors",  "a.safetensors",          "b.safetensors",
        "tokenizer.json",     "tokenizer_config.json",  "chat_template.jinja",
        "training_info.json",
    };
    fuzz_files_split(data, size, names, sizeof names / sizeof *names);
    fuzz_model_walk("fuzz");
    return 0;
}
