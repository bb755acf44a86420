// Which page holds which tokens, so that sequences that begin alike share their full pages. What a full page holds depends on its
// own KV_PAGE_TOKENS ids and on all before them: an entry is those ids and the serial number of the entry before it (0: none).
// Serial numbers are never used twice, so comparing one number and one page of ids is comparing whole beginnings: a hit is
// exact, whatever the hash. Pages are only named here; who uses them is page_pool.h's affair.
#pragma once
#include "base/arena.h"

#include <stdint.h>

typedef struct PrefixCache {
    int64_t pages;
    uint64_t last_serial;
    uint64_t *serials, *before; // [pages] of the page's entry (0: it has none), and of the entry before it
    int32_t *ids;               // [pages, KV_PAGE_TOKENS]
    int64_t bucket_mask;
    int32_t *buckets, *next; // first page of each bucket; the next page in a page's bucket; NO_PAGE at the end
} PrefixCache;

PrefixCache prefix_cache_open(Arena *arena, int64_t pages); // no entries; the arena owns the arrays

// The page whose entry follows the entry `before` with ids[KV_PAGE_TOKENS], or NO_PAGE.
int32_t prefix_cache_find(const PrefixCache *cache, uint64_t before, const int32_t *ids);

// Notes what a page (without an entry) holds, unless another page is known to hold the same. Returns the serial of the entry
// that stands for this content.
uint64_t prefix_cache_add(PrefixCache *cache, int32_t page, uint64_t before, const int32_t *ids);

void prefix_cache_forget(PrefixCache *cache, int32_t page); // the page's entry, if it has one
void prefix_cache_clear(PrefixCache *cache);                // all entries
