// Memory of large tensors on the cpu device. Micro-batches and steps release and take the same sizes over and over; fresh
// pages would be zeroed by the kernel each time, so released blocks are kept and taken again, up to a bound.
#pragma once
#include <stdbool.h>
#include <stddef.h>

enum { BLOCK_POOL_FROM = 1 << 20 }; // bytes; smaller tensors go to the C library

typedef struct BlockPoolSpare {
    void *data;
    size_t capacity;
} BlockPoolSpare;

// Zero-initialise. Not thread-safe.
typedef struct BlockPool {
    BlockPoolSpare *spare; // released blocks, oldest first
    size_t count, room;    // of spare
    size_t spare_bytes;
} BlockPool;

// A block of at least bytes >= BLOCK_POOL_FROM, aligned to 2 MiB where it is that large; *zeroed says whether it holds zeros.
// Spares are given back to the system, oldest first, until no more than spare_limit bytes of them stay besides a fresh block:
// with the limit "highest that was ever live, minus what is live now" the process never holds more than its peak.
// NULL when memory is out.
void *block_pool_take(BlockPool *pool, size_t bytes, size_t spare_limit, bool *zeroed);
void block_pool_give(BlockPool *pool, void *data, size_t bytes); // bytes as at the take
void block_pool_close(BlockPool *pool);                          // every block must have been given back
