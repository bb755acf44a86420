#include "run/deal.h"

#include "base/int64.h"
#include "base/log.h"

#include <stdlib.h>

#define STOPPED ((int64_t)1 << 40) // tickets that no rollout has; each rank may add them

typedef struct Work {
    int64_t tokens, request;
} Work;

// Tokens of prompts, as far as they are known; answers are expected to be equally long.
static int most_first(const void *a, const void *b) {
    const Work *x = a, *y = b;
    if (x->tokens != y->tokens) return x->tokens < y->tokens ? 1 : -1;
    return (x->request > y->request) - (x->request < y->request);
}

static void set_order(Deal *deal, Arena *arena) {
    Arena scratch = {0};
    Work *work = arena_array(&scratch, Work, deal->count);
    for (int64_t i = 0; i < deal->count; i++) work[i] = (Work){deal->requests[i].count * deal->requests[i].samples, i};
    qsort(work, (size_t)deal->count, sizeof *work, most_first);
    deal->order = arena_array(arena, int64_t, deal->count);
    for (int64_t i = 0; i < deal->count; i++) deal->order[i] = work[i].request;
    arena_close(&scratch);
}

// In turns, and every other turn backwards, so that the sums are close together.
static bool is_own(const Deal *deal, int64_t i) {
    int64_t ranks = deal->mesh->data.size, seat = i % ranks;
    return (i / ranks % 2 ? ranks - 1 - seat : seat) == deal->mesh->data.rank;
}

void deal_open(Deal *deal, EngineRequest **first, int64_t *first_count, Mesh *mesh, const EngineRequest *requests,
               int64_t count, int64_t seats, Arena *arena) {
    *deal = (Deal){.mesh = mesh, .requests = requests, .count = count, .looked_up = log_seconds()};
    int64_t ranks = mesh->data.size, samples = 0;
    for (int64_t i = 0; i < count; i++) samples = int64_larger(samples, requests[i].samples);
    int64_t share = (count + ranks - 1) / ranks, seated = samples ? int64_larger(seats / samples, 1) : share;
    deal->dealt = ranks == 1 ? count : int64_smaller(count, ranks * int64_smaller(share, seated));
    deal->over = deal->dealt == count;
    if (count) set_order(deal, arena);
    comm_tickets_restart(&mesh->world);
    *first = arena_array(arena, EngineRequest, deal->dealt);
    *first_count = 0;
    for (int64_t i = 0; i < deal->dealt; i++)
        if (is_own(deal, i)) (*first)[(*first_count)++] = requests[deal->order[i]];
}

// The same number for all ranks of a tensor-parallel group.
static int64_t take_tickets(Deal *deal, int64_t count) {
    Mesh *mesh = deal->mesh;
    int64_t before = mesh->tensor.rank == 0 ? comm_tickets_take(&mesh->world, count) : 0;
    comm_broadcast(&mesh->tensor, &before, sizeof before, 0);
    return before;
}

const EngineRequest *deal_next(Deal *deal) {
    const Comm *data = &deal->mesh->data;
    if (deal->over) return NULL;
    int64_t ticket = data->kind == COMM_PRETEND ? deal->taken++ * data->size + data->rank : take_tickets(deal, 1);
    deal->over = ticket >= deal->count - deal->dealt;
    return deal->over ? NULL : &deal->requests[deal->order[deal->dealt + ticket]];
}

bool deal_take_over(Deal *deal, Engine *engine, Error *error) {
    const EngineRequest *next;
    while (engine_idles(engine) && (next = deal_next(deal)))
        if (!engine_add(engine, next, error)) return false;
    return true;
}

bool deal_stops(Deal *deal, bool stop) {
    Mesh *mesh = deal->mesh;
    if (mesh->world.size == 1 || mesh->world.kind == COMM_PRETEND) return stop;
    int32_t says[2] = {stop, log_seconds() - deal->looked_up > DEAL_LOOK}; // as the group's first rank sees the clock
    if (mesh->tensor.size > 1) {
        says[0] = comm_any(&mesh->tensor, stop);
        comm_broadcast(&mesh->tensor, &says[1], sizeof says[1], 0);
    }
    if (says[0])
        take_tickets(deal, STOPPED);
    else if (says[1] || mesh->data.rank == 0) // rank 0 is in this group: it answers
        says[0] = take_tickets(deal, 0) >= STOPPED;
    if (says[1]) deal->looked_up = log_seconds();
    return says[0];
}

void deal_close(Deal *deal) {
    comm_tickets_finish(&deal->mesh->world);
}
