// Fuzz target: any bytes as a text for a real tokenizer. It has no normalizer, so what is well-formed comes back as it was,
// but for bytes that have no token in its vocabulary.
#include "fuzz/fuzz_files.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

#include <string.h>

int LLVMFuzzerInitialize(int *count, char ***words);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static Tokenizer *tokenizer;
static bool has_token[256];

static bool open_tokenizer(Error *error) {
    if (!tokenizer_open_folder(&tokenizer, "tests/data/text/tokenizers/smollm2", error)) return false;
    for (int byte = 0; byte < 256; byte++) {
        TokenList ids = {0};
        char text = (char)byte;
        if (!tokenizer_encode(tokenizer, &ids, &text, 1, false, error)) return false;
        has_token[byte] = ids.count > 0;
        bpe_list_close(&ids);
    }
    return true;
}

static bool comes_back(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!has_token[(unsigned char)text[i]]) return false;
    for (size_t i = 0; i < size;) {
        Utf8Step step = utf8_step(text + i, size - i);
        if (step.kind != UTF8_GOOD) return false;
        i += step.size;
    }
    return true;
}

// Before the first input, whose time is counted.
int LLVMFuzzerInitialize(int *count, char ***words) {
    Error error = {{0}};
    (void)count, (void)words;
    if (!open_tokenizer(&error)) error_abort(__FILE__, __LINE__, "open_tokenizer", "%s", error.text);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Error error = {{0}};
    TokenList ids = {0};
    StrBuf back = {0};
    const char *text = (const char *)data;
    bool good = tokenizer_encode(tokenizer, &ids, text, size, false, &error);
    CHECK(good, "%s", error.text);
    tokenizer_decode(tokenizer, &back, ids.ids, ids.count, false);
    if (comes_back(text, size))
        CHECK(back.length == size && (!size || !memcmp(back.text, text, size)), "%zu bytes became %zu", size,
              back.length);
    strbuf_close(&back);
    bpe_list_close(&ids);
    return 0;
}
