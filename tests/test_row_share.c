// Rows that tensor-parallel ranks divide: sums, gathered rows, norms' gradients and counts are those of all rows on one rank, for
// numbers of rows that divide evenly, leave a rank fewer, or none; bytes are as the theory counts them, on pretended ranks too.
// ranks: 2 3
#include "base/rng.h"
#include "model/row_share.h"
#include "model/tensor_sum.h"
#include "ops/norm.h"
#include "ops/rows.h"
#include "support/ranked_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { D = 40, K = 33 };
static const int64_t row_counts[] = {1, 2, 3, 7, 600, 1301};
enum { COUNTS = sizeof row_counts / sizeof *row_counts };
static const DType dtypes[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
static Comm world; // outlives the tests
static Ops ops;

static Tensor matrix(DType dtype, int64_t rows, int64_t columns, int seed) {
    Tensor tensor = DEVICE_TENSOR_RAW(&ops.device, MEMORY_SCRATCH, dtype, rows, columns);
    for (int64_t i = 0; i < rows * columns; i++) {
        double number = (double)rng_uniform((uint64_t)seed, RNG_TEST_WEIGHTS, (RngCounter){.token = (uint32_t)i}) - 0.5;
        dtype_store(tensor.data, dtype, i, (float)number);
    }
    return tensor;
}

static void release(Tensor *tensors[], int count) {
    for (int i = 0; i < count; i++) device_release(&ops.device, tensors[i]);
}

static void assert_rows(const Tensor *own, const Tensor *all, const RowShare *rows, const char *what) {
    Tensor expected = tensor_rows(all, rows->first, rows->count);
    assert_int_equal(own->size[0], rows->count);
    if (memcmp(own->data, expected.data, tensor_bytes(own)))
        fail_msg("%s: rank %d of %d, %lld rows of %s", what, world.rank, world.size, (long long)rows->all,
                 dtype_name(own->dtype));
}

static void rows_are_dealt(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 5; ranks++)
        for (int64_t all = 0; all < 12; all++) {
            int64_t next = 0;
            for (int rank = 0; rank < ranks; rank++) {
                Comm comm = comm_pretend(rank, ranks);
                RowShare rows = row_share_of(all, &comm, true);
                assert_int_equal(rows.divided, ranks > 1);
                assert_int_equal(rows.first, next);
                assert_in_range(rows.count, 0, rows.part);
                assert_in_range(row_share_room(&rows), all, all + ranks - 1);
                next += rows.count;
                RowShare whole = row_share_of(all, &comm, false);
                assert_true(!whole.divided && whole.first == 0 && whole.count == all && row_share_room(&whole) == all);
            }
            assert_int_equal(next, all);
        }
}

// What each rank's summand is, all of which are known to all.
static void check_sums(DType out_dtype, int64_t T) {
    RowShare rows = row_share_of(T, &world, true);
    Tensor out[3], expected = matrix(out_dtype, T, D, 1);
    Tensor parts = DEVICE_TENSOR_RAW(&ops.device, MEMORY_SCRATCH, DTYPE_F32, world.size, T, D);
    CommCounts before = world.counts;
    for (int kind = 0; kind < 3; kind++) {
        out[kind] = DEVICE_TENSOR_RAW(&ops.device, MEMORY_SCRATCH, out_dtype, rows.count, D);
        for (int rank = 0; rank < world.size; rank++) {
            Tensor in = matrix(DTYPE_BF16, T, kind < 2 ? K : D, 10 + rank);
            Tensor weight_rows = matrix(DTYPE_F32, kind == 0 ? D : K, kind == 0 ? K : D, 20 + rank);
            LinearWeight weight = {.n = weight_rows.size[0], .k = weight_rows.size[1], .rows = weight_rows};
            Tensor part = tensor_rows(&parts, rank, 1), part_TD = TENSOR_RESHAPE(&part, T, D);
            if (kind == 0) linear_forward(&ops, &part_TD, &in, &weight, NULL);
            if (kind == 1) linear_backward_input(&ops, &part_TD, &in, &weight);
            if (kind == 2) rows_cast(&ops, &part_TD, &in);
            if (rank == world.rank) {
                if (kind == 0) row_share_forward(&ops, &rows, &out[kind], &in, &weight);
                if (kind == 1) row_share_backward_input(&ops, &rows, &out[kind], &in, &weight);
                if (kind == 2) row_share_sum(&ops, &rows, &out[kind], &in);
            }
            release((Tensor *[]){&in, &weight_rows}, 2);
        }
        linear_fold(&ops, &expected, &parts);
        assert_rows(&out[kind], &expected, &rows, "a sum");
        device_release(&ops.device, &out[kind]);
    }
    int64_t sent = (int64_t)(world.counts.bytes[COMM_ALL_TO_ALL] - before.bytes[COMM_ALL_TO_ALL]);
    assert_int_equal(sent, world.size > 1 ? 3 * (world.size - 1) * rows.part * D * 4 : 0);
    release((Tensor *[]){&expected, &parts}, 2);
}

