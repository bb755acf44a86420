#include "run/environment.h"

#include "base/jsonio.h"

#include <sys/utsname.h>
#include <unistd.h>

bool environment_write(const Trainer *t, Error *error) {
    struct utsname system;
    Arena arena = {0};
    json_t *value = json_object();
    if (uname(&system) == 0)
        json_object_set_new(
            value, "system",
            json_pack("{s:s, s:s, s:s}", "name", system.sysname, "release", system.release, "machine", system.machine));
    json_object_set_new(value, "compiler", json_string(__VERSION__));
    json_object_set_new(value, "device", json_string("cpu"));
    json_object_set_new(value, "isa", json_string(t->ops.isa));
    json_object_set_new(value, "threads", json_integer(team_size(t->ops.team)));
    json_object_set_new(value, "cores", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    json_object_set_new(value, "ranks", json_integer(1));
    json_object_set_new(value, "model", json_string(t->model.path));
    json_object_set_new(value, "model_digest", json_string(t->model_digest));
    json_object_set_new(value, "recipe", json_string(t->settings->recipe_path));
    bool good = jsonio_write(value, arena_format(&arena, "%s/environment.json", t->settings->logger.log_dir), error);
    json_decref(value);
    arena_close(&arena);
    return good;
}
