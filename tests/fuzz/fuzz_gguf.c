// Fuzz target: the container of GGUF files, its typed values and every block format.
#include "fuzz/fuzz_files.h"
#include "model/gguf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_value(const Gguf *file, const GgufValue *value) {
    Arena arena = {0};
    Error error = {{0}};
    int64_t integer, count;
    double real;
    bool flag;
    const char *text, *const *texts;
    const int32_t *integers;
    CHECK(gguf_find(file, value->key) == value, "%s", value->key);
    if (!gguf_integer_or(&integer, file, value->key, 0, &error)) fuzz_files_refused(&error);
    if (!gguf_real_or(&real, file, value->key, 0, &error)) fuzz_files_refused(&error);
    if (!gguf_flag_or(&flag, file, value->key, false, &error)) fuzz_files_refused(&error);
    if (!gguf_text_or(&text, file, value->key, NULL, &arena, &error)) fuzz_files_refused(&error);
    if (!gguf_texts(&texts, &count, file, value->key, &arena, &error)) fuzz_files_refused(&error);
    if (!gguf_integers(&integers, &count, file, value->key, &arena, &error)) fuzz_files_refused(&error);
    arena_close(&arena);
}

static void read_tensor(const Gguf *file, const GgufTensor *tensor) {
    float out[8192];
    int64_t block = dequantize_block(tensor->format),
            blocks = (int64_t)tensor->bytes / (int64_t)dequantize_block_bytes(tensor->format);
    CHECK(gguf_tensor(file, tensor->name) == tensor, "%s", tensor->name);
    for (int64_t at = 0, most = 8192 / block; at < blocks; at += most) {
        int64_t now = blocks - at < most ? blocks - at : most;
        dequantize(out, (const uint8_t *)tensor->data + (size_t)at * dequantize_block_bytes(tensor->format),
                   tensor->format, now * block);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Gguf file;
    Error error = {{0}};
    fuzz_files_forget();
    fuzz_files_add("fuzz/x.gguf", data, size);
    if (!gguf_open(&file, "fuzz/x.gguf", &error)) {
        fuzz_files_refused(&error);
        return 0;
    }
    for (int64_t i = 0; i < file.value_count; i++) read_value(&file, &file.values[i]);
    for (int64_t i = 0; i < file.tensor_count; i++) read_tensor(&file, &file.tensors[i]);
    gguf_close(&file);
    return 0;
}
