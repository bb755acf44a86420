// Fuzz target: tokenizer.json and tokenizer_config.json, and a text for the tokenizer that they make.
#include "base/file.h"
#include "fuzz/fuzz_files.h"
#include "text/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(const Tokenizer *tokenizer, const char *text, size_t size) {
    Error error = {{0}};
    TokenList ids = {0};
    StrBuf back = {0};
    if (!tokenizer_encode(tokenizer, &ids, text, size, true, &error)) fuzz_files_refused(&error);
    for (size_t i = 0; i < ids.count; i++)
        CHECK(ids.ids[i] >= 0 && ids.ids[i] < tokenizer_size(tokenizer), "id %d", ids.ids[i]);
    tokenizer_decode(tokenizer, &back, ids.ids, ids.count, true);
    strbuf_close(&back);
    bpe_list_close(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "text"};
    static const char fallback[] = "Hello  world, 123 \xc3\xa9\n";
    Error error = {{0}};
    Arena arena = {0};
    Tokenizer *tokenizer;
    fuzz_files_split(data, size, names, 3);
    if (tokenizer_open_folder(&tokenizer, "fuzz", &error)) {
        char *text;
        size_t length;
        encode(tokenizer, fallback, sizeof fallback - 1);
        if (file_read(&text, &length, &arena, "fuzz/text", &error)) encode(tokenizer, text, length);
    } else {
        fuzz_files_refused(&error);
    }
    tokenizer_close(tokenizer);
    arena_close(&arena);
    return 0;
}
