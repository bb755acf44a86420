// whet compare: arms of a toy model trained and compared, what is refused, and what the summary says against the runs' own files.
#include "base/file.h"
#include "base/jsonio.h"
#include "base/log.h"
#include "run/compare_document.h"
#include "run/compare_pairs.h"
#include "run/compare_plan.h"
#include "run/compare_plot.h"
#include "run/compare_summary.h"
#include "run/compare_table.h"
#include "support/toy_model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

// What fontconfig keeps to the end of the program is no leak of ours.
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
    return "leak:libfontconfig";
}

static Arena arena;
static Error error;
static char folder[64];
static const char *const command[] = {"recipe.yaml", "--vary", "a=1,2", "policy.model_name=/somewhere/model.gguf",
                                      "b=it's",      NULL};

enum { STEPS = 3, QUESTIONS = 12 };

static const char recipe[] =
    "grpo: {num_prompts_per_step: 2, num_generations_per_prompt: 4, max_num_steps: 3, max_num_epochs: 1000,\n"
    "       val_period: 3, val_at_start: true, max_val_samples: 12, val_batch_size: 12}\n"
    "policy:\n"
    "  precision: float32\n"
    "  train_global_batch_size: ${mul:${grpo.num_prompts_per_step},${grpo.num_generations_per_prompt}}\n"
    "  max_total_sequence_length: 96\n"
    "  generation: {max_new_tokens: 12, val_temperature: 1.0}\n"
    "  optimizer: {kwargs: {lr: 1.0e-3}}\n"
    "checkpointing: {save_period: 1}\n"
    "data:\n"
    "  train: {dataset_name: arithmetic, left: [0, 9], right: [0, 9], split_validation_size: 12}\n"
    "  default: {env_name: last_integer}\n";

static const char *path(const char *name) {
    return arena_format(&arena, "%s/%s", folder, name);
}

static int teardown(void **state) {
    (void)state;
    file_remove_tree(folder, &error);
    arena_close(&arena);
    return 0;
}

static bool of_recipe(Comparison *c, const char *name, const char *vary, const char *seeds, const char *more) {
    char *overrides[2] = {arena_format(&arena, "policy.model_name=%s", path("model")),
                          arena_string(&arena, more ? more : "")};
    return compare_arms_of_recipe(c, path("recipe.yaml"), vary, seeds, more ? 2 : 1, overrides, path(name), &arena,
                                  &error);
}

static void train(Comparison *c) {
    Comm self = comm_self();
    int stop;
    if (!compare_arms_train(c, &self, &stop, &error)) fail_msg("%s", error.text);
    assert_int_equal(stop, 0);
}

// Trains what the other tests read: the learning rate varied over two seeds, and the output dtype.
static int setup(void **state) {
    (void)state;
    Comparison c;
    Comm self = comm_self();
    int stop;
    log_set_level(LOG_QUIET);
    snprintf(folder, sizeof folder, "/tmp/whet-compare-%d", (int)getpid());
    return toy_model_write(path("model"), MODEL_LLAMA, 1, &error) &&
                   file_write(path("recipe.yaml"), recipe, strlen(recipe), &error) &&
                   of_recipe(&c, "lr", "policy.optimizer.kwargs.lr=1e-3,0.5", "1,2", NULL) &&
                   compare_arms_train(&c, &self, &stop, &error) &&
                   of_recipe(&c, "dtype", "policy.automodel_cfg.fsdp_output_dtype=float32,bfloat16", NULL, NULL) &&
                   compare_arms_train(&c, &self, &stop, &error)
               ? 0
               : (fprintf(stderr, "%s\n", error.text), -1);
}

static void refused(bool good, const char *part) {
    if (good) fail_msg("not refused: %s", part);
    if (!strstr(error.text, part)) fail_msg("\"%s\" does not say \"%s\"", error.text, part);
}

static void refuse_recipe(const char *vary, const char *seeds, const char *more, const char *part) {
    Comparison c;
    refused(of_recipe(&c, "refused", vary, seeds, more) && compare_arms_check(&c, &error), part);
    assert_false(file_exists(path("refused")));
}

