// Pages are counted by their users, and wrong use is noticed.
#include "base/error.h"
#include "rollout/page_pool.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static void test_page_pool_counts_users(void **state) {
    (void)state;
    Arena arena = {0};
    PagePool pool = page_pool_open(&arena, 3);
    assert_int_equal(pool.available, 3);
    int32_t a = page_pool_take(&pool), b = page_pool_take(&pool);
    assert_int_not_equal(a, b);
    page_pool_share(&pool, a);
    page_pool_share(&pool, a);
    page_pool_give(&pool, a);
    page_pool_give(&pool, a);
    assert_int_equal(pool.available, 1);
    page_pool_give(&pool, a);
    assert_int_equal(pool.available, 2);
    assert_int_equal(page_pool_take(&pool), a);
    arena_close(&arena);
}

// Kept pages go last, the longest without users first, and may be taken up again before.
static void test_page_pool_keeps_pages(void **state) {
    (void)state;
    Arena arena = {0};
    PagePool pool = page_pool_open(&arena, 4);
    int32_t pages[4];
    for (int i = 0; i < 4; i++) pages[i] = page_pool_take(&pool);
    for (int i = 0; i < 3; i++) page_pool_keep(&pool, pages[i]);
    static const int given[] = {1, 3, 0, 2};
    for (int i = 0; i < 4; i++) page_pool_give(&pool, pages[given[i]]);
    assert_int_equal(pool.available, 4);
    page_pool_share(&pool, pages[1]); // the oldest is wanted again
    assert_int_equal(pool.available, 3);
    assert_int_equal(page_pool_take(&pool), pages[3]); // the only one that holds nothing
    assert_int_equal(page_pool_take(&pool), pages[0]);
    page_pool_give(&pool, pages[1]);
    assert_int_equal(page_pool_take(&pool), pages[2]);
    assert_int_equal(page_pool_take(&pool), pages[1]);
    assert_int_equal(pool.available, 0);
    // Taken for something else, a page is not kept any longer.
    page_pool_give(&pool, pages[0]);
    page_pool_keep(&pool, pages[1]);
    page_pool_keep(&pool, pages[2]);
    page_pool_give(&pool, pages[2]);
    assert_int_equal(pool.free_count, 1);
    page_pool_forget(&pool);
    assert_int_equal(pool.free_count, 2);
    page_pool_give(&pool, pages[1]);
    assert_int_equal(pool.free_count, 3);
    arena_close(&arena);
}

static void give_twice(PagePool *pool) {
    int32_t page = page_pool_take(pool);
    page_pool_give(pool, page);
    page_pool_give(pool, page);
}

static void take_too_many(PagePool *pool) {
    for (int i = 0; i < 3; i++) page_pool_take(pool);
}

static void share_free_page(PagePool *pool) {
    page_pool_share(pool, 1);
}

static void test_page_pool_refuses_wrong_use(void **state) {
    (void)state;
    void (*const wrong[])(PagePool *) = {give_twice, take_too_many, share_free_page};
    for (int i = 0; i < 3; i++) {
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            signal(SIGABRT, SIG_DFL);
            if (!freopen("/dev/null", "w", stderr)) _exit(2);
            Arena arena = {0};
            PagePool pool = page_pool_open(&arena, 2);
            wrong[i](&pool);
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_pool_counts_users),
        cmocka_unit_test(test_page_pool_keeps_pages),
        cmocka_unit_test(test_page_pool_refuses_wrong_use),
    };
    return cmocka_run_group_tests_name("page_pool", tests, NULL, NULL);
}
