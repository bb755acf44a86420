#include "train/micro_batches.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

bool micro_batches_parse_order(bool *largest_first, const char *key, const char *text, Error *error) {
    *largest_first = !strcmp(text, "largest_first");
    if (*largest_first || !strcmp(text, "packer")) return true;
    return error_set(error, "%s: '%s'; expected packer or largest_first", key, text);
}

static int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

static MicroBatches open_batches(int64_t most, int64_t sequences, Arena *arena) {
    return (MicroBatches){.first = arena_array(arena, int64_t, most + 1),
                          .sequences = arena_array(arena, int64_t, sequences),
                          .tokens = arena_array(arena, int64_t, most)};
}

static bool check_shares(int64_t count, int ranks, bool uneven, Error *error) {
    if (uneven || count % ranks == 0) return true;
    return error_set(error, "%lld sequences do not divide by %d ranks", (long long)count, ranks);
}

static bool cut_static(MicroBatches *out, const int64_t *lengths, int64_t count, int ranks, bool uneven,
                       const BatchingOptions *options, Arena *arena, Error *error) {
    if (!check_shares(count, ranks, uneven, error)) return false;
    int64_t share = (count + ranks - 1) / ranks, size = options->micro_batch_size;
    for (int r = 0; r < ranks; r++) {
        int64_t start = r * share < count ? r * share : count;
        int64_t own = count - start < share ? count - start : share;
        MicroBatches batches = open_batches((own + size - 1) / size, own, arena);
        for (int64_t i = 0; i < own; i++) {
            batches.sequences[i] = start + i;
            if (i % size == 0) batches.count++;
            int64_t *longest = &batches.tokens[batches.count - 1];
            if (lengths[start + i] > *longest) *longest = lengths[start + i];
            batches.first[batches.count] = i + 1;
        }
        out[r] = batches;
    }
    return true;
}

typedef struct Entry {
    int64_t key, index;
} Entry;

static int by_key_up(const void *left, const void *right) {
    const Entry *a = left, *b = right;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}
