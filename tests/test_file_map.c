// Pages of a map that were read leave the process and can be read again.
#include "base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SIZE = 8 << 20 };

// Pages of files that are in this process's memory.
static long file_pages(void) {
    long total, resident, shared;
    FILE *in = fopen("/proc/self/statm", "r");
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%ld %ld %ld", &total, &resident, &shared), 3);
    fclose(in);
    return shared;
}

static uint64_t sum(const FileMap *map) {
    uint64_t total = 0;
    for (size_t i = 0; i < map->size; i++) total += map->data[i];
    return total;
}

static void test_pages_leave(void **state) {
    (void)state;
    Error error;
    FileMap map;
    char path[] = "/tmp/whet-map-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    char block[4096];
    for (int i = 0; i < SIZE / 4096; i++) {
        memset(block, i, sizeof block);
        assert_int_equal(write(fd, block, sizeof block), sizeof block);
    }
    close(fd);
    if (!file_map(&map, path, &error)) fail_msg("%s", error.text);
    unlink(path);
    long pages = SIZE / sysconf(_SC_PAGESIZE), before = file_pages();
    uint64_t first = sum(&map);
    assert_true(file_pages() >= before + pages);
    file_map_leave(map.data + 5, SIZE - 10); // whole pages only
    long left = file_pages() - before;
    assert_true(left < pages / 8);
    assert_true(sum(&map) == first);
    file_map_leave(map.data + 1, 10);
    file_map_leave(map.data, 0);
    assert_true(sum(&map) == first);
    file_unmap(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages_leave)};
    return cmocka_run_group_tests_name("file_map", tests, NULL, NULL);
}
