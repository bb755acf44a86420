#include "run/plan_command.h"

#include "base/log.h"
#include "run/output.h"
#include "run/plan_fit.h"

#include <stdio.h>
#include <string.h>

enum { MOST_VARIED = 4, MOST_ARMS = 16 };

typedef struct Asked {
    PlanOptions options;
    int64_t fit;    // bytes; 0: not asked
    int64_t tensor; // 0: as the recipe says
    const Arguments *arguments;
    int varied;
    const char *keys[MOST_VARIED];
    const char *values[MOST_VARIED][MOST_ARMS];
    int value_counts[MOST_VARIED];
    int arm_count;
    Arena *arena;
} Asked;

// "KEY=A,B,…": commas within brackets, braces and quotes part nothing.
static bool read_varied(Asked *asked, const char *text, Error *error) {
    char *copy = arena_string(asked->arena, text), *equals = strchr(copy, '='), quote = 0;
    int depth = 0, *count = &asked->value_counts[asked->varied];
    if (!equals || equals == copy) return error_set(error, "--vary is '%.100s'; expected KEY=A,B", text);
    *equals = 0;
    asked->keys[asked->varied] = copy;
    char *begin = equals + 1, *at = begin;
    for (;; at++) {
        if (*at && quote) {
            if (*at == quote) quote = 0;
            continue;
        }
        if (*at == '"' || *at == '\'') quote = *at;
        depth += (*at == '[' || *at == '{') - (*at == ']' || *at == '}');
        if (*at && (*at != ',' || depth > 0)) continue;
        bool over = !*at;
        *at = 0;
        if (*count == MOST_ARMS) return error_set(error, "--vary %s: more than %d values", copy, MOST_ARMS);
        asked->values[asked->varied][(*count)++] = begin;
        begin = at + 1;
        if (over) break;
    }
    if (*count < 2) return error_set(error, "--vary %s has one value; expected two or more, parted by commas", text);
    asked->varied++;
    asked->arm_count *= *count;
    return asked->arm_count <= MOST_ARMS ||
           error_set(error, "--vary: %d arms; expected at most %d", asked->arm_count, MOST_ARMS);
}

static bool read_rate(Arguments *arguments, const char *name, double *rate, double unit, Error *error) {
    double given = 0;
    if (!command_real(arguments, name, &given, 1e-6, 1e9, error)) return false;
    if (given > 0) *rate = given * unit;
    return true;
}

static bool read_machine(PlanMachine *machine, Arguments *arguments, Arena *arena, Error *error) {
    const char *name = command_text(arguments, "--machine");
    double flops = 0;
    if (name && !plan_machine_find(machine, name, error)) return command_misuse(arguments);
    if (!read_rate(arguments, "--tflops", &flops, 1e12, error) ||
        !read_rate(arguments, "--bandwidth", &machine->bytes, 1e9, error) ||
        !read_rate(arguments, "--link", &machine->link, 1e9, error))
        return false;
    if (flops > 0) machine->flops[0] = machine->flops[1] = flops;
    bool any = flops > 0 || command_text(arguments, "--bandwidth") || command_text(arguments, "--link");
    if (!any) return true;
    machine->name = name ? arena_format(arena, "%s with figures that were given", name) : "the machine given";
    if (machine->flops[0] > 0 && machine->bytes > 0) return true;
    return command_misuse(arguments) ||
           error_set(error, "--tflops and --bandwidth are needed both, where no --machine is named");
}

static bool read_asked(Asked *asked, Arguments *arguments, Error *error) {
    int64_t ranks = 0;
    PlanOptions *o = &asked->options;
    asked->arguments = arguments;
    asked->arm_count = 1;
    const char *varied;
    for (int i = 0; (varied = command_repeated(arguments, "--vary", i)); i++) {
        if (i == MOST_VARIED)
            return command_misuse(arguments) || error_set(error, "--vary: more than %d keys", MOST_VARIED);
        if (!read_varied(asked, varied, error)) return command_misuse(arguments);
    }
    if (!command_integer(arguments, "--ranks", &ranks, 1, PLAN_MOST_RANKS, error) ||
        !command_integer(arguments, "--tp", &asked->tensor, 1, PLAN_MOST_RANKS, error) ||
        !command_integer(arguments, "--prompt-tokens", &o->prompt_tokens, 1, INT32_MAX, error) ||
        !command_integer(arguments, "--answer-tokens", &o->answer_tokens, 1, INT32_MAX, error) ||
        !command_size(arguments, "--fit", &asked->fit, error) ||
        !read_machine(&o->machine, arguments, asked->arena, error))
        return false;
    o->ranks = (int)ranks;
    o->memory_only = command_switch(arguments, "--memory-only");
    // Side by side only memory is printed.
    if (asked->varied && !command_switch(arguments, "--json")) o->memory_only = true;
    if (asked->fit && asked->varied)
        return command_misuse(arguments) || error_set(error, "--fit and --vary: one recipe is fitted at a time");
    return true;
}

static const char *short_value(const char *value) {
    size_t length = strlen(value);
    return length > 24 ? value + length - 24 : value;
}

