#include "text/bpe.h"

#include <string.h>

void bpe_list_append(TokenList *list, int32_t id) {
    strbuf_append(&list->memory, &id, sizeof id);
    list->ids = (int32_t *)list->memory.text; // from realloc, so aligned
    list->count++;
}

void bpe_list_cut(TokenList *list, size_t count) {
    CHECK(count <= list->count, "%zu of %zu ids", count, list->count);
    list->count = count;
    list->memory.length = count * sizeof *list->ids;
}

void bpe_list_close(TokenList *list) {
    strbuf_close(&list->memory);
    *list = (TokenList){0};
}

void bpe_open(Bpe *bpe, Arena *arena, const Vocabulary *vocabulary, int32_t merge_count) {
    CHECK(merge_count >= 0 && merge_count <= VOCABULARY_LARGEST, "%d merges", merge_count);
    uint32_t slots = 16;
    while (slots < 2 * (uint32_t)merge_count) slots *= 2;
    *bpe = (Bpe){.unknown_id = -1, .slots = arena_array(arena, BpeMerge, slots), .mask = slots - 1};
    for (uint32_t i = 0; i < slots; i++) bpe->slots[i].left = -1;
    for (int byte = 0; byte < 256; byte++) {
        char text[4];
        int32_t id = vocabulary_find(vocabulary, text, vocabulary_put_byte(text, (uint8_t)byte));
        bpe->byte_ids[byte] = id >= 0 && vocabulary->tokens[id].flags & VOCABULARY_MODEL ? id : -1;
    }
}

// The slot that holds the pair, or the free one where it belongs.
static BpeMerge *find_slot(const Bpe *bpe, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key ^= key >> 29; // the mixing steps of splitmix64, so that neighbouring ids spread
    key *= 0xBF58476D1CE4E5B9;
    key ^= key >> 32;
    for (uint32_t slot = (uint32_t)key & bpe->mask;; slot = (slot + 1) & bpe->mask) {
        BpeMerge *merge = bpe->slots + slot;
        if (merge->left < 0 || (merge->left == left && merge->right == right)) return merge;
    }
}

void bpe_add_merge(Bpe *bpe, int32_t left, int32_t right, int32_t rank, int32_t result) {
    *find_slot(bpe, left, right) = (BpeMerge){.left = left, .right = right, .rank = rank, .result = result};
}

typedef struct BpeSymbol {
    int32_t id;             // -1: merged into an earlier one
    int32_t previous, next; // -1: none
} BpeSymbol;

typedef struct BpePair {
    int32_t rank, at; // position of the left symbol
    int32_t result;
} BpePair;

static bool before(BpePair a, BpePair b) {
    return a.rank != b.rank ? a.rank < b.rank : a.at < b.at;
}

static void heap_push(BpeScratch *scratch, BpePair pair) {
    if (scratch->heap_count == scratch->heap_capacity) {
        scratch->heap_capacity = scratch->heap_capacity ? scratch->heap_capacity * 2 : 256;
        BpePair *grown = arena_array(&scratch->arena, BpePair, scratch->heap_capacity);
        if (scratch->heap_count) memcpy(grown, scratch->heap, scratch->heap_count * sizeof *grown);
        scratch->heap = grown;
    }
    BpePair *heap = scratch->heap;
    size_t child = scratch->heap_count++;
    while (child > 0 && before(pair, heap[(child - 1) / 2])) {
        heap[child] = heap[(child - 1) / 2];
        child = (child - 1) / 2;
    }
    heap[child] = pair;
}

static BpePair heap_pop(BpeScratch *scratch) {
    BpePair *heap = scratch->heap, top = heap[0], last = heap[--scratch->heap_count];
    size_t count = scratch->heap_count, parent = 0;
    for (size_t child = 1; child < count; child = 2 * parent + 1) {
        if (child + 1 < count && before(heap[child + 1], heap[child])) child++;
        if (!before(heap[child], last)) break;
        heap[parent] = heap[child];
        parent = child;
    }
    heap[parent] = last;
    return top;
}

static void push_pair(const Bpe *bpe, BpeScratch *scratch, int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const BpeMerge *merge = find_slot(bpe, scratch->symbols[left].id, scratch->symbols[right].id);
    if (merge->left >= 0) heap_push(scratch, (BpePair){.rank = merge->rank, .at = left, .result = merge->result});
}

// One symbol a byte that has a token.
static int32_t set_symbols(const Bpe *bpe, BpeScratch *scratch, const char *piece, size_t size) {
    if (size > scratch->symbol_capacity) {
        scratch->symbol_capacity = size < 128 ? 256 : 2 * size;
        scratch->symbols = arena_array(&scratch->arena, BpeSymbol, scratch->symbol_capacity);
    }
    int32_t count = 0;
    bool after_unknown = false;
    for (size_t i = 0; i < size; i++) {
        int32_t id = bpe->byte_ids[(uint8_t)piece[i]];
        bool unknown = id < 0;
        if (unknown) id = bpe->fuse_unknown && after_unknown ? -1 : bpe->unknown_id;
        after_unknown = unknown;
        if (id < 0) continue;
        scratch->symbols[count] = (BpeSymbol){.id = id, .previous = count - 1, .next = count + 1};
        count++;
    }
    if (count) scratch->symbols[count - 1].next = -1;
    return count;
}

void bpe_encode(const Bpe *bpe, BpeScratch *scratch, TokenList *list, const char *piece, size_t size) {
    CHECK(size <= BPE_LONGEST, "a piece of %zu bytes", size);
    int32_t count = set_symbols(bpe, scratch, piece, size);
    BpeSymbol *symbols = scratch->symbols;
    scratch->heap_count = 0;
    for (int32_t i = 0; i + 1 < count; i++) push_pair(bpe, scratch, i, i + 1);
    while (scratch->heap_count) {
        BpePair pair = heap_pop(scratch);
        BpeSymbol *left = symbols + pair.at;
        if (left->id < 0 || left->next < 0) continue;
        BpeSymbol *right = symbols + left->next;
        // A pair whose symbols have changed since it was pushed no longer gives this result.
        const BpeMerge *merge = find_slot(bpe, left->id, right->id);
        if (merge->left < 0 || merge->result != pair.result) continue;
        left->id = pair.result;
        left->next = right->next;
        right->id = -1;
        if (left->next >= 0) symbols[left->next].previous = pair.at;
        push_pair(bpe, scratch, left->previous, pair.at);
        push_pair(bpe, scratch, pair.at, left->next);
    }
    for (int32_t at = count ? 0 : -1; at >= 0; at = symbols[at].next) bpe_list_append(list, symbols[at].id);
}
