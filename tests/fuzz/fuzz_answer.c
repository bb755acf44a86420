// Fuzz target: what a model wrote, and the right answer: every reward reads it in bounded time and gives one verdict.
#include "base/file.h"
#include "fuzz/fuzz_files.h"
#include "text/answer.h"
#include "text/reward.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"gold", "text"};
    Arena arena = {0};
    Error error = {{0}};
    char *gold = NULL, *text = NULL;
    size_t gold_size = 0, text_size = 0;
    fuzz_files_split(data, size, names, 2);
    if (!file_read(&gold, &gold_size, &arena, "fuzz/gold", &error) ||
        !file_read(&text, &text_size, &arena, "fuzz/text", &error))
        fuzz_files_refused(&error);
    TextSpan right = {gold, gold_size}, given = {text, text_size};
    bool equal = gold && answer_equal(right, text ? given : right);
    CHECK(!gold || equal == answer_equal(right, text ? given : right), "two verdicts");
    if (gold) reward_last_integer(gold, gold_size, 42);
    arena_close(&arena);
    return 0;
}
