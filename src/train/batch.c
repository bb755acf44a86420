#include "train/batch.h"

static void check_range(const TrainBatch *batch, int64_t first, int64_t count) {
    CHECK(first >= 0 && count >= 0 && first <= batch->count && count <= batch->count - first,
          "sequences %lld + %lld of %lld", (long long)first, (long long)count, (long long)batch->count);
}

TrainBatch batch_slice(const TrainBatch *batch, int64_t first, int64_t count) {
    check_range(batch, first, count);
    TrainBatch slice = *batch;
    slice.count = count;
    slice.offset += first;
    slice.sample_mask += first;
    if (slice.reward) slice.reward += first;
    return slice;
}

LossCounts batch_counts(const TrainBatch *batch) {
    LossCounts counts = {0};
    for (int64_t b = 0; b < batch->count; b++) {
        counts.valid_seqs += (double)batch->sample_mask[b];
        bool positive = batch->reward && batch->reward[b] > 0;
        for (int64_t t = batch->offset[b] + 1; t < batch->offset[b + 1]; t++) {
            counts.valid_toks += (double)batch->mask[t];
            if (positive) counts.positive_toks += (double)batch->mask[t];
        }
    }
    return counts;
}

MicroBatch batch_micro_of(const TrainBatch *batch, const int64_t *sequences, int64_t count, Arena *arena) {
    int64_t T = 0, page_count = 0;
    for (int64_t s = 0; s < count; s++) {
        check_range(batch, sequences[s], 1);
        int64_t length = batch->offset[sequences[s] + 1] - batch->offset[sequences[s]];
        T += length;
        page_count += kv_pages_of(length);
    }
    int32_t *ids = arena_array(arena, int32_t, T), *positions = arena_array(arena, int32_t, T);
    int32_t *pages = arena_array(arena, int32_t, page_count);
    AttentionSpan *spans = arena_array(arena, AttentionSpan, count);
    MicroBatch micro = {.page_count = page_count,
                        .sequences = arena_array(arena, int64_t, count),
                        .loss_offset = arena_array(arena, int64_t, count + 1),
                        .loss_rows = arena_array(arena, int32_t, T),
                        .loss_targets = arena_array(arena, int32_t, T),
                        .loss_columns = arena_array(arena, int64_t, T)};
    for (int32_t i = 0; i < page_count; i++) pages[i] = i;
    int64_t page = 0, row = 0;
    for (int64_t s = 0; s < count; s++) {
        micro.sequences[s] = sequences[s];
        int64_t start = batch->offset[sequences[s]], length = batch->offset[sequences[s] + 1] - start;
        spans[s] = (AttentionSpan){.row = row, .count = length, .pages = pages + page};
        for (int64_t t = 0; t < length; t++) {
            int64_t column = start + t;
            ids[row + t] = batch->ids[column];
            positions[row + t] = (int32_t)t;
            if (t == 0 || batch->mask[column] == 0) continue;
            int64_t i = micro.loss_count++;
            micro.loss_rows[i] = (int32_t)(row + t - 1);
            micro.loss_targets[i] = batch->ids[column];
            micro.loss_columns[i] = column;
        }
        micro.loss_offset[s + 1] = micro.loss_count;
        page += kv_pages_of(length);
        row += length;
    }
    micro.tokens = (TokenBatch){.count = T, .ids = ids, .positions = positions, .spans = spans, .span_count = count};
    return micro;
}

MicroBatch batch_micro(const TrainBatch *batch, int64_t first, int64_t count, Arena *arena) {
    check_range(batch, first, count);
    int64_t *sequences = arena_array(arena, int64_t, count);
    for (int64_t s = 0; s < count; s++) sequences[s] = first + s;
    return batch_micro_of(batch, sequences, count, arena);
}
