#include "comm/comm_mpi.h"

#include "base/log.h"

#ifdef WHET_MPI
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG_PARTS, TAG_ASK, TAG_ANSWER };

static MPI_Comm of(const Comm *comm) {
    return (MPI_Comm)comm->handle;
}

// What MPI itself refuses ends all ranks: a lost peer, as a rule, of which the starter tells too.
static void must(int code, const char *call) {
    if (code == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING];
    int length, rank = 0;
    MPI_Error_string(code, text, &length);
    for (char *end; (end = strchr(text, '\n'));) *end = ' '; // MPICH tells its whole stack
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "whet: rank %d: %s: %.*s\n", rank, call, length, text);
    MPI_Abort(MPI_COMM_WORLD, 1);
    _Exit(1);
}

// Sleeps ever longer, up to a millisecond, and for no more than an eighth of what it has waited.
static void nap(double waited) {
    long length = (long)(1e9 / 8 * waited);
    if (waited < 20e-6)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = length < 1000000 ? length : 1000000}, NULL);
}

// False: not done after `limit` seconds; 0: waits on.
static bool wait_within(Comm *comm, MPI_Request *request, double limit) {
    double started = log_seconds(), waited = 0;
    for (int done = 0;;) {
        must(MPI_Test(request, &done, MPI_STATUS_IGNORE), "waiting");
        waited = log_seconds() - started;
        if (done) break;
        if (limit > 0 && waited > limit) return false;
        nap(waited);
    }
    comm->counts.waited += waited;
    return true;
}

static void wait_for(Comm *comm, MPI_Request *request) {
    wait_within(comm, request, 0);
}

// Returns when all have come: log_seconds.
static double meet(Comm *comm) {
    MPI_Request request;
    must(MPI_Ibarrier(of(comm), &request), "MPI_Ibarrier");
    wait_for(comm, &request);
    return log_seconds();
}

// What srun starts without an interface to MPI cannot begin: Open MPI would say so at length, MPICH begin apart.
static bool find_starter(Error *error) {
#ifdef OPEN_MPI
    static const char needed[] = "PMIX_RANK", option[] = "pmix";
#else
    static const char needed[] = "PMI_RANK", option[] = "pmi2";
#endif
    if (!getenv("SLURM_STEP_NUM_TASKS") || getenv(needed)) return true;
    return error_set(error, "srun has started several processes without the interface to this MPI: srun --mpi=%s",
                     option);
}

// UCX beneath MPICH logs what fails on its way, in lines of its own beside the one message. It has read its environment before main, so
// it is told by a call; weak: elsewhere there is no UCX.
extern signed char ucs_global_opts_set_value(const char *name, const char *value) __attribute__((weak));

static void quiet_transport(void) {
    if (ucs_global_opts_set_value && !getenv("UCX_LOG_LEVEL")) ucs_global_opts_set_value("LOG_LEVEL", "fatal");
}

bool comm_mpi_open_world(Comm *world, Error *error) {
    if (!find_starter(error)) return false;
    // A rank that MPI makes wait lets others have the core.
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    int provided;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
        return error_set(error, "MPI cannot be started");
    quiet_transport(); // what it says of its environment until here is the user's to see
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); // and so what is split off it
    world->kind = COMM_MPI;
    world->handle = (intptr_t)MPI_COMM_WORLD;
    must(MPI_Comm_rank(MPI_COMM_WORLD, &world->rank), "MPI_Comm_rank");
    must(MPI_Comm_size(MPI_COMM_WORLD, &world->size), "MPI_Comm_size");
    MPI_Comm ending;
    must(MPI_Comm_dup(MPI_COMM_WORLD, &ending), "MPI_Comm_dup");
    world->ending = (intptr_t)ending;
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

// More than a message may hold: a stripe of every part at a time, an element of the stripe's bytes, `bytes` apart from the next.
static void gather_stripes(Comm *comm, char *data, size_t bytes) {
    for (size_t at = 0; at < bytes; at += comm->stripe) {
        MPI_Datatype stripe, part;
        MPI_Type_contiguous((int)smaller(bytes - at, comm->stripe), MPI_BYTE, &stripe);
        MPI_Type_create_resized(stripe, 0, (MPI_Aint)bytes, &part);
        MPI_Type_commit(&part);
        must(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data + at, 1, part, of(comm)), "MPI_Allgather");
        MPI_Type_free(&part);
        MPI_Type_free(&stripe);
    }
}

