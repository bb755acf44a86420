#include "support/gguf_build.h"

#include "base/file.h"

#include <string.h>

void gguf_build_put_u32(StrBuf *out, uint32_t value) {
    strbuf_append(out, &value, sizeof value);
}

void gguf_build_put_u64(StrBuf *out, uint64_t value) {
    strbuf_append(out, &value, sizeof value);
}

void gguf_build_put_text(StrBuf *out, const char *text) {
    gguf_build_put_u64(out, strlen(text));
    strbuf_puts(out, text);
}

void gguf_build_value(GgufBuild *build, const char *key, GgufType type, const void *data, size_t size) {
    gguf_build_put_text(&build->values, key);
    gguf_build_put_u32(&build->values, type);
    strbuf_append(&build->values, data, size);
    build->value_count++;
}

void gguf_build_u32(GgufBuild *build, const char *key, uint32_t value) {
    gguf_build_value(build, key, GGUF_U32, &value, sizeof value);
}

void gguf_build_f32(GgufBuild *build, const char *key, float value) {
    gguf_build_value(build, key, GGUF_F32, &value, sizeof value);
}

void gguf_build_text(GgufBuild *build, const char *key, const char *text) {
    gguf_build_value(build, key, GGUF_STRING, NULL, 0);
    gguf_build_put_text(&build->values, text);
}

void gguf_build_texts(GgufBuild *build, const char *key, int count, const char *const *texts) {
    gguf_build_value(build, key, GGUF_ARRAY, NULL, 0);
    gguf_build_put_u32(&build->values, GGUF_STRING);
    gguf_build_put_u64(&build->values, (uint64_t)count);
    for (int i = 0; i < count; i++) gguf_build_put_text(&build->values, texts[i]);
}

void gguf_build_tensor(GgufBuild *build, const char *name, int rank, const uint64_t *shape, uint32_t type,
                       const void *data, size_t size) {
    while (build->data.length % 32) strbuf_putc(&build->data, 0);
    gguf_build_put_text(&build->tensors, name);
    gguf_build_put_u32(&build->tensors, (uint32_t)rank);
    for (int i = 0; i < rank; i++) gguf_build_put_u64(&build->tensors, shape[i]);
    gguf_build_put_u32(&build->tensors, type);
    gguf_build_put_u64(&build->tensors, build->data.length);
    strbuf_append(&build->data, data, size);
    build->tensor_count++;
}

void gguf_build_write_as(const GgufBuild *build, const char *path, uint32_t version, uint64_t tensors,
                         uint64_t values) {
    StrBuf out = {0};
    Error error;
    strbuf_puts(&out, "GGUF");
    gguf_build_put_u32(&out, version);
    gguf_build_put_u64(&out, tensors);
    gguf_build_put_u64(&out, values);
    strbuf_append(&out, build->values.text, build->values.length);
    strbuf_append(&out, build->tensors.text, build->tensors.length);
    while (out.length % 32) strbuf_putc(&out, 0);
    strbuf_append(&out, build->data.text, build->data.length);
    bool good = file_write(path, out.text, out.length, &error);
    CHECK(good, "%s", error.text);
    strbuf_close(&out);
}

void gguf_build_finish(GgufBuild *build, const char *path) {
    gguf_build_write_as(build, path, 3, build->tensor_count, build->value_count);
    strbuf_close(&build->values);
    strbuf_close(&build->tensors);
    strbuf_close(&build->data);
}
