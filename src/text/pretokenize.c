#include "text/pretokenize.h"

#include <string.h>

static void replace_blanks(StrBuf *out, const char *text, size_t size, const char *blank) {
    size_t length = strlen(blank);
    for (size_t at = 0; at < size;) {
        const char *found = memchr(text + at, ' ', size - at);
        size_t end = found ? (size_t)(found - text) : size;
        strbuf_append(out, text + at, end - at);
        if (found) strbuf_append(out, blank, length);
        at = end + (found != NULL);
    }
}

static bool begins_with(const char *text, size_t size, const char *prefix) {
    size_t length = strlen(prefix);
    return size >= length && !memcmp(text, prefix, length);
}

void pretokenize_begin(PretokenizeCursor *cursor, const PretokenizeStep *step, PretokenizeScratch *scratch,
                       const char *text, size_t size, bool first) {
    bool prefixed = step->when_prefix == PRETOKENIZE_ALWAYS || (step->when_prefix == PRETOKENIZE_FIRST && first);
    if (prefixed) {
        bool blank_first = step->blank && size && text[0] == ' ' && !strcmp(step->blank, step->prefix);
        prefixed = !blank_first && !begins_with(text, size, step->prefix);
    }
    if (step->blank || prefixed) {
        strbuf_clear(&scratch->text);
        if (prefixed) strbuf_puts(&scratch->text, step->prefix);
        if (step->blank)
            replace_blanks(&scratch->text, text, size, step->blank);
        else
            strbuf_append(&scratch->text, text, size);
        text = scratch->text.text;
        size = scratch->text.length;
    }
    *cursor = (PretokenizeCursor){.step = step, .scratch = scratch, .text = text, .size = size};
    if (step->pattern) pattern_prepare(step->pattern, &scratch->prepared, text, size);
}

// Moves to a later character and returns the bytes passed over.
static size_t advance(PretokenizeCursor *cursor, size_t character) {
    const uint8_t *sizes = (const uint8_t *)cursor->scratch->prepared.sizes.text;
    size_t bytes = 0;
    for (size_t i = cursor->character; i < character; i++) bytes += sizes[i];
    cursor->character = character;
    cursor->at += bytes;
    return bytes;
}

static void push(PretokenizeCursor *cursor, size_t character, bool match) {
    if (character == cursor->character) return;
    PretokenizeItem *item = cursor->ahead + cursor->ahead_count++;
    item->match = match != cursor->step->inverted;
    item->at = cursor->at;
    item->size = advance(cursor, character);
}

// Matches and what lies between them, in turn. Looks at most one ahead, so that two items wait at most.
static bool peek(PretokenizeCursor *cursor, PretokenizeItem *item, Error *error) {
    size_t count = cursor->scratch->prepared.classes.length, start = 0, end = 0;
    *item = (PretokenizeItem){0};
    if (!cursor->ahead_count && cursor->character < count) {
        PatternResult result =
            pattern_find(cursor->step->pattern, &cursor->scratch->prepared, cursor->character, &start, &end, error);
        if (result == PATTERN_FAILED) return false;
        bool found = result == PATTERN_FOUND;
        push(cursor, found ? start : count, false);
        if (found) push(cursor, end, true);
    }
    if (cursor->ahead_count) *item = cursor->ahead[0];
    return true;
}

static void drop(PretokenizeCursor *cursor) {
    cursor->ahead[0] = cursor->ahead[1];
    cursor->ahead_count--;
}

// Whether an item joins the piece whose last item came before it.
static bool joins(PretokenizeBehavior behavior, PretokenizeItem before, PretokenizeItem next) {
    switch (behavior) {
    case PRETOKENIZE_MERGED_WITH_PREVIOUS: return next.match && !before.match;
    case PRETOKENIZE_MERGED_WITH_NEXT: return before.match && !next.match;
    case PRETOKENIZE_CONTIGUOUS: return before.match == next.match;
    case PRETOKENIZE_ISOLATED:
    case PRETOKENIZE_REMOVED: break;
    }
    return false;
}

bool pretokenize_next(PretokenizeCursor *cursor, const char **piece, size_t *size, Error *error) {
    *piece = cursor->text + cursor->at;
    *size = 0;
    if (!cursor->step->pattern) {
        *size = cursor->size - cursor->at;
        cursor->at = cursor->size;
        return true;
    }
    PretokenizeItem item, next;
    do {
        if (!peek(cursor, &item, error)) return false;
        if (!item.size) return true;
        drop(cursor);
    } while (cursor->step->behavior == PRETOKENIZE_REMOVED && item.match);
    *piece = cursor->text + item.at;
    *size = item.size;
    for (;;) {
        if (cursor->step->behavior == PRETOKENIZE_ISOLATED || cursor->step->behavior == PRETOKENIZE_REMOVED)
            return true;
        if (!peek(cursor, &next, error)) return false;
        if (!next.size || !joins(cursor->step->behavior, item, next)) return true;
        *size += next.size;
        drop(cursor);
        item = next;
    }
}

void pretokenize_release(PretokenizeScratch *scratch) {
    strbuf_close(&scratch->text);
    pattern_release(&scratch->prepared);
}
