// Who samples what: the requests of a rollout, dealt out to data-parallel ranks. The most work comes first: at the beginning every rank
// gets as many requests as it has seats for, at most its share; whoever is idle then takes over the next one that
// waits. No bit depends on it (docs/numbers.md). The ranks of a tensor-parallel group do the same together.
#pragma once
#include "comm/mesh.h"
#include "rollout/engine.h"

typedef struct Deal {
    Mesh *mesh;
    const EngineRequest *requests;
    int64_t *order; // [count] of requests: most work first
    int64_t count;
    int64_t dealt;    // of order: handed out at the beginning
    bool over;        // none waits
    int64_t taken;    // pretended ranks: what this one has taken over
    double looked_up; // when this rank last looked whether another stops
} Deal;

// All ranks call it with the same requests. seats: of one engine. *first[*first_count] are this rank's at the beginning.
void deal_open(Deal *deal, EngineRequest **first, int64_t *first_count, Mesh *mesh, const EngineRequest *requests,
               int64_t count, int64_t seats, Arena *arena);

// The next request that waits, for a rank that is idle; NULL: none.
const EngineRequest *deal_next(Deal *deal);

// Gives the engine requests that wait for as long as it idles. False as engine_add says.
bool deal_take_over(Deal *deal, Engine *engine, Error *error);

// Whether a rank has said that the rollout ends here; `stop`: this one says so. Between rounds of the engine: rank 0 answers the
// others then, who ask about a stop every DEAL_LOOK seconds.
enum { DEAL_LOOK = 5 };
bool deal_stops(Deal *deal, bool stop);

void deal_close(Deal *deal); // all ranks call it when they take no more; rank 0 waits for the others
