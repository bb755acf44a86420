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

// What a piece is made of, and what joins. Read-only once filled. Lives in the arena it was opened with.
//
// Symbols are bytes (a byte-level vocabulary) or characters. One without a token becomes its bytes' tokens <0xHH>, if
// byte_fallback is on and all of them are there; else the unknown token; else nothing, and its neighbours can merge.
// With `ranks`, as in SentencePiece, two symbols join when their texts joined are a token, whatever they are themselves.
typedef struct Bpe {
    const Vocabulary *vocabulary;
    int32_t byte_ids[256];     // token of each byte, of each character below 128; -1: none
    int32_t fallback_ids[256]; // of <0xHH>
    int32_t unknown_id;        // -1: none
    bool fuse_unknown;         // one unknown token for a run of such symbols
    bool byte_fallback;
    bool cut_at_blanks;   // no token has \u2581 behind another character: pieces can be cut before it
    const int32_t *ranks; // by id, equal ones allowed: order in which tokens are made; NULL: the merges below say
    BpeMerge *slots;      // hash table by (left, right)
    uint32_t mask;
} Bpe;

// Takes the tokens of single symbols from the vocabulary; room for merge_count merges.
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

enum { BPE_LONGEST = 1 << 29 }; // bytes of a piece

// Appends the tokens of piece[size]. n log n in size, whatever the piece.
void bpe_encode(const Bpe *bpe, BpeScratch *scratch, TokenList *list, const char *piece, size_t size);
