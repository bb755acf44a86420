#include "text/bpe.h"

#include "text/utf8.h"

#include <stdio.h>
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

static int32_t flagged_token(const Vocabulary *vocabulary, const char *text, size_t size, uint32_t flags) {
    int32_t id = vocabulary_find(vocabulary, text, size);
    return id >= 0 && vocabulary->tokens[id].flags & flags ? id : -1;
}

static int32_t model_token(const Vocabulary *vocabulary, const char *text, size_t size) {
    return flagged_token(vocabulary, text, size, VOCABULARY_MODEL);
}

static const char blank[] = "\xE2\x96\x81"; // U+2581, which stands for a blank in SentencePiece's vocabularies

// Whether the text has a U+2581 behind another character.
static bool blank_inside(const char *text, size_t size) {
    for (const char *at = text, *found; (found = memmem(at, size - (size_t)(at - text), blank, 3)); at = found + 3)
        if (found > text && (found < text + 3 || memcmp(found - 3, blank, 3))) return true;
    return false;
}

void bpe_open(Bpe *bpe, Arena *arena, const Vocabulary *vocabulary, int32_t merge_count) {
    CHECK(merge_count >= 0 && merge_count <= VOCABULARY_LARGEST, "%d merges", merge_count);
    uint32_t slots = 16;
    while (slots < 2 * (uint32_t)merge_count) slots *= 2;
    *bpe = (Bpe){.vocabulary = vocabulary, .unknown_id = -1, .mask = slots - 1};
    bpe->slots = arena_array(arena, BpeMerge, slots);
    for (uint32_t i = 0; i < slots; i++) bpe->slots[i].left = -1;
    for (int byte = 0; byte < 256; byte++) {
        char text[8] = {(char)byte};
        size_t size = vocabulary->byte_level ? vocabulary_put_byte(text, (uint8_t)byte) : 1;
        bpe->byte_ids[byte] = vocabulary->byte_level || byte < 0x80 ? model_token(vocabulary, text, size) : -1;
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)byte);
        bpe->fallback_ids[byte] = flagged_token(vocabulary, text, 6, VOCABULARY_MODEL | VOCABULARY_BYTE);
    }
    bpe->cut_at_blanks = !vocabulary->byte_level && model_token(vocabulary, blank, 3) >= 0;
    for (int32_t id = 0; bpe->cut_at_blanks && id < vocabulary->size; id++) {
        const VocabularyToken *token = vocabulary->tokens + id;
        if (token->flags & VOCABULARY_MODEL) bpe->cut_at_blanks = !blank_inside(token->text, token->text_size);
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

enum { MERGED = -1, UNKNOWN = -2 }; // ids of symbols: gone into an earlier one; without a token, yet able to join

typedef struct BpeSymbol {
    int32_t id;
    int32_t previous, next; // -1: none
    int32_t start, size;    // in the piece; only kept when joins go by text
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

// Whether two neighbours join, and into what.
static bool find_pair(const Bpe *bpe, const BpeScratch *scratch, const char *piece, int32_t left, int32_t right,
                      BpePair *pair) {
    const BpeSymbol *one = scratch->symbols + left, *other = scratch->symbols + right;
    if (bpe->ranks) {
        int32_t id = model_token(bpe->vocabulary, piece + one->start, (size_t)one->size + (size_t)other->size);
        *pair = (BpePair){.rank = id < 0 ? 0 : bpe->ranks[id], .at = left, .result = id};
        return id >= 0;
    }
    const BpeMerge *merge = find_slot(bpe, one->id, other->id);
    *pair = (BpePair){.rank = merge->rank, .at = left, .result = merge->result};
    return merge->left >= 0;
}

static void push_pair(const Bpe *bpe, BpeScratch *scratch, const char *piece, int32_t left, int32_t right) {
    BpePair pair;
    if (left >= 0 && right >= 0 && find_pair(bpe, scratch, piece, left, right, &pair)) heap_push(scratch, pair);
}

static void put_symbol(BpeScratch *scratch, int32_t *count, int32_t id, size_t start, size_t size) {
    scratch->symbols[*count] = (BpeSymbol){id, *count - 1, *count + 1, (int32_t)start, (int32_t)size};
    ++*count;
}

static bool has_fallback(const Bpe *bpe, const char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (bpe->fallback_ids[(uint8_t)bytes[i]] < 0) return false;
    return bpe->byte_fallback;
}

// The next symbol of the piece: its token or -1, its length, and how the vocabulary writes it.
static int32_t next_symbol(const Bpe *bpe, const char *piece, size_t size, size_t *length, char written[4],
                           size_t *written_size) {
    uint8_t byte = (uint8_t)piece[0];
    *length = 1;
    if (bpe->vocabulary->byte_level) {
        int32_t id = bpe->byte_ids[byte];
        if (id < 0) *written_size = vocabulary_put_byte(written, byte);
        return id;
    }
    Utf8Step step = byte < 0x80 ? (Utf8Step){.size = 1} : utf8_step(piece, size);
    if (step.kind == UTF8_GOOD) *length = step.size;
    *written_size = *length;
    memcpy(written, piece, *length);
    return byte < 0x80 ? bpe->byte_ids[byte] : model_token(bpe->vocabulary, piece, *length);
}

static int32_t set_symbols(const Bpe *bpe, BpeScratch *scratch, const char *piece, size_t size) {
    // A byte of a byte-level vocabulary is written in two at most, and each may become a token of its own.
    if (2 * size > scratch->symbol_capacity) {
        scratch->symbol_capacity = size < 128 ? 256 : 3 * size;
        scratch->symbols = arena_array(&scratch->arena, BpeSymbol, scratch->symbol_capacity);
    }
    int32_t count = 0;
    size_t pending = 0; // the unknown token waits for what follows; even tokens of bytes overtake it
    for (size_t at = 0, length, written_size = 0; at < size; at += length) {
        char written[4];
        int32_t id = next_symbol(bpe, piece + at, size - at, &length, written, &written_size);
        if (id >= 0 || bpe->ranks) {
            if (pending) put_symbol(scratch, &count, bpe->unknown_id, 0, 0);
            pending = 0;
            put_symbol(scratch, &count, id >= 0 ? id : UNKNOWN, at, length);
        } else if (has_fallback(bpe, written, written_size)) {
            for (size_t i = 0; i < written_size; i++)
                put_symbol(scratch, &count, bpe->fallback_ids[(uint8_t)written[i]], 0, 0);
        } else if (bpe->unknown_id >= 0) {
            if (pending && !bpe->fuse_unknown) put_symbol(scratch, &count, bpe->unknown_id, 0, 0);
            pending = 1;
        }
    }
    if (pending) put_symbol(scratch, &count, bpe->unknown_id, 0, 0);
    if (count) scratch->symbols[count - 1].next = -1;
    return count;
}

static void append_unknown(const Bpe *bpe, TokenList *list, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        int32_t id = bpe->fallback_ids[(uint8_t)text[i]];
        if (id < 0) id = bpe->unknown_id;
        if (id >= 0) bpe_list_append(list, id);
    }
}

static void encode(const Bpe *bpe, BpeScratch *scratch, TokenList *list, const char *piece, size_t size) {
    int32_t count = set_symbols(bpe, scratch, piece, size);
    BpeSymbol *symbols = scratch->symbols;
    scratch->heap_count = 0;
    for (int32_t i = 0; i + 1 < count; i++) push_pair(bpe, scratch, piece, i, i + 1);
    while (scratch->heap_count) {
        BpePair pair = heap_pop(scratch), now;
        BpeSymbol *left = symbols + pair.at;
        if (left->id == MERGED || left->next < 0) continue;
        BpeSymbol *right = symbols + left->next;
        // A pair whose symbols have changed since it was pushed no longer gives this result.
        if (!find_pair(bpe, scratch, piece, pair.at, left->next, &now) || now.result != pair.result) continue;
        left->id = pair.result;
        left->size += right->size;
        left->next = right->next;
        right->id = MERGED;
        if (left->next >= 0) symbols[left->next].previous = pair.at;
        push_pair(bpe, scratch, piece, left->previous, pair.at);
        push_pair(bpe, scratch, piece, pair.at, left->next);
    }
    for (int32_t at = count ? 0 : -1; at >= 0; at = symbols[at].next) {
        if (symbols[at].id == UNKNOWN)
            append_unknown(bpe, list, piece + symbols[at].start, (size_t)symbols[at].size);
        else
            bpe_list_append(list, symbols[at].id);
    }
}

// How far the first part of the piece reaches that no token crosses. Where characters may vanish, one could.
static size_t part_size(const Bpe *bpe, const char *piece, size_t size) {
    if (!bpe->cut_at_blanks || (bpe->unknown_id < 0 && !bpe->ranks)) return size;
    size_t at = 0;
    while (at + 3 <= size && !memcmp(piece + at, blank, 3)) at += 3;
    const char *next = memmem(piece + at, size - at, blank, 3);
    return next ? (size_t)(next - piece) : size;
}

void bpe_encode(const Bpe *bpe, BpeScratch *scratch, TokenList *list, const char *piece, size_t size) {
    CHECK(size <= BPE_LONGEST, "a piece of %zu bytes", size);
    for (size_t at = 0, part; at < size; at += part) {
        part = part_size(bpe, piece + at, size - at);
        encode(bpe, scratch, list, piece + at, part);
    }
}
