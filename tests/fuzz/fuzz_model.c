#include "fuzz/fuzz_model.h"

#include "base/file.h"

#include "fuzz/fuzz_files.h"

#include <string.h>

static void read_weights(const LoadedModel *model) {
    Error error = {{0}};
    char digest[33];
    for (int i = 0; i < model->parameters->count; i++) {
        const Parameter *parameter = &model->parameters->items[i];
        Arena arena = {0};
        float *values = arena_array(&arena, float, parameter->rows * parameter->cols);
        if (!model_file_read(model->file, parameter, values, &error)) fuzz_files_refused(&error);
        arena_close(&arena);
    }
    model_file_digest(model->file, digest);
    CHECK(strlen(digest) == 32, "%s", digest);
}

static void read_text_side(const LoadedModel *model) {
    static const char text[] = "Hello \xc3\xa9  <e> 123 ab\n";
    Error error = {{0}};
    TokenList ids = {0};
    StrBuf back = {0};
    if (tokenizer_encode(model->tokenizer, &ids, text, sizeof text - 1, true, &error))
        tokenizer_decode(model->tokenizer, &back, ids.ids, ids.count, false);
    else
        fuzz_files_refused(&error);
    json_t *messages = json_pack("[{s:s, s:s}]", "role", "user", "content", "hi");
    if (!loaded_model_chat_ids(model, &ids, messages, true, &error)) fuzz_files_refused(&error);
    json_decref(messages);
    strbuf_close(&back);
    bpe_list_close(&ids);
}

void fuzz_model_walk(const char *path) {
    LoadedModel model = {0};
    Error error = {{0}};
    if (loaded_model_open(&model, path, NULL, NULL, NULL, &error)) {
        read_weights(&model);
        read_text_side(&model);
    } else {
        fuzz_files_refused(&error);
    }
    loaded_model_close(&model);
}

void fuzz_model_text_side(LoadedModel *model) {
    Error error = {{0}};
    Arena arena = {0};
    char *text;
    size_t size;
    bool good = tokenizer_open_folder(&model->tokenizer, "tests/data/text/tokenizers/smollm2", &error) &&
                file_read(&text, &size, &arena, "tests/data/text/chat/templates/smollm2.jinja", &error) &&
                chat_open(&model->chat, text, size, "smollm2.jinja", &error);
    CHECK(good, "%s", error.text);
    arena_close(&arena);
}
