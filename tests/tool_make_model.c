// Writes a toy model (support/toy_model.h) into a folder, for end-to-end tests.
// usage: tool_make_model FOLDER llama|qwen2 [SEED]
#include "support/toy_model.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: tool_make_model FOLDER llama|qwen2 [SEED]\n");
        return 2;
    }
    Error error = {0};
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    bool good = toy_model_write(argv[1], strcmp(argv[2], "qwen2") ? MODEL_LLAMA : MODEL_QWEN2, seed, &error);
    if (!good) fprintf(stderr, "tool_make_model: %s\n", error.text);
    return !good;
}
