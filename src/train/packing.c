#include "train/packing.h"

#include "base/strbuf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const names[] = {"concatenative", "first_fit_decreasing", "first_fit_shuffle",
                                    "modified_first_fit_decreasing"};
enum { ALGORITHM_COUNT = sizeof names / sizeof *names };

bool packing_parse(PackingAlgorithm *algorithm, const char *key, const char *text, Error *error) {
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        if (strcasecmp(text, names[i])) continue;
        *algorithm = (PackingAlgorithm)i;
        return true;
    }
    return error_set(error, "%s: '%s'; expected %s, %s, %s or %s", key, text, names[0], names[1], names[2], names[3]);
}

const char *packing_name(PackingAlgorithm algorithm) {
    return names[algorithm];
}

// A sequence that waits for its bin.
typedef struct Item {
    int64_t index, length;
} Item;

// A list from which items are taken anywhere and whose order stays.
typedef struct ItemList {
    Item *items;
    int64_t count;
} ItemList;

static Item take(ItemList *list, int64_t at) {
    Item item = list->items[at];
    memmove(list->items + at, list->items + at + 1, (size_t)(--list->count - at) * sizeof item);
    return item;
}

// Bins under construction. A bin's sequences form a chain through `next`.
typedef struct Bin {
    int64_t head, tail, count, load;
} Bin;

typedef struct Packer {
    int64_t capacity, bin_count;
    Bin *bins;     // [sequences]
    int64_t *next; // [sequences] of a sequence in its bin, -1: the last
} Packer;

static void put(Packer *packer, int64_t bin, Item item) {
    Bin *b = &packer->bins[bin];
    packer->next[item.index] = -1;
    if (b->count++)
        packer->next[b->tail] = item.index;
    else
        b->head = item.index;
    b->tail = item.index;
    b->load += item.length;
}

static int64_t open_bin(Packer *packer) {
    packer->bins[packer->bin_count] = (Bin){.head = -1, .tail = -1};
    return packer->bin_count++;
}

static bool fits(const Packer *packer, int64_t bin, int64_t length) {
    return length <= packer->capacity - packer->bins[bin].load;
}

static void concatenative(Packer *packer, const ItemList *list) {
    for (int64_t i = 0; i < list->count; i++) {
        bool room = packer->bin_count && fits(packer, packer->bin_count - 1, list->items[i].length);
        put(packer, room ? packer->bin_count - 1 : open_bin(packer), list->items[i]);
    }
}

static void first_fit(Packer *packer, const ItemList *list) {
    for (int64_t i = 0; i < list->count; i++) {
        int64_t bin = 0;
        while (bin < packer->bin_count && !fits(packer, bin, list->items[i].length)) bin++;
        put(packer, bin < packer->bin_count ? bin : open_bin(packer), list->items[i]);
    }
}

// Orders: by length, then by index where lengths are equal. Upwards or downwards each, as NeMo-RL's sorts leave them.
static int by_length_up(const void *left, const void *right) {
    const Item *a = left, *b = right;
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}
static int by_length_down(const void *left, const void *right) {
    const Item *a = left, *b = right;
    if (a->length != b->length) return a->length > b->length ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}
static int by_length_and_index_down(const void *left, const void *right) {
    return by_length_up(right, left);
}

static void sort(ItemList *list, int (*order)(const void *, const void *)) {
    if (list->count) qsort(list->items, (size_t)list->count, sizeof *list->items, order);
}

// The items with low < length·6 ≤ high, in sixths of the capacity.
static ItemList class_of(const ItemList *all, int64_t capacity, int low, int high, Arena *arena) {
    ItemList list = {.items = arena_array(arena, Item, all->count)};
    for (int64_t i = 0; i < all->count; i++) {
        __int128 sixths = (__int128)all->items[i].length * 6;
        if (sixths > (__int128)capacity * low && sixths <= (__int128)capacity * high)
            list.items[list.count++] = all->items[i];
    }
    return list;
}

// The first item of a list that fits, -1: none.
static int64_t first_that_fits(const Packer *packer, int64_t bin, const ItemList *list) {
    for (int64_t i = 0; i < list->count; i++)
        if (fits(packer, bin, list->items[i].length)) return i;
    return -1;
}

