#include "text/normalize.h"

#include "text/utf8.h"

#include <string.h>

static void replace(StrBuf *out, const NormalizeStep *step, const char *text, size_t size) {
    for (size_t at = 0; at < size;) {
        const char *found = memmem(text + at, size - at, step->from, step->from_size);
        size_t end = found ? (size_t)(found - text) : size;
        strbuf_append(out, text + at, end - at);
        if (!found) return;
        strbuf_append(out, step->to, step->to_size);
        at = end + step->from_size;
    }
}

static bool replace_matches(StrBuf *out, const NormalizeStep *step, const char *text, size_t size, Error *error) {
    PatternText prepared = {0};
    PatternResult result;
    size_t character = 0, at = 0, start, end;
    pattern_prepare(step->pattern, &prepared, text, size);
    const uint8_t *sizes = (const uint8_t *)prepared.sizes.text;
    while ((result = pattern_find(step->pattern, &prepared, character, &start, &end, error)) == PATTERN_FOUND) {
        size_t from = at;
        for (; character < start; character++) at += sizes[character];
        strbuf_append(out, text + from, at - from);
        strbuf_append(out, step->to, step->to_size);
        for (; character < end; character++) at += sizes[character];
    }
    strbuf_append(out, text + at, size - at);
    pattern_release(&prepared);
    return result != PATTERN_FAILED;
}

static bool is_space(uint32_t code) {
    return code == ' ' || (code >= '\t' && code <= '\r') || code == 0x85 || code == 0xA0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
           code == 0x3000;
}

size_t normalize_spaces_at_start(const char *text, size_t size) {
    size_t at = 0;
    while (at < size) {
        Utf8Step step = utf8_step(text + at, size - at);
        if (step.kind != UTF8_GOOD || !is_space(step.code)) break;
        at += step.size;
    }
    return at;
}

size_t normalize_spaces_at_end(const char *text, size_t size) {
    size_t end = size;
    while (end > 0) {
        size_t at = end - 1;
        while (at > 0 && end - at < 4 && ((uint8_t)text[at] & 0xC0) == 0x80) at--;
        Utf8Step step = utf8_step(text + at, end - at);
        if (step.kind != UTF8_GOOD || step.size != end - at || !is_space(step.code)) break;
        end = at;
    }
    return size - end;
}

static bool apply(const NormalizeStep *step, StrBuf *out, const char *text, size_t size, Error *error) {
    switch (step->kind) {
    case NORMALIZE_NFC: unicode_normalize(out, text, size, UNICODE_NFC); break;
    case NORMALIZE_NFD: unicode_normalize(out, text, size, UNICODE_NFD); break;
    case NORMALIZE_PREPEND:
        if (size) strbuf_append(out, step->to, step->to_size);
        strbuf_append(out, text, size);
        break;
    case NORMALIZE_REPLACE: replace(out, step, text, size); break;
    case NORMALIZE_REPLACE_REGEX: return replace_matches(out, step, text, size, error);
    case NORMALIZE_STRIP: {
        size_t left = step->left ? normalize_spaces_at_start(text, size) : 0;
        size_t right = step->right && left < size ? normalize_spaces_at_end(text + left, size - left) : 0;
        strbuf_append(out, text + left, size - left - right);
    }
    }
    return true;
}

bool normalize_text(const NormalizeStep *steps, int count, StrBuf *out, const char *text, size_t size, size_t most,
                    Error *error) {
    StrBuf before = {0}, after = {0};
    bool good = true;
    strbuf_append(&before, text, size);
    for (int i = 0; good && i < count; i++) {
        strbuf_clear(&after);
        good = apply(steps + i, &after, before.text, before.length, error);
        if (good && after.length > most)
            good = error_set(error, "a text of %zu bytes becomes %zu when normalized, %zu is the most", size,
                             after.length, most);
        StrBuf swap = before;
        before = after;
        after = swap;
    }
    if (good) strbuf_append(out, before.text, before.length);
    strbuf_close(&before);
    strbuf_close(&after);
    return good;
}
