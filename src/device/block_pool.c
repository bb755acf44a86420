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

// Adds a range by its address, joined with its neighbours.
static void add(BlockPoolRanges *ranges, BlockPoolRange range) {
    size_t index = 0;
    while (index < ranges->count && ranges->at[index].data < range.data) index++;
    if (index < ranges->count && range.data + range.bytes == ranges->at[index].data)
        range.bytes += take_out(ranges, index).bytes;
    if (index && ranges->at[index - 1].data + ranges->at[index - 1].bytes == range.data)
        ranges->at[index - 1].bytes += range.bytes;
    else
        insert(ranges, index, range);
}

// The beginning of the smallest range that holds so many bytes; NULL: none.
static void *take(BlockPoolRanges *ranges, size_t capacity) {
    size_t best = ranges->count;
    for (size_t i = 0; i < ranges->count; i++)
        if (ranges->at[i].bytes >= capacity && (best == ranges->count || ranges->at[i].bytes < ranges->at[best].bytes))
            best = i;
    if (best == ranges->count) return NULL;
    BlockPoolRange *range = &ranges->at[best];
    void *data = range->data;
    range->data += capacity;
    range->bytes -= capacity;
    if (!range->bytes) take_out(ranges, best);
    return data;
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
    add(&pool->empty, mapping);
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

// Gives the end of the largest spare range back to the system: so many bytes or more, from where a huge page begins, so that
// no other is broken into small ones, or the whole range.
static void drop(BlockPool *pool, size_t bytes) {
    BlockPoolRanges *spare = &pool->spare;
    size_t largest = 0;
    for (size_t i = 1; i < spare->count; i++)
        if (spare->at[i].bytes > spare->at[largest].bytes) largest = i;
    BlockPoolRange range = take_out(spare, largest);
    size_t kept = range.bytes > bytes ? range.bytes - bytes : 0, over = (uintptr_t)(range.data + kept) % HUGE_PAGE;
    kept = kept > over ? kept - over : 0;
    if (kept) insert(spare, largest, (BlockPoolRange){range.data, kept});
    BlockPoolRange end = {range.data + kept, range.bytes - kept};
    pool->spare_bytes -= end.bytes;
    CHECK(!madvise(end.data, end.bytes, MADV_DONTNEED), "%zu bytes stay", end.bytes); // reads as zeros from now on
    add(&pool->empty, end);
    unmap_empty(pool);
}

void *block_pool_take(BlockPool *pool, size_t bytes, size_t spare_limit, bool *zeroed) {
    size_t capacity = capacity_of(bytes);
    void *data = take(&pool->spare, capacity);
    *zeroed = !data;
    if (data) {
        pool->spare_bytes -= capacity;
        return data;
    }
    while (pool->spare_bytes > spare_limit) drop(pool, pool->spare_bytes - spare_limit);
    while (!(data = take(&pool->empty, capacity))) {
        if (map_more(pool, capacity)) continue;
        if (!pool->spare_bytes) return NULL;
        drop(pool, pool->spare_bytes);
    }
    return data;
}

void block_pool_give(BlockPool *pool, void *data, size_t bytes) {
    size_t capacity = capacity_of(bytes);
    add(&pool->spare, (BlockPoolRange){data, capacity});
    pool->spare_bytes += capacity;
}

void block_pool_close(BlockPool *pool) {
    for (size_t i = 0; i < pool->mappings.count; i++) unmap(pool->mappings.at[i]);
    free(pool->spare.at);
    free(pool->empty.at);
    free(pool->mappings.at);
    *pool = (BlockPool){0};
}