// Two small items for each bin without a medium one, from the last bin to the first: the smallest, and the largest that
// still fits beside it.
static void place_pairs(Packer *packer, ItemList *small, const bool *has_medium) {
    for (int64_t bin = packer->bin_count - 1; bin >= 0; bin--) {
        if (has_medium[bin] || small->count < 2) continue;
        if (!fits(packer, bin, small->items[0].length + small->items[1].length)) continue;
        put(packer, bin, take(small, 0));
        int64_t second = small->count - 1;
        while (!fits(packer, bin, small->items[second].length)) second--;
        put(packer, bin, take(small, second));
    }
}

// Leftovers go into new bins, each into the emptiest one or, where that has no room, into another. The bins stay ordered by
// load; one that changed goes behind those of equal load.
static void place_leftovers(Packer *packer, const ItemList *list) {
    int64_t start = packer->bin_count;
    for (int64_t i = 0; i < list->count; i++) {
        bool room = packer->bin_count > start && fits(packer, start, list->items[i].length);
        int64_t bin = room ? start : open_bin(packer);
        put(packer, bin, list->items[i]);
        Bin changed = packer->bins[bin];
        if (room) {
            for (; bin + 1 < packer->bin_count && packer->bins[bin + 1].load <= changed.load; bin++)
                packer->bins[bin] = packer->bins[bin + 1];
        } else {
            for (; bin > start && packer->bins[bin - 1].load > changed.load; bin--)
                packer->bins[bin] = packer->bins[bin - 1];
        }
        packer->bins[bin] = changed;
    }
}

static void modified_first_fit(Packer *packer, const ItemList *all, Arena *arena) {
    ItemList large = class_of(all, packer->capacity, 3, 6, arena),
             medium = class_of(all, packer->capacity, 2, 3, arena);
    ItemList small = class_of(all, packer->capacity, 1, 2, arena), tiny = class_of(all, packer->capacity, 0, 1, arena);
    bool *has_medium = arena_array(arena, bool, large.count);
    sort(&large, by_length_down);
    sort(&medium, by_length_down);
    sort(&small, by_length_up);
    for (int64_t i = 0; i < large.count; i++) put(packer, open_bin(packer), large.items[i]);
    for (int64_t bin = 0; bin < packer->bin_count; bin++) {
        int64_t found = first_that_fits(packer, bin, &medium);
        has_medium[bin] = found >= 0;
        if (found >= 0) put(packer, bin, take(&medium, found));
    }
    place_pairs(packer, &small, has_medium);
    ItemList rest = {.items = arena_array(arena, Item, all->count)};
    const ItemList *parts[] = {&medium, &small, &tiny};
    for (int p = 0; p < 3; p++)
        for (int64_t i = 0; i < parts[p]->count; i++) rest.items[rest.count++] = parts[p]->items[i];
    sort(&rest, by_length_down);
    for (int64_t bin = 0; bin < packer->bin_count; bin++)
        for (int64_t found; (found = first_that_fits(packer, bin, &rest)) >= 0;) put(packer, bin, take(&rest, found));
    place_leftovers(packer, &rest);
}

// Rank of bins as sources of the bins that are opened later: most sequences first, then the later bin.
static int by_count_down(const void *left, const void *right) {
    const Item *a = left, *b = right; // here: bin and its number of sequences
    if (a->length != b->length) return a->length > b->length ? -1 : 1;
    return (a->index < b->index) - (a->index > b->index);
}

static Item take_last(Packer *packer, int64_t bin, const int64_t *lengths) {
    Bin *b = &packer->bins[bin];
    int64_t last = b->tail, at = b->head;
    while (packer->next[at] != last) at = packer->next[at];
    packer->next[at] = -1;
    b->tail = at;
    b->count--;
    b->load -= lengths[last];
    return (Item){last, lengths[last]};
}

static void open_more(Packer *packer, int64_t target, const int64_t *lengths, Arena *arena) {
    int64_t old = packer->bin_count;
    ItemList sources = {.items = arena_array(arena, Item, old), .count = old};
    for (int64_t b = 0; b < old; b++) sources.items[b] = (Item){b, packer->bins[b].count};
    sort(&sources, by_count_down);
    for (int64_t s = 0; packer->bin_count < target; s++)
        while (packer->bin_count < target && packer->bins[sources.items[s].index].count > 1) {
            Item item = take_last(packer, sources.items[s].index, lengths);
            put(packer, open_bin(packer), item);
        }
}

