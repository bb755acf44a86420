#include "rollout/stop_strings.h"

#include "text/utf8.h"

#include <string.h>

static bool check_string(const char *text, Error *error) {
    if (!*text) return error_set(error, "policy.generation.stop_strings: an empty text would end every answer");
    for (size_t size = strlen(text), at = 0; at < size;) {
        Utf8Step step = utf8_step(text + at, size - at);
        if (step.kind != UTF8_GOOD)
            return error_set(error, "policy.generation.stop_strings: a text is not UTF-8 at byte %zu", at);
        at += step.size;
    }
    return true;
}

// A border is a proper prefix that is a suffix too: what is still matched when the next byte does not fit.
static int32_t advance(const char *text, const int32_t *borders, int32_t length, int32_t matched, char byte) {
    if (matched == length) matched = borders[matched - 1];
    while (matched && text[matched] != byte) matched = borders[matched - 1];
    return text[matched] == byte ? matched + 1 : 0;
}

bool stop_strings_open(StopStrings *stops, const GenerationOptions *options, const Tokenizer *tokenizer, Arena *arena,
                       Error *error) {
    *stops = (StopStrings){.tokenizer = tokenizer, .count = options->stop_string_count};
    if (stops->count && !tokenizer)
        return error_set(error, "policy.generation.stop_strings: there is no tokenizer to read answers with");
    for (int i = 0; i < stops->count; i++) {
        const char *text = options->stop_strings[i];
        if (!check_string(text, error)) return false;
        if (strlen(text) > GENERATION_LONGEST_STOP_STRING)
            return error_set(error, "policy.generation.stop_strings: a text of %zu bytes; at most %d are possible",
                             strlen(text), GENERATION_LONGEST_STOP_STRING);
        int32_t length = stops->length[i] = (int32_t)strlen(text), *borders = arena_array(arena, int32_t, length);
        for (int32_t b = 1; b < length; b++) borders[b] = advance(text, borders, length, borders[b - 1], text[b]);
        stops->text[i] = arena_string(arena, text);
        stops->borders[i] = borders;
    }
    return true;
}

int stop_strings_push(const StopStrings *stops, StopState *state, int32_t id) {
    if (!stops->count) return -1;
    size_t size;
    const char *bytes = tokenizer_token_bytes(stops->tokenizer, id, &size);
    for (size_t b = 0; b < size; b++) {
        int found = -1;
        for (int i = 0; i < stops->count; i++) {
            int32_t length = stops->length[i], *matched = &state->matched[i];
            *matched = advance(stops->text[i], stops->borders[i], length, *matched, bytes[b]);
            if (*matched == length && (found < 0 || length > stops->length[found])) found = i;
        }
        if (found >= 0) return found;
    }
    return -1;
}

int32_t stop_strings_held(const StopStrings *stops, const StopState *state) {
    int32_t held = 0;
    for (int i = 0; i < stops->count; i++)
        if (state->matched[i] > held) held = state->matched[i];
    return held;
}

// Where the string that ended the answer begins in the bytes of all its tokens.
static size_t cut_of(const StopStrings *stops, const int32_t *ids, int64_t count, int stopped_by) {
    int32_t length = stops->length[stopped_by], matched = 0;
    size_t at = 0;
    for (int64_t t = 0; t < count; t++) {
        size_t size;
        const char *bytes = tokenizer_token_bytes(stops->tokenizer, ids[t], &size);
        for (size_t b = 0; b < size; b++, at++) {
            matched = advance(stops->text[stopped_by], stops->borders[stopped_by], length, matched, bytes[b]);
            if (matched == length) return at + 1 - (size_t)length;
        }
    }
    return SIZE_MAX;
}

void stop_strings_text(const StopStrings *stops, StrBuf *text, const int32_t *ids, int64_t count, int stopped_by) {
    if (stopped_by < 0) {
        tokenizer_decode(stops->tokenizer, text, ids, (size_t)count, true);
        return;
    }
    size_t cut = cut_of(stops, ids, count, stopped_by), at = 0;
    StrBuf shown = {0};
    bool first = true;
    for (int64_t t = 0; t < count && at < cut; t++) {
        size_t size;
        const char *bytes = tokenizer_token_bytes(stops->tokenizer, ids[t], &size);
        if (!tokenizer_is_special(stops->tokenizer, ids[t])) {
            size_t end = size < cut - at ? size : cut - at;
            size_t start = first ? tokenizer_first_cut(stops->tokenizer, ids[t]) : 0;
            first = first && !size;
            if (start < end) strbuf_append(&shown, bytes + start, end - start);
        }
        at += size;
    }
    utf8_repair(text, shown.text, shown.length, true);
    strbuf_close(&shown);
}
