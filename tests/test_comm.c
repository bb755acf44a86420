// Ranks that talk to each other: every collective against what it promises, in one piece and in stripes, bytes as the theory counts
// them, failures agreed on. Every test holds for any number of ranks.
// ranks: 1 2 3 4
#include "comm/mesh.h"
#include "support/ranked_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <cmocka.h>

static Comm *world_of(void **state) {
    return *state;
}

static unsigned char byte_of(int from, int to, size_t i) {
    return (unsigned char)(from * 31 + to * 7 + (int)(i % 251) + 1);
}

static const size_t sizes[] = {1, 3, 64, 1000, 70001, 2500003};
enum { SIZE_COUNT = sizeof sizes / sizeof *sizes, LARGEST = 2500003 };

static void all_gather_brings_every_part(void **state) {
    Comm comm = *world_of(state);
    for (int s = 0; s < SIZE_COUNT; s++)
        for (int striped = 0; striped < 2; striped++) {
            size_t bytes = sizes[s];
            comm.stripe = striped ? bytes / 3 + 1 : world_of(state)->stripe;
            unsigned char *data = calloc((size_t)comm.size, bytes);
            for (size_t i = 0; i < bytes; i++) data[(size_t)comm.rank * bytes + i] = byte_of(comm.rank, 0, i);
            comm_all_gather(&comm, data, bytes);
            for (int from = 0; from < comm.size; from++)
                for (size_t i = 0; i < bytes; i++)
                    if (data[(size_t)from * bytes + i] != byte_of(from, 0, i))
                        fail_msg("%zu bytes, part %d, byte %zu", bytes, from, i);
            free(data);
        }
    assert_int_equal(comm.counts.calls[COMM_ALL_GATHER], comm.size > 1 ? 2 * SIZE_COUNT : 0);
}

static void all_to_all_swaps_parts(void **state) {
    Comm comm = *world_of(state);
    Device device = {.kind = DEVICE_CPU};
    comm.device = &device;
    for (int s = 0; s < SIZE_COUNT; s++)
        for (int striped = 0; striped < 2; striped++) {
            size_t bytes = sizes[s];
            comm.stripe = striped ? bytes / 3 + 1 : world_of(state)->stripe;
            unsigned char *data = calloc((size_t)comm.size, bytes);
            for (int to = 0; to < comm.size; to++)
                for (size_t i = 0; i < bytes; i++) data[(size_t)to * bytes + i] = byte_of(comm.rank, to, i);
            comm_all_to_all(&comm, data, bytes);
            for (int from = 0; from < comm.size; from++)
                for (size_t i = 0; i < bytes; i++)
                    if (data[(size_t)from * bytes + i] != byte_of(from, comm.rank, i))
                        fail_msg("%zu bytes, part %d, byte %zu", bytes, from, i);
            free(data);
        }
    assert_int_equal(device.ledger.live_total, 0);
    assert_true(device.ledger.peak.by_tag[MEMORY_COMMUNICATION] <= COMM_BOUNCE);
    device_close(&device);
}

static void broadcast_reaches_all(void **state) {
    Comm comm = *world_of(state);
    static unsigned char data[LARGEST];
    for (int root = 0; root < comm.size; root++)
        for (int s = 0; s < SIZE_COUNT; s++) {
            comm.stripe = s % 2 ? sizes[s] / 3 + 1 : world_of(state)->stripe;
            for (size_t i = 0; i < sizes[s]; i++) data[i] = comm.rank == root ? byte_of(root, s, i) : 0;
            comm_broadcast(&comm, data, sizes[s], root);
            for (size_t i = 0; i < sizes[s]; i++)
                if (data[i] != byte_of(root, s, i)) fail_msg("%zu bytes from %d, byte %zu", sizes[s], root, i);
        }
}

static void failures_are_agreed_on(void **state) {
    Comm comm = *world_of(state);
    Error error = {0};
    assert_true(comm_agree(&comm, true, &error));
    error_set(&error, "all");
    assert_false(comm_agree(&comm, false, &error));
    assert_string_equal(error.text, "all");
    for (int first = 0; first < comm.size; first++) { // from `first` on all fail
        char expected[64];
        error_set(&error, "file %d", comm.rank);
        assert_false(comm_agree(&comm, comm.rank < first, &error));
        if (first == 0)
            snprintf(expected, sizeof expected, "file 0");
        else
            snprintf(expected, sizeof expected, "rank %d of %d: file %d", first, comm.size, first);
        assert_string_equal(error.text, expected);
    }
}

static void extremes_over_ranks(void **state) {
    Comm comm = *world_of(state);
    for (int rank = 0; rank < comm.size; rank++) assert_true(comm_any(&comm, comm.rank == rank));
    assert_false(comm_any(&comm, false));
    assert_int_equal(comm_largest(&comm, (uint64_t)1 << (40 + comm.rank)), (uint64_t)1 << (40 + comm.size - 1));
}

// Every number is given once, and in ascending order to each rank.
static void tickets_are_given_once(void **state) {
    Comm comm = *world_of(state);
    enum { EACH = 200 };
    static int32_t given[16 * EACH];
    for (int round = 0; round < 3; round++) {
        comm_tickets_restart(&comm);
        for (int i = 0; i < EACH; i++) {
            given[comm.rank * EACH + i] = (int32_t)comm_tickets_take(&comm, 1);
            if (i) assert_true(given[comm.rank * EACH + i] > given[comm.rank * EACH + i - 1]);
        }
        comm_tickets_finish(&comm);
        comm_all_gather(&comm, given, EACH * sizeof *given);
        bool seen[16 * EACH] = {false};
        for (int i = 0; i < comm.size * EACH; i++) {
            assert_in_range(given[i], 0, comm.size * EACH - 1);
            assert_false(seen[given[i]]);
            seen[given[i]] = true;
        }
    }
}

