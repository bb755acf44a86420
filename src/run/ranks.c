#include "run/ranks.h"

#include "base/arena.h"
#include "base/digest.h"
#include "base/log.h"

#include <sched.h>
#include <string.h>
#include <unistd.h>

int ranks_threads(Comm *world) {
    if (world->kind != COMM_MPI) return 0;
    Arena arena = {0};
    Comm host = comm_on_host(world);
    cpu_set_t *cores = arena_array(&arena, cpu_set_t, host.size), together, any;
    sched_getaffinity(0, sizeof *cores, &cores[host.rank]);
    comm_all_gather(&host, cores, sizeof *cores);
    int sharing = 0, own = CPU_COUNT(&cores[host.rank]), online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    CPU_ZERO(&any);
    for (int rank = 0; rank < host.size; rank++) {
        CPU_AND(&together, &cores[rank], &cores[host.rank]);
        sharing += CPU_COUNT(&together) > 0;
        CPU_OR(&any, &any, &cores[rank]);
    }
    if (world->rank == 0 && 2 * CPU_COUNT(&any) < online)
        log_warn("the ranks of a host were given %d of its %d cores; mpirun --bind-to none gives them all",
                 CPU_COUNT(&any), online);
    comm_close(&host);
    arena_close(&arena);
    return own > sharing ? own / sharing : 1;
}

bool ranks_same(Comm *world, const char *what, const char *text, Error *error) {
    char own[DIGEST_HEX], first[DIGEST_HEX];
    digest_bytes(own, text, strlen(text));
    memcpy(first, own, sizeof first);
    comm_broadcast(world, first, sizeof first, 0);
    bool same = !strcmp(own, first);
    if (!same) error_set(error, "%s differs from that of rank 0", what);
    return comm_agree(world, same, error);
}