static void test_refused_before_running(void **state) {
    (void)state;
    refuse_recipe("grpo.seed", NULL, NULL, "expected KEY=A,B");
    refuse_recipe("policy.optimizer.kwargs.lr=1e-3", NULL, NULL, "expected KEY=A,B");
    refuse_recipe("policy.optimizer.kwargs.lr=1e-3,,1e-4", NULL, NULL, "expected KEY=A,B");
    refuse_recipe("policy.optimizer.kwargs.lrr=1e-3,1e-4", NULL, NULL, "unknown key");
    refuse_recipe("policy.optimizer.kwargs.lr=1e-3,quick", NULL, NULL, "quick");
    refuse_recipe("policy.optimizer.kwargs.lr=1e-3,0.001", NULL, NULL, "come to the same settings");
    refuse_recipe("policy.optimizer.kwargs.lr=1e-3,1e-4", "1,1", NULL, "--seeds is '1,1'");
    refuse_recipe("policy.optimizer.kwargs.lr=1e-3,1e-4", "1,x", NULL, "--seeds is '1,x'");
    refuse_recipe("policy.optimizer.kwargs.lr=1e-3,1e-4", NULL, "grpo.val_at_start=false",
                  "give grpo.val_at_start=true");
    refuse_recipe("policy.optimizer.kwargs.lr=1e-3,1e-4", NULL, "grpo.val_period=2", "give grpo.val_at_end=true");
    refuse_recipe("policy.optimizer.kwargs.lr=1e-3,1e-4", NULL, "grpo.val_period=0", "");
    refuse_recipe("grpo.num_prompts_per_step=2,4", NULL, NULL, "batches of 2 and 4 prompts cannot be paired");
    refuse_recipe("grpo.max_num_steps=3,6", NULL, NULL, "runs of 3 and 6 steps cannot be paired");
    refuse_recipe("policy.optimizer.kwargs.lr=1e-3,1e-4", NULL, "grpo.use_dynamic_sampling=true",
                  "could not be paired");
    static const char *const unlike[] = {"grpo.seed=1,2",
                                         "data.shuffle=true,false",
                                         "data.train.left=[0,9],[0,8]",
                                         "data.train.seed=1,2",
                                         "data.train.max_samples=null,50",
                                         "data.train.split_validation_size=12,14",
                                         "data.default.prompt_file=null,x",
                                         "grpo.val_num_generations_per_prompt=1,2",
                                         "grpo.val_period=3,1"};
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++)
        refuse_recipe(unlike[i], NULL, NULL, "so arms that differ in it cannot be paired");
    refuse_recipe("grpo.seed=1,2", NULL, NULL,
                  "grpo.seed decides which questions are asked and in which order, so arms that differ in it cannot be "
                  "paired; --seeds 1,2 runs every value of another key with each seed");
    refuse_recipe("grpo.seed=1,2", "1,2", NULL, "grpo.seed decides which questions");
    refuse_recipe("data.train={left:[0,9]},{left:[0,8]}", "1,2", NULL, "data.train decides which questions");
    Comparison c; // a folder of another comparison
    refused(of_recipe(&c, "lr", "policy.optimizer.kwargs.lr=1e-3,0.5", "1,2", "grpo.num_prompts_per_step=4") &&
                compare_arms_check(&c, &error),
            "holds a run by another recipe: grpo.num_prompts_per_step was 2 and is 4 now; choose another --out");
}

static void test_keys_that_follow(void **state) {
    (void)state;
    Comparison c;
    if (!of_recipe(&c, "follow", "grpo.num_prompts_per_step=2,4", "5,6", NULL)) fail_msg("%s", error.text);
    assert_string_equal(c.following, "policy.train_global_batch_size");
    assert_int_equal(c.value_count * c.seed_count, 4);
    if (!of_recipe(&c, "follow", "policy.optimizer.kwargs.betas=[0.9,0.999],[0.8,0.99]", NULL, NULL))
        fail_msg("%s", error.text);
    assert_int_equal(c.value_count, 2);
    assert_string_equal(c.values[1], "[0.8, 0.99]");
    if (!of_recipe(&c, "follow", "policy.dtensor_cfg.fsdp_output_dtype=float32,bfloat16", NULL, NULL))
        fail_msg("%s", error.text);
    assert_string_equal(c.key, "policy.automodel_cfg.fsdp_output_dtype");
}

