// Who uses which page of a KV cache: a stack of free page numbers and a reference count for each page. Pages that hold the
// same tokens of one prompt are shared by its samples; a page is free again when its last user gave it back.
#pragma once
#include "base/arena.h"

#include <stdint.h>

typedef struct PagePool {
    int64_t count, free_count;
    int32_t *free_pages; // stack
    int32_t *users;      // of each page
} PagePool;

PagePool page_pool_open(Arena *arena, int64_t count); // all free; the arena owns the arrays
void page_pool_reset(PagePool *pool);                 // all free again, whoever used them

int32_t page_pool_take(PagePool *pool); // one user; a free page must be there (CHECKed)
void page_pool_share(PagePool *pool, int32_t page);
void page_pool_give(PagePool *pool, int32_t page);
