#include "text/samples.h"

#include <string.h>

const char *samples_finish_name(FinishReason reason) {
    static const char *const names[] =
        {[FINISH_STOP] = "stop", [FINISH_STOP_STRING] = "stop", [FINISH_LENGTH] = "length", [FINISH_NAN] = "nan"};
    return names[reason];
}

void samples_open(Samples *out, int64_t count, int64_t tokens, Arena *arena) {
    *out = (Samples){.prompt = arena_array(arena, int32_t, count),
                     .question = arena_array(arena, int32_t, count),
                     .offset = arena_array(arena, int64_t, count + 1),
                     .prompt_length = arena_array(arena, int32_t, count),
                     .ids = arena_array(arena, int32_t, tokens),
                     .generation_logprobs = arena_array(arena, float, tokens),
                     .finish = arena_array(arena, FinishReason, count),
                     .stopped_by = arena_array(arena, int32_t, count)};
}

void samples_weigh_reward(Samples *samples, const double *weights) {
    for (int64_t b = 0; b < samples->count; b++) {
        double sum = 0;
        for (int c = 0; c < samples->component_count; c++) sum += weights[c] * (double)samples->component[c][b];
        if (samples->valid[b] != 0) samples->reward[b] = (float)sum;
    }
}

typedef struct Column {
    void **to;
    const void *from;
    size_t size; // of an element
} Column;

// A column of the pool, longer by `more` elements; what it held stays.
static void lengthen(Column *column, int64_t old, int64_t more, Arena *arena) {
    char *longer = arena_alloc(arena, (size_t)(old + more) * column->size);
    if (old) memcpy(longer, *column->to, (size_t)old * column->size);
    *column->to = longer;
}

static void copy(const Column *column, int64_t to, int64_t from, int64_t count) {
    if (!column->from) return;
    memcpy((char *)*column->to + (size_t)to * column->size, (const char *)column->from + (size_t)from * column->size,
           (size_t)count * column->size);
}

#define COLUMN(field)                                                                                                  \
    { (void **)&pool->field, from->field, sizeof *from->field }

// The pool has the components of its samples' rewards when all have the same.
static void agree_on_components(Samples *pool, const Samples *from) {
    bool same = pool->component_count == from->component_count;
    for (int c = 0; same && c < pool->component_count; c++)
        same = !strcmp(pool->component_name[c], from->component_name[c]);
    if (pool->count && !same) pool->component_count = 0;
    if (pool->count) return;
    pool->component_count = from->component_count;
    memcpy(pool->component_name, from->component_name, sizeof pool->component_name);
}

int64_t samples_append(Samples *pool, const Samples *from, const bool *keep, int64_t most, Arena *arena) {
    Column by_sample[8 + REWARD_MAX_COMPONENTS] = {COLUMN(prompt), COLUMN(question),   COLUMN(prompt_length),
                                                   COLUMN(finish), COLUMN(stopped_by), COLUMN(text),
                                                   COLUMN(reward), COLUMN(valid)};
    Column by_token[] = {COLUMN(ids), COLUMN(generation_logprobs), COLUMN(reference_logprobs), COLUMN(advantage)};
    enum { SAMPLE_COLUMNS = sizeof by_sample / sizeof *by_sample, TOKEN_COLUMNS = sizeof by_token / sizeof *by_token };
    agree_on_components(pool, from);
    for (int c = 0; c < pool->component_count; c++) by_sample[8 + c] = (Column)COLUMN(component[c]);
    int64_t count = 0, tokens = 0, left = 0, old = pool->count, old_tokens = old ? pool->offset[old] : 0;
    for (int64_t b = 0; b < from->count; b++) {
        if (!keep[b]) continue;
        if (count == most) {
            left++;
            continue;
        }
        count++;
        tokens += from->offset[b + 1] - from->offset[b];
    }
    Column offsets = {(void **)&pool->offset, NULL, sizeof *pool->offset};
    lengthen(&offsets, old ? old + 1 : 0, old ? count : count + 1, arena);
    pool->offset[0] = 0;
    for (int i = 0; i < SAMPLE_COLUMNS; i++)
        if (by_sample[i].from) lengthen(&by_sample[i], old, count, arena);
    for (int i = 0; i < TOKEN_COLUMNS; i++)
        if (by_token[i].from) lengthen(&by_token[i], old_tokens, tokens, arena);
    for (int64_t b = 0; b < from->count && pool->count < old + count; b++) {
        if (!keep[b]) continue;
        int64_t at = pool->count++, length = from->offset[b + 1] - from->offset[b];
        for (int i = 0; i < SAMPLE_COLUMNS; i++) copy(&by_sample[i], at, b, 1);
        for (int i = 0; i < TOKEN_COLUMNS; i++) copy(&by_token[i], pool->offset[at], from->offset[b], length);
        pool->offset[at + 1] = pool->offset[at] + length;
    }
    return left;
}
