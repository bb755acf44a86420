#include "run/compare_command.h"

#include "base/file.h"
#include "base/jsonio.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "run/compare_document.h"
#include "run/compare_plan.h"
#include "run/compare_plot.h"
#include "run/compare_summary.h"
#include "run/compare_table.h"
#include "run/first_difference.h"
#include "run/report.h"

#include <stdio.h>
#include <string.h>

// The command line without the verb, for the summary.
static const char *const *words_of(const Arguments *a, Arena *arena) {
    const char **words = arena_array(arena, const char *, a->operand_count + 2 * a->given_count + 1);
    int count = 0;
    for (int i = 0; i < a->operand_count; i++) words[count++] = a->operands[i];
    for (int i = 0; i < a->given_count; i++) {
        const CommandOption *option = &a->command->options[a->given[i].option];
        words[count++] = option->name;
        if (option->value) words[count++] = a->given[i].value;
    }
    return words;
}

static bool open_recipe(Comparison *c, Arguments *a, Arena *arena, Error *error) {
    const char *vary = command_text(a, "--vary");
    if (!vary)
        return command_misuse(a) || error_set(error, "--vary KEY=A,B is missing: what are the arms to differ in?");
    return compare_arms_of_recipe(c, a->operands[0], vary, command_text(a, "--seeds"), a->operand_count - 1,
                                  a->operands + 1, command_text(a, "--out"), arena, error);
}

static bool open_runs(Comparison *c, Arguments *a, Arena *arena, Error *error) {
    const char *vary = command_text(a, "--vary");
    if (command_text(a, "--seeds") || command_text(a, "--arm") || (vary && strchr(vary, '=')))
        return command_misuse(a) ||
               error_set(error, "%s is a run: its seed and its values are there already", a->operands[0]);
    return compare_arms_of_runs(c, a->operand_count, a->operands, vary, command_text(a, "--out"), arena, error);
}

static bool write_report(const Comparison *c, Error *error) {
    int count = c->value_count * c->seed_count;
    ReportRun *runs = arena_array(c->arena, ReportRun, count);
    for (int i = 0; i < count; i++) runs[i].folder = c->arms[i].folder;
    ReportOptions options = {.title = c->key,
                             .summary = arena_format(c->arena, "%s/summary.json", c->folder),
                             .rollout_steps = -1};
    return report_write(arena_format(c->arena, "%s/report.html", c->folder), runs, count, &options, error);
}

static bool write_summary(const json_t *summary, const char *name, const Comparison *c, Error *error) {
    return file_make_folders(c->folder, error) &&
           jsonio_write(summary, arena_format(c->arena, "%s/%s", c->folder, name), error) &&
           compare_plot_write(summary, c->folder, error);
}

static bool show(const Comparison *c, const CompareOptions *options, const Arguments *a, Error *error) {
    json_t *summary = compare_summary(c, options, words_of(a, c->arena), error);
    if (!summary) return false;
    StrBuf text = {0};
    compare_table_all(&text, summary);
    fputs(text.text, stdout);
    strbuf_close(&text);
    bool good = write_summary(summary, "summary.json", c, error) && write_report(c, error);
    if (good) printf("\n%s: summary.json, report.html, curves and memory as .svg and .png\n", c->folder);
    json_decref(summary);
    return good;
}

// The memory of the values, not run but planned.
static bool show_plan(Arguments *a, Arena *arena, Error *error) {
    Comparison c;
    int64_t ranks = 0;
    PlanOptions options = {.memory_only = true};
    StrBuf text = {0};
    if (!command_integer(a, "--ranks", &ranks, 1, PLAN_MOST_RANKS, error) ||
        !command_integer(a, "--prompt-tokens", &options.prompt_tokens, 1, INT32_MAX, error) ||
        !command_integer(a, "--answer-tokens", &options.answer_tokens, 1, INT32_MAX, error) ||
        !open_recipe(&c, a, arena, error))
        return false;
    options.ranks = (int)ranks;
    json_t *summary = compare_plan(&c, &options, words_of(a, arena), error);
    if (!summary) return false;
    bool good = compare_table_part(&text, summary, "memory", error) && write_summary(summary, "plan.json", &c, error);
    if (good) printf("%s\n%s: plan.json, plan.svg, plan.png\n", text.text, c.folder);
    strbuf_close(&text);
    json_decref(summary);
    return good;
}

// --- where two runs part ----------------------------------------------------------------------------------------------

// A recipe, or the one of a run.
static bool recipe_of(const char **recipe, const char *operand, Arena *arena, Error *error) {
    *recipe = operand;
    if (!file_is_folder(operand)) return true;
    if (!report_folder(recipe, operand, arena, error)) return false;
    *recipe = arena_format(arena, "%s/config.yaml", *recipe);
    return true;
}