// A key that is nothing but the default of another.
static void test_keys_that_act_through_others(void **state) {
    (void)state;
    Comparison c;
    if (!of_recipe(&c, "through", "grpo.normalize_rewards=true,false", NULL, NULL) || !compare_arms_check(&c, &error))
        fail_msg("%s", error.text);
    assert_string_equal(c.following, "grpo.adv_estimator.normalize_rewards");
}

// A mapping that is told as a whole, in which one key is varied.
static void test_keys_within_a_mapping(void **state) {
    (void)state;
    Comparison c;
    if (!of_recipe(&c, "within", "+env.judge.command=[a],[b]", NULL, "+env.judge.timeout_seconds=5") ||
        !compare_arms_check(&c, &error))
        fail_msg("%s", error.text);
    assert_string_equal(c.key, "env.judge.command");
    assert_string_equal(c.values[1], "[b]");
}

static void test_keys_that_act_before_training(void **state) {
    (void)state;
    assert_true(compare_pairs_key_is_forward("policy.automodel_cfg.fsdp_output_dtype"));
    assert_true(compare_pairs_key_is_forward("policy.automodel_cfg")); // a group with such a key
    assert_true(compare_pairs_key_is_forward("policy.generation.val_top_p"));
    assert_true(compare_pairs_key_is_forward("whet.min_p"));
    assert_true(compare_pairs_key_is_forward("policy.max_total_sequence_length"));
    assert_false(compare_pairs_key_is_forward("policy.optimizer.kwargs.lr"));
    assert_false(compare_pairs_key_is_forward("policy.precision_of_something_else"));
}

// What says already that the arm's folder is at fault does not name it twice.
static void test_folder_is_named_once(void **state) {
    (void)state;
    Comparison c;
    Comm self = comm_self();
    int stop;
    assert_true(file_write(path("file"), "", 0, &error));
    if (!of_recipe(&c, "file", "policy.optimizer.kwargs.lr=1e-3,0.5", NULL, NULL)) fail_msg("%s", error.text);
    refused(compare_arms_train(&c, &self, &stop, &error), ": cannot make the folder: Not a directory");
    assert_string_equal(error.text,
                        arena_format(&arena, "%s: cannot make the folder: Not a directory", path("file/1e-3")));
    if (!of_recipe(&c, "else", "policy.optimizer.kwargs.lr=1e-3,0.5", NULL, "policy.model_name=nowhere"))
        fail_msg("%s", error.text);
    refused(compare_arms_train(&c, &self, &stop, &error), arena_format(&arena, "%s: ", path("else/1e-3")));
}

// --- the summary against the runs' files ------------------------------------------------------------------------------

static json_t *summary_of(const Comparison *c, int64_t warm_up) {
    CompareOptions options = {.margin = 0.02, .warm_up = warm_up};
    json_t *summary = compare_summary(c, &options, command, &error);
    if (!summary) fail_msg("%s", error.text);
    return summary;
}

static Comparison of_lr(void) {
    Comparison c;
    if (!of_recipe(&c, "lr", "policy.optimizer.kwargs.lr=1e-3,0.5", "1,2", NULL)) fail_msg("%s", error.text);
    train(&c);
    return c;
}

static char *text_of(const char *name) {
    char *text;
    if (!file_read(&text, NULL, &arena, path(name), &error)) fail_msg("%s", error.text);
    return text;
}

// Mean reward of the held-out answers in a file, and how many there are.
static double mean_reward(const char *name, int *count) {
    double sum = 0;
    *count = 0;
    for (char *rest = text_of(name), *line; (line = strsep(&rest, "\n")) && *line; ++*count) {
        json_t *value = json_loads(line, 0, NULL);
        sum += json_number_value(json_object_get(value, "rewards"));
        json_decref(value);
    }
    return sum / *count;
}

static const json_t *at(const json_t *value, const char *keys) {
    char *rest = arena_string(&arena, keys);
    for (const char *key; value && (key = strsep(&rest, "."));)
        value =
            json_is_array(value) ? json_array_get(value, (size_t)strtoul(key, NULL, 10)) : json_object_get(value, key);
    if (!value) fail_msg("the summary has no %s", keys);
    return value;
}

