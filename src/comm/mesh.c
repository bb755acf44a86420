#include "comm/mesh.h"

bool mesh_open(Mesh *mesh, const Comm *world, int64_t tensor_parallel, Device *device, Error *error) {
    *mesh = (Mesh){0};
    if (tensor_parallel < 1 || world->size % tensor_parallel)
        return error_set(error, "is %lld, which does not divide the number of ranks, %d", (long long)tensor_parallel,
                         world->size);
    int tensor = (int)tensor_parallel;
    *mesh = (Mesh){.world = *world};
    mesh->world.device = device;
    mesh->data = comm_split(&mesh->world, world->rank % tensor, world->rank / tensor, world->size / tensor);
    mesh->tensor = comm_split(&mesh->world, world->rank / tensor, world->rank % tensor, tensor);
    mesh->data.device = mesh->tensor.device = device;
    return true;
}

Mesh mesh_self(Device *device) {
    Mesh mesh = {.world = comm_self(), .data = comm_self(), .tensor = comm_self()};
    mesh.world.device = mesh.data.device = mesh.tensor.device = device;
    return mesh;
}

void mesh_close(Mesh *mesh) {
    comm_close(&mesh->data);
    comm_close(&mesh->tensor);
    *mesh = (Mesh){0};
}
