// Blocks taken and given in any order never overlap, hold zeros when they say so, and spares stay within their bound.
#include "device/block_pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct Held {
    uint32_t *data;
    size_t words;
    uint32_t mark;
} Held;

static uint32_t noise(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void assert_all(const Held *held, uint32_t value) {
    for (size_t i = 0; i < held->words; i += 511) assert_int_equal(held->data[i], value); // each page, several times
    assert_int_equal(held->data[held->words - 1], value);
}

static void fill(const Held *held) {
    for (size_t i = 0; i < held->words; i += 511) held->data[i] = held->mark;
    held->data[held->words - 1] = held->mark;
}

static void test_blocks_are_apart(void **state) {
    (void)state;
    enum { SLOTS = 40, TURNS = 2000 };
    BlockPool pool = {0};
    Held held[SLOTS] = {{0}};
    uint32_t seed = 1, fresh = 0;
    for (uint32_t turn = 1; turn <= TURNS; turn++) {
        Held *slot = &held[noise(&seed) % SLOTS];
        if (slot->data) {
            assert_all(slot, slot->mark);
            block_pool_give(&pool, slot->data, slot->words * 4);
            slot->data = NULL;
            continue;
        }
        size_t bytes = noise(&seed) % 8 ? (1 + noise(&seed) % 12) * BLOCK_POOL_FROM : noise(&seed) % (90 << 20);
        if (bytes < BLOCK_POOL_FROM) bytes = BLOCK_POOL_FROM;
        size_t limit = (size_t)(noise(&seed) % 4) << 23;
        bool zeroed;
        *slot = (Held){.words = bytes / 4, .mark = turn};
        slot->data = block_pool_take(&pool, slot->words * 4, limit, &zeroed);
        assert_non_null(slot->data);
        assert_int_equal((uintptr_t)slot->data % 4096, 0);
        if (zeroed) {
            fresh++;
            assert_all(slot, 0);
            assert_true(pool.spare_bytes <= limit);
        }
        fill(slot);
    }
    assert_in_range(fresh, TURNS / 50, TURNS / 8); // and most blocks were taken from what was left of others
    for (int i = 0; i < SLOTS; i++) {
        if (!held[i].data) continue;
        assert_all(&held[i], held[i].mark);
        block_pool_give(&pool, held[i].data, held[i].words * 4);
    }
    bool zeroed;
    void *last = block_pool_take(&pool, 200 << 20, 0, &zeroed); // drops all spares: nothing else stays mapped
    assert_true(zeroed);
    assert_int_equal(pool.spare.count, 0);
    assert_int_equal(pool.mappings.count, 1);
    block_pool_give(&pool, last, 200 << 20);
    block_pool_close(&pool);
}

static void test_neighbours_share_a_mapping(void **state) {
    (void)state;
    BlockPool pool = {0};
    bool zeroed;
    char *blocks[8];
    for (int i = 0; i < 8; i++) blocks[i] = block_pool_take(&pool, 1 << 20, 0, &zeroed);
    for (int i = 1; i < 8; i++) assert_ptr_equal(blocks[i], blocks[0] + ((size_t)i << 20));
    for (int i = 0; i < 8; i++) block_pool_give(&pool, blocks[i], 1 << 20);
    assert_ptr_equal(block_pool_take(&pool, 1 << 20, 0, &zeroed), blocks[0]); // as it was
    assert_false(zeroed);
    block_pool_give(&pool, blocks[0], 1 << 20);
    block_pool_close(&pool);
}

static void test_what_a_block_left_serves_others(void **state) {
    (void)state;
    BlockPool pool = {0};
    bool zeroed;
    char *large = block_pool_take(&pool, 9 << 20, 0, &zeroed);
    memset(large, 1, 9 << 20);
    block_pool_give(&pool, large, 9 << 20);
    char *small = block_pool_take(&pool, 1 << 20, 0, &zeroed);
    assert_ptr_equal(small, large);
    assert_false(zeroed);
    char *other = block_pool_take(&pool, 3 << 20, 0, &zeroed);
    assert_ptr_equal(other, large + (1 << 20));
    assert_false(zeroed);
    // Nothing left holds 6 MiB: of the 5 that are spare at most 3 stay, whole huge pages fewer than these.
    char *fresh = block_pool_take(&pool, 6 << 20, 3 << 20, &zeroed);
    assert_true(zeroed);
    assert_in_range(pool.spare_bytes, 1 << 20, 3 << 20);
    for (int i = 0; i < 6 << 20; i += 4096) assert_int_equal(fresh[i], 0);
    block_pool_give(&pool, fresh, 6 << 20);
    block_pool_give(&pool, small, 1 << 20);
    block_pool_give(&pool, other, 3 << 20);
    block_pool_close(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_are_apart),
        cmocka_unit_test(test_neighbours_share_a_mapping),
        cmocka_unit_test(test_what_a_block_left_serves_others),
    };
    return cmocka_run_group_tests_name("block pool", tests, NULL, NULL);
}
