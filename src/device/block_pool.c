#include "device/block_pool.h"

#include "base/error.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { PAGE = 4096, HUGE_PAGE = 2 << 20, HUGE_FROM = 2 << 20, CLASSES = 8 };

// Sizes are rounded up to an eighth of their power of two, so that micro-batches of nearly equal lengths share blocks. What is
// never touched of a block costs no memory.
static size_t capacity_of(size_t bytes) {
    size_t step = ((size_t)1 << (63 - __builtin_clzll(bytes))) / CLASSES;
    return (bytes + step - 1) / step * step;
}

// Fresh zero pages, aligned for huge pages where they pay: fewer faults, fewer misses of the TLB.
static void *map_fresh(size_t capacity) {
    size_t alignment = capacity >= HUGE_FROM ? HUGE_PAGE : PAGE;
    char *all = mmap(NULL, capacity + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) return NULL;
    size_t head = (alignment - (uintptr_t)all % alignment) % alignment;
    if (head) munmap(all, head);
    munmap(all + head + capacity, alignment - head);
    if (alignment == HUGE_PAGE)
        madvise(all + head, capacity / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); // a hint: may fail
    return all + head;
}

static void drop_oldest(BlockPool *pool) {
    BlockPoolSpare oldest = pool->spare[0];
    pool->count--;
    pool->spare_bytes -= oldest.capacity;
    memmove(pool->spare, pool->spare + 1, pool->count * sizeof *pool->spare);
    munmap(oldest.data, oldest.capacity);
}

void *block_pool_take(BlockPool *pool, size_t bytes, size_t spare_limit, bool *zeroed) {
    size_t capacity = capacity_of(bytes);
    *zeroed = false;
    for (size_t i = pool->count; i-- > 0;) {
        if (pool->spare[i].capacity != capacity) continue;
        void *data = pool->spare[i].data;
        pool->count--;
        pool->spare_bytes -= capacity;
        memmove(pool->spare + i, pool->spare + i + 1, (pool->count - i) * sizeof *pool->spare);
        return data;
    }
    while (pool->count && pool->spare_bytes > spare_limit) drop_oldest(pool);
    *zeroed = true;
    void *data = map_fresh(capacity);
    while (!data && pool->count) {
        drop_oldest(pool);
        data = map_fresh(capacity);
    }
    return data;
}

void block_pool_give(BlockPool *pool, void *data, size_t bytes) {
    if (pool->count == pool->room) {
        pool->room = pool->room ? 2 * pool->room : 64;
        pool->spare = realloc(pool->spare, pool->room * sizeof *pool->spare);
        OBTAINED(pool->spare, "host memory for %zu spare blocks", pool->room);
    }
    size_t capacity = capacity_of(bytes);
    pool->spare[pool->count++] = (BlockPoolSpare){.data = data, .capacity = capacity};
    pool->spare_bytes += capacity;
}

void block_pool_close(BlockPool *pool) {
    while (pool->count) drop_oldest(pool);
    free(pool->spare);
    *pool = (BlockPool){0};
}
