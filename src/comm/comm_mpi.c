#include "comm/comm_mpi.h"

#include "base/log.h"

#ifdef WHET_MPI
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static MPI_Comm of(const Comm *comm) {
    return (MPI_Comm)comm->handle;
}

// What MPI itself refuses ends all ranks: a lost peer, as a rule, of which the starter tells too.
static void must(int code, const char *call) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length, rank = 0;
    MPI_Error_string(code, text, &length);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "whet: rank %d: %s: %.*s\n", rank, call, length, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
    _Exit(1);
}

// Sleeps ever longer, up to a millisecond, and for no more than an eighth of what it has waited. False: not done after `limit`
// seconds; 0: waits on.
static bool wait_within(Comm *comm, MPI_Request *request, double limit) {
    double started = log_seconds(), waited = 0;
    for (int done = 0;;) {
        must(MPI_Test(request, &done, MPI_STATUS_IGNORE), "waiting");
        waited = log_seconds() - started;
        if (done) break;
        if (limit > 0 && waited > limit) return false;
        long nap = (long)(1e9 / 8 * waited);
        if (waited < 20e-6)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = nap < 1000000 ? nap : 1000000}, NULL);
    }
    comm->counts.waited += waited;
    return true;
}

static void wait_for(Comm *comm, MPI_Request *request) {
    wait_within(comm, request, 0);
}

static void meet(Comm *comm) {
    MPI_Request request;
    must(MPI_Ibarrier(of(comm), &request), "MPI_Ibarrier");
    wait_for(comm, &request);
}

// The number lies with rank 0.
static void open_tickets(Comm *world) {
    MPI_Win window;
    int64_t *number;
    must(MPI_Win_allocate(world->rank ? 0 : sizeof *number, sizeof *number, MPI_INFO_NULL, of(world), &number, &window),
         "MPI_Win_allocate");
    must(MPI_Win_lock_all(MPI_MODE_NOCHECK, window), "MPI_Win_lock_all");
    if (world->rank == 0) *number = 0;
    MPI_Win_sync(window);
    world->tickets = (intptr_t)window;
}

bool comm_mpi_open_world(Comm *world, Error *error) {
    // A rank that MPI makes wait lets others have the core.
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    int provided;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return error_set(error, "MPI cannot be started");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); // and so what is split off it
    world->kind = COMM_MPI;
    world->handle = (intptr_t)MPI_COMM_WORLD;
    must(MPI_Comm_rank(MPI_COMM_WORLD, &world->rank), "MPI_Comm_rank");
    must(MPI_Comm_size(MPI_COMM_WORLD, &world->size), "MPI_Comm_size");
    MPI_Comm ending;
    must(MPI_Comm_dup(MPI_COMM_WORLD, &ending), "MPI_Comm_dup");
    world->ending = (intptr_t)ending;
    open_tickets(world);
    return true;
}

bool comm_mpi_settle(Comm *world, int64_t *first, int64_t *all, double seconds) {
    int64_t values[] = {*first, *all};
    MPI_Request request;
    must(MPI_Iallreduce(MPI_IN_PLACE, values, 2, MPI_INT64_T, MPI_MIN, (MPI_Comm)world->ending, &request),
         "MPI_Iallreduce");
    if (!wait_within(world, &request, seconds)) return false;
    *first = values[0], *all = values[1];
    return true;
}

void comm_mpi_close_world(Comm *world) {
    meet(world);
    MPI_Win tickets = (MPI_Win)world->tickets;
    MPI_Win_unlock_all(tickets);
    MPI_Win_free(&tickets);
    MPI_Finalize();
}

intptr_t comm_mpi_split(const Comm *whole, int colour, int *rank, int *size) {
    MPI_Comm part;
    must(MPI_Comm_split(of(whole), colour, whole->rank, &part), "MPI_Comm_split");
    MPI_Comm_rank(part, rank);
    MPI_Comm_size(part, size);
    return (intptr_t)part;
}

intptr_t comm_mpi_on_host(const Comm *whole, int *rank, int *size) {
    MPI_Comm part;
    must(MPI_Comm_split_type(of(whole), MPI_COMM_TYPE_SHARED, whole->rank, MPI_INFO_NULL, &part),
         "MPI_Comm_split_type");
    MPI_Comm_rank(part, rank);
    MPI_Comm_size(part, size);
    return (intptr_t)part;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

// A stripe of every part at a time: an element of the stripe's bytes, `bytes` apart from the next.
void comm_mpi_all_gather(Comm *comm, void *data, size_t bytes) {
    meet(comm);
    for (size_t at = 0; at < bytes; at += comm->stripe) {
        MPI_Datatype stripe, part;
        MPI_Type_contiguous((int)smaller(bytes - at, comm->stripe), MPI_BYTE, &stripe);
        MPI_Type_create_resized(stripe, 0, (MPI_Aint)bytes, &part);
        MPI_Type_commit(&part);
        must(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, (char *)data + at, 1, part, of(comm)), "MPI_Allgather");
        MPI_Type_free(&part);
        MPI_Type_free(&stripe);
    }
}