// The two recipes, each with a folder of its own: one with two values of a key, or two.
static bool open_two(Settings *settings[2], const char *names[2], const char *folder, Arguments *a, Arena *arena,
                     Error *error) {
    const char *vary = command_text(a, "--vary"), *equals = vary ? strchr(vary, '=') : NULL, *recipe;
    int recipes = vary ? 1 : 2, shared = a->operand_count - recipes;
    bool values = !vary || (equals && compare_arms_split(names, 2, equals + 1, arena) == 2);
    if (shared < 0 || !values)
        return command_misuse(a) ||
               error_set(error, "--first-difference wants two recipes or runs, or one and --vary KEY=A,B");
    for (int i = 0; i < 2; i++) {
        char **all = arena_array(arena, char *, shared + 2);
        int count = 0;
        for (; count < shared; count++) all[count] = a->operands[recipes + count];
        if (vary)
            all[count++] = arena_format(arena, "%.*s=%s", (int)(equals - vary), vary, names[i]);
        else
            names[i] = a->operands[i];
        all[count++] = arena_format(arena, "logger.log_dir=%s/%d", folder, i + 1);
        if (!recipe_of(&recipe, a->operands[vary ? 0 : i], arena, error) ||
            !settings_load(&settings[i], arena, recipe, count, all, error))
            return false;
    }
    return true;
}

static bool first_difference(Arguments *a, int *stop, Arena *arena, Error *error) {
    const char *out = command_text(a, "--out"), *folder = out ? out : "results/compare/first_difference", *names[2];
    Settings *settings[2];
    FirstDifference found;
    int64_t steps = 2;
    if (!command_integer(a, "--steps", &steps, 1, 1000000, error) ||
        !open_two(settings, names, folder, a, arena, error) ||
        !first_difference_find(&found, settings[0], settings[1], steps, stop, error))
        return false;
    if (*stop) return true;
    StrBuf text = {0};
    first_difference_text(&text, &found, names);
    fputs(text.text, stdout);
    strbuf_close(&text);
    json_t *all = first_difference_json(&found, names);
    bool good = jsonio_write(all, arena_format(arena, "%s/first_difference.json", folder), error);
    json_decref(all);
    return good;
}

// --- the verb ---------------------------------------------------------------------------------------------------------

typedef enum Mode { MODE_RUNS, MODE_PLAN, MODE_FIRST, MODE_DOCUMENT } Mode;

