// The progress bar on a terminal.
#include "base/log.h"

#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

// What a bar of bytes draws on a terminal of so many columns.
static void draw_bytes(char out[1024], int columns, int64_t first, int64_t total, int64_t done) {
    struct winsize window = {.ws_row = 24, .ws_col = (unsigned short)columns};
    int master, slave, kept = dup(STDERR_FILENO);
    assert_int_equal(openpty(&master, &slave, NULL, NULL, &window), 0);
    fflush(stderr);
    assert_true(dup2(slave, STDERR_FILENO) >= 0);
    Progress progress;
    progress_begin_bytes(&progress, "model.safetensors", first, total);
    usleep(1000);
    progress_update(&progress, done);
    fflush(stderr);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    ssize_t length = read(master, out, 1023);
    assert_true(length > 0);
    out[length] = 0;
    close(kept);
    close(slave);
    close(master);
}

static void test_log_progress_of_bytes(void **state) {
    char line[1024];
    (void)state;
    draw_bytes(line, 200, 0, 300000000, 75000000);
    assert_non_null(strstr(line, "  model.safetensors [######------------------]  25%  "));
    assert_non_null(strstr(line, " s left, 75.0 of 300.0 MB, "));
    assert_non_null(strstr(line, " MB/s"));
    draw_bytes(line, 200, 75000000, 300000000, 75000000); // resumed, and nothing has come yet
    assert_non_null(strstr(line, " 25%  0 s left, 75.0 of 300.0 MB, 0.0 MB/s"));
    draw_bytes(line, 200, 0, -1, 2500000);
    assert_non_null(strstr(line, "  model.safetensors  2.5 MB, "));
    assert_null(strstr(line, "%"));
    draw_bytes(line, 40, 0, 300000000, 75000000);
    assert_int_equal(strlen(line), strlen("\r\033[K") + 39);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_log_progress_of_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
