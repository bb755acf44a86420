// What some ranks know comes to all: host columns are the same everywhere, so that every decision is.
#pragma once
#include "comm/mesh.h"
#include "rollout/engine.h"

// The samples that data-parallel ranks have collected (engine_collect), as one rank would have collected all of them: by prompt
// number, then sample. The arrays are the arena's.
void share_samples(Samples *all, const Samples *own, Comm *data, Arena *arena);

// Sums over ranks; free_pages and pages are this rank's.
EngineCounts share_counts(EngineCounts own, Comm *data);

// reward, valid and components of rank 0.
void share_rewards(Samples *samples, Comm *world, Arena *arena);

// Sequences first..last-1 of offset[count + 1] are this rank's part, by their tokens.
void share_part(int64_t *first, int64_t *last, const int64_t *offset, int64_t count, const Comm *data);

// Values by token: each rank has its part (share_part), all get the whole.
void share_by_token(float *values, const int64_t *offset, int64_t count, Comm *data);