void comm_mpi_all_gather(Comm *comm, void *data, size_t bytes) {
    double started = meet(comm);
    if (bytes > comm->stripe)
        gather_stripes(comm, data, bytes);
    else
        must(MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, (int)bytes, MPI_BYTE, of(comm)), "MPI_Allgather");
    comm->counts.moved += log_seconds() - started;
}

// In round s ranks whose sum is s (modulo the size) swap their parts.
void comm_mpi_all_to_all(Comm *comm, void *data, size_t bytes, void *bounce, size_t bounce_bytes) {
    double started = meet(comm);
    bounce_bytes = smaller(bounce_bytes, comm->stripe);
    for (int round = 0; round < comm->size; round++) {
        int other = (round - comm->rank + comm->size) % comm->size;
        char *part = (char *)data + (size_t)other * bytes;
        for (size_t at = 0; other != comm->rank && at < bytes; at += bounce_bytes) {
            int count = (int)smaller(bytes - at, bounce_bytes);
            must(MPI_Sendrecv(part + at, count, MPI_BYTE, other, TAG_PARTS, bounce, count, MPI_BYTE, other, TAG_PARTS,
                              of(comm), MPI_STATUS_IGNORE),
                 "MPI_Sendrecv");
            memcpy(part + at, bounce, (size_t)count);
        }
    }
    comm->counts.moved += log_seconds() - started;
}

void comm_mpi_broadcast(Comm *comm, void *data, size_t bytes, int root) {
    double started = meet(comm);
    for (size_t at = 0; at < bytes; at += comm->stripe)
        must(MPI_Bcast((char *)data + at, (int)smaller(bytes - at, comm->stripe), MPI_BYTE, root, of(comm)),
             "MPI_Bcast");
    comm->counts.moved += log_seconds() - started;
}

void comm_mpi_smallest(Comm *comm, int64_t *values, int count) {
    MPI_Request request;
    must(MPI_Iallreduce(MPI_IN_PLACE, values, count, MPI_INT64_T, MPI_MIN, of(comm), &request), "MPI_Iallreduce");
    wait_for(comm, &request);
}

// Messages and no shared window, which Open MPI does not offer between hosts over TCP. INT64_MIN: will not ask any more.
int64_t comm_mpi_tickets_ask(Comm *world, int64_t count) {
    int64_t before;
    MPI_Request request;
    must(MPI_Irecv(&before, 1, MPI_INT64_T, 0, TAG_ANSWER, of(world), &request), "MPI_Irecv");
    must(MPI_Send(&count, 1, MPI_INT64_T, 0, TAG_ASK, of(world)), "MPI_Send");
    wait_for(world, &request);
    return before;
}

void comm_mpi_tickets_answer(Comm *world) {
    for (;;) {
        MPI_Status status;
        int64_t count;
        int asked;
        must(MPI_Iprobe(MPI_ANY_SOURCE, TAG_ASK, of(world), &asked, &status), "MPI_Iprobe");
        if (!asked) return;
        must(MPI_Recv(&count, 1, MPI_INT64_T, status.MPI_SOURCE, TAG_ASK, of(world), MPI_STATUS_IGNORE), "MPI_Recv");
        if (count == INT64_MIN) {
            world->finished++;
            continue;
        }
        must(MPI_Send(&world->taken, 1, MPI_INT64_T, status.MPI_SOURCE, TAG_ANSWER, of(world)), "MPI_Send");
        world->taken += count;
    }
}

void comm_mpi_tickets_finish(Comm *world) {
    const int64_t last = INT64_MIN;
    if (world->rank) {
        must(MPI_Send(&last, 1, MPI_INT64_T, 0, TAG_ASK, of(world)), "MPI_Send");
        return;
    }
    double started = log_seconds();
    for (comm_mpi_tickets_answer(world); world->finished < world->size - 1; comm_mpi_tickets_answer(world))
        nap(log_seconds() - started);
    world->counts.waited += log_seconds() - started;
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
int64_t comm_mpi_tickets_ask(Comm *world, int64_t count) {
    (void)world, none();
    return count;
}
void comm_mpi_tickets_answer(Comm *world) {
    (void)world, none();
}
void comm_mpi_tickets_finish(Comm *world) {
    (void)world, none();
}

#endif
