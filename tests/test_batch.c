// Cutting a batch into micro-batches of packed sequences: rows, spans, pages, the rows that carry loss, counts.
#include "train/batch.h"
#include "train/micro_batches.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { SEQUENCES = 13, START = 7, TOKENS = 512 };

static const int64_t lengths[SEQUENCES] = {1, 2, 15, 16, 17, 1, 1, 31, 32, 33, 0, 100, 3};

typedef struct Data {
    int64_t offset[SEQUENCES + 1];
    int32_t ids[TOKENS];
    float mask[TOKENS], sample_mask[SEQUENCES];
} Data;

// Columns begin at START: what lies before must not be read as a token of the batch.
static TrainBatch fill(Data *data) {
    uint32_t word = 99;
    data->offset[0] = START;
    for (int b = 0; b < SEQUENCES; b++) {
        data->offset[b + 1] = data->offset[b] + lengths[b];
        data->sample_mask[b] = b % 4 == 3 ? 0 : 1;
    }
    assert_true(data->offset[SEQUENCES] <= TOKENS);
    for (int i = 0; i < TOKENS; i++) {
        word = word * 1664525 + 1013904223;
        data->ids[i] = 1000 + i;
        data->mask[i] = (float)(word >> 30) / 2; // 0, 0.5, 1, 1.5: first tokens too
    }
    return (TrainBatch){.count = SEQUENCES,
                        .offset = data->offset,
                        .ids = data->ids,
                        .mask = data->mask,
                        .sample_mask = data->sample_mask};
}

// Compares every array with what a walk over the rows says.
static void check_micro(const TrainBatch *batch, int64_t first, int64_t count) {
    Arena arena = {0};
    MicroBatch micro = batch_micro(batch, first, count, &arena);
    int64_t row = 0, page = 0, loss = 0;
    assert_int_equal(micro.tokens.span_count, count);
    for (int64_t b = 0; b < count; b++) {
        const AttentionSpan *span = &micro.tokens.spans[b];
        int64_t start = batch->offset[first + b], length = batch->offset[first + b + 1] - start;
        assert_int_equal(span->row, row);
        assert_int_equal(span->count, length);
        assert_int_equal(span->start, 0);
        for (int64_t t = 0; t < length; t++, row++) {
            assert_int_equal(micro.tokens.ids[row], batch->ids[start + t]);
            assert_int_equal(micro.tokens.positions[row], t);
            assert_int_equal(span->pages[t / KV_PAGE_TOKENS],
                             page + t / KV_PAGE_TOKENS); // each page belongs to one sequence
            if (t == 0 || batch->mask[start + t] == 0) continue;
            assert_true(loss < micro.loss_count);
            assert_int_equal(micro.loss_rows[loss], row - 1);
            assert_int_equal(micro.loss_targets[loss], batch->ids[start + t]);
            assert_int_equal(micro.loss_columns[loss], start + t);
            loss++;
        }
        page += length / KV_PAGE_TOKENS + (length % KV_PAGE_TOKENS != 0);
    }
    assert_int_equal(micro.tokens.count, row);
    assert_int_equal(micro.page_count, page);
    assert_int_equal(micro.loss_count, loss);
    arena_close(&arena);
}

static void test_every_run_of_sequences(void **state) {
    (void)state;
    Data data;
    TrainBatch batch = fill(&data);
    for (int64_t first = 0; first <= SEQUENCES; first++)
        for (int64_t count = 0; first + count <= SEQUENCES; count++) check_micro(&batch, first, count);
}

static void test_a_slice_is_the_same_sequences(void **state) {
    (void)state;
    Data data;
    TrainBatch batch = fill(&data);
    for (int64_t first = 0; first <= SEQUENCES; first += 3)
        for (int64_t count = 0; first + count <= SEQUENCES; count += 2) {
            TrainBatch slice = batch_slice(&batch, first, count);
            assert_int_equal(slice.count, count);
            for (int64_t b = 0; b < count; b++) {
                assert_int_equal(slice.offset[b], data.offset[first + b]);
                assert_true(slice.sample_mask[b] == data.sample_mask[first + b]);
            }
            check_micro(&slice, 0, count);
            Arena arena = {0};
            MicroBatch one = batch_micro(&slice, 0, count, &arena), other = batch_micro(&batch, first, count, &arena);
            assert_int_equal(one.loss_count, other.loss_count);
            for (int64_t i = 0; i < one.loss_count; i++) assert_int_equal(one.loss_columns[i], other.loss_columns[i]);
            arena_close(&arena);
        }
}

