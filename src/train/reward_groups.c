#include "train/reward_groups.h"

#include "base/arena.h"

#include <math.h>
#include <string.h>

// ---- groups

typedef struct Member {
    int64_t sample;
    int32_t group;
} Member;

static int member_order(const void *left, const void *right) {
    const Member *a = left, *b = right;
    if (a->group != b->group) return a->group < b->group ? -1 : 1;
    return a->sample < b->sample ? -1 : a->sample > b->sample;
}

// Samples in the order of their groups, by index within each.
static Member *members_sorted(Arena *arena, const int32_t *group, int64_t count) {
    Member *members = arena_array(arena, Member, count);
    for (int64_t i = 0; i < count; i++) members[i] = (Member){i, group[i]};
    if (count) qsort(members, (size_t)count, sizeof *members, member_order);
    return members;
}

static int64_t group_size(const Member *members, int64_t left) {
    int64_t size = 0;
    while (size < left && members[size].group == members[0].group) size++;
    return size;
}

// ---- statistics

typedef struct Statistic {
    double baseline, spread;
} Statistic;

// Of the valid members but `except` (-1: none), dividing by `divisor`, which is their number but for a left-out sample.
static Statistic statistic_of(const Member *members, int64_t size, const float *reward, const float *valid,
                              int64_t except, int64_t divisor) {
    double sum = 0, squares = 0;
    int64_t number = 0;
    for (int64_t i = 0; i < size; i++)
        if (valid[members[i].sample] != 0 && members[i].sample != except) {
            sum += reward[members[i].sample];
            number++;
        }
    double mean = sum / (double)number;
    for (int64_t i = 0; i < size; i++)
        if (valid[members[i].sample] != 0 && members[i].sample != except) {
            double off = reward[members[i].sample] - mean;
            squares += off * off;
        }
    if (divisor < 2) return (Statistic){sum / (double)divisor, 0};
    // Σr²/n − (Σr/n)² times n, for a number of summands that may not be n.
    double n = (double)divisor, extra = mean * mean * (double)number * (n - (double)number) / n;
    double variance = (squares + extra) / (n - 1);
    return (Statistic){sum / n, variance > 0 ? sqrt(variance) : 0};
}

static int64_t valid_number(const Member *members, int64_t size, const float *valid) {
    int64_t number = 0;
    for (int64_t i = 0; i < size; i++) number += valid[members[i].sample] != 0;
    return number;
}

static Statistic statistic_for(const Member *members, int64_t size, int64_t sample, const float *reward,
                               const float *valid, int64_t number, bool leave_one_out) {
    if (number <= 1) return (Statistic){reward[sample], 0};
    if (leave_one_out) return statistic_of(members, size, reward, valid, sample, number - 1);
    return statistic_of(members, size, reward, valid, -1, number);
}

void reward_groups_baseline(float *baseline, float *spread, const float *reward, const float *valid,
                            const int32_t *group, int64_t count, bool leave_one_out) {
    Arena arena = {0};
    const Member *members = members_sorted(&arena, group, count);
    for (int64_t begin = 0, size; begin < count; begin += size) {
        size = group_size(members + begin, count - begin);
        int64_t number = valid_number(members + begin, size, valid);
        for (int64_t i = begin; i < begin + size; i++) {
            int64_t sample = members[i].sample;
            Statistic statistic = statistic_for(members + begin, size, sample, reward, valid, number, leave_one_out);
            baseline[sample] = (float)statistic.baseline;
            spread[sample] = (float)statistic.spread;
        }
    }
    arena_close(&arena);
}

static bool rewards_equal(const Member *members, int64_t size, const float *reward, const float *valid) {
    const float *first = NULL;
    for (int64_t i = 0; i < size; i++) {
        if (valid[members[i].sample] == 0) continue;
        if (!first) first = &reward[members[i].sample];
        if (reward[members[i].sample] != *first) return false;
    }
    return true;
}

RewardGroupCounts reward_groups_compare(bool *differs, const float *reward, const float *valid, const int32_t *group,
                                        int64_t count) {
    Arena arena = {0};
    const Member *members = members_sorted(&arena, group, count);
    RewardGroupCounts counts = {0};
    for (int64_t begin = 0, size; begin < count; begin += size) {
        size = group_size(members + begin, count - begin);
        bool equal = rewards_equal(members + begin, size, reward, valid);
        for (int64_t i = begin; differs && i < begin + size; i++) differs[members[i].sample] = !equal;
        counts.groups++;
        counts.equal += equal;
    }
    arena_close(&arena);
    return counts;
}

// ---- prompts

typedef struct Prompt {
    const int32_t *ids;
    int64_t sample;
    int32_t length;
} Prompt;

static int same_length_order(const Prompt *a, const Prompt *b) {
    return a->length ? memcmp(a->ids, b->ids, (size_t)a->length * sizeof *a->ids) : 0;
}

static int prompt_order(const void *left, const void *right) {
    const Prompt *a = left, *b = right;
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    int order = same_length_order(a, b);
    if (order) return order;
    return a->sample < b->sample ? -1 : a->sample > b->sample;
}

int64_t reward_groups_of_prompts(int32_t *group, const int32_t *ids, const int64_t *offset,
                                 const int32_t *prompt_length, int64_t count) {
    Arena arena = {0};
    Prompt *prompts = arena_array(&arena, Prompt, count);
    int64_t *first = arena_array(&arena, int64_t, count); // first sample with the prompt of this one
    for (int64_t b = 0; b < count; b++) prompts[b] = (Prompt){ids + offset[b], b, prompt_length[b]};
    if (count) qsort(prompts, (size_t)count, sizeof *prompts, prompt_order);
    for (int64_t i = 0; i < count; i++) {
        const Prompt *now = &prompts[i], *last = now - 1;
        bool same = i && now->length == last->length && !same_length_order(now, last);
        first[now->sample] = same ? first[last->sample] : now->sample;
    }
    int64_t groups = 0;
    for (int64_t b = 0; b < count; b++) group[b] = first[b] == b ? (int32_t)groups++ : group[first[b]];
    arena_close(&arena);
    return groups;
}
