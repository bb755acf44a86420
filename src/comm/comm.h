// What ranks say to each other: bytes are moved, nothing is added up (sums are ours, in a fixed order: docs/numbers.md).
// Three kinds: `self` (one rank), `pretend` (rank r of R without the others: bytes are counted, none are moved; for the plan
// device) and `mpi` (Open MPI or MPICH; MPI 3.1). All ranks of a communicator make the same calls in the same order, from the
// main thread. A rank that waits for the others sleeps.
//
// A rank that ends by itself (killed, out of memory, a broken CHECK) takes all others with it. What may fail on one rank alone
// ends with comm_agree, so that all ranks return the error together; where it does not, comm_end_world ends them.
#pragma once
#include "device/device.h"

typedef enum CommKind { COMM_SELF, COMM_PRETEND, COMM_MPI } CommKind;

typedef enum CommCall { COMM_ALL_GATHER, COMM_ALL_TO_ALL, COMM_BROADCAST, COMM_CALL_COUNT } CommCall;

// Bytes that this rank hands to others, as the shortest way has it: of each kind of call.
typedef struct CommCounts {
    int64_t calls[COMM_CALL_COUNT];
    uint64_t bytes[COMM_CALL_COUNT];
    double waited; // seconds until the others had come
    double moved;  // seconds that the bytes then took
} CommCounts;

typedef struct Comm {
    CommKind kind;
    int rank, size;
    Device *device;  // of which comm_all_to_all takes its buffer
    intptr_t handle; // mpi: its MPI_Comm
    intptr_t ending; // mpi, of the world: another one, for comm_end_world alone
    int64_t taken;   // rank 0 of the world: the number that comm_tickets_take gives next, and
    int finished;    // ranks that will not ask any more
    size_t stripe;   // bytes, the most of one message; tests make it smaller
    CommCounts counts;
} Comm;

enum { COMM_BOUNCE = 1 << 20 }; // bytes, the most that comm_all_to_all takes as MEMORY_COMMUNICATION

// The ranks that mpirun or srun started; `self` when the program was started alone. Once a program. Refuses ranks that do not find
// each other (started by another MPI than the one that whet was built with, or built without).
bool comm_open_world(Comm *world, Error *error);
Comm comm_self(void);
Comm comm_pretend(int rank, int size);

// The end of a program: true when it is good on all ranks. Else false on all, and where there are several the first that failed has
// told its message ("who: rank 1 of 4: …", without the number when all failed), since what is written after the end may be
// lost; error is empty then. A rank that failed while the others go on waits for them some seconds; then it tells its
// message and ends them all. Leaves the world zero.
bool comm_end_world(Comm *world, bool good, const char *who, Error *error);
void comm_close_world(Comm *world); // the same where all is good; accepts a zero-initialised one

// Ranks of `whole` with the same colour, in its order, as one communicator. pretend: the caller says which rank of how many.
Comm comm_split(const Comm *whole, int colour, int rank, int size);
Comm comm_on_host(const Comm *whole); // those on this machine (self and pretend: a copy)
void comm_close(Comm *part); // of comm_split and comm_on_host; accepts a zero-initialised one. The others need not come

// In place: data[size][bytes], the own part already at [rank].
void comm_all_gather(Comm *comm, void *data, size_t bytes);

// In place: data[size][bytes]; part q goes to rank q, where it comes to [rank] of this one.
void comm_all_to_all(Comm *comm, void *data, size_t bytes);

// data[bytes] of the root comes to all.
void comm_broadcast(Comm *comm, void *data, size_t bytes, int root);

// A number that all ranks of the world share, and any may add to at any time, by itself: take gives what it was before. Rank 0 keeps
// it and answers the others when it calls take itself (with 0 if need be), so between two such calls they wait. All ranks
// call restart, which sets it to 0, and finish, in which rank 0 answers until all have come.
void comm_tickets_restart(Comm *world);
int64_t comm_tickets_take(Comm *world, int64_t count);
void comm_tickets_finish(Comm *world);

// Ends a phase that may fail: true when it was good everywhere; else false, with the message of the first rank that failed, and its
// number before it unless all failed.
bool comm_agree(Comm *comm, bool good, Error *error);
bool comm_any(Comm *comm, bool value); // whether it is true on some rank
uint64_t comm_largest(Comm *comm, uint64_t value);