static double number(const json_t *value, const char *keys) {
    return json_number_value(at(value, keys));
}

static void near(double found, double expected) {
    if (!(fabs(found - expected) < 1e-9)) fail_msg("%.12g, not %.12g", found, expected);
}

static void test_summary_is_that_of_the_files(void **state) {
    (void)state;
    Comparison c = of_lr();
    json_t *summary = summary_of(&c, 1);
    int count;
    double before[2], after[2];
    for (int s = 0; s < 2; s++) {
        before[s] = mean_reward(arena_format(&arena, "lr/1e-3_seed%d/val_data_step3.jsonl", s + 1), &count);
        after[s] = mean_reward(arena_format(&arena, "lr/0.5_seed%d/val_data_step3.jsonl", s + 1), &count);
        assert_int_equal(count, QUESTIONS);
        near(number(summary, arena_format(&arena, "differences.0.by_seed.%d.effect", s)), after[s] - before[s]);
    }
    near(number(summary, "differences.0.effect"), (after[0] - before[0] + after[1] - before[1]) / 2);
    near(number(summary, "accuracy.1.by_value.1"), (after[0] + after[1]) / 2);
    assert_int_equal(number(summary, "accuracy.1.step"), STEPS);
    assert_int_equal(number(summary, "questions"), QUESTIONS);
    assert_string_equal(json_string_value(at(summary, "differences.0.verdict")), "not decided"); // 12 questions
    assert_int_equal(number(summary, "proofs.initial.0.differing"), 0);
    double mb = 0, validate = 0; // the latter in the last step only
    for (int s = 1; s <= 2; s++) {
        json_t *memory = json_loads(text_of(arena_format(&arena, "lr/0.5_seed%d/memory.json", s)), 0, NULL);
        for (int step = 2; step <= STEPS; step++)
            mb += fmax(number(memory, arena_format(&arena, "%d.peak_by_phase.forward.total", step - 1)),
                       number(memory, arena_format(&arena, "%d.peak_by_phase.backward.total", step - 1))) /
                  0x1p22;
        validate += number(memory, arena_format(&arena, "%d.peak_by_phase.validate.total", STEPS - 1)) / 0x1p21;
        json_decref(memory);
    }
    near(number(summary, "memory.0.by_value.1.peak_mb"), mb);
    near(number(summary, "memory.0.by_value.1.by_phase_mb.validate"), validate);
    assert_int_equal(number(summary, "memory.0.by_value.1.updates"), 4);
    const json_t *arm = at(summary, "arms.3");
    near(number(arm, "reward_average.2"),
         (number(arm, "reward.0") + number(arm, "reward.1") + number(arm, "reward.2")) / 3);
    json_decref(summary);
}

static void test_output_dtype_acts_before_training(void **state) {
    (void)state;
    Comparison c;
    if (!of_recipe(&c, "dtype", "policy.automodel_cfg.fsdp_output_dtype=float32,bfloat16", NULL, NULL))
        fail_msg("%s", error.text);
    train(&c);
    json_t *summary = summary_of(&c, 1);
    StrBuf text = {0};
    compare_table_all(&text, summary);
    assert_non_null(strstr(text.text, "answers are not the baseline's (the key acts on the model's forward pass)"));
    assert_non_null(strstr(text.text, "with one seed, what another would change is not known"));
    assert_non_null(strstr(text.text, "alive at it: unit_output"));
    assert_non_null(strstr(text.text, "float32, bfloat16; seed 42. 3 updates"));
    assert_non_null(strstr(text.text, "as wide as 12 questions leave it"));
    assert_true(number(summary, "proofs.initial.0.differing") > 0);
    assert_true(json_is_null(at(summary, "differences.0.interval_seeds.0")));
    strbuf_close(&text);
    json_decref(summary);
}

// --- runs that exist --------------------------------------------------------------------------------------------------

static bool of_runs(Comparison *c, const char *key, const char *const *names) {
    char *paths[8];
    int count = 0;
    for (; names[count]; count++) paths[count] = arena_string(&arena, path(names[count]));
    return compare_arms_of_runs(c, count, paths, key, NULL, &arena, &error);
}
#define RUNS(c, key, ...) of_runs(c, key, (const char *const[]){__VA_ARGS__, NULL})

