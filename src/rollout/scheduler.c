#include "rollout/scheduler.h"

#include "ops/attention.h"

void scheduler_open(Scheduler *s, int64_t pages, int64_t max_seats, bool caching, Arena *arena) {
    *s = (Scheduler){.caching = caching,
                     .pool = page_pool_open(arena, pages),
                     .prefixes = prefix_cache_open(arena, pages),
                     .max_seats = max_seats,
                     .seats = arena_array(arena, int64_t, max_seats)};
}

// Later pages first: of pages without users the oldest are taken first, and a page is of no use without those before it.
static void give_pages(Scheduler *s, Sequence *q) {
    while (q->page_count) page_pool_give(&s->pool, q->pages[--q->page_count]);
    q->stored = q->noted = 0;
    q->serial = 0;
    q->leader = NOBODY;
}

static void take_page(Scheduler *s, Sequence *q) {
    int32_t page = page_pool_take(&s->pool);
    prefix_cache_forget(&s->prefixes, page);
    q->pages[q->page_count++] = page;
}

void scheduler_start(Scheduler *s, Sequence *sequences, int64_t count) {
    for (int64_t i = 0; i < s->seat_count; i++) give_pages(s, &s->sequences[s->seats[i]]);
    s->sequences = sequences;
    s->count = count;
    s->seat_count = s->waiting = s->preemptions = s->cached_tokens = 0;
}

void scheduler_extend(Scheduler *s, Sequence *sequences, int64_t count) {
    s->sequences = sequences;
    s->count = count;
}

bool scheduler_idles(const Scheduler *s) {
    return s->waiting == s->count && s->seat_count < s->max_seats;
}

void scheduler_forget(Scheduler *s) {
    CHECK(!s->seat_count, "%lld samples are under way", (long long)s->seat_count);
    page_pool_forget(&s->pool);
    prefix_cache_clear(&s->prefixes);
}

// The last token drawn is never stored.
static bool may_grow(const Sequence *q) {
    return q->page_count < kv_pages_of(q->limit - 1);
}

static void preempt_youngest(Scheduler *s) {
    s->waiting = s->seats[--s->seat_count];
    give_pages(s, &s->sequences[s->waiting]);
    s->preemptions++;
}

void scheduler_grow(Scheduler *s) {
    for (int64_t i = 0; i < s->seat_count; i++) {
        Sequence *q = &s->sequences[s->seats[i]];
        if (q->page_count >= kv_pages_of(q->known)) continue;
        while (!s->pool.available && s->seat_count > i) preempt_youngest(s);
        if (s->seat_count > i) take_page(s, q);
    }
}

// The sample that walks, or is about to walk, the prompt of q.
static int64_t leader_of(const Scheduler *s, const Sequence *q) {
    if (!s->seat_count || q->known > q->prompt_length) return NOBODY;
    int64_t index = s->seats[s->seat_count - 1];
    const Sequence *neighbour = &s->sequences[index];
    if (neighbour->request != q->request || neighbour->known > neighbour->prompt_length) return NOBODY;
    return neighbour->leader == NOBODY ? index : neighbour->leader;
}

// Pages that hold the first tokens of q; the last known token is always walked, since its row is to be drawn from.
static int64_t find_pages(const Scheduler *s, Sequence *q) {
    int64_t most = s->caching ? (q->known - 1) / KV_PAGE_TOKENS : 0, found = 0;
    for (q->serial = 0; found < most; found++) {
        int32_t page = prefix_cache_find(&s->prefixes, q->serial, q->ids + found * KV_PAGE_TOKENS);
        if (page == NO_PAGE) break;
        q->pages[found] = page;
        q->serial = s->prefixes.serials[page];
    }
    return found;
}

static int64_t find_shared_pages(const Scheduler *s, Sequence *q, int64_t leader) {
    if (leader == NOBODY) return find_pages(s, q);
    int64_t full = q->prompt_length / KV_PAGE_TOKENS;
    for (int64_t i = 0; i < full; i++) q->pages[i] = s->sequences[leader].pages[i];
    return full;
}

// Whether q fits, with `shared` pages that are there, and leaves a page to each older sample that may still need one.
static bool fits(const Scheduler *s, const Sequence *q, int64_t shared) {
    int64_t need = kv_pages_of(q->known) - shared;
    for (int64_t i = 0; i < shared; i++) need += s->pool.users[q->pages[i]] == 0;
    if (s->seat_count) need += kv_pages_of(q->known) < kv_pages_of(q->limit - 1);
    for (int64_t i = 0; i < s->seat_count; i++) need += may_grow(&s->sequences[s->seats[i]]);
    return need <= s->pool.available;
}

bool scheduler_admit(Scheduler *s, bool only_follower) {
    while (s->waiting < s->count && s->sequences[s->waiting].finished)
        s->waiting++; // before an older one was preempted
    if (s->waiting == s->count || s->seat_count == s->max_seats) return false;
    Sequence *q = &s->sequences[s->waiting];
    int64_t leader = leader_of(s, q);
    if (only_follower && leader == NOBODY) return false;
    int64_t shared = find_shared_pages(s, q, leader);
    if (!fits(s, q, shared)) return false;
    for (; q->page_count < shared; q->page_count++) page_pool_share(&s->pool, q->pages[q->page_count]);
    while (q->page_count < kv_pages_of(q->known)) take_page(s, q);
    q->leader = leader;
    if (leader == NOBODY) {
        q->noted = shared;
        q->stored = shared * KV_PAGE_TOKENS;
        s->cached_tokens += q->stored;
    }
    s->seats[s->seat_count++] = s->waiting++;
    return true;
}

void scheduler_store(Scheduler *s, Sequence *q, int64_t count) {
    q->stored += count;
    for (; s->caching && q->noted < q->stored / KV_PAGE_TOKENS; q->noted++) {
        int32_t page = q->pages[q->noted];
        q->serial = prefix_cache_add(&s->prefixes, page, q->serial, q->ids + q->noted * KV_PAGE_TOKENS);
        if (s->prefixes.serials[page]) page_pool_keep(&s->pool, page);
    }
}

bool scheduler_follow(Scheduler *s, Sequence *leader, int64_t *seat) {
    for (; *seat < s->seat_count; ++*seat) {
        Sequence *q = &s->sequences[s->seats[*seat]];
        if (q->leader != leader - s->sequences) continue;
        q->stored = leader->stored;
        q->noted = leader->noted;
        q->serial = leader->serial;
        q->leader = NOBODY;
        return true;
    }
    return false;
}

void scheduler_leave(Scheduler *s, int64_t index) {
    int64_t seat = 0;
    while (s->seats[seat] != index) seat++;
    for (s->seat_count--; seat < s->seat_count; seat++) s->seats[seat] = s->seats[seat + 1];
    give_pages(s, &s->sequences[index]);
}
