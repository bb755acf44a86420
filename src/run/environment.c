#include "run/environment.h"

#include "base/digest.h"
#include "base/file.h"
#include "base/jsonio.h"

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

bool environment_write(const Trainer *t, Error *error) {
    struct utsname system;
    Arena arena = {0};
    json_t *value = json_object();
    if (uname(&system) == 0)
        json_object_set_new(
            value, "system",
            json_pack("{s:s, s:s, s:s}", "name", system.sysname, "release", system.release, "machine", system.machine));
    json_object_set_new(value, "program_digest", json_string(program_digest(&arena)));
    json_object_set_new(value, "compiler", json_string(__VERSION__));
    json_object_set_new(value, "cpu_model", json_string(cpu_model(&arena)));
    json_object_set_new(value, "memory_mb",
                        json_integer((json_int_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / (1 << 20)));
    json_object_set_new(value, "device", json_string("cpu"));
    json_object_set_new(value, "isa", json_string(t->ops.isa));
    json_object_set_new(value, "threads", json_integer(team_size(t->ops.team)));
    json_object_set_new(value, "cores", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    json_object_set_new(value, "ranks", json_integer(1));
    json_object_set_new(value, "model", json_string(t->model.path));
    json_object_set_new(value, "model_digest", json_string(t->model_digest));
    json_object_set_new(value, "data_digest", json_string(t->task.data_digest));
    json_object_set_new(value, "recipe", json_string(t->settings->recipe_path));
    bool good = jsonio_write(value, arena_format(&arena, "%s/environment.json", t->settings->logger.log_dir), error);
    json_decref(value);
    arena_close(&arena);
    return good;
}
