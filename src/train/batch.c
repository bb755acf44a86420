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
    return slice;
}

void batch_valid_counts(const TrainBatch *batch, double *valid_seqs, double *valid_toks) {
    *valid_seqs = *valid_toks = 0;
    for (int64_t b = 0; b < batch->count; b++) {
        *valid_seqs += (double)batch->sample_mask[b];
        for (int64_t t = batch->offset[b] + 1; t < batch->offset[b + 1]; t++) *valid_toks += (double)batch->mask[t];
    }
}

MicroBatch batch_micro(const TrainBatch *batch, int64_t first, int64_t count, Arena *arena) {
    check_range(batch, first, count);
    const int64_t *offset = batch->offset + first;
    int64_t T = offset[count] - offset[0], page_count = 0;
    for (int64_t b = 0; b < count; b++) page_count += kv_pages_of(offset[b + 1] - offset[b]);

    int32_t *positions = arena_array(arena, int32_t, T);
    int32_t *pages = arena_array(arena, int32_t, page_count);
    AttentionSpan *spans = arena_array(arena, AttentionSpan, count);
    MicroBatch micro = {.page_count = page_count,
                        .loss_rows = arena_array(arena, int32_t, T),
                        .loss_targets = arena_array(arena, int32_t, T),
                        .loss_columns = arena_array(arena, int64_t, T)};
    for (int32_t i = 0; i < page_count; i++) pages[i] = i;
    int64_t page = 0, row = 0;
    for (int64_t b = 0; b < count; b++) {
        int64_t length = offset[b + 1] - offset[b];
        spans[b] = (AttentionSpan){.row = row, .count = length, .pages = pages + page};
        for (int64_t t = 0; t < length; t++) {
            positions[row + t] = (int32_t)t;
            int64_t column = offset[b] + t;
            if (t == 0 || batch->mask[column] == 0) continue;
            int64_t i = micro.loss_count++;
            micro.loss_rows[i] = (int32_t)(row + t - 1);
            micro.loss_targets[i] = batch->ids[column];
            micro.loss_columns[i] = column;
        }
        page += kv_pages_of(length);
        row += length;
    }
    micro.tokens = (TokenBatch){.count = T,
                                .ids = batch->ids + offset[0],
                                .positions = positions,
                                .spans = spans,
                                .span_count = count};
    return micro;
}