// A rank that comes late: the others sleep. Their processor time is a small part of what they waited.
static void waiting_takes_no_processor(void **state) {
    Comm comm = *world_of(state);
    if (comm.size == 1) return;
    char byte[16] = {0};
    clock_t before = clock();
    if (comm.rank == comm.size - 1) nanosleep(&(struct timespec){.tv_nsec = 400000000}, NULL);
    comm_all_gather(&comm, byte, 1);
    double used = (double)(clock() - before) / CLOCKS_PER_SEC;
    if (comm.rank != comm.size - 1) assert_true(comm.counts.waited > 0.2);
    assert_true(used < 0.1);
}

static void mesh_rows_and_columns(void **state) {
    Comm *world = world_of(state);
    Error error;
    Mesh mesh;
    for (int tensor = 1; tensor <= world->size; tensor++) {
        if (world->size % tensor) {
            assert_false(mesh_open(&mesh, world, tensor, NULL, &error));
            assert_non_null(strstr(error.text, "does not divide the number of ranks"));
            continue;
        }
        assert_true(mesh_open(&mesh, world, tensor, NULL, &error));
        assert_int_equal(mesh.tensor.size, tensor);
        assert_int_equal(mesh.data.size, world->size / tensor);
        assert_int_equal(mesh.data.rank * tensor + mesh.tensor.rank, world->rank);
        int32_t ranks[16] = {0};
        ranks[mesh.data.rank] = world->rank;
        comm_all_gather(&mesh.data, ranks, sizeof *ranks);
        for (int i = 0; i < mesh.data.size; i++) assert_int_equal(ranks[i], i * tensor + mesh.tensor.rank);
        ranks[mesh.tensor.rank] = world->rank;
        comm_all_gather(&mesh.tensor, ranks, sizeof *ranks);
        for (int i = 0; i < tensor; i++) assert_int_equal(ranks[i], mesh.data.rank * tensor + i);
        mesh_close(&mesh);
    }
    assert_false(mesh_open(&mesh, world, 0, NULL, &error));
}

static void one_host(void **state) {
    Comm host = comm_on_host(world_of(state));
    assert_int_equal(host.size, world_of(state)->size);
    comm_close(&host);
}

// No byte moves, but the account is that of a real rank.
static void pretended_ranks_count(void **state) {
    (void)state;
    Comm world = comm_pretend(13, 64);
    Device device = {.kind = DEVICE_PLAN};
    Error error;
    Mesh mesh;
    assert_true(mesh_open(&mesh, &world, 4, &device, &error));
    assert_int_equal(mesh.data.rank, 3);
    assert_int_equal(mesh.data.size, 16);
    assert_int_equal(mesh.tensor.rank, 1);
    void *nowhere = (void *)64;
    comm_all_gather(&mesh.data, nowhere, 1000);
    comm_all_to_all(&mesh.data, nowhere, (size_t)3 << 30);
    comm_all_to_all(&mesh.data, nowhere, 10);
    comm_broadcast(&mesh.data, nowhere, 500, 3);
    comm_broadcast(&mesh.data, nowhere, 500, 4);
    assert_int_equal(mesh.data.counts.bytes[COMM_ALL_GATHER], 15 * 1000);
    assert_int_equal(mesh.data.counts.bytes[COMM_ALL_TO_ALL], 15 * (((uint64_t)3 << 30) + 10));
    assert_int_equal(mesh.data.counts.bytes[COMM_BROADCAST], 500);
    assert_int_equal(mesh.data.counts.calls[COMM_ALL_TO_ALL], 2);
    assert_int_equal(device.ledger.peak.by_tag[MEMORY_COMMUNICATION], COMM_BOUNCE);
    assert_int_equal(device.ledger.live_total, 0);
    assert_true(comm_agree(&mesh.world, true, &error));
    assert_false(comm_any(&mesh.world, false));
    mesh_close(&mesh);
    device_close(&device);
    assert_int_equal(comm_pretend(0, 1).kind, COMM_SELF);
}

// UCX is beneath MPICH only.
extern signed char ucs_global_opts_get_value(const char *name, char *value, size_t size) __attribute__((weak));

static void transport_is_silent(void **state) {
    char level[32] = "";
    const char *asked = getenv("UCX_LOG_LEVEL");
    if (!ucs_global_opts_get_value || world_of(state)->size == 1) skip();
    assert_int_equal(ucs_global_opts_get_value("LOG_LEVEL", level, sizeof level), 0);
    if (strcasecmp(level, asked ? asked : "fatal") != 0) fail_msg("%s", level);
}

int main(void) {
    Comm world;
    if (!ranked_test_open(&world)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(all_gather_brings_every_part, &world),
        cmocka_unit_test_prestate(all_to_all_swaps_parts, &world),
        cmocka_unit_test_prestate(broadcast_reaches_all, &world),
        cmocka_unit_test_prestate(failures_are_agreed_on, &world),
        cmocka_unit_test_prestate(extremes_over_ranks, &world),
        cmocka_unit_test_prestate(tickets_are_given_once, &world),
        cmocka_unit_test_prestate(waiting_takes_no_processor, &world),
        cmocka_unit_test_prestate(mesh_rows_and_columns, &world),
        cmocka_unit_test_prestate(one_host, &world),
        cmocka_unit_test_prestate(transport_is_silent, &world),
        cmocka_unit_test(pretended_ranks_count),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    comm_close_world(&world);
    return failed;
}
