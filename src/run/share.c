#include "run/share.h"

#include <stdlib.h>
#include <string.h>

// ---- samples

// One rank's samples as they travel: the columns behind each other.
typedef struct Parcel {
    int64_t count, tokens;
    int32_t *prompt, *question, *prompt_length, *finish, *stopped_by, *length, *ids; // [count] each; ids [tokens]
    float *logprobs;                                                                 // [tokens]
} Parcel;

static size_t parcel_bytes(int64_t count, int64_t tokens) {
    return sizeof(int32_t) * (6 * (size_t)count + 2 * (size_t)tokens);
}

static Parcel parcel_at(void *data, int64_t count, int64_t tokens) {
    int32_t *at = data;
    Parcel parcel = {.count = count, .tokens = tokens};
    int32_t **columns[] = {&parcel.prompt, &parcel.question,   &parcel.prompt_length,
                           &parcel.finish, &parcel.stopped_by, &parcel.length};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++, at += count) *columns[i] = at;
    parcel.ids = at;
    parcel.logprobs = (float *)(void *)(at + tokens);
    return parcel;
}

static void pack(Parcel *parcel, const Samples *from) {
    size_t column = (size_t)from->count * sizeof(int32_t), tokens = (size_t)parcel->tokens * sizeof(int32_t);
    if (!from->count) return;
    memcpy(parcel->prompt, from->prompt, column);
    memcpy(parcel->question, from->question, column);
    memcpy(parcel->prompt_length, from->prompt_length, column);
    memcpy(parcel->stopped_by, from->stopped_by, column);
    for (int64_t b = 0; b < from->count; b++) {
        parcel->finish[b] = (int32_t)from->finish[b];
        parcel->length[b] = (int32_t)(from->offset[b + 1] - from->offset[b]);
    }
    memcpy(parcel->ids, from->ids, tokens);
    memcpy(parcel->logprobs, from->generation_logprobs, tokens);
}

// Where a sample lies: of which rank, and its first token there.
typedef struct Place {
    int32_t prompt, rank;
    int64_t b, token;
} Place;

static int by_prompt(const void *a, const void *b) {
    const Place *x = a, *y = b;
    if (x->prompt != y->prompt) return x->prompt < y->prompt ? -1 : 1;
    return (x->b > y->b) - (x->b < y->b); // of one rank
}

static void unpack(Samples *all, const Parcel *from, const Place *place) {
    int64_t at = all->count++, token = all->offset[at], length = from->length[place->b];
    all->prompt[at] = from->prompt[place->b];
    all->question[at] = from->question[place->b];
    all->prompt_length[at] = from->prompt_length[place->b];
    all->finish[at] = (FinishReason)from->finish[place->b];
    all->stopped_by[at] = from->stopped_by[place->b];
    all->offset[at + 1] = token + length;
    memcpy(all->ids + token, from->ids + place->token, (size_t)length * sizeof *all->ids);
    memcpy(all->generation_logprobs + token, from->logprobs + place->token, (size_t)length * sizeof(float));
}

static void merge(Samples *all, const Parcel *parcels, int ranks, Arena *arena) {
    Arena scratch = {0};
    int64_t count = 0, tokens = 0, at = 0;
    for (int rank = 0; rank < ranks; rank++) count += parcels[rank].count, tokens += parcels[rank].tokens;
    Place *places = arena_array(&scratch, Place, count);
    for (int32_t rank = 0; rank < ranks; rank++) {
        int64_t token = 0;
        for (int64_t b = 0; b < parcels[rank].count; token += parcels[rank].length[b++])
            places[at++] = (Place){parcels[rank].prompt[b], rank, b, token};
    }
    if (count) qsort(places, (size_t)count, sizeof *places, by_prompt);
    samples_open(all, count, tokens, arena);
    for (int64_t i = 0; i < count; i++) unpack(all, &parcels[places[i].rank], &places[i]);
    arena_close(&scratch);
}