static void test_runs_that_exist(void **state) {
    (void)state;
    Comparison trained = of_lr(), c;
    if (!RUNS(&c, NULL, "lr/1e-3_seed1", "lr/1e-3_seed2", "lr/0.5_seed2", "lr/0.5_seed1")) fail_msg("%s", error.text);
    assert_string_equal(c.key, "policy.optimizer.kwargs.lr");
    json_t *one = summary_of(&trained, 1), *other = summary_of(&c, 1);
    assert_true(json_equal(at(one, "differences"), at(other, "differences")));
    assert_true(json_equal(at(one, "memory"), at(other, "memory")));
    json_decref(one), json_decref(other);
    refused(RUNS(&c, NULL, "lr/1e-3_seed1"), "is one run");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "model"), "is no run");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "lr/1e-3_seed2"), "nothing to compare");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "lr/1e-3_seed2", "lr/0.5_seed1"), "no run has");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "lr/0.5_seed1", "lr/0.5_seed1"), "both have");
    refused(RUNS(&c, "policy.precision", "lr/1e-3_seed1", "lr/0.5_seed1"), "policy.precision is float32 in every run");
    refused(RUNS(&c, "policy.precisoin", "lr/1e-3_seed1", "lr/0.5_seed1"),
            "--vary is 'policy.precisoin'; there is no such setting; did you mean policy.precision?");
    refused(RUNS(&c, "unknown.key", "lr/1e-3_seed1", "lr/0.5_seed1"),
            "--vary is 'unknown.key'; there is no such setting");
    refused(RUNS(&c, "", "lr/1e-3_seed1", "lr/0.5_seed1"), "--vary is ''; there is no such setting");
    refused(RUNS(&c, "env.judge.command", "lr/1e-3_seed1", "lr/0.5_seed1"), "env.judge.command is given in no run");
    refused(RUNS(&c, "grpo.seed", "lr/1e-3_seed1", "lr/1e-3_seed2"), "grpo.seed decides which questions are asked");
}

// A copy of lr/0.5_seed1 as `name`, in which the first `before` of a file has become `after`.
static void tamper(const char *name, const char *file, const char *before, const char *after) {
    static const char *const files[] = {"config.yaml",
                                        "metrics.jsonl",
                                        "memory.json",
                                        "environment.json",
                                        "val_data_step0.jsonl",
                                        "val_data_step3.jsonl",
                                        "train_data_step1.jsonl",
                                        "train_data_step2.jsonl",
                                        "train_data_step3.jsonl"};
    assert_true(file_make_folders(path(name), &error));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *text = text_of(arena_format(&arena, "lr/0.5_seed1/%s", files[i]));
        if (!strcmp(file, files[i])) {
            const char *found = strstr(text, before);
            if (!found) fail_msg("%s has no %s", file, before);
            text = arena_format(&arena, "%.*s%s%s", (int)(found - text), text, after, found + strlen(before));
        }
        assert_true(file_write(arena_format(&arena, "%s/%s", path(name), files[i]), text, strlen(text), &error));
    }
}

