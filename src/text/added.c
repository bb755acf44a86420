#include "text/added.h"

#include "text/normalize.h"
#include "text/utf8.h"

#include <string.h>

void added_open(Added *added, Arena *arena, size_t bytes) {
    *added = (Added){.nodes = arena_array(arena, AddedNode, bytes), .capacity = bytes};
    memset(added->roots, 0xFF, sizeof added->roots);
}

void added_insert(Added *added, const char *text, size_t size, int32_t id, uint8_t flags) {
    CHECK(size > 0 && size <= ADDED_LONGEST, "a token of %zu bytes", size);
    int32_t *link = &added->roots[(uint8_t)text[0]];
    for (size_t i = 0;;) {
        while (*link >= 0 && added->nodes[*link].byte != (uint8_t)text[i]) link = &added->nodes[*link].sibling;
        if (*link < 0) {
            CHECK(added->count < added->capacity, "%zu nodes", added->count);
            *link = (int32_t)added->count++;
            added->nodes[*link] = (AddedNode){.child = -1, .sibling = -1, .id = -1, .byte = (uint8_t)text[i]};
        }
        AddedNode *node = added->nodes + *link;
        if (++i == size) {
            node->id = id;
            node->flags = flags;
            return;
        }
        link = &node->child;
    }
}

// The longest token at the start of the text.
static const AddedNode *longest(const Added *added, const char *text, size_t size, size_t *length) {
    const AddedNode *found = NULL;
    int32_t at = added->roots[(uint8_t)text[0]];
    for (size_t i = 0; at >= 0;) {
        const AddedNode *node = added->nodes + at;
        if (node->byte != (uint8_t)text[i]) {
            at = node->sibling;
            continue;
        }
        i++;
        if (node->id >= 0) {
            found = node;
            *length = i;
        }
        at = i < size ? node->child : -1;
    }
    return found;
}

static bool word_at_start(const Charset *word, const char *text, size_t size) {
    if (!size) return false;
    Utf8Step step = utf8_step(text, size);
    return step.kind == UTF8_GOOD && charset_has(word, step.code);
}

static bool word_at_end(const Charset *word, const char *text, size_t size) {
    size_t at = size;
    while (at > 0 && size - at < 4)
        if (((uint8_t)text[--at] & 0xC0) != 0x80) break;
    return word_at_start(word, text + at, size - at);
}

AddedPart added_next(const Added *added, AddedCursor *cursor) {
    const char *text = cursor->text;
    size_t size = cursor->size, length = 0;
    while (added->count && cursor->scanned < size) {
        const AddedNode *node = longest(added, text + cursor->scanned, size - cursor->scanned, &length);
        if (!node) {
            cursor->scanned++;
            continue;
        }
        size_t start = cursor->scanned, stop = start + length;
        cursor->scanned = stop;
        if (node->flags & ADDED_SINGLE_WORD &&
            (word_at_end(added->word, text, start) || word_at_start(added->word, text + stop, size - stop)))
            continue;
        if (node->flags & ADDED_LSTRIP) {
            start -= normalize_spaces_at_end(text, start);
            if (start < cursor->done) start = cursor->done;
        }
        if (node->flags & ADDED_RSTRIP) stop += normalize_spaces_at_start(text + stop, size - stop);
        if (start >= stop) continue; // the one before took it along
        AddedPart part = {.at = cursor->done, .size = start > cursor->done ? start - cursor->done : 0, .id = node->id};
        cursor->done = stop;
        return part;
    }
    AddedPart rest = {.at = cursor->done, .size = size > cursor->done ? size - cursor->done : 0, .id = -1};
    cursor->done = size;
    return rest;
}
