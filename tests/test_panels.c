// Rows read out of packed panels are the rows that were packed.
#include "ops/panels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void test_rows_come_back(void **state) {
    (void)state;
    static const DType dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    static const int64_t shapes[][2] = {{1, 1}, {31, 5}, {32, 16}, {131, 40}, {200, 33}};
    enum { PICKED = 70 };
    for (int i = 0; i < 15; i++) {
        DType dtype = dtypes[i % 3];
        int64_t n = shapes[i / 3][0], k = shapes[i / 3][1];
        Ops ops;
        Error error;
        assert_true(ops_open(&ops, (OpsOptions){.threads = 1 + i % 2}, &error));
        LinearWeight weight = {.n = n, .k = k, .rows = DEVICE_TENSOR(&ops.device, MEMORY_ACTIVATION, dtype, n, k)};
        for (int64_t at = 0; at < n * k; at++)
            dtype_store(weight.rows.data, dtype, at, (float)((at * 7919) % 4001 - 2000) / 16);
        linear_pack(&ops, &weight, MEMORY_ACTIVATION);
        int32_t ids[PICKED];
        for (int t = 0; t < PICKED; t++) ids[t] = (int32_t)((t * 37 + 5) % n);
        ids[0] = (int32_t)n - 1;
        Tensor y = DEVICE_TENSOR(&ops.device, MEMORY_ACTIVATION, dtype, PICKED, k);
        panels_gather(&ops, &y, &weight, ids);
        for (int t = 0; t < PICKED; t++) {
            Tensor got = tensor_rows(&y, t, 1), put = tensor_rows(&weight.rows, ids[t], 1);
            assert_memory_equal(got.data, put.data, tensor_bytes(&put));
        }
        device_release(&ops.device, &y);
        device_release(&ops.device, &weight.panels);
        device_release(&ops.device, &weight.rows);
        ops_close(&ops);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_come_back)};
    return cmocka_run_group_tests_name("panels", tests, NULL, NULL);
}