static void test_what_runs_must_show(void **state) {
    (void)state;
    Comparison c;
    tamper("same", "config.yaml", "", "");
    if (!RUNS(&c, NULL, "lr/1e-3_seed1", "same")) fail_msg("%s", error.text);
    tamper("key", "config.yaml", "max_grad_norm: 1.0", "max_grad_norm: 2.0");
    refused(RUNS(&c, "policy.optimizer.kwargs.lr", "lr/1e-3_seed1", "key"),
            "differ in a second key besides policy.optimizer.kwargs.lr: policy.max_grad_norm is 1.0 and 2.0");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "key"), "differ in a second key");
    tamper("answer", "val_data_step0.jsonl", "\"length\":", "\"length\":1");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "answer"),
            "do not begin alike: 1 of 12 records of the validation before training");
    tamper("question", "val_data_step0.jsonl", "\"idx\":0", "\"idx\":77");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "question"), "asked different questions");
    tamper("prompt", "train_data_step2.jsonl", "\"content\":\"", "\"content\":\"Please: ");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "prompt"), "the prompts of step 2 are not the same");
    tamper("model_digest", "environment.json", "\"model_digest\": \"", "\"model_digest\": \"0");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "model_digest"), "began with different models");
    tamper("data_digest", "environment.json", "\"data_digest\": \"", "\"data_digest\": \"0");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "data_digest"), "different questions");
    tamper("longer", "config.yaml", "max_num_steps: 3", "max_num_steps: 4");
    refused(RUNS(&c, "policy.optimizer.kwargs.lr", "lr/1e-3_seed1", "longer"), "");
    tamper("validation", "metrics.jsonl", "\"validation/accuracy\"", "\"validation/other\"");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "validation"), "no validation before its first step");
    tamper("metrics", "metrics.jsonl", "{\"step\":2", "{\"step\":7");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "metrics"), "step 7 follows step 1");
    tamper("memory", "memory.json", "\"step\":2", "\"step\":9");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "memory"), "memory.json: the memory of step 2 is missing");
    tamper("rank", "memory.json", "\"rank\":0", "\"rank\":2000000000");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "rank"), "memory.json: rank 2000000000 among 3 entries");
    tamper("object", "memory.json", "[", "{\"step\":[");
    assert_true(file_write(path("object/memory.json"), "{}", 2, &error));
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "object"), "memory.json: expected a list of objects");
    tamper("conversation", "train_data_step2.jsonl", "\"content\":[", "\"said\":[");
    refused(RUNS(&c, NULL, "lr/1e-3_seed1", "conversation"),
            "train_data_step2.jsonl:1: expected a conversation under 'content'");
}

static void test_what_could_not_be_scored_is_left_out(void **state) {
    (void)state;
    Comparison c;
    tamper("unscored", "val_data_step3.jsonl", "\"rewards\":0.0", "\"rewards\":null");
    if (!RUNS(&c, NULL, "lr/1e-3_seed1", "unscored")) fail_msg("%s", error.text);
    json_t *summary = summary_of(&c, 1);
    assert_int_equal(number(summary, "differences.0.left_out"), 1);
    assert_int_equal(number(summary, "differences.0.questions"), QUESTIONS - 1);
    json_decref(summary);
}

// Two answers a question: their mean counts, and there is no McNemar's test.
static void test_several_answers(void **state) {
    (void)state;
    Comparison c;
    if (!of_recipe(&c, "two", "policy.optimizer.kwargs.lr=1e-3,0.5", NULL, "grpo.val_num_generations_per_prompt=2"))
        fail_msg("%s", error.text);
    train(&c);
    json_t *summary = summary_of(&c, 1);
    int count;
    double before = mean_reward("two/1e-3/val_data_step3.jsonl", &count),
           after = mean_reward("two/0.5/val_data_step3.jsonl", &count);
    assert_int_equal(count, 2 * QUESTIONS);
    near(number(summary, "differences.0.effect"), after - before);
    assert_int_equal(number(summary, "differences.0.questions"), QUESTIONS);
    assert_true(json_is_null(at(summary, "differences.0.by_seed.0.mcnemar_p")));
    json_decref(summary);
}

// A run that ended too early is refused among runs, and goes on among arms.
static void test_incomplete(void **state) {
    (void)state;
    Comparison c;
    if (!of_recipe(&c, "longer", "policy.optimizer.kwargs.lr=1e-3,0.5", NULL, NULL)) fail_msg("%s", error.text);
    train(&c);
    if (!of_recipe(&c, "longer", "policy.optimizer.kwargs.lr=1e-3,0.5", NULL, "grpo.max_num_steps=6"))
        fail_msg("%s", error.text);
    train(&c);
    assert_int_equal(c.arms[0].record.step_count, 6);
    assert_int_equal(c.arms[1].record.validation_count, 3);
    char *text = text_of("longer/0.5/metrics.jsonl"), *last = strstr(text, "{\"step\":6");
    assert_true(file_write(path("longer/0.5/metrics.jsonl"), text, (size_t)(last - text), &error));
    refused(RUNS(&c, NULL, "longer/1e-3", "longer/0.5"), "longer/0.5 is incomplete: 5 of 6 steps");
}

