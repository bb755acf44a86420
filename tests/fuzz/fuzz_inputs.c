// Fuzz target: JSONL files of prompts, chats and ids, as `whet generate --prompts` and `whet score` read them.
#include "fuzz/fuzz_files.h"
#include "fuzz/fuzz_model.h"
#include "run/inputs.h"

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const Architecture architecture = {.vocab_size = 49152, .max_positions = 2048};
static LoadedModel model = {.path = "x", .architecture = &architecture};

// Before the first input, whose time is counted.
int LLVMFuzzerInitialize(int *count, char ***words) {
    (void)count, (void)words;
    fuzz_model_text_side(&model);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Error error = {{0}};
    fuzz_files_forget();
    fuzz_files_add("fuzz/x.jsonl", data, size);
    for (int way = 0; way < 4; way++) { // JSONL and plain lines, as texts and as chats
        Arena arena = {0};
        bool chat = way % 2;
        Inputs inputs = {.model = &model,
                         .options = {.text_key = "prompt",
                                     .plain = way / 2,
                                     .as_chat = chat,
                                     .answered = chat,
                                     .system = chat ? "Be brief." : NULL,
                                     .least = 1,
                                     .most = 2047}};
        if (inputs_read(&inputs, "fuzz/x.jsonl", &arena, &error))
            for (int64_t i = 0; i < inputs.offset[inputs.count]; i++)
                CHECK(inputs.ids.ids[i] >= 0 && inputs.ids.ids[i] < 49152, "id %d", inputs.ids.ids[i]);
        else
            fuzz_files_refused(&error);
        inputs_close(&inputs);
        arena_close(&arena);
    }
    return 0;
}