// In round s ranks whose sum is s (modulo the size) swap their parts.
void comm_mpi_all_to_all(Comm *comm, void *data, size_t bytes, void *bounce, size_t bounce_bytes) {
    meet(comm);
    bounce_bytes = smaller(bounce_bytes, comm->stripe);
    for (int round = 0; round < comm->size; round++) {
        int other = (round - comm->rank + comm->size) % comm->size;
        char *part = (char *)data + (size_t)other * bytes;
        for (size_t at = 0; other != comm->rank && at < bytes; at += bounce_bytes) {
            int count = (int)smaller(bytes - at, bounce_bytes);
            must(MPI_Sendrecv(part + at, count, MPI_BYTE, other, 0, bounce, count, MPI_BYTE, other, 0, of(comm),
                              MPI_STATUS_IGNORE),
                 "MPI_Sendrecv");
            memcpy(part + at, bounce, (size_t)count);
        }
    }
}

void comm_mpi_broadcast(Comm *comm, void *data, size_t bytes, int root) {
    meet(comm);
    for (size_t at = 0; at < bytes; at += comm->stripe)
        must(MPI_Bcast((char *)data + at, (int)smaller(bytes - at, comm->stripe), MPI_BYTE, root, of(comm)),
             "MPI_Bcast");
}

void comm_mpi_smallest(Comm *comm, int64_t *values, int count) {
    MPI_Request request;
    must(MPI_Iallreduce(MPI_IN_PLACE, values, count, MPI_INT64_T, MPI_MIN, of(comm), &request), "MPI_Iallreduce");
    wait_for(comm, &request);
}

int64_t comm_mpi_tickets_take(Comm *world, int64_t count) {
    MPI_Win window = (MPI_Win)world->tickets;
    int64_t before = 0;
    must(MPI_Fetch_and_op(&count, &before, MPI_INT64_T, 0, 0, MPI_SUM, window), "MPI_Fetch_and_op");
    must(MPI_Win_flush(0, window), "MPI_Win_flush");
    return before;
}

void comm_mpi_tickets_restart(Comm *world) {
    meet(world);
    if (world->rank == 0) comm_mpi_tickets_take(world, -comm_mpi_tickets_take(world, 0));
    meet(world);
}

void error_end_others(void) {
    int opened = 0, closed = 0;
    MPI_Initialized(&opened);
    MPI_Finalized(&closed);
    if (opened && !closed) MPI_Abort(MPI_COMM_WORLD, 1);
}

#else

static void none(void) {
    CHECK(false, "this whet was built without MPI");
}

bool comm_mpi_open_world(Comm *world, Error *error) {
    (void)world;
    return error_set(error,
                     "several processes were started together, but this whet was built without MPI (make MPI=none)");
}
bool comm_mpi_settle(Comm *world, int64_t *first, int64_t *all, double seconds) {
    (void)world, (void)first, (void)all, (void)seconds, none();
    return false;
}
void comm_mpi_close_world(Comm *world) {
    (void)world, none();
}
intptr_t comm_mpi_split(const Comm *whole, int colour, int *rank, int *size) {
    (void)whole, (void)colour, (void)rank, (void)size, none();
    return 0;
}
intptr_t comm_mpi_on_host(const Comm *whole, int *rank, int *size) {
    (void)whole, (void)rank, (void)size, none();
    return 0;
}
void comm_mpi_all_gather(Comm *comm, void *data, size_t bytes) {
    (void)comm, (void)data, (void)bytes, none();
}
void comm_mpi_all_to_all(Comm *comm, void *data, size_t bytes, void *bounce, size_t bounce_bytes) {
    (void)comm, (void)data, (void)bytes, (void)bounce, (void)bounce_bytes, none();
}
void comm_mpi_broadcast(Comm *comm, void *data, size_t bytes, int root) {
    (void)comm, (void)data, (void)bytes, (void)root, none();
}
void comm_mpi_smallest(Comm *comm, int64_t *values, int count) {
    (void)comm, (void)values, (void)count, none();
}
void comm_mpi_tickets_restart(Comm *world) {
    (void)world, none();
}
int64_t comm_mpi_tickets_take(Comm *world, int64_t count) {
    (void)world, none();
    return count;
}

#endif
