// Who uses which page of a KV cache: a reference count for each page. Pages that hold the same tokens are shared. A page that
// lost its last user is free again, or kept when its content may be wanted later; kept pages are taken when no free one is left,
// the one that has been without users longest first.
#pragma once
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct PagePool {
    int64_t count, available; // available: pages without users, free or kept
    int64_t free_count;
    int32_t *free_pages;    // stack
    int32_t *users;         // of each page
    bool *keep;             // of each page: kept when it loses its last user
    int32_t *older, *newer; // neighbours in the list of kept pages without users; NO_PAGE at the ends
    int32_t oldest, newest;
} PagePool;

enum { NO_PAGE = -1 };

PagePool page_pool_open(Arena *arena, int64_t count); // all free; the arena owns the arrays

int32_t page_pool_take(PagePool *pool); // one user, not to be kept; an available page must be there (CHECKed)
void page_pool_share(PagePool *pool, int32_t page); // one user more; the page must be used or kept (CHECKed)
void page_pool_give(PagePool *pool, int32_t page);  // one user less
void page_pool_keep(PagePool *pool, int32_t page);  // a used page: keep it after its last user
void page_pool_forget(PagePool *pool); // nothing is to be kept any more: kept pages without users become free
