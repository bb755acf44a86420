#include "device/block_pool.h"

#include "base/error.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, HUGE_PAGE = 2 << 20, MAPPING = 64 << 20 };

static size_t round_up(size_t bytes, size_t step) {
    return (bytes + step - 1) / step * step;
}

static size_t capacity_of(size_t bytes) {
    return round_up(bytes, PAGE);
}

static void insert(BlockPoolRanges *ranges, size_t index, BlockPoolRange range) {
    if (ranges->count == ranges->room) {
        ranges->room = ranges->room ? 2 * ranges->room : 64;
        ranges->at = realloc(ranges->at, ranges->room * sizeof *ranges->at);
        OBTAINED(ranges->at, "host memory for %zu blocks", ranges->room);
    }
    memmove(ranges->at + index + 1, ranges->at + index, (ranges->count - index) * sizeof range);
    ranges->at[index] = range;
    ranges->count++;
}

static BlockPoolRange take_out(BlockPoolRanges *ranges, size_t index) {
    BlockPoolRange range = ranges->at[index];
    ranges->count--;
    memmove(ranges->at + index, ranges->at + index + 1, (ranges->count - index) * sizeof range);
    return range;
}

// Adds an empty range, joined with its neighbours.
static void add_empty(BlockPool *pool, BlockPoolRange range) {
    BlockPoolRanges *empty = &pool->empty;
    size_t index = 0;
    while (index < empty->count && empty->at[index].data < range.data) index++;
    if (index < empty->count && range.data + range.bytes == empty->at[index].data)
        range.bytes += take_out(empty, index).bytes;
    if (index && empty->at[index - 1].data + empty->at[index - 1].bytes == range.data)
        empty->at[index - 1].bytes += range.bytes;
    else
        insert(empty, index, range);
}

// The first empty range that holds so many bytes; NULL: none.
static void *take_empty(BlockPool *pool, size_t capacity) {
    BlockPoolRanges *empty = &pool->empty;
    for (size_t i = 0; i < empty->count; i++) {
        if (empty->at[i].bytes < capacity) continue;
        char *data = empty->at[i].data;
        empty->at[i].data += capacity;
        empty->at[i].bytes -= capacity;
        if (!empty->at[i].bytes) take_out(empty, i);
        return data;
    }
    return NULL;
}

static bool map_more(BlockPool *pool, size_t capacity) {
    size_t bytes = capacity < MAPPING ? MAPPING : round_up(capacity, HUGE_PAGE);
    char *all = mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return false;
    size_t head = (HUGE_PAGE - (uintptr_t)all % HUGE_PAGE) % HUGE_PAGE;
    if (head) munmap(all, head);
    munmap(all + head + bytes, HUGE_PAGE - head);
    BlockPoolRange mapping = {all + head, bytes};
    madvise(mapping.data, bytes, MADV_HUGEPAGE); // a hint: may fail
    insert(&pool->mappings, pool->mappings.count, mapping);
    add_empty(pool, mapping);
    return true;
}

static void unmap(BlockPoolRange range) {
    munmap(range.data, range.bytes);
}

static bool inside(BlockPoolRange inner, BlockPoolRange outer) {
    return inner.data >= outer.data && inner.data + inner.bytes <= outer.data + outer.bytes;
}

// Mappings that no block lies in go back to the system.
static void unmap_empty(BlockPool *pool) {
    for (size_t m = pool->mappings.count; m-- > 0;) {
        BlockPoolRange mapping = pool->mappings.at[m];
        for (size_t i = 0; i < pool->empty.count; i++) {
            BlockPoolRange range = pool->empty.at[i];
            if (!inside(mapping, range)) continue;
            unmap(take_out(&pool->mappings, m));
            take_out(&pool->empty, i);
            char *behind = mapping.data + mapping.bytes;
            size_t before = (size_t)(mapping.data - range.data), after = (size_t)(range.data + range.bytes - behind);
            if (after) insert(&pool->empty, i, (BlockPoolRange){behind, after});
            if (before) insert(&pool->empty, i, (BlockPoolRange){range.data, before});
            break;
        }
    }
}

static void drop_oldest(BlockPool *pool) {
    BlockPoolRange oldest = take_out(&pool->spare, 0);
    pool->spare_bytes -= oldest.bytes;
    CHECK(!madvise(oldest.data, oldest.bytes, MADV_DONTNEED), "%zu bytes stay",
          oldest.bytes); // reads as zeros from now on
    add_empty(pool, oldest);
    unmap_empty(pool);
}

void *block_pool_take(BlockPool *pool, size_t bytes, size_t spare_limit, bool *zeroed) {
    size_t capacity = capacity_of(bytes);
    *zeroed = false;
    for (size_t i = pool->spare.count; i-- > 0;) {
        if (pool->spare.at[i].bytes != capacity) continue;
        pool->spare_bytes -= capacity;
        return take_out(&pool->spare, i).data;
    }
    while (pool->spare.count && pool->spare_bytes > spare_limit) drop_oldest(pool);
    *zeroed = true;
    for (;;) {
        void *data = take_empty(pool, capacity);
        if (data) return data;
        if (map_more(pool, capacity)) continue;
        if (!pool->spare.count) return NULL;
        drop_oldest(pool);
    }
}

void block_pool_give(BlockPool *pool, void *data, size_t bytes) {
    size_t capacity = capacity_of(bytes);
    insert(&pool->spare, pool->spare.count, (BlockPoolRange){data, capacity});
    pool->spare_bytes += capacity;
}

void block_pool_close(BlockPool *pool) {
    for (size_t i = 0; i < pool->mappings.count; i++) unmap(pool->mappings.at[i]);
    free(pool->spare.at);
    free(pool->empty.at);
    free(pool->mappings.at);
    *pool = (BlockPool){0};
}
