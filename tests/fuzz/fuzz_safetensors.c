// Fuzz target: safetensors files. What opens must be readable to its last byte.
#include "fuzz/fuzz_files.h"
#include "model/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Safetensors file;
    Error error = {{0}};
    fuzz_files_forget();
    fuzz_files_add("fuzz/x.safetensors", data, size);
    if (!safetensors_open(&file, "fuzz/x.safetensors", &error)) {
        fuzz_files_refused(&error);
        return 0;
    }
    unsigned sum = 0;
    for (int64_t i = 0; i < file.count; i++) {
        const SafetensorsEntry *entry = &file.entries[i], *found;
        size_t bytes = (size_t)entry->count * safetensors_type_size(entry->type);
        for (size_t b = 0; b < bytes; b++) sum += ((const uint8_t *)entry->data)[b];
        CHECK(safetensors_find(&file, entry->name) == entry, "%s", entry->name);
        if (!safetensors_require(&found, &file, entry->name, SAFETENSORS_F32, -1, &error)) fuzz_files_refused(&error);
    }
    safetensors_metadata(&file, "format");
    safetensors_close(&file);
    return sum == 1 && size == SIZE_MAX; // the bytes are read
}
