#include "text/utf8.h"

static Utf8Step step_of(uint32_t code, uint8_t size, Utf8Kind kind) {
    return (Utf8Step){.code = code, .size = size, .kind = kind};
}

Utf8Step utf8_step(const char *text, size_t size) {
    const uint8_t *byte = (const uint8_t *)text;
    uint8_t lead = byte[0];
    if (lead < 0x80) return step_of(lead, 1, UTF8_GOOD);
    if (lead < 0xC2 || lead > 0xF4) return step_of(0xFFFD, 1, UTF8_BAD);
    uint8_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    // The second byte's bounds keep out overlong forms, surrogates and codes above U+10FFFF (Unicode 16, table 3-7).
    uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    uint32_t code = lead & (0x7Fu >> length);
    for (uint8_t i = 1; i < length; i++) {
        if (i == size) return step_of(0xFFFD, i, UTF8_CUT);
        if (byte[i] < low || byte[i] > high) return step_of(0xFFFD, i, UTF8_BAD);
        code = code << 6 | (byte[i] & 0x3F);
        low = 0x80, high = 0xBF;
    }
    return step_of(code, length, UTF8_GOOD);
}

size_t utf8_put(char out[4], uint32_t code) {
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) code = 0xFFFD;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)((0xF00u >> length) | code);
    return length;
}

size_t utf8_repair(StrBuf *out, const char *text, size_t size, bool last) {
    if (!size) return 0;     // text may be NULL
    size_t good = 0, at = 0; // text[good..at) is well-formed and not yet appended
    while (at < size) {
        Utf8Step step = utf8_step(text + at, size - at);
        if (step.kind == UTF8_GOOD) {
            at += step.size;
            continue;
        }
        strbuf_append(out, text + good, at - good);
        if (step.kind == UTF8_CUT && !last) return at;
        strbuf_puts(out, "\xEF\xBF\xBD");
        good = at += step.size;
    }
    strbuf_append(out, text + good, at - good);
    return at;
}
