// Fuzz target: config.json and generation_config.json as architectures. What is accepted must survive being written and read.
#include "base/jsonio.h"
#include "fuzz/fuzz_files.h"
#include "model/architecture.h"
#include "model/rotary.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_accepted(const Architecture *architecture) {
    Error error = {{0}};
    Architecture again;
    float *frequencies = calloc((size_t)architecture->head_dim, sizeof *frequencies);
    CHECK(frequencies, "head_dim %lld", (long long)architecture->head_dim);
    rotary_inv_freq(&architecture->rope, architecture->head_dim, frequencies);
    free(frequencies);
    json_t *written = architecture_to_json(architecture);
    bool good = architecture_from_json(&again, written, "written", &error);
    CHECK(good, "%s", error.text);
    CHECK(again.vocab_size == architecture->vocab_size && again.hidden_size == architecture->hidden_size &&
              again.head_dim == architecture->head_dim && again.tied_head == architecture->tied_head,
          "not the architecture that was written");
    json_decref(written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"config.json", "generation_config.json"};
    Error error = {{0}};
    Architecture architecture;
    json_t *config = NULL, *generation = NULL;
    fuzz_files_split(data, size, names, 2);
    if (jsonio_read(&config, "fuzz/config.json", &error) &&
        architecture_from_json(&architecture, config, "config.json", &error)) {
        check_accepted(&architecture);
        if (!jsonio_read(&generation, "fuzz/generation_config.json", &error) ||
            !architecture_read_eos(&architecture, generation, "generation_config.json", &error))
            fuzz_files_refused(&error);
    } else {
        fuzz_files_refused(&error);
    }
    json_decref(config);
    json_decref(generation);
    return 0;
}