static bool check(const int64_t *lengths, int64_t count, const PackingOptions *options, Error *error) {
    if (options->capacity < 1)
        return error_set(error, "a bin of %lld tokens; expected at least 1", (long long)options->capacity);
    if (options->min_bins < 0)
        return error_set(error, "at least %lld bins are asked for; expected 0 or more", (long long)options->min_bins);
    if (options->bin_multiple < 1)
        return error_set(error, "a multiple of %lld bins is asked for; expected 1 or more",
                         (long long)options->bin_multiple);
    int64_t least = options->algorithm == PACKING_MODIFIED_FIRST_FIT_DECREASING ? 1 : 0;
    for (int64_t i = 0; i < count; i++) {
        if (lengths[i] < least)
            return error_set(error, "sequence %lld has %lld tokens; %s takes sequences of at least %lld", (long long)i,
                             (long long)lengths[i], names[options->algorithm], (long long)least);
        if (lengths[i] > options->capacity)
            return error_set(error, "sequence %lld has %lld tokens, more than a bin's %lld", (long long)i,
                             (long long)lengths[i], (long long)options->capacity);
    }
    return true;
}

static void lay_out(PackedBins *bins, const Packer *packer, int64_t count, Arena *arena) {
    *bins = (PackedBins){.count = packer->bin_count,
                         .first = arena_array(arena, int64_t, packer->bin_count + 1),
                         .sequences = arena_array(arena, int64_t, count),
                         .loads = arena_array(arena, int64_t, packer->bin_count)};
    int64_t at = 0;
    for (int64_t b = 0; b < packer->bin_count; b++) {
        const Bin *bin = &packer->bins[b];
        bins->loads[b] = bin->load;
        for (int64_t s = bin->head; s >= 0; s = packer->next[s]) bins->sequences[at++] = s;
        bins->first[b + 1] = at;
    }
}

bool packing_bins(PackedBins *bins, const int64_t *lengths, int64_t count, const PackingOptions *options, Arena *arena,
                  Error *error) {
    if (!check(lengths, count, options, error)) return false;
    Packer packer = {.capacity = options->capacity,
                     .bins = arena_array(arena, Bin, count),
                     .next = arena_array(arena, int64_t, count)};
    ItemList all = {.items = arena_array(arena, Item, count), .count = count};
    for (int64_t i = 0; i < count; i++) {
        int64_t index = options->algorithm == PACKING_FIRST_FIT_SHUFFLE ? options->order[i] : i;
        all.items[i] = (Item){index, lengths[index]};
    }
    switch (options->algorithm) {
    case PACKING_CONCATENATIVE: concatenative(&packer, &all); break;
    case PACKING_FIRST_FIT_DECREASING:
        sort(&all, by_length_and_index_down);
        first_fit(&packer, &all);
        break;
    case PACKING_FIRST_FIT_SHUFFLE: first_fit(&packer, &all); break;
    case PACKING_MODIFIED_FIRST_FIT_DECREASING: modified_first_fit(&packer, &all, arena); break;
    }
    int64_t target = packer.bin_count > options->min_bins ? packer.bin_count : options->min_bins;
    int64_t over = target % options->bin_multiple;
    if (over) target += options->bin_multiple - over;
    if (target > count)
        return error_set(error, "%lld bins are asked for and there are only %lld sequences", (long long)target,
                         (long long)count);
    open_more(&packer, target, lengths, arena);
    lay_out(bins, &packer, count, arena);
    return true;
}

PackingStatistics packing_statistics(const PackedBins *bins, int64_t capacity) {
    PackingStatistics s = {.bins = bins->count, .sequences = bins->first[bins->count]};
    s.capacity = bins->count * capacity;
    for (int64_t b = 0; b < bins->count; b++) s.tokens += bins->loads[b];
    s.waste = s.capacity - s.tokens;
    s.theoretical_min_bins = (s.tokens + capacity - 1) / capacity;
    if (!bins->count) return s;
    double n = (double)bins->count, squares = 0;
    s.average_utilization = (double)s.tokens / (double)s.capacity;
    s.waste_ratio = (double)s.waste / (double)s.capacity;
    for (int64_t b = 0; b < bins->count; b++) {
        double d = (double)bins->loads[b] / (double)capacity - s.average_utilization;
        squares += d * d;
    }
    double deviation = bins->count > 1 ? sqrt(squares / (n - 1)) : 0;
    s.bin_balance = s.average_utilization > 0 ? 1 - deviation / s.average_utilization : 1;
    s.bin_efficiency = (double)s.theoretical_min_bins / n;
    return s;
}
