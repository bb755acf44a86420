// Fuzz target: recipes with what they inherit, overrides (a line each), and the table of settings. What is accepted and
// written out again must be the same settings.
#include "base/file.h"
#include "config/explain.h"
#include "fuzz/fuzz_files.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_OVERRIDES = 8 };

static void check_written(const Settings *settings) {
    Error error = {{0}};
    Arena arena = {0};
    StrBuf yaml = {0}, changes = {0};
    Settings *again;
    explain_yaml(&yaml, settings);
    fuzz_files_forget();
    fuzz_files_add("fuzz/written.yaml", yaml.text, yaml.length);
    bool good = settings_load(&again, &arena, "fuzz/written.yaml", 0, NULL, &error);
    CHECK(good, "%s", error.text);
    CHECK(!explain_changes(&changes, ", ", settings, again), "%s", changes.text);
    strbuf_close(&yaml);
    strbuf_close(&changes);
    arena_close(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const names[] = {"recipe.yaml", "arithmetic.yaml", "grpo_base.yaml", "overrides"};
    Error error = {{0}};
    Arena arena = {0};
    char *overrides[MAX_OVERRIDES], *text = NULL;
    int count = 0;
    Settings *settings;
    fuzz_files_split(data, size, names, 4);
    if (file_read(&text, NULL, &arena, "fuzz/overrides", &error))
        for (char *rest = text, *line; count < MAX_OVERRIDES && (line = strsep(&rest, "\n"));)
            if (*line) overrides[count++] = line;
    if (settings_load(&settings, &arena, "fuzz/recipe.yaml", count, overrides, &error))
        check_written(settings);
    else
        fuzz_files_refused(&error);
    arena_close(&arena);
    return 0;
}
