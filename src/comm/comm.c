#include "comm/comm.h"

#include "comm/comm_mpi.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    STRIPE = 1 << 30, // MPI 3.1 counts in int
    END_PATIENCE = 5  // seconds
};

Comm comm_self(void) {
    return (Comm){.kind = COMM_SELF, .size = 1, .stripe = STRIPE};
}

Comm comm_pretend(int rank, int size) {
    CHECK(size >= 1 && rank >= 0 && rank < size, "rank %d of %d", rank, size);
    return (Comm){.kind = size > 1 ? COMM_PRETEND : COMM_SELF, .rank = rank, .size = size, .stripe = STRIPE};
}

// What the starters of Open MPI, MPICH and Slurm tell of how many processes they started; 1 when none did.
static int64_t started_ranks(void) {
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"};
    int64_t most = 1;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        int64_t value = text ? strtoll(text, NULL, 10) : 1;
        if (value > most) most = value;
    }
    return most;
}

bool comm_open_world(Comm *world, Error *error) {
    *world = comm_self();
    int64_t started = started_ranks();
    if (started == 1) return true;
    if (!comm_mpi_open_world(world, error)) return false;
    if (world->size > 1) return true;
    comm_close_world(world);
    return error_set(
        error,
        "%lld processes were started together, but they do not find each other: start them with the mpirun of the "
        "MPI that whet was built with, or with srun --mpi=pmix (Open MPI) or --mpi=pmi2 (MPICH)",
        (long long)started);
}

// Writes where the message comes from before it.
static bool fail(const Comm *comm, int rank, bool all, Error *error) {
    return all ? false : error_prefix(error, "rank %d of %d: ", rank, comm->size);
}

bool comm_end_world(Comm *world, bool good, const char *who, Error *error) {
    if (world->kind == COMM_MPI) {
        int64_t first = good ? world->size : world->rank, all = !good;
        bool met = comm_mpi_settle(world, &first, &all, good ? 0 : END_PATIENCE);
        if (!good && (!met || first == world->rank)) {
            fail(world, world->rank, met && all, error);
            fprintf(stderr, "%s: %s\n", who, error->text);
            if (!met) error_end_others();
        }
        good = first == world->size;
        error->text[0] = 0;
        comm_mpi_close_world(world);
    }
    *world = (Comm){0};
    return good;
}

void comm_close_world(Comm *world) {
    Error error;
    comm_end_world(world, true, "", &error);
}

Comm comm_split(const Comm *whole, int colour, int rank, int size) {
    if (whole->kind != COMM_MPI) return comm_pretend(rank, size);
    Comm part = {.kind = COMM_MPI, .stripe = whole->stripe, .device = whole->device};
    part.handle = comm_mpi_split(whole, colour, &part.rank, &part.size);
    CHECK(part.rank == rank && part.size == size, "rank %d of %d expected, %d of %d found", rank, size, part.rank,
          part.size);
    return part;
}

Comm comm_on_host(const Comm *whole) {
    Comm part = *whole;
    if (whole->kind == COMM_MPI) part.handle = comm_mpi_on_host(whole, &part.rank, &part.size);
    part.counts = (CommCounts){0};
    return part;
}

void comm_close(Comm *part) {
    *part = (Comm){0}; // MPI forgets it at the world's end: MPI_Comm_free would wait for the others
}

static void count(Comm *comm, CommCall call, size_t bytes, int times) {
    comm->counts.calls[call]++;
    comm->counts.bytes[call] += bytes * (size_t)times;
}

void comm_all_gather(Comm *comm, void *data, size_t bytes) {
    if (comm->size == 1 || bytes == 0) return;
    count(comm, COMM_ALL_GATHER, bytes, comm->size - 1);
    if (comm->kind == COMM_MPI) comm_mpi_all_gather(comm, data, bytes);
}

void comm_all_to_all(Comm *comm, void *data, size_t bytes) {
    if (comm->size == 1 || bytes == 0) return;
    count(comm, COMM_ALL_TO_ALL, bytes, comm->size - 1);
    CHECK(comm->device, "no device to take a buffer of");
    int64_t taken = (int64_t)(bytes < COMM_BOUNCE ? (bytes + 3) / 4 : COMM_BOUNCE / 4);
    Tensor bounce = DEVICE_TENSOR_RAW(comm->device, MEMORY_COMMUNICATION, DTYPE_I32, taken);
    if (comm->kind == COMM_MPI) comm_mpi_all_to_all(comm, data, bytes, bounce.data, tensor_bytes(&bounce));
    device_release(comm->device, &bounce);
}

void comm_broadcast(Comm *comm, void *data, size_t bytes, int root) {
    CHECK(root >= 0 && root < comm->size, "root %d of %d", root, comm->size);
    if (comm->size == 1 || bytes == 0) return;
    count(comm, COMM_BROADCAST, bytes, comm->rank == root);
    if (comm->kind == COMM_MPI) comm_mpi_broadcast(comm, data, bytes, root);
}

bool comm_agree(Comm *comm, bool good, Error *error) {
    if (comm->kind != COMM_MPI) return good;
    int64_t smallest[] = {good ? comm->size : comm->rank, good ? 0 : 1}; // first that failed; whether all did
    comm_mpi_smallest(comm, smallest, 2);
    int first = (int)smallest[0];
    if (first == comm->size) return true;
    comm_mpi_broadcast(comm, error->text, sizeof error->text, first);
    return fail(comm, first, smallest[1], error);
}

bool comm_any(Comm *comm, bool value) {
    if (comm->kind != COMM_MPI) return value;
    int64_t smallest = value ? 0 : 1;
    comm_mpi_smallest(comm, &smallest, 1);
    return smallest == 0;
}

uint64_t comm_largest(Comm *comm, uint64_t value) {
    if (comm->kind != COMM_MPI) return value;
    int64_t smallest = -(int64_t)value;
    comm_mpi_smallest(comm, &smallest, 1);
    return (uint64_t)-smallest;
}

void comm_tickets_restart(Comm *world) {
    world->taken = 0;
    world->finished = 0;
    comm_any(world, false); // nobody asks before it is 0
}

int64_t comm_tickets_take(Comm *world, int64_t count) {
    if (world->kind == COMM_MPI && world->rank) return comm_mpi_tickets_ask(world, count);
    if (world->kind == COMM_MPI) comm_mpi_tickets_answer(world);
    world->taken += count;
    return world->taken - count;
}

void comm_tickets_finish(Comm *world) {
    if (world->kind == COMM_MPI) comm_mpi_tickets_finish(world);
}
