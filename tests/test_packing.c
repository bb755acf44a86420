// train/packing and train/micro_batches: what must hold for any lengths, and what is refused. Bins, shards and micro-batches
// equal to NeMo-RL's are in the fixtures (tests/data/packing).
#include "base/rng.h"
#include "train/micro_batches.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { CASES = 60, MOST = 200 };

static int64_t draw(uint32_t at, uint32_t which, int64_t below) {
    return (int64_t)(rng_uniform(7, RNG_TEST_WEIGHTS, (RngCounter){.prompt = at, .token = which}) * (float)below);
}

// Every sequence exactly once among the micro-batches of all ranks.
static void assert_each_once(const MicroBatches *batches, int ranks, int64_t count) {
    int seen[MOST] = {0};
    for (int r = 0; r < ranks; r++)
        for (int64_t i = 0; i < batches[r].first[batches[r].count]; i++) seen[batches[r].sequences[i]]++;
    for (int64_t i = 0; i < count; i++) assert_int_equal(seen[i], 1);
}

static void test_every_algorithm_places_each_sequence_once(void **state) {
    (void)state;
    Arena arena = {0};
    Error error;
    for (uint32_t c = 0; c < CASES; c++) {
        int64_t lengths[MOST], count = 24 + draw(c, 0, MOST - 24), capacity = 64 + draw(c, 1, 500);
        // At most half a bin each, so that bins hold two and their number can be raised to a multiple of 8.
        for (int64_t i = 0; i < count; i++) lengths[i] = 1 + draw(c, 2 + (uint32_t)i, capacity / 2);
        for (int algorithm = 0; algorithm <= PACKING_MODIFIED_FIRST_FIT_DECREASING; algorithm++) {
            int ranks = 1 << c % 4;
            MicroBatches out[8];
            BatchingOptions options = {.mode = BATCHING_PACKED,
                                       .max_tokens = capacity,
                                       .algorithm = (PackingAlgorithm)algorithm,
                                       .largest_first = c % 2,
                                       .pad_multiple = 1,
                                       .seed = c};
            assert_true(micro_batches_cut(out, lengths, count, 0, ranks, false, &options, &arena, &error));
            assert_each_once(out, ranks, count);
            for (int r = 0; r < ranks; r++) {
                assert_int_equal(out[r].count, out[0].count);
                for (int64_t m = 0; m < out[r].count; m++) {
                    int64_t load = 0;
                    for (int64_t i = out[r].first[m]; i < out[r].first[m + 1]; i++)
                        load += lengths[out[r].sequences[i]];
                    assert_true(load == out[r].tokens[m] && load >= 1 && load <= capacity);
                    if (options.largest_first && m) assert_true(load <= out[r].tokens[m - 1]);
                }
            }
        }
        arena_reset(&arena);
    }
    arena_close(&arena);
}

static void test_dynamic_batches_keep_the_budget_on_every_rank(void **state) {
    (void)state;
    Arena arena = {0};
    Error error;
    for (uint32_t c = 0; c < CASES; c++) {
        int ranks = 1 << c % 4;
        int64_t lengths[MOST], count = ranks * (1 + draw(c, 0, MOST / ranks - 1)), longest = 0;
        for (int64_t i = 0; i < count; i++) {
            lengths[i] = 1 + draw(c, 2 + (uint32_t)i, 300);
            if (lengths[i] > longest) longest = lengths[i];
        }
        BatchingOptions options = {.mode = BATCHING_DYNAMIC, .max_tokens = 512, .length_round = 1 + draw(c, 1, 64)};
        MicroBatches out[8];
        assert_true(micro_batches_cut(out, lengths, count, 0, ranks, false, &options, &arena, &error));
        assert_each_once(out, ranks, count);
        for (int r = 0; r < ranks; r++) {
            assert_int_equal(out[r].count, out[0].count);
            for (int64_t m = 0; m < out[r].count; m++) {
                assert_int_equal(out[r].first[m], out[0].first[m]);
                assert_true((out[r].first[m + 1] - out[r].first[m]) * out[r].tokens[m] <= options.max_tokens);
                for (int64_t i = out[r].first[m]; i < out[r].first[m + 1]; i++)
                    assert_true(lengths[out[r].sequences[i]] <= out[r].tokens[m]);
            }
        }
        arena_reset(&arena);
    }
    arena_close(&arena);
}