// --- what is shown ----------------------------------------------------------------------------------------------------

static void test_pictures(void **state) {
    (void)state;
    Comparison c = of_lr();
    json_t *summary = summary_of(&c, 0);
    if (!compare_plot_write(summary, path("lr"), &error)) fail_msg("%s", error.text);
    static const char *const names[] = {"curves", "memory"};
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(text_of(arena_format(&arena, "lr/%s.png", names[i])), "\x89PNG\r\n", 6);
        const char *svg = text_of(arena_format(&arena, "lr/%s.svg", names[i]));
        assert_non_null(strstr(svg, "<svg "));
        assert_non_null(strstr(svg, "</svg>"));
    }
    refused(compare_plot_write(summary, path("nowhere"), &error), "nowhere");
    json_decref(summary);
}

static int height_of_curves(void) {
    const char *svg = text_of("lr/curves.svg"), *height = strstr(svg, " height=\"");
    assert_non_null(height);
    return atoi(height + strlen(" height=\""));
}

// Names that are too many or too long for one line of the legend take more lines; one that is wider than the paper is cut.
static void test_long_legends(void **state) {
    (void)state;
    Comparison c = of_lr();
    json_t *summary = summary_of(&c, 0), *values = json_array(), *arm;
    int heights[3];
    size_t i;
    for (int round = 0; round < 3; round++) {
        char long_name[301] = {0};
        for (int k = 0; k < 100; k++) memcpy(long_name + 3 * k, "\xe2\x82\xac", 3);
        if (round == 1)
            for (int v = 0; v < 6; v++)
                json_array_append_new(values, json_sprintf("a value with a rather long name %d", v));
        if (round == 2) {
            json_array_clear(values);
            json_array_append_new(values, json_string(long_name));
            json_array_append_new(values, json_string(long_name));
        }
        if (round) json_object_set(summary, "values", values);
        json_array_foreach(json_object_get(summary, "arms"), i, arm) if (round)
            json_object_set(arm, "value", json_array_get(values, i % json_array_size(values)));
        if (!compare_plot_write(summary, path("lr"), &error)) fail_msg("%s", error.text);
        heights[round] = height_of_curves();
    }
    assert_true(heights[0] < heights[2] && heights[2] <= heights[1]);
    json_decref(values);
    json_decref(summary);
}

static void test_plan(void **state) {
    (void)state;
    Comparison c;
    PlanOptions options = {.ranks = 1, .memory_only = true, .prompt_tokens = 20, .answer_tokens = 8};
    if (!of_recipe(&c, "dtype", "policy.automodel_cfg.fsdp_output_dtype=float32,bfloat16", NULL,
                   "grpo.val_at_start=false"))
        fail_msg("%s", error.text);
    json_t *summary = compare_plan(&c, &options, command, &error);
    if (!summary) fail_msg("%s", error.text);
    Plan plan;
    if (!plan_make(&plan, c.arms[1].settings, &options, &error)) fail_msg("%s", error.text);
    near(number(summary, "memory.0.by_value.1.peak_mb"), (double)plan.update_peak.total / 0x1p20);
    near(number(summary, "memory.0.by_value.1.at_peak_mb.activation"),
         (double)plan.update_peak.by_tag[MEMORY_ACTIVATION] / 0x1p20);
    assert_true(number(summary, "memory.0.by_value.0.peak_mb") != number(summary, "memory.0.by_value.1.peak_mb"));
    StrBuf text = {0};
    assert_true(compare_table_part(&text, summary, "memory", &error));
    assert_non_null(strstr(text.text, "planned: 8 samples, prompts of 20 and answers of 8 tokens."));
    refused(compare_table_part(&text, summary, "accuracy", &error), "a plan has no part 'accuracy'");
    if (!compare_plot_write(summary, path("lr"), &error)) fail_msg("%s", error.text);
    assert_true(file_exists(path("lr/plan.png")));
    strbuf_close(&text);
    json_decref(summary);
    options.prompt_tokens = 1000;
    assert_null(compare_plan(&c, &options, command, &error));
}

static void put_document(const char *text) {
    assert_true(file_write(path("lr/document.md"), text, strlen(text), &error));
}

