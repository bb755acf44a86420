#include "rollout/page_pool.h"

#include "base/error.h"

PagePool page_pool_open(Arena *arena, int64_t count) {
    PagePool pool = {.count = count,
                     .available = count,
                     .free_count = count,
                     .free_pages = arena_array(arena, int32_t, count),
                     .users = arena_array(arena, int32_t, count),
                     .keep = arena_array(arena, bool, count),
                     .older = arena_array(arena, int32_t, count),
                     .newer = arena_array(arena, int32_t, count),
                     .oldest = NO_PAGE,
                     .newest = NO_PAGE};
    for (int64_t i = 0; i < count; i++)
        pool.free_pages[i] = (int32_t)(count - 1 - i); // the lowest number is taken first
    return pool;
}

static void append_kept(PagePool *pool, int32_t page) {
    pool->older[page] = pool->newest;
    pool->newer[page] = NO_PAGE;
    *(pool->newest == NO_PAGE ? &pool->oldest : &pool->newer[pool->newest]) = page;
    pool->newest = page;
}

static void remove_kept(PagePool *pool, int32_t page) {
    int32_t older = pool->older[page], newer = pool->newer[page];
    *(older == NO_PAGE ? &pool->oldest : &pool->newer[older]) = newer;
    *(newer == NO_PAGE ? &pool->newest : &pool->older[newer]) = older;
}

int32_t page_pool_take(PagePool *pool) {
    CHECK(pool->available > 0, "all %lld pages are in use", (long long)pool->count);
    int32_t page = pool->oldest;
    if (pool->free_count)
        page = pool->free_pages[--pool->free_count];
    else
        remove_kept(pool, page);
    pool->available--;
    pool->keep[page] = false;
    pool->users[page] = 1;
    return page;
}

void page_pool_share(PagePool *pool, int32_t page) {
    CHECK(pool->users[page] > 0 || pool->keep[page], "page %d is free", page);
    if (pool->users[page]++) return;
    remove_kept(pool, page);
    pool->available--;
}

void page_pool_give(PagePool *pool, int32_t page) {
    CHECK(pool->users[page] > 0, "page %d has no users", page);
    if (--pool->users[page]) return;
    pool->available++;
    if (pool->keep[page])
        append_kept(pool, page);
    else
        pool->free_pages[pool->free_count++] = page;
}

void page_pool_keep(PagePool *pool, int32_t page) {
    CHECK(pool->users[page] > 0, "page %d has no users", page);
    pool->keep[page] = true;
}

void page_pool_forget(PagePool *pool) {
    for (; pool->oldest != NO_PAGE; remove_kept(pool, pool->oldest))
        pool->free_pages[pool->free_count++] = pool->oldest;
    for (int64_t i = 0; i < pool->count; i++) pool->keep[i] = false;
}