static void test_the_shuffle_follows_seed_and_round(void **state) {
    (void)state;
    Arena arena = {0};
    Error error;
    int64_t lengths[100];
    for (int i = 0; i < 100; i++) lengths[i] = 10 + i % 7;
    BatchingOptions options = {.mode = BATCHING_PACKED,
                               .max_tokens = 64,
                               .algorithm = PACKING_FIRST_FIT_SHUFFLE,
                               .pad_multiple = 1,
                               .seed = 1};
    MicroBatches one, again, other;
    assert_true(micro_batches_cut(&one, lengths, 100, 0, 1, false, &options, &arena, &error));
    assert_true(micro_batches_cut(&again, lengths, 100, 0, 1, false, &options, &arena, &error));
    options.round = 1;
    assert_true(micro_batches_cut(&other, lengths, 100, 0, 1, false, &options, &arena, &error));
    assert_memory_equal(one.sequences, again.sequences, sizeof lengths);
    assert_memory_not_equal(one.sequences, other.sequences, sizeof lengths);
    arena_close(&arena);
}

static void test_static_batches_come_in_order(void **state) {
    (void)state;
    Arena arena = {0};
    Error error;
    const int64_t lengths[] = {5, 9, 2, 4, 7};
    BatchingOptions options = {.micro_batch_size = 2};
    MicroBatches out;
    assert_true(micro_batches_cut(&out, lengths, 5, 0, 1, false, &options, &arena, &error));
    assert_int_equal(out.count, 3);
    const int64_t first[] = {0, 2, 4, 5}, tokens[] = {9, 4, 7};
    assert_memory_equal(out.first, first, sizeof first);
    assert_memory_equal(out.tokens, tokens, sizeof tokens);
    arena_close(&arena);
}

static void assert_refused(const BatchingOptions *options, const int64_t *lengths, int64_t count, int ranks,
                           const char *message) {
    Arena arena = {0};
    Error error;
    MicroBatches out[8];
    assert_false(micro_batches_cut(out, lengths, count, 0, ranks, false, options, &arena, &error));
    assert_string_equal(error.text, message);
    arena_close(&arena);
}

static void test_refusals_name_the_sequence_and_the_limit(void **state) {
    (void)state;
    const int64_t lengths[] = {10, 33, 7}, hollow[] = {3, 0};
    BatchingOptions packed = {.mode = BATCHING_PACKED, .max_tokens = 32, .pad_multiple = 1};
    assert_refused(&packed, lengths, 3, 1, "sequence 1 has 33 tokens, more than a bin's 32");
    assert_refused(&packed, lengths + 2, 1, 2, "2 bins are asked for and there are only 1 sequences");
    packed.algorithm = PACKING_MODIFIED_FIRST_FIT_DECREASING;
    assert_refused(&packed, hollow, 2, 1,
                   "sequence 1 has 0 tokens; modified_first_fit_decreasing takes sequences of at least 1");
    BatchingOptions dynamic = {.mode = BATCHING_DYNAMIC, .max_tokens = 32, .length_round = 8};
    assert_refused(
        &dynamic, lengths, 3, 1,
        "sequence 1 has 33 tokens, 33 when rounded up to a multiple of 8; more than the 32 of a micro-batch");
    assert_refused(&dynamic, lengths, 3, 2, "3 sequences do not divide by 2 ranks");
    Error error;
    PackingAlgorithm algorithm;
    assert_false(packing_parse(&algorithm, "policy.sequence_packing.algorithm", "best_fit", &error));
    assert_non_null(strstr(error.text, "policy.sequence_packing.algorithm: 'best_fit'"));
    assert_non_null(strstr(error.text, "modified_first_fit_decreasing"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_algorithm_places_each_sequence_once),
        cmocka_unit_test(test_dynamic_batches_keep_the_budget_on_every_rank),
        cmocka_unit_test(test_the_shuffle_follows_seed_and_round),
        cmocka_unit_test(test_static_batches_come_in_order),
        cmocka_unit_test(test_refusals_name_the_sequence_and_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
