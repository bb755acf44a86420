#include "text/added.h"

#include <string.h>

void added_open(Added *added, Arena *arena, size_t bytes) {
    *added = (Added){.nodes = arena_array(arena, AddedNode, bytes), .capacity = bytes};
    memset(added->roots, 0xFF, sizeof added->roots);
}

void added_insert(Added *added, const char *text, size_t size, int32_t id) {
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
            return;
        }
        link = &node->child;
    }
}

// The longest token at the start of the text.
static int32_t longest(const Added *added, const char *text, size_t size, size_t *length) {
    int32_t found = -1, at = added->roots[(uint8_t)text[0]];
    for (size_t i = 0; at >= 0;) {
        const AddedNode *node = added->nodes + at;
        if (node->byte != (uint8_t)text[i]) {
            at = node->sibling;
            continue;
        }
        i++;
        if (node->id >= 0) {
            found = node->id;
            *length = i;
        }
        at = i < size ? node->child : -1;
    }
    return found;
}

int32_t added_find(const Added *added, const char *text, size_t size, size_t *at, size_t *length) {
    if (!added->count) return -1;
    for (*at = 0; *at < size; ++*at) {
        int32_t id = longest(added, text + *at, size - *at, length);
        if (id >= 0) return id;
    }
    return -1;
}
