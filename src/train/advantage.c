#include "train/advantage.h"

#include "base/arena.h"

#include <math.h>
#include <string.h>

bool advantage_options_check(const AdvantageOptions *options, Error *error) {
    const char *key = "grpo.adv_estimator.name", *name = options->name ? options->name : "null";
    static const char *const names[] = {"gdpo", "reinforce_plus_plus", "raw_reward", "gae", "opd"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return error_set(error, "%s: \"%s\": not supported yet: only \"grpo\" is", key, name);
    if (strcmp(name, "grpo") != 0) return error_set(error, "%s: \"%s\": expected \"grpo\"", key, name);
    return options->advantage_clip_low <= options->advantage_clip_high ||
           error_set(error, "grpo.advantage_clip_low: %g: expected a number up to grpo.advantage_clip_high (%g)",
                     options->advantage_clip_low, options->advantage_clip_high);
}

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

void advantage_baseline(float *baseline, float *spread, const float *reward, const float *valid, const int32_t *group,
                        int64_t count, bool leave_one_out) {
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

int64_t advantage_grpo(float *advantage, const float *reward, const float *valid, const int32_t *group, int64_t count,
                       const AdvantageOptions *options) {
    Arena arena = {0};
    const Member *members = members_sorted(&arena, group, count);
    int64_t equal = 0;
    for (int64_t begin = 0, size; begin < count; begin += size) {
        size = group_size(members + begin, count - begin);
        equal += rewards_equal(members + begin, size, reward, valid);
        int64_t number = valid_number(members + begin, size, valid);
        for (int64_t i = begin; i < begin + size; i++) {
            int64_t sample = members[i].sample;
            advantage[sample] = 0;
            if (valid[sample] == 0) continue;
            Statistic statistic = statistic_for(members + begin, size, sample, reward, valid, number,
                                                options->use_leave_one_out_baseline);
            double value = reward[sample] - statistic.baseline;
            if (options->normalize_rewards && statistic.spread > 0) value /= statistic.spread + 1e-6;
            if (value < options->advantage_clip_low) value = options->advantage_clip_low;
            if (value > options->advantage_clip_high) value = options->advantage_clip_high;
            advantage[sample] = (float)value;
        }
    }
    arena_close(&arena);
    return equal;
}
