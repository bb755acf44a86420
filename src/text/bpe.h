// Byte-pair merging of one piece of text: lowest rank first, and among equals the leftmost (tokenizers 0.23, model BPE).
#pragma once
#include "base/strbuf.h"
#include "text/vocabulary.h"

// A growing list of token ids. Zero-initialise, and close when done. ids moves when the list grows.
typedef struct TokenList {
    int32_t *ids; // [count]
    size_t count;
    StrBuf memory;
} TokenList;

void bpe_list_append(TokenList *list, int32_t id);
void bpe_list_cut(TokenList *list, size_t count); // keeps the first count ids
void bpe_list_close(TokenList *list);

typedef struct BpeMerge {
    int32_t left, right; // left -1: free slot
    int32_t rank, result;
} BpeMerge;

// Read-only once filled. Lives in the arena it was opened with.
typedef struct Bpe {
    int32_t byte_ids[256]; // token of each byte alone; -1: none
    int32_t unknown_id;    // stands for a byte without a token; -1: such a byte is dropped, its neighbours can merge
    bool fuse_unknown;     // one unknown token for a run of such bytes
    BpeMerge *slots;       // hash table by (left, right)
    uint32_t mask;
} Bpe;

// Takes the tokens of single bytes from the vocabulary; room for merge_count merges.
void bpe_open(Bpe *bpe, Arena *arena, const Vocabulary *vocabulary, int32_t merge_count);

// A pair that was there already gets the new rank, as in a map that is filled in order.
void bpe_add_merge(Bpe *bpe, int32_t left, int32_t right, int32_t rank, int32_t result);

// Working memory of one thread, kept from piece to piece. Zero-initialise, and close the arena when done.
typedef struct BpeScratch {
    Arena arena;
    struct BpeSymbol *symbols;
    struct BpePair *heap;
    size_t symbol_capacity, heap_count, heap_capacity;
} BpeScratch;

enum { BPE_LONGEST = 1 << 30 }; // bytes of a piece

// Appends the tokens of piece[size]. n log n in size, whatever the piece.
void bpe_encode(const Bpe *bpe, BpeScratch *scratch, TokenList *list, const char *piece, size_t size);
