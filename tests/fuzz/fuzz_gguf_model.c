// Fuzz target: a whole model in a GGUF file: architecture, weights, tokenizer, chat template.
#include "fuzz/fuzz_files.h"
#include "fuzz/fuzz_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_files_forget();
    fuzz_files_add("fuzz/x.gguf", data, size);
    fuzz_model_walk("fuzz/x.gguf");
    return 0;
}
