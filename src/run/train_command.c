#include "run/train_command.h"

#include "base/file.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "config/explain.h"
#include "run/environment.h"
#include "run/grpo.h"
#include "run/sft.h"

#include <stdio.h>
#include <string.h>

static bool load(Settings **settings, const Arguments *arguments, Arena *arena, Error *error) {
    return settings_load(settings, arena, arguments->operands[0], arguments->operand_count - 1, arguments->operands + 1,
                         error);
}

static bool write_config(const Settings *settings, Error *error) {
    Arena arena = {0};
    StrBuf text = {0};
    explain_yaml(&text, settings);
    const char *folder = settings->logger.log_dir;
    bool good = file_make_folders(folder, error) &&
                file_write(arena_format(&arena, "%s/config.yaml", folder), text.text, text.length, error);
    strbuf_close(&text);
    arena_close(&arena);
    return good;
}

// One run at a time in a folder: a second one would write between the lines of the first.
static bool lock_folder(int *lock, const char *folder, Error *error) {
    Arena arena = {0};
    bool good = file_make_folders(folder, error) && file_lock(lock, arena_format(&arena, "%s/.lock", folder), error);
    arena_close(&arena);
    return good;
}

static bool lock_run(int locks[2], const Settings *settings, Error *error) {
    const char *logs = settings->logger.log_dir, *checkpoints = settings->checkpointing.checkpoint_dir;
    if (!lock_folder(&locks[0], logs, error)) return false;
    if (!settings->checkpointing.enabled) return true;
    return file_make_folders(checkpoints, error) &&
           (file_same(logs, checkpoints) || lock_folder(&locks[1], checkpoints, error));
}

bool train_command_train(const Settings *settings, Comm *world, Trace *trace, int *stop, Error *error) {
    Trainer trainer = {0};
    int locks[2] = {-1, -1};
    bool good = comm_agree(world, world->rank || lock_run(locks, settings, error), error) &&
                trainer_open_ranks(&trainer, settings, world, error);
    if (good) {
        bool written = environment_write(&trainer, error) && (world->rank || write_config(settings, error));
        good = comm_agree(world, written, error);
    }
    if (good) stop_signal_catch(); // until here nothing would be lost
    trainer.ops.trace = trace;
    good = good && (settings->algorithm == ALGORITHM_SFT ? sft_train : grpo_train)(&trainer, error);
    *stop = trainer.stopped ? trainer.stop : 0;
    trainer_close(&trainer);
    for (int i = 0; i < 2; i++) file_unlock(&locks[i]);
    return good;
}

static bool train(const Arguments *arguments, Comm *world, int *stop, Error *error) {
    Arena arena = {0};
    Settings *settings;
    bool good = comm_agree(world, load(&settings, arguments, &arena, error), error);
    if (good) {
        if (command_switch(arguments, "--quiet")) log_set_level(LOG_WARNINGS);
        if (command_switch(arguments, "--verbose")) log_set_level(LOG_VERBOSE);
        if (world->rank) log_set_level(LOG_QUIET); // what all know is said once
        settings_log_notes(settings);
        good = train_command_train(settings, world, NULL, stop, error);
    }
    arena_close(&arena);
    return good;
}

static bool run_train(Arguments *arguments, Error *error) {
    Comm world;
    int stop = 0;
    bool good = comm_open_world(&world, error) && train(arguments, &world, &stop, error);
    good = comm_end_world(&world, good, "whet train", error);
    if (stop) stop_signal_obey(stop);
    return good;
}

static bool run_config(Arguments *arguments, Error *error) {
    Arena arena = {0};
    Settings *settings, *other = NULL;
    const char *against = command_text(arguments, "--against");
    bool good = load(&settings, arguments, &arena, error) &&
                (!against || settings_load(&other, &arena, against, 0, NULL, error));
    if (good) {
        StrBuf text = {0};
        settings_log_notes(settings);
        if (!other)
            (command_switch(arguments, "--plain") ? explain_yaml : explain_settings)(&text, settings);
        else if (explain_changes(&text, "\n", other, settings))
            strbuf_putc(&text, '\n');
        fputs(text.text, stdout);
        strbuf_close(&text);
    }
    arena_close(&arena);
    return good;
}

const Command train_command = {
    .verb = "train",
    .operands = "RECIPE [key=value …]",
    .summary = "Trains a model by a recipe; the same command goes on where a stopped run ended.",
    .min_operands = 1,
    .max_operands = -1,
    .details =
        "RECIPE is a NeMo-RL recipe (YAML). Overrides: key=value changes a key, +key=value adds one, ++key=value does\n"
        "either, ~key deletes. `whet config RECIPE` lists the keys. The run goes into logger.log_dir and\n"
        "checkpointing.checkpoint_dir.",
    .examples = "whet train recipes/arithmetic.yaml\n"
                "whet train recipes/arithmetic.yaml grpo.seed=43 policy.precision=bfloat16\n",
    .options = {{"--quiet", NULL, "print warnings only"}, {"--verbose", NULL, "print more"}},
    .run = run_train,
};

const Command config_command = {
    .verb = "config",
    .operands = "RECIPE [key=value …]",
    .summary = "The resolved recipe: each key's value, where it came from, what it means.",
    .min_operands = 1,
    .max_operands = -1,
    .examples = "whet config recipes/arithmetic.yaml                  # every key, its value, its meaning\n"
                "whet config recipes/arithmetic.yaml --plain >mine.yaml\n"
                "whet config mine.yaml --against recipes/arithmetic.yaml  # what a run would do otherwise\n",
    .options = {{"--plain", NULL, "only the resolved YAML"},
                {"--against", "FILE", "only the settings that differ from those of this recipe, its value first"}},
    .run = run_config,
};
