// The kind `mpi` of comm.h, for comm.c alone. Without WHET_MPI (make MPI=none) there is nothing to start.
#pragma once
#include "comm/comm.h"

bool comm_mpi_open_world(Comm *world, Error *error);
// The smallest of *first and *all over ranks. False when the others have not come after `seconds` (0: waits on).
bool comm_mpi_settle(Comm *world, int64_t *first, int64_t *all, double seconds);
void comm_mpi_close_world(Comm *world); // behind comm_mpi_settle; waits for the others
intptr_t comm_mpi_split(const Comm *whole, int colour, int *rank, int *size);
intptr_t comm_mpi_on_host(const Comm *whole, int *rank, int *size);

// All wait for each other first (counted in comm->counts.waited), then bytes move.
void comm_mpi_all_gather(Comm *comm, void *data, size_t bytes);
void comm_mpi_all_to_all(Comm *comm, void *data, size_t bytes, void *bounce, size_t bounce_bytes);
void comm_mpi_broadcast(Comm *comm, void *data, size_t bytes, int root);
void comm_mpi_smallest(Comm *comm, int64_t *values, int count); // over ranks, of each of values[count]

int64_t comm_mpi_tickets_ask(Comm *world, int64_t count); // not rank 0
void comm_mpi_tickets_answer(Comm *world);                // rank 0: all that have asked
void comm_mpi_tickets_finish(Comm *world);
