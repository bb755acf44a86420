// Writes a toy model (support/toy_model.h) into a folder, for end-to-end tests.
// usage: tool_make_model FOLDER llama|qwen2|qwen3|mistral|smollm3 [SEED]
#include "support/toy_model.h"

#include <stdio.h>

int main(int argc, char **argv) {
    if (argc < 3) {
        fprintf(stderr, "usage: tool_make_model FOLDER llama|qwen2|qwen3|mistral|smollm3 [SEED]\n");
        return 2;
    }
    Error error = {0};
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    Architecture family;
    bool good = architecture_set_family(&family, argv[2], "tool_make_model", "family", &error) &&
                toy_model_write(argv[1], family.family, seed, &error);
    if (!good) fprintf(stderr, "tool_make_model: %s\n", error.text);
    return !good;
}
