// Fuzz target: what the server of the Hugging Face hub answers, and the index of a repository's shards.
#include "base/file.h"
#include "fuzz/fuzz_files.h"
#include "model/hub_cache.h"
#include "run/hub_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void choose(const HubList *list, Arena *arena) {
    const char *const globs[] = {"*.json", "a*/**[x-z]?"};
    const HubChoice choices[] = {{.glob_count = 0}, {.globs = globs, .glob_count = 2}, {.file = "config.json"}};
    Error error = {{0}};
    HubList chosen;
    const char *const *shards;
    size_t count;
    for (int i = 0; i < 3; i++) {
        if (!hub_list_choose(&chosen, list, &choices[i], "org/name", arena, &error)) {
            fuzz_files_refused(&error);
            continue;
        }
        for (size_t f = 0; f < chosen.count; f++) CHECK(hub_list_has(list, chosen.files[f]), "%s", chosen.files[f]);
        if (!hub_cache_shards(&shards, &count, "fuzz/index.json", arena, &error) ||
            !hub_list_add_shards(&chosen, list, shards, count, "org/name", arena, &error))
            fuzz_files_refused(&error);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"list.json", "index.json"};
    Error error = {{0}};
    Arena arena = {0};
    HubList list;
    char *text;
    size_t length;
    fuzz_files_split(data, size, names, 2);
    if (file_read(&text, &length, &arena, "fuzz/list.json", &error) &&
        hub_list_read(&list, text, length, "org/name", &arena, &error))
        choose(&list, &arena);
    else
        fuzz_files_refused(&error);
    arena_close(&arena);
    return 0;
}