void share_samples(Samples *all, const Samples *own, Comm *data, Arena *arena) {
    *all = *own;
    if (data->size == 1 || data->kind == COMM_PRETEND) return;
    Arena scratch = {0};
    int ranks = data->size;
    int64_t(*sizes)[2] = arena_alloc_array(&scratch, (size_t)ranks, sizeof *sizes);
    sizes[data->rank][0] = own->count, sizes[data->rank][1] = own->count ? own->offset[own->count] : 0;
    comm_all_gather(data, sizes, sizeof *sizes);
    size_t most = 0;
    for (int rank = 0; rank < ranks; rank++) {
        size_t bytes = parcel_bytes(sizes[rank][0], sizes[rank][1]);
        if (bytes > most) most = bytes;
    }
    char *bytes = arena_alloc_array(&scratch, (size_t)ranks, most);
    Parcel *parcels = arena_array(&scratch, Parcel, ranks);
    for (int rank = 0; rank < ranks; rank++)
        parcels[rank] = parcel_at(bytes + (size_t)rank * most, sizes[rank][0], sizes[rank][1]);
    pack(&parcels[data->rank], own);
    comm_all_gather(data, bytes, most);
    merge(all, parcels, ranks, arena);
    arena_close(&scratch);
}

EngineCounts share_counts(EngineCounts own, Comm *data) {
    if (data->size == 1 || data->kind == COMM_PRETEND) return own;
    Arena scratch = {0};
    EngineCounts *counts = arena_array(&scratch, EngineCounts, data->size), sum = {0};
    counts[data->rank] = own;
    comm_all_gather(data, counts, sizeof *counts);
    for (int rank = 0; rank < data->size; rank++) {
        const EngineCounts *part = &counts[rank];
        sum.samples += part->samples, sum.finished += part->finished, sum.nan += part->nan;
        sum.prompt_tokens += part->prompt_tokens, sum.answer_tokens += part->answer_tokens;
        sum.cached_tokens += part->cached_tokens;
        sum.preemptions += part->preemptions, sum.recomputed_tokens += part->recomputed_tokens;
    }
    sum.free_pages = own.free_pages, sum.pages = own.pages;
    arena_close(&scratch);
    return sum;
}

// ---- rewards

// The names, each with its 0 byte.
static void share_names(Samples *samples, Comm *world, Arena *arena) {
    int count = samples->component_count;
    size_t bytes = 0;
    for (int c = 0; c < count && world->rank == 0; c++) bytes += strlen(samples->component_name[c]) + 1;
    comm_broadcast(world, &bytes, sizeof bytes, 0);
    char *names = arena_alloc(arena, bytes), *at = names;
    for (int c = 0; c < count && world->rank == 0; c++) {
        size_t length = strlen(samples->component_name[c]) + 1;
        memcpy(at, samples->component_name[c], length);
        at += length;
    }
    comm_broadcast(world, names, bytes, 0);
    for (int c = 0; c < count; c++, names += strlen(names) + 1) samples->component_name[c] = names;
}

void share_rewards(Samples *samples, Comm *world, Arena *arena) {
    if (world->size == 1 || world->kind == COMM_PRETEND) return;
    size_t bytes = (size_t)samples->count * sizeof(float);
    comm_broadcast(world, &samples->component_count, sizeof samples->component_count, 0);
    share_names(samples, world, arena);
    float **columns[2 + REWARD_MAX_COMPONENTS] = {&samples->reward, &samples->valid};
    for (int c = 0; c < samples->component_count; c++) columns[2 + c] = &samples->component[c];
    for (int i = 0; i < 2 + samples->component_count; i++) {
        if (world->rank) *columns[i] = arena_array(arena, float, samples->count);
        comm_broadcast(world, *columns[i], bytes, 0);
    }
}

// ---- values by token

// The first sequence that begins at, or behind, rank's share of the tokens.
static int64_t part_begin(const int64_t *offset, int64_t count, int rank, int ranks) {
    double goal = (double)offset[0] + (double)(offset[count] - offset[0]) * rank / ranks;
    int64_t b = 0;
    while (b < count && (double)offset[b] < goal) b++;
    return rank == ranks ? count : b;
}

void share_part(int64_t *first, int64_t *last, const int64_t *offset, int64_t count, const Comm *data) {
    *first = part_begin(offset, count, data->rank, data->size);
    *last = part_begin(offset, count, data->rank + 1, data->size);
}

void share_by_token(float *values, const int64_t *offset, int64_t count, Comm *data) {
    for (int rank = 0; rank < data->size; rank++) {
        int64_t first = offset[part_begin(offset, count, rank, data->size)];
        int64_t end = offset[part_begin(offset, count, rank + 1, data->size)];
        comm_broadcast(data, values + first, (size_t)(end - first) * sizeof *values, rank);
    }
}