// The recipe with what the arm sets.
static bool load_arm(PlanArm *arm, const Asked *asked, int number, Error *error) {
    const Arguments *arguments = asked->arguments;
    int given = arguments->operand_count - 1, count = given;
    char **overrides = arena_array(asked->arena, char *, given + MOST_VARIED + 3);
    memcpy(overrides, arguments->operands + 1, (size_t)given * sizeof *overrides);
    if (asked->tensor) {
        static const char *const keys[] = {"policy.automodel_cfg", "policy.generation.vllm_cfg"};
        for (int i = 0; i < 2; i++)
            overrides[count++] =
                arena_format(asked->arena, "%s.tensor_parallel_size=%lld", keys[i], (long long)asked->tensor);
    }
    arm->label = arm->short_label = "";
    for (int k = asked->varied; k-- > 0;) { // the last key varies fastest
        const char *value = asked->values[k][number % asked->value_counts[k]];
        number /= asked->value_counts[k];
        overrides[count++] = arena_format(asked->arena, "%s=%s", asked->keys[k], value);
        arm->label = arena_format(asked->arena, "%s=%s%s%s", asked->keys[k], value, *arm->label ? " " : "", arm->label);
        arm->short_label =
            arena_format(asked->arena, "%s%s%s", short_value(value), *arm->short_label ? "/" : "", arm->short_label);
    }
    Settings *settings;
    if (!settings_load(&settings, asked->arena, arguments->operands[0], count, overrides, error)) return false;
    if (asked->tensor && settings->megatron.enabled) { // which the recipe alone tells
        overrides[count++] =
            arena_format(asked->arena, "%s=%lld", settings_tensor_key(settings), (long long)asked->tensor);
        if (!settings_load(&settings, asked->arena, arguments->operands[0], count, overrides, error)) return false;
    }
    arm->settings = settings;
    arm->overrides = overrides;
    arm->override_count = count;
    return true;
}

static void print_json(const PlanArm *arms, int count, const PlanFit *fit, const PlanOptions *options) {
    json_t *all = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(all, plan_report_json(&arms[i], options));
    json_t *whole = json_pack("{s:o}", "arms", all);
    if (fit->memory) json_object_set_new(whole, "fit", plan_fit_json(fit));
    char *text = json_dumps(whole, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    puts(text);
    free(text);
    json_decref(whole);
}

static void print_text(const PlanArm *arms, int count, const PlanFit *fit, const PlanOptions *options) {
    StrBuf text = {0};
    if (count > 1)
        plan_report_arms(&text, arms, count);
    else
        plan_report_one(&text, arms, options);
    if (fit->memory) plan_fit_text(&text, fit, arms);
    fwrite(text.text, 1, text.length, stdout);
    strbuf_close(&text);
}

static bool run_plan(Arguments *arguments, Error *error) {
    Arena arena = {0};
    Asked asked = {.arena = &arena};
    log_set_level(LOG_WARNINGS);
    bool good = read_asked(&asked, arguments, error);
    PlanArm *arms = arena_array(&arena, PlanArm, good ? asked.arm_count : 1);
    for (int i = 0; good && i < asked.arm_count; i++)
        good =
            load_arm(&arms[i], &asked, i, error) && plan_make(&arms[i].plan, arms[i].settings, &asked.options, error);
    PlanFit fit = {0};
    good = good && (!asked.fit || plan_fit(&fit, (uint64_t)asked.fit, arms, &asked.options, &arena, error));
    if (good && command_switch(arguments, "--json"))
        print_json(arms, asked.arm_count, &fit, &asked.options);
    else if (good)
        print_text(arms, asked.arm_count, &fit, &asked.options);
    arena_close(&arena);
    return good;
}

const Command plan_command = {
    .verb = "plan",
    .operands = "RECIPE [key=value…]",
    .summary = "Says what a step of a recipe takes, without the machine that takes it: memory, work, time.",
    .min_operands = 1,
    .max_operands = -1,
    .details =
        "The step itself runs on a device that allocates nothing, as a rank of as many as asked for; what its ledger "
        "counts is what a run counts, to the byte (docs/plan.md). policy.model_name needs no weights: a well-known "
        "model is known by its name, of any other the config.json is enough. Data and rewards are not read.",
    .examples = "whet plan recipes/gsm8k.yaml\n"
                "whet plan recipes/gsm8k.yaml policy.model_name=Qwen/Qwen2.5-7B --machine h100\n"
                "whet plan recipes/gsm8k.yaml --vary policy.automodel_cfg.fsdp_output_dtype=float32,bfloat16\n"
                "whet plan recipes/gsm8k.yaml --vary policy.train_micro_batch_size=1,4,16 --json",
    .options = {{"--ranks", "N", "ranks in all (default: cluster.gpus_per_node · cluster.num_nodes of the recipe)"},
                {"--tp", "N", "ranks that share each matrix, in training and sampling"},
                {"--vary", "KEY=A,B…", "plan the recipe with each value, side by side; several keys: each with each"},
                {"--fit", "SIZE",
                 "what fits into so much memory (80GiB): the largest micro-batch, the longest sequences, what helps"},
                {"--json", NULL, "one JSON object, in bytes"},
                {"--memory-only", NULL, "no work and no time: sooner"},
                {"lengths", NULL, NULL},
                {"--prompt-tokens", "N", "of every prompt (default: what the recipe leaves beside the longest answer)"},
                {"--answer-tokens", "N", "of every answer (default: as long as the recipe allows)"},
                {"estimate of time", NULL, NULL},
                {"--machine", "a100|h100|h200|b200|mi300x|l40s|rtx4090|this",
                 "device of a rank, by its maker's figures; this: measured here as `whet bench` does"},
                {"--tflops", "N", "10¹² operations of matrix products in a second, in place of the machine's"},
                {"--bandwidth", "N", "GB/s from memory, likewise"},
                {"--link", "N", "GB/s to other ranks, likewise"}},
    .run = run_plan,
};
