#include "support/run_setup.h"

#include "base/file.h"
#include "base/log.h"
#include "run/grpo.h"
#include "run/sft.h"
#include "support/toy_model.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

Arena run_arena;
Error run_error;
static char folder[96];

int run_setup_open(const char *name, const char *recipe) {
    log_set_level(LOG_QUIET);
    snprintf(folder, sizeof folder, "/tmp/whet-%s-%d", name, (int)getpid());
    return toy_model_write(run_path("model"), MODEL_LLAMA, 1, &run_error) &&
                   file_write(run_path("recipe.yaml"), recipe, strlen(recipe), &run_error)
               ? 0
               : -1;
}

int run_setup_close(void **state) {
    (void)state;
    file_remove_tree(folder, &run_error);
    arena_close(&run_arena);
    return 0;
}

const char *run_path(const char *name) {
    return arena_format(&run_arena, "%s/%s", folder, name);
}

void run_require(bool good) {
    CHECK(good, "%s", run_error.text);
}

Settings *run_settings(const char *name, char *const *overrides) {
    char *all[16] = {arena_format(&run_arena, "policy.model_name=%s", run_path("model")),
                     arena_format(&run_arena, "logger.log_dir=%s/logs", run_path(name)),
                     arena_format(&run_arena, "checkpointing.checkpoint_dir=%s", run_path(name))};
    int count = 3;
    while (*overrides) all[count++] = *overrides++;
    Settings *settings;
    return settings_load(&settings, &run_arena, run_path("recipe.yaml"), count, all, &run_error) ? settings : NULL;
}

bool run_train(const Settings *settings, bool *stopped) {
    Trainer trainer;
    if (!settings) return false;
    bool good = trainer_open(&trainer, settings, &run_error) &&
                (settings->algorithm == ALGORITHM_SFT ? sft_train : grpo_train)(&trainer, &run_error);
    if (stopped) *stopped = trainer.stopped;
    trainer_close(&trainer);
    return good;
}

const char *run_text(const char *name) {
    char *text;
    run_require(file_read(&text, NULL, &run_arena, run_path(name), &run_error));
    return text;
}

json_t *run_lines(const char *name) {
    char *text = arena_string(&run_arena, run_text(name));
    json_t *lines = json_array();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *value = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        CHECK(value, "%s: a line is no JSON", name);
        json_array_append_new(lines, value);
    }
    return lines;
}

double run_number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    CHECK(json_is_number(value), "%s is no number", name);
    return json_number_value(value);
}

bool run_same_bytes(const char *name, const char *other) {
    char *text[2];
    size_t size[2];
    run_require(file_read(&text[0], &size[0], &run_arena, run_path(name), &run_error) &&
                file_read(&text[1], &size[1], &run_arena, run_path(other), &run_error));
    return size[0] == size[1] && !memcmp(text[0], text[1], size[0]);
}