static void sums_are_those_of_all_rows(void **state) {
    (void)state;
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < COUNTS; i++) check_sums(dtypes[d], row_counts[i]);
}

static void check_norm(DType dtype, int64_t T) {
    RowShare rows = row_share_of(T, &world, true);
    Tensor x = matrix(dtype, T, D, 1), dy = matrix(dtype, T, D, 2), w = matrix(DTYPE_F32, 1, D, 3);
    Tensor dx = matrix(dtype, T, D, 4), own_dx = tensor_rows(&dx, rows.first, rows.count), room;
    Tensor dx_all = matrix(dtype, T, D, 4), dw = matrix(DTYPE_F32, 1, D, 5), dw_all = matrix(DTYPE_F32, 1, D, 5);
    Tensor own_x = tensor_rows(&x, rows.first, rows.count), own_dy = tensor_rows(&dy, rows.first, rows.count);
    rms_norm_backward(&ops, &dx_all, &dw_all, &dy, &x, &w, &dx_all, 1e-5f);
    CommCounts before = world.counts;
    row_share_norm_backward(&ops, &rows, &own_dx, &dw, &own_dy, &own_x, &w, &own_dx, 1e-5f);
    assert_rows(&own_dx, &dx_all, &rows, "a norm's gradient");
    assert_memory_equal(dw.data, dw_all.data, D * sizeof(float));
    assert_int_equal(world.counts.bytes[COMM_BROADCAST] - before.bytes[COMM_BROADCAST], world.size > 1 ? D * 4 : 0);
    Tensor all = row_share_spread(&ops, &rows, &room, rows.divided ? &own_dx : &dx);
    assert_memory_equal(all.data, dx_all.data, tensor_bytes(&dx_all));
    assert_int_equal(world.counts.bytes[COMM_ALL_GATHER] - before.bytes[COMM_ALL_GATHER],
                     (uint64_t)(world.size - 1) * (uint64_t)(rows.part * D) * dtype_size(dtype));
    release((Tensor *[]){&x, &dy, &w, &dx, &dx_all, &dw, &dw_all, &room}, 8);
}

static void norms_are_those_of_all_rows(void **state) {
    (void)state;
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < COUNTS; i++) check_norm(dtypes[d], row_counts[i]);
}

static void counts_are_those_of_all_rows(void **state) {
    (void)state;
    RowShare rows = row_share_of(9, &world, true);
    assert_int_equal(row_share_total(&rows, 10 + world.rank), 10 * world.size + world.size * (world.size - 1) / 2);
    assert_true(row_share_largest(&rows, world.rank == 1 ? 7.5f : 2) == (world.size > 1 ? 7.5f : 2));
}

// A rank that is pretended sends the bytes and takes the memory of a real one.
static void pretended_ranks_count_alike(void **state) {
    (void)state;
    Ops plan;
    Error error;
    Comm pretended = comm_pretend(world.rank, world.size);
    assert_true(ops_open(&plan, (OpsOptions){.device = DEVICE_PLAN}, &error));
    pretended.device = &plan.device;
    CommCounts before = world.counts;
    for (int planned = 0; planned < 2; planned++) {
        Ops *of = planned ? &plan : &ops;
        RowShare rows = row_share_of(1301, planned ? &pretended : &world, true);
        Tensor in = DEVICE_TENSOR(&of->device, MEMORY_SCRATCH, DTYPE_BF16, 1301, D);
        Tensor out = DEVICE_TENSOR(&of->device, MEMORY_SCRATCH, DTYPE_BF16, rows.count, D), room;
        Tensor w = DEVICE_TENSOR(&of->device, MEMORY_SCRATCH, DTYPE_F32, D);
        row_share_sum(of, &rows, &out, &in);
        Tensor own = rows.divided ? tensor_rows(&in, 0, rows.count) : in;
        row_share_norm_backward(of, &rows, &out, &w, &own, &own, &w, NULL, 1e-5f);
        row_share_spread(of, &rows, &room, &out);
        Tensor *all[] = {&in, &out, &w, &room};
        for (int i = 0; i < 4; i++) device_release(&of->device, all[i]);
    }
    for (int call = 0; call < COMM_CALL_COUNT; call++)
        assert_int_equal(pretended.counts.bytes[call], world.counts.bytes[call] - before.bytes[call]);
    ops_close(&plan);
}

int main(void) {
    Error error;
    if (!ranked_test_open(&world)) return 1;
    if (!ops_open(&ops, (OpsOptions){.threads = 2}, &error)) {
        print_error("%s\n", error.text);
        return 1;
    }
    world.device = &ops.device;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_dealt),
        cmocka_unit_test(sums_are_those_of_all_rows),
        cmocka_unit_test(norms_are_those_of_all_rows),
        cmocka_unit_test(counts_are_those_of_all_rows),
        cmocka_unit_test(pretended_ranks_count_alike),
    };
    int failed = cmocka_run_group_tests_name("row_share", tests, NULL, NULL);
    ops_close(&ops);
    comm_close_world(&world);
    return failed;
}
