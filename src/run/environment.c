#include "run/environment.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/jsonio.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

// "model name" of /proc/cpuinfo, where it has one.
static const char *cpu_model(Arena *arena) {
    Error ignored;
    char *text;
    size_t size;
    const char *model = "unknown";
    if (file_read_stream(&text, &size, arena, "/proc/cpuinfo", &ignored)) {
        char *line = strstr(text, "model name");
        char *colon = line ? strchr(line, ':') : NULL, *end = colon ? strchr(colon, '\n') : NULL;
        if (end)
            model = arena_bytes(arena, colon + 1 + (colon[1] == ' '), (size_t)(end - colon - 1 - (colon[1] == ' ')));
    }
    return model;
}

// Which build it is, whatever it was built from.
static const char *program_digest(Arena *arena) {
    Error ignored;
    char hex[DIGEST_HEX];
    return digest_file(hex, "/proc/self/exe", &ignored) ? arena_string(arena, hex) : "unknown";
}

// Of a rank.
typedef struct Place {
    char host[64], cpu[96], isa[16];
    int64_t memory_mb, threads, cores;
} Place;

static Place own_place(const Trainer *t) {
    Arena arena = {0};
    Place place = {.memory_mb = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / (1 << 20),
                   .threads = team_size(t->ops.team),
                   .cores = sysconf(_SC_NPROCESSORS_ONLN)};
    gethostname(place.host, sizeof place.host - 1);
    snprintf(place.cpu, sizeof place.cpu, "%s", cpu_model(&arena));
    snprintf(place.isa, sizeof place.isa, "%s", t->ops.isa);
    arena_close(&arena);
    return place;
}

static void put_place(json_t *value, const Place *place) {
    json_object_set_new(value, "cpu_model", json_string(place->cpu));
    json_object_set_new(value, "memory_mb", json_integer(place->memory_mb));
    json_object_set_new(value, "cores", json_integer(place->cores));
    json_object_set_new(value, "isa", json_string(place->isa));
    json_object_set_new(value, "threads", json_integer(place->threads));
}

static json_t *places(const Place *of, int ranks) {
    json_t *list = json_array();
    for (int rank = 0; rank < ranks; rank++) {
        json_t *value = json_pack("{s:i, s:s}", "rank", rank, "host", of[rank].host);
        put_place(value, &of[rank]);
        json_array_append_new(list, value);
    }
    return list;
}

static bool write_all(const Trainer *t, const Place *of, Error *error) {
    struct utsname system;
    Arena arena = {0};
    json_t *value = json_object();
    if (uname(&system) == 0)
        json_object_set_new(
            value, "system",
            json_pack("{s:s, s:s, s:s}", "name", system.sysname, "release", system.release, "machine", system.machine));
    json_object_set_new(value, "program_digest", json_string(program_digest(&arena)));
    json_object_set_new(value, "compiler", json_string(__VERSION__));
    json_object_set_new(value, "device", json_string("cpu"));
    put_place(value, &of[0]);
    json_object_set_new(value, "ranks", json_integer(t->mesh.world.size));
    json_object_set_new(value, "tensor_parallel_size", json_integer(t->mesh.tensor.size));
    json_object_set_new(value, "by_rank", places(of, t->mesh.world.size));
    json_object_set_new(value, "model", json_string(t->model.path));
    json_object_set_new(value, "model_digest", json_string(t->model_digest));
    json_object_set_new(value, "data_digest", json_string(t->task.data_digest));
    json_object_set_new(value, "recipe", json_string(t->settings->recipe_path));
    bool good = jsonio_write(value, arena_format(&arena, "%s/environment.json", t->settings->logger.log_dir), error);
    json_decref(value);
    arena_close(&arena);
    return good;
}

bool environment_write(Trainer *t, Error *error) {
    Arena arena = {0};
    Comm *world = &t->mesh.world;
    Place *of = arena_array(&arena, Place, world->size);
    of[world->rank] = own_place(t);
    comm_all_gather(world, of, sizeof *of);
    bool good = !trainer_writes(t) || write_all(t, of, error);
    arena_close(&arena);
    return good;
}
