#include "rollout/prefix_cache.h"

#include "base/error.h"
#include "ops/attention.h"
#include "rollout/page_pool.h"

#include <string.h>
#include <xxhash.h>

PrefixCache prefix_cache_open(Arena *arena, int64_t pages) {
    int64_t buckets = 1;
    while (buckets < pages) buckets *= 2;
    PrefixCache cache = {.pages = pages,
                         .serials = arena_array(arena, uint64_t, pages),
                         .before = arena_array(arena, uint64_t, pages),
                         .ids = arena_array(arena, int32_t, pages * KV_PAGE_TOKENS),
                         .bucket_mask = buckets - 1,
                         .buckets = arena_array(arena, int32_t, buckets),
                         .next = arena_array(arena, int32_t, pages)};
    prefix_cache_clear(&cache);
    return cache;
}

static int32_t *bucket_of(const PrefixCache *cache, uint64_t before, const int32_t *ids) {
    XXH64_hash_t hash = XXH3_64bits_withSeed(ids, KV_PAGE_TOKENS * sizeof *ids, before);
    return &cache->buckets[hash & (uint64_t)cache->bucket_mask];
}

int32_t prefix_cache_find(const PrefixCache *cache, uint64_t before, const int32_t *ids) {
    int32_t page = *bucket_of(cache, before, ids);
    for (; page != NO_PAGE; page = cache->next[page])
        if (cache->before[page] == before &&
            !memcmp(cache->ids + (int64_t)page * KV_PAGE_TOKENS, ids, KV_PAGE_TOKENS * sizeof *ids))
            break;
    return page;
}

uint64_t prefix_cache_add(PrefixCache *cache, int32_t page, uint64_t before, const int32_t *ids) {
    CHECK(!cache->serials[page], "page %d has an entry", page);
    int32_t same = prefix_cache_find(cache, before, ids), *bucket = bucket_of(cache, before, ids);
    if (same != NO_PAGE) return cache->serials[same];
    memcpy(cache->ids + (int64_t)page * KV_PAGE_TOKENS, ids, KV_PAGE_TOKENS * sizeof *ids);
    cache->before[page] = before;
    cache->next[page] = *bucket;
    *bucket = page;
    return cache->serials[page] = ++cache->last_serial;
}

void prefix_cache_forget(PrefixCache *cache, int32_t page) {
    if (!cache->serials[page]) return;
    int32_t *at = bucket_of(cache, cache->before[page], cache->ids + (int64_t)page * KV_PAGE_TOKENS);
    while (*at != page) at = &cache->next[*at];
    *at = cache->next[page];
    cache->serials[page] = 0;
}

void prefix_cache_clear(PrefixCache *cache) {
    for (int64_t i = 0; i <= cache->bucket_mask; i++) cache->buckets[i] = NO_PAGE;
    memset(cache->serials, 0, (size_t)cache->pages * sizeof *cache->serials);
}