static int by_key_down(const void *left, const void *right) {
    const Entry *a = left, *b = right;
    if (a->key != b->key) return a->key > b->key ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

// Sequences by length, dealt out in turn: at each position the ranks' lengths are nearly equal, and the cuts are common.
static bool cut_dynamic(MicroBatches *out, const int64_t *lengths, int64_t count, int64_t padded_width, int ranks,
                        const BatchingOptions *options, Arena *arena, Error *error) {
    if (!check_shares(count, ranks, false, error)) return false;
    Entry *order = arena_array(arena, Entry, count);
    for (int64_t i = 0; i < count; i++) order[i] = (Entry){lengths[i], i};
    if (count) qsort(order, (size_t)count, sizeof *order, by_key_up);
    int64_t own = count / ranks, open = 0, width = 0;
    for (int r = 0; r < ranks; r++) {
        out[r] = open_batches(own, own, arena);
        for (int64_t i = 0; i < own; i++) out[r].sequences[i] = order[i * ranks + r].index;
    }
    int64_t cap = padded_width ? padded_width : count ? order[count - 1].key : 0;
    for (int64_t i = 0; i < own; i++) {
        const Entry *longest = &order[i * ranks + ranks - 1];
        int64_t length = round_up(longest->key, options->length_round);
        if (length > cap) length = cap;
        if (length > options->max_tokens)
            return error_set(error,
                             "sequence %lld has %lld tokens, %lld when rounded up to a multiple of %lld; more than the "
                             "%lld of a micro-batch",
                             (long long)longest->index, (long long)longest->key, (long long)length,
                             (long long)options->length_round, (long long)options->max_tokens);
        if (length > width) width = length;
        bool fits = open && (open + 1) * width <= options->max_tokens;
        if (!fits) width = length;
        open = fits ? open + 1 : 1;
        for (int r = 0; r < ranks; r++) {
            if (!fits) out[r].count++;
            out[r].first[out[r].count] = i + 1;
            out[r].tokens[out[r].count - 1] = width;
        }
    }
    return true;
}

static bool cut_packed(MicroBatches *out, const int64_t *lengths, int64_t count, int ranks,
                       const BatchingOptions *options, Arena *arena, Error *error) {
    PackingOptions packing = {.algorithm = options->algorithm,
                              .capacity = options->max_tokens,
                              .min_bins = ranks,
                              .bin_multiple = ranks};
    int64_t *padded = arena_array(arena, int64_t, count), *order = arena_array(arena, int64_t, count);
    uint32_t *drawn = arena_array(arena, uint32_t, count);
    if (options->algorithm == PACKING_FIRST_FIT_SHUFFLE)
        rng_shuffle(drawn, (uint32_t)count, options->seed, RNG_PACK, options->round);
    for (int64_t i = 0; i < count; i++) {
        padded[i] = round_up(lengths[i], options->pad_multiple);
        order[i] = drawn[i];
    }
    packing.order = order;
    PackedBins bins;
    if (!packing_bins(&bins, padded, count, &packing, arena, error)) return false;
    int64_t own = bins.count / ranks;
    Entry *mine = arena_array(arena, Entry, own);
    for (int r = 0; r < ranks; r++) {
        for (int64_t m = 0; m < own; m++) mine[m] = (Entry){bins.loads[m * ranks + r], m * ranks + r};
        if (options->largest_first && own) qsort(mine, (size_t)own, sizeof *mine, by_key_down);
        MicroBatches batches = open_batches(own, count, arena);
        int64_t at = 0;
        for (; batches.count < own; batches.count++) {
            int64_t bin = mine[batches.count].index, members = bins.first[bin + 1] - bins.first[bin];
            memcpy(batches.sequences + at, bins.sequences + bins.first[bin], (size_t)members * sizeof(int64_t));
            batches.tokens[batches.count] = bins.loads[bin];
            at += members;
            batches.first[batches.count + 1] = at;
        }
        out[r] = batches;
    }
    return true;
}

bool micro_batches_cut(MicroBatches *out, const int64_t *lengths, int64_t count, int64_t padded_width, int ranks,
                       bool uneven, const BatchingOptions *options, Arena *arena, Error *error) {
    CHECK(ranks >= 1, "%d ranks", ranks);
    switch (options->mode) {
    case BATCHING_DYNAMIC: return cut_dynamic(out, lengths, count, padded_width, ranks, options, arena, error);
    case BATCHING_PACKED: return cut_packed(out, lengths, count, ranks, options, arena, error);
    case BATCHING_STATIC: break;
    }
    return cut_static(out, lengths, count, ranks, uneven, options, arena, error);
}

static bool check_budget(const char *key, int64_t tokens, int64_t max_length, Error *error) {
    if (tokens >= max_length) return true;
    return error_set(error, "%s: %lld tokens; expected at least policy.max_total_sequence_length, %lld", key,
                     (long long)tokens, (long long)max_length);
}

bool micro_batches_options(BatchingOptions *options, int64_t micro_batch_size, int64_t max_length,
                           const DynamicBatchingOptions *dynamic, const SequencePackingOptions *packing, Error *error) {
    *options = (BatchingOptions){.mode = BATCHING_STATIC, .micro_batch_size = micro_batch_size, .pad_multiple = 1};
    if (dynamic->enabled && packing->enabled)
        return error_set(error, "policy.dynamic_batching.enabled: true together with policy.sequence_packing.enabled; "
                                "expected one of them");
    if (dynamic->enabled) {
        options->mode = BATCHING_DYNAMIC;
        options->max_tokens = dynamic->train_mb_tokens;
        options->length_round = dynamic->sequence_length_round;
        return check_budget("policy.dynamic_batching.train_mb_tokens", dynamic->train_mb_tokens, max_length, error);
    }
    if (!packing->enabled) return true;
    options->mode = BATCHING_PACKED;
    options->max_tokens = packing->train_mb_tokens;
    return check_budget("policy.sequence_packing.train_mb_tokens", packing->train_mb_tokens, max_length, error) &&
           packing_parse(&options->algorithm, "policy.sequence_packing.algorithm", packing->algorithm, error) &&
           micro_batches_parse_order(&options->largest_first, "policy.sequence_packing.microbatch_order",
                                     packing->microbatch_order, error);
}

bool micro_batches_reduce_by(BatchingOptions *options, int64_t reduction_block, Error *error) {
    if (!reduction_block) return true;
    if (options->mode != BATCHING_STATIC)
        return error_set(error,
                         "whet.reduction_block: %lld with %s: micro-batches of unequal numbers of sequences are "
                         "summed whole; expected null",
                         (long long)reduction_block,
                         options->mode == BATCHING_DYNAMIC ? "policy.dynamic_batching" : "policy.sequence_packing");
    if (options->micro_batch_size % reduction_block)
        return error_set(error, "whet.reduction_block: %lld does not divide policy.train_micro_batch_size, %lld",
                         (long long)reduction_block, (long long)options->micro_batch_size);
    options->micro_batch_size = reduction_block;
    return true;
}
