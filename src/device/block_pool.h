// Memory of large tensors on the cpu device. Micro-batches and steps release and take the same sizes over and over; fresh
// pages would be zeroed by the kernel each time, so the memory of released blocks is kept and taken again, whole or in parts, up
// to a bound. Blocks lie side by side in large mappings, for which the kernel is asked for huge pages: a processor that looks
// up a page for every few kilobytes of weights reads them a third slower.
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { BLOCK_POOL_FROM = 1 << 18 }; // bytes; smaller tensors go to the C library

typedef struct BlockPoolRange {
    char *data;
    size_t bytes;
} BlockPoolRange;

typedef struct BlockPoolRanges {
    BlockPoolRange *at;
    size_t count, room;
} BlockPoolRanges;

// Zero-initialise. Not thread-safe.
typedef struct BlockPool {
    BlockPoolRanges spare; // by address: released blocks as they are, joined with their neighbours
    BlockPoolRanges empty; // by address: mapped, but without memory
    BlockPoolRanges mappings;
    size_t spare_bytes;
} BlockPool;

// A block of at least bytes >= BLOCK_POOL_FROM, aligned to a page; *zeroed says whether it holds zeros.
// Spares are given back to the system until no more than spare_limit bytes of them stay besides a fresh block:
// with the limit "highest that was ever live, minus what is live now" the process never holds more than its peak.
// NULL when memory is out.
void *block_pool_take(BlockPool *pool, size_t bytes, size_t spare_limit, bool *zeroed);
void block_pool_give(BlockPool *pool, void *data, size_t bytes); // bytes as at the take
void block_pool_close(BlockPool *pool);                          // every block must have been given back