// Options that would do nothing in this mode.
static bool check_options(Arguments *a, Mode mode, Error *error) {
    static const struct {
        const char *name, *belongs;
        Mode mode;
    } own[] = {{"--seeds", "runs", MODE_RUNS},           {"--arm", "runs", MODE_RUNS},
               {"--margin", "runs", MODE_RUNS},          {"--warm-up", "runs", MODE_RUNS},
               {"--ranks", "--plan", MODE_PLAN},         {"--prompt-tokens", "--plan", MODE_PLAN},
               {"--answer-tokens", "--plan", MODE_PLAN}, {"--steps", "--first-difference", MODE_FIRST}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (command_text(a, own[i].name) && mode != own[i].mode)
            return command_misuse(a) || error_set(error, "%s belongs to %s", own[i].name, own[i].belongs);
    return true;
}

static bool choose_mode(Mode *mode, Arguments *a, Error *error) {
    bool first = command_switch(a, "--first-difference"), plan = command_switch(a, "--plan");
    bool document = command_text(a, "--document");
    *mode = first ? MODE_FIRST : plan ? MODE_PLAN : a->operand_count ? MODE_RUNS : MODE_DOCUMENT;
    if (plan && first) return command_misuse(a) || error_set(error, "--plan and --first-difference are two questions");
    if (document && (plan || first))
        return command_misuse(a) ||
               error_set(error, "--document is a call of its own here: it reads what %s has written",
                         plan ? "--plan" : "--first-difference");
    if (!a->operand_count && !(document && *mode == MODE_DOCUMENT))
        return command_misuse(a) ||
               error_set(error, "a recipe or runs are missing; usage: whet compare %s", a->command->operands);
    return check_options(a, *mode, error);
}

// As every rank does it. The arms of a recipe are trained, runs are read; rank 0 tells.
static bool compare(Arguments *a, Comm *world, int *stop, Arena *arena, Error *error) {
    Comparison comparison;
    CompareOptions options = {.margin = 0.02, .warm_up = 1};
    const char *document = command_text(a, "--document");
    bool runs = file_is_folder(a->operands[0]);
    int64_t arm = 0;
    bool good = command_integer(a, "--arm", &arm, 1, 1000000, error) &&
                command_real(a, "--margin", &options.margin, 0, 1e9, error) &&
                command_integer(a, "--warm-up", &options.warm_up, 0, 1000000, error) &&
                (runs ? open_runs : open_recipe)(&comparison, a, arena, error) &&
                (runs || compare_arms_check(&comparison, error));
    if (!comm_agree(world, good, error)) return false;
    if (world->rank) log_set_level(LOG_QUIET);
    if (arm) return compare_arms_train_one(&comparison, arm, world, stop, error);
    if (!runs && !compare_arms_train(&comparison, world, stop, error)) return false;
    if (*stop || world->rank) return true;
    return show(&comparison, &options, a, error) && (!document || compare_document_write(document, error));
}

static bool run_mode(Mode mode, Arguments *a, int *stop, Arena *arena, Error *error) {
    switch (mode) {
    case MODE_PLAN: return show_plan(a, arena, error);
    case MODE_FIRST: return first_difference(a, stop, arena, error);
    case MODE_DOCUMENT: return compare_document_write(command_text(a, "--document"), error);
    case MODE_RUNS: break;
    }
    Comm world;
    bool good = comm_open_world(&world, error) && compare(a, &world, stop, arena, error);
    return comm_end_world(&world, good, "whet compare", error);
}

static bool run_compare(Arguments *a, Error *error) {
    Arena arena = {0};
    Mode mode;
    int stop = 0;
    if (command_switch(a, "--quiet")) log_set_level(LOG_WARNINGS);
    bool good = choose_mode(&mode, a, error) && run_mode(mode, a, &stop, &arena, error);
    arena_close(&arena);
    if (stop) stop_signal_obey(stop);
    return good;
}

const Command compare_command = {
    .verb = "compare",
    .operands = "RECIPE|RUN… --vary KEY=A,B [key=value …]",
    .summary =
        "Trains arms that differ in one key and says what it changed: memory, curves, paired statistics, a verdict.",
    .min_operands = 0,
    .max_operands = -1,
    .details = "Each arm is an ordinary run in a folder of its own; the same command goes on where a stopped one "
               "ended. Arms are only "
               "compared when their recipes differ in that key and in output paths alone, when the validation before "
               "training left "
               "the same records (asked the same questions, where the key acts on what the untrained model says), and "
               "when every batch has the same prompts in the same order.\n\n"
               "RUN: folders of runs that exist already, the baseline first; --vary KEY names the key then, and is not "
               "needed where "
               "only one differs.\n\n"
               "Printed, and written beside the arms as summary.json and plots: memory of an update by kind and phase, "
               "held-out "
               "accuracy, training reward, the difference after the last step with a paired bootstrap over questions "
               "and McNemar's "
               "exact test, over several seeds an interval that takes the seeds in, and a verdict against the margin.",
    .examples =
        "whet compare recipes/arithmetic.yaml --vary policy.automodel_cfg.fsdp_output_dtype=float32,bfloat16 --seeds "
        "42,43,44\n"
        "whet compare recipes/arithmetic.yaml --vary loss_fn.reference_policy_kl_penalty=0,0.01,0.1 "
        "grpo.max_num_steps=40\n"
        "whet compare results/a results/b                   # runs that exist\n"
        "whet compare RECIPE --vary policy.precision=float32,bfloat16 --first-difference\n"
        "whet compare --document docs/experiments/x.md      # puts the figures of its summaries into a document\n",
    .options =
        {{"--vary", "KEY=A,B[,…]", "the key in which the arms differ, and its values; the first is the baseline"},
         {"--seeds", "S,S", "run every value with each of these seeds (default: the recipe's own)"},
         {"--arm", "N", "train only the N-th arm, to run several side by side; the command without it compares them"},
         {"--margin", "M", "so much less held-out accuracy is not worse (default 0.02)"},
         {"--warm-up", "N", "updates left out of the memory table (default 1)"},
         {"--out", "FOLDER",
          "where arms, summary and plots go (default results/compare/RECIPE_KEY; runs: beside the first)"},
         {"--document", "FILE", "write the figures of the summaries that it names into this Markdown file"},
         {"--plan", NULL, "only the memory of each value, planned: nothing is run, no weights are needed"},
         {"--ranks", "N", "ranks that are planned for (default: cluster.* of the recipe)"},
         {"--prompt-tokens", "N", "of every prompt that is planned (default as in `whet plan`)"},
         {"--answer-tokens", "N", "of every answer, likewise"},
         {"--first-difference", NULL, "name the first tensor whose bits differ between two recipes, runs or values"},
         {"--steps", "N", "so many updates are looked at for it (default 2)"},
         {"--quiet", NULL, "print warnings and the result only"}},
    .run = run_compare,
};