static void test_documents(void **state) {
    (void)state;
    Comparison c = of_lr();
    json_t *summary = summary_of(&c, 1);
    assert_true(jsonio_write(summary, path("lr/summary.json"), &error));
    json_decref(summary);
    put_document("# A title\n\n<!-- compare summary.json verdict -->\nold <!-- /compare -->\nIt is <!-- compare "
                 "summary.json key -->x<!-- "
                 "/compare --> over <!-- compare summary.json steps -->99<!-- /compare --> updates.\n\n<!-- compare "
                 "summary.json "
                 "command -->\n<!-- /compare -->\nThe end.\n");
    for (int again = 0; again < 2; again++) {
        if (!compare_document_write(path("lr/document.md"), &error)) fail_msg("%s", error.text);
        const char *text = text_of("lr/document.md");
        assert_non_null(strstr(text, "- **0.5 against 0.001: not decided**"));
        assert_non_null(
            strstr(text, "It is <!-- compare summary.json key -->policy.optimizer.kwargs.lr<!-- /compare --> over <!-- "
                         "compare summary.json steps -->3<!-- /compare --> updates.\n"));
        assert_non_null(
            strstr(text, "\n    whet compare recipe.yaml --vary a=1,2 policy.model_name=…/model.gguf 'b=it'\\''s'\n"));
        assert_null(strstr(text, "old"));
        assert_string_equal(strstr(text, "The end."), "The end.\n");
    }
    put_document("<!-- compare summary.json verdikt -->\n<!-- /compare -->\n");
    refused(compare_document_write(path("lr/document.md"), &error),
            "lr/summary.json: a comparison has no part 'verdikt'; did you mean 'verdict'?");
    put_document("\n<!-- compare summary.json verdict -->\n");
    refused(compare_document_write(path("lr/document.md"), &error), "line 2: the mark is not closed");
    put_document("\n<!-- compare other.json verdict -->\n<!-- /compare -->\n");
    refused(compare_document_write(path("lr/document.md"), &error), "other.json");
    put_document("<!-- compare wrong.json command -->\n<!-- /compare -->\n");
    static const char *const wrong[][2] = {
        {"[]", "key"},
        {"{\"key\":\"k\",\"baseline\":\"a\",\"values\":[1],\"command\":[],\"memory\":[]}", "values"},
        {"{\"key\":\"k\",\"baseline\":\"a\",\"values\":[\"a\"],\"command\":[null],\"memory\":[]}", "command"},
        {"{\"key\":\"k\",\"baseline\":\"a\",\"values\":[\"a\"],\"command\":[],\"memory\":[{\"by_value\":[]}]}",
         "by_value"},
        {"{\"key\":\"k\",\"baseline\":\"a\",\"values\":[\"a\"],\"command\":[],\"memory\":[]}", "seeds"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_true(file_write(path("lr/wrong.json"), wrong[i][0], strlen(wrong[i][0]), &error));
        refused(compare_document_write(path("lr/document.md"), &error),
                arena_format(&arena, "wrong.json: no summary of a comparison: '%s' is missing or of another kind",
                             wrong[i][1]));
    }
    put_document("<!-- compare summary.json differences.0 -->x<!-- /compare -->\n");
    refused(compare_document_write(path("lr/document.md"), &error), "no text or number 'differences.0'");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_before_running),
        cmocka_unit_test(test_keys_that_follow),
        cmocka_unit_test(test_keys_that_act_through_others),
        cmocka_unit_test(test_keys_within_a_mapping),
        cmocka_unit_test(test_keys_that_act_before_training),
        cmocka_unit_test(test_folder_is_named_once),
        cmocka_unit_test(test_summary_is_that_of_the_files),
        cmocka_unit_test(test_output_dtype_acts_before_training),
        cmocka_unit_test(test_runs_that_exist),
        cmocka_unit_test(test_what_runs_must_show),
        cmocka_unit_test(test_what_could_not_be_scored_is_left_out),
        cmocka_unit_test(test_several_answers),
        cmocka_unit_test(test_incomplete),
        cmocka_unit_test(test_pictures),
        cmocka_unit_test(test_long_legends),
        cmocka_unit_test(test_plan),
        cmocka_unit_test(test_documents),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
