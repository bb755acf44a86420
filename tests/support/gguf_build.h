// Builds small GGUF files for tests, well-formed or not.
#pragma once
#include "base/strbuf.h"
#include "model/gguf.h"

// Zero-initialise. The parts of a file as far as they are built; tests may append to them.
typedef struct GgufBuild {
    StrBuf values, tensors, data;
    uint64_t value_count, tensor_count;
} GgufBuild;

void gguf_build_put_u32(StrBuf *out, uint32_t value);
void gguf_build_put_u64(StrBuf *out, uint64_t value);
void gguf_build_put_text(StrBuf *out, const char *text); // length, then bytes

// One key with its type and the bytes of its value.
void gguf_build_value(GgufBuild *build, const char *key, GgufType type, const void *data, size_t size);
void gguf_build_u32(GgufBuild *build, const char *key, uint32_t value);
void gguf_build_f32(GgufBuild *build, const char *key, float value);
void gguf_build_text(GgufBuild *build, const char *key, const char *text);
void gguf_build_texts(GgufBuild *build, const char *key, int count, const char *const *texts);

// type is ggml's number. The data lies behind that of the tensors before, aligned to 32 bytes.
void gguf_build_tensor(GgufBuild *build, const char *name, int rank, const uint64_t *shape, uint32_t type,
                       const void *data, size_t size);

// Writes the parts behind a header that says what is given. A file that cannot be written ends the program.
void gguf_build_write_as(const GgufBuild *build, const char *path, uint32_t version, uint64_t tensors, uint64_t values);

// Writes version 3 with the right counts, and closes the builder.
void gguf_build_finish(GgufBuild *build, const char *path);