static void test_masks_decide_what_counts(void **state) {
    (void)state;
    const int64_t offset[] = {0, 1, 5, 6, 9};
    const int32_t ids[] = {10, 20, 21, 22, 23, 30, 40, 41, 42};
    const float mask[] = {1, 1, 0, 1, 0.25f, 1, -0.0f, 1, 1}, sample_mask[] = {1, 1, 0, 0.5f};
    TrainBatch batch = {.count = 4, .offset = offset, .ids = ids, .mask = mask, .sample_mask = sample_mask};
    Arena arena = {0};
    MicroBatch micro = batch_micro(&batch, 0, 4, &arena);
    const int32_t rows[] = {2, 3, 6, 7}, targets[] = {22, 23, 41, 42};
    const int64_t columns[] = {3, 4, 7, 8};
    assert_int_equal(micro.loss_count, 4);
    assert_memory_equal(micro.loss_rows, rows, sizeof rows);
    assert_memory_equal(micro.loss_targets, targets, sizeof targets);
    assert_memory_equal(micro.loss_columns, columns, sizeof columns);
    assert_int_equal(micro.page_count, 4);
    const int64_t begins[] = {0, 0, 2, 2, 4};
    assert_memory_equal(micro.loss_offset, begins, sizeof begins);
    LossCounts counts = batch_counts(&batch);
    assert_true(counts.valid_seqs == 2.5 && counts.valid_toks == 3.25 && counts.positive_toks == 0);
    const float reward[] = {1, 0.5f, 1, 0};
    batch.reward = reward;
    assert_true(batch_counts(&batch).positive_toks == 1.25);
    batch = batch_slice(&batch, 2, 1); // one token: nothing predicts it
    counts = batch_counts(&batch);
    assert_true(counts.valid_seqs == 0 && counts.valid_toks == 0 && counts.positive_toks == 0);
    assert_true(*batch.reward == 1);
    assert_int_equal(batch_micro(&batch, 0, 1, &arena).loss_count, 0);
    batch.count = 0;
    counts = batch_counts(&batch);
    assert_true(counts.valid_seqs == 0 && counts.valid_toks == 0);
    arena_close(&arena);
}

// whet.reduction_block cuts static micro-batches, and refuses what it cannot cut evenly.
static void test_reduction_blocks(void **state) {
    (void)state;
    Error error;
    BatchingOptions options = {.mode = BATCHING_STATIC, .micro_batch_size = 12};
    assert_true(micro_batches_reduce_by(&options, 0, &error));
    assert_int_equal(options.micro_batch_size, 12);
    assert_false(micro_batches_reduce_by(&options, 5, &error));
    assert_string_equal(error.text, "whet.reduction_block: 5 does not divide policy.train_micro_batch_size, 12");
    assert_true(micro_batches_reduce_by(&options, 4, &error));
    assert_int_equal(options.micro_batch_size, 4);
    options.mode = BATCHING_DYNAMIC;
    assert_false(micro_batches_reduce_by(&options, 4, &error));
    assert_non_null(strstr(error.text, "whet.reduction_block: 4 with policy.dynamic_batching"));
}

// ---- ranges outside the batch are errors of the program

static Data shared_data;
static void slice_behind_the_end(void) {
    TrainBatch batch = fill(&shared_data);
    batch_slice(&batch, 5, SEQUENCES - 4);
}
static void slice_of_negative_count(void) {
    TrainBatch batch = fill(&shared_data);
    batch_slice(&batch, 5, -1);
}
static void slice_that_overflows(void) {
    TrainBatch batch = fill(&shared_data);
    batch_slice(&batch, INT64_MAX, 2);
}
static void micro_behind_the_end(void) {
    Arena arena = {0};
    TrainBatch batch = fill(&shared_data);
    batch = batch_slice(&batch, 0, 5);
    batch_micro(&batch, 3, 3, &arena);
}
static void micro_before_the_start(void) {
    Arena arena = {0};
    TrainBatch batch = fill(&shared_data);
    batch = batch_slice(&batch, 2, 5);
    batch_micro(&batch, -1, 3, &arena);
}

static void test_ranges_outside_end_the_program(void **state) {
    (void)state;
    void (*const bodies[])(void) = {slice_behind_the_end, slice_of_negative_count, slice_that_overflows,
                                    micro_behind_the_end, micro_before_the_start};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            signal(SIGABRT, SIG_DFL);
            if (!freopen("/dev/null", "w", stderr)) _exit(2);
            bodies[i]();
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT) fail_msg("range %zu was taken", i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_run_of_sequences),         cmocka_unit_test(test_a_slice_is_the_same_sequences),
        cmocka_unit_test(test_masks_decide_what_counts),       cmocka_unit_test(test_reduction_blocks),
        cmocka_unit_test(test_ranges_outside_end_the_program),
    };
    return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
