// How the ranks of a run divide its work: data-parallel × tensor-parallel. Tensor-parallel ranks are consecutive, so they share a
// host where they can: world rank = data.rank · tensor.size + tensor.rank.
#pragma once
#include "comm/comm.h"

typedef struct Mesh {
    Comm world;  // not owned: a copy of what mesh_open was given
    Comm data;   // ranks that hold the other shards of what this rank holds; micro-batches are divided among them
    Comm tensor; // ranks that walk this rank's micro-batches with it
} Mesh;

// Buffers of collectives are device's (may be NULL where comm_all_to_all is not called). world is self, pretend or mpi. Refuses a
// number of ranks that tensor_parallel does not divide; the message goes on behind the name of its key.
bool mesh_open(Mesh *mesh, const Comm *world, int64_t tensor_parallel, Device *device, Error *error);
Mesh mesh_self(Device *device); // one rank
void mesh_close(Mesh *mesh);    // accepts a zero-initialised one
