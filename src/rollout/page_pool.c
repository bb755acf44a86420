#include "rollout/page_pool.h"

#include "base/error.h"

PagePool page_pool_open(Arena *arena, int64_t count) {
    PagePool pool = {.count = count,
                     .free_pages = arena_array(arena, int32_t, count),
                     .users = arena_array(arena, int32_t, count)};
    page_pool_reset(&pool);
    return pool;
}

void page_pool_reset(PagePool *pool) {
    pool->free_count = pool->count;
    for (int64_t i = 0; i < pool->count; i++) {
        pool->free_pages[i] = (int32_t)(pool->count - 1 - i); // the lowest number is taken first
        pool->users[i] = 0;
    }
}

int32_t page_pool_take(PagePool *pool) {
    CHECK(pool->free_count > 0, "all %lld pages are in use", (long long)pool->count);
    int32_t page = pool->free_pages[--pool->free_count];
    pool->users[page] = 1;
    return page;
}

void page_pool_share(PagePool *pool, int32_t page) {
    CHECK(pool->users[page] > 0, "page %d is free", page);
    pool->users[page]++;
}

void page_pool_give(PagePool *pool, int32_t page) {
    CHECK(pool->users[page] > 0, "page %d is free", page);
    if (--pool->users[page] == 0) pool->free_pages[pool->free_count++] = page;
}
