// What a run writes beside its metrics: memory.json, environment.json, the columns of its samples.
#include "base/file.h"
#include "base/jsonio.h"
#include "base/log.h"
#include "run/environment.h"
#include "run/grpo.h"
#include "run/memory_log.h"
#include "support/run_setup.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char recipe[] =
    "grpo: {num_prompts_per_step: 2, num_generations_per_prompt: 4, max_num_steps: 2, max_num_epochs: 100, val_period: "
    "0}\n"
    "policy:\n"
    "  precision: float32\n"
    "  train_global_batch_size: 8\n"
    "  max_total_sequence_length: 96\n"
    "  generation: {max_new_tokens: 12}\n"
    "checkpointing: {save_period: 1, keep_top_k: null, metric_name: null}\n"
    "data:\n"
    "  train: {dataset_name: arithmetic, left: [0, 4], right: [0, 4], split_validation_size: 5}\n"
    "  default: {env_name: last_integer}\n";

static int setup(void **state) {
    (void)state;
    return run_setup_open("run-files", recipe);
}

// A run of `steps` steps in folder/name, with one more override.
static void train(const char *name, int steps, const char *override) {
    char *all[] = {arena_format(&run_arena, "policy.model_name=%s", run_path("model")),
                   arena_format(&run_arena, "logger.log_dir=%s", run_path(name)),
                   arena_format(&run_arena, "checkpointing.checkpoint_dir=%s", run_path(name)),
                   arena_format(&run_arena, "grpo.max_num_steps=%d", steps), arena_string(&run_arena, override)};
    Settings *settings;
    Trainer trainer;
    run_require(settings_load(&settings, &run_arena, run_path("recipe.yaml"), 5, all, &run_error) &&
                trainer_open(&trainer, settings, &run_error) && file_make_folders(run_path(name), &run_error) &&
                environment_write(&trainer, &run_error) && grpo_train(&trainer, &run_error));
    trainer_close(&trainer);
}

static json_t *json_of(const char *name) {
    json_t *value;
    run_require(jsonio_read(&value, run_path(name), &run_error));
    return value;
}

static json_int_t integer(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    if (!json_is_integer(value)) fail_msg("%s is no integer", name);
    return json_integer_value(value);
}

// ---- memory.json

static json_t *steps_of(const char *name) { // the steps in it, as [1, 2]; what stands there is valid JSON
    json_t *entries = json_of(name), *steps = json_array(), *entry;
    size_t i;
    json_array_foreach(entries, i, entry) json_array_append(steps, json_object_get(entry, "step"));
    json_decref(entries);
    return steps;
}

static void expect_steps(const char *name, const char *expected) {
    json_t *steps = steps_of(name);
    StrBuf text = {0};
    jsonio_line(&text, steps);
    if (strncmp(text.text, expected, strlen(expected))) fail_msg("steps %s instead of %s", text.text, expected);
    json_decref(steps);
    strbuf_close(&text);
}

static void test_every_peak_is_told(void **state) {
    (void)state;
    Ledger ledger = {.phase = PHASE_ROLLOUT};
    ledger_take(&ledger, MEMORY_KV_CACHE, 5 << 20);
    ledger_take(&ledger, MEMORY_LOGITS, 1 << 20);
    ledger_give(&ledger, MEMORY_LOGITS, 1 << 20);
    ledger_enter(&ledger, PHASE_FORWARD);
    ledger_take(&ledger, MEMORY_ACTIVATION, 3 << 20);
    run_require(file_make_folders(run_path("ledger"), &run_error) &&
                memory_log_resume(run_path("ledger"), 0, &run_error));
    const Ledger other = {0};
    const MemorySeen seen[] = {memory_log_seen(&other), memory_log_seen(&ledger)};
    run_require(memory_log_write(seen, 2, 1, run_path("ledger"), &run_error));
    json_t *entries = json_of("ledger/memory.json"), *entry = json_array_get(entries, 1);
    assert_int_equal(json_array_size(entries), 2);
    assert_int_equal(integer(entry, "step"), 1);
    assert_int_equal(integer(entry, "rank"), 1);
    assert_true(json_real_value(json_object_get(entry, "peak_memory_allocated_mb")) == 8);
    assert_true(json_real_value(json_object_get(entry, "process_peak_mb")) > 1);
    const json_t *at_peak = json_object_get(entry, "at_peak"), *tags = json_object_get(entry, "peak_by_tag"),
                 *phases = json_object_get(entry, "peak_by_phase");
    assert_int_equal(json_object_size(at_peak), 2);
    assert_int_equal(integer(at_peak, "kv_cache"), 5 << 20);
    assert_int_equal(integer(at_peak, "activation"), 3 << 20);
    assert_int_equal(json_object_size(tags), 3);
    assert_int_equal(integer(tags, "logits"), 1 << 20);
    assert_int_equal(json_object_size(phases), 2);
    assert_int_equal(integer(json_object_get(phases, "rollout"), "total"), 6 << 20);
    assert_int_equal(integer(json_object_get(phases, "rollout"), "logits"), 1 << 20);
    assert_int_equal(integer(json_object_get(phases, "forward"), "total"), 8 << 20);
    json_decref(entries);
    ledger_close(&ledger);
}

static void test_entries_follow_a_resume(void **state) {
    (void)state;
    const Ledger ledger = {0};
    const MemorySeen seen = memory_log_seen(&ledger);
    const char *log = run_path("entries");
    run_require(file_make_folders(log, &run_error) && memory_log_resume(log, 5, &run_error)); // nothing there
    for (int step = 1; step <= 4; step++) {
        run_require(memory_log_write(&seen, 1, step, log, &run_error));
        expect_steps("entries/memory.json", step == 1   ? "[1]"
                                            : step == 2 ? "[1,2]"
                                            : step == 3 ? "[1,2,3]"
                                                        : "[1,2,3,4]");
    }
    run_require(memory_log_resume(log, 2, &run_error));
    expect_steps("entries/memory.json", "[1,2]");
    run_require(memory_log_write(&seen, 1, 3, log, &run_error));
    expect_steps("entries/memory.json", "[1,2,3]");
    // Cut short anywhere, as by a kill: what is whole stays.
    char *whole;
    size_t size;
    run_require(file_read(&whole, &size, &run_arena, run_path("entries/memory.json"), &run_error));
    for (size_t cut = (size_t)(strstr(whole, "{\"step\":3") - whole); cut < size; cut += 7) {
        run_require(file_write(run_path("entries/memory.json"), whole, cut, &run_error) &&
                    memory_log_resume(log, 3, &run_error));
        bool kept = cut >= size - 3; // the last entry's brace is there
        expect_steps("entries/memory.json", kept ? "[1,2,3]" : "[1,2]");
        run_require(memory_log_write(&seen, 1, 4, log, &run_error));
        expect_steps("entries/memory.json", kept ? "[1,2,3,4]" : "[1,2,4]");
    }
    run_require(memory_log_resume(log, 0, &run_error));
    assert_false(file_exists(run_path("entries/memory.json")));
}

// The account of a run: as in metrics.jsonl, and training holds no weights of the rollout.
static void test_memory_of_a_run(void **state) {
    (void)state;
    train("run", 2, "whet.threads=1");
    json_t *entries = json_of("run/memory.json"), *line;
    char *text;
    run_require(file_read(&text, NULL, &run_arena, run_path("run/metrics.jsonl"), &run_error));
    assert_int_equal(json_array_size(entries), 2);
    for (size_t step = 0; step < 2; step++) {
        const json_t *entry = json_array_get(entries, step), *phases = json_object_get(entry, "peak_by_phase");
        line = json_loads(strsep(&text, "\n"), 0, NULL);
        assert_int_equal(integer(entry, "step"), step + 1);
        assert_int_equal(integer(entry, "rank"), 0);
        double here = json_real_value(json_object_get(entry, "peak_memory_allocated_mb"));
        double there = json_real_value(json_object_get(line, "memory/peak_memory_allocated_mb"));
        assert_true(here > 1 && fabs(here - there) < 1e-6); // written with 9 digits
        assert_true(json_number_value(json_object_get(json_object_get(entry, "at_peak"), "activation")) ==
                    json_number_value(json_object_get(line, "memory/at_peak/activation")));
        assert_true(integer(json_object_get(phases, "rollout"), "rollout_weights") > 0);
        assert_true(integer(json_object_get(phases, "logprob"), "reference") > 0);
        assert_null(json_object_get(json_object_get(phases, "backward"), "rollout_weights"));
        assert_null(json_object_get(json_object_get(phases, "optimizer"), "rollout_weights"));
        json_decref(line);
    }
    json_decref(entries);
    train("run", 3, "whet.threads=1");
    expect_steps("run/memory.json", "[1,2,3]");
}

// ---- environment.json

static void test_environment(void **state) {
    (void)state;
    static const char *const texts[] = {"program_digest", "compiler",     "cpu_model",   "device", "isa",
                                        "model",          "model_digest", "data_digest", "recipe"};
    static const char *const numbers[] = {"threads", "cores", "memory_mb"};
    train("env", 1, "data.train.seed=1");
    train("env2", 1, "data.train.seed=2");
    json_t *one = json_of("env/environment.json"), *other = json_of("env2/environment.json");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = json_string_value(json_object_get(one, texts[i]));
        if (!text || !*text || !strcmp(text, "unknown")) fail_msg("%s is not told", texts[i]);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) assert_true(integer(one, numbers[i]) > 0);
    assert_int_equal(integer(one, "ranks"), 1);
    assert_true(json_equal(json_object_get(one, "model_digest"), json_object_get(other, "model_digest")));
    assert_false(json_equal(json_object_get(one, "data_digest"), json_object_get(other, "data_digest")));
    json_decref(one);
    json_decref(other);
}

// ---- samples

// The bytes of an answer's tokens are those of its text, but what is told of a text ends before a 0 byte.
static void check_token_bytes(const json_t *line) {
    const json_t *bytes = json_object_get(line, "token_bytes");
    const json_t *answer = json_array_get(json_object_get(line, "content"), 1);
    size_t sum = 0, answered = 0;
    bool zero = false;
    for (size_t i = 0; i < json_array_size(json_object_get(line, "token_loss_mask")); i++) {
        answered += json_integer_value(json_array_get(json_object_get(line, "token_loss_mask"), i)) != 0;
        zero |= json_integer_value(json_array_get(json_object_get(line, "token_ids"), i)) == 0;
    }
    for (size_t i = 0; i < json_array_size(bytes); i++) sum += (size_t)json_integer_value(json_array_get(bytes, i));
    assert_int_equal(json_array_size(bytes), answered);
    if (!zero) assert_int_equal(sum, json_string_length(json_object_get(answer, "content")));
}

static void test_columns_of_samples(void **state) {
    (void)state;
    train("samples", 1, "whet.threads=1");
    char *text;
    run_require(file_read(&text, NULL, &run_arena, run_path("samples/train_data_step1.jsonl"), &run_error));
    json_t *line = json_loads(strsep(&text, "\n"), 0, NULL);
    static const char *const columns[] = {"idx",
                                          "content",
                                          "rewards",
                                          "input_lengths",
                                          "token_ids",
                                          "token_loss_mask",
                                          "sample_loss_mask",
                                          "advantages",
                                          "generation_logprobs",
                                          "prev_logprobs",
                                          "reference_logprobs"};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) assert_non_null(json_object_get(line, columns[i]));
    assert_true(json_equal(json_object_get(line, "prev_logprobs"), json_object_get(line, "generation_logprobs")));
    assert_int_equal(json_array_size(json_object_get(line, "prev_logprobs")), integer(line, "input_lengths"));
    assert_null(json_object_get(line, "filtered_rewards")); // of dynamic sampling
    check_token_bytes(line);
    json_decref(line);
    for (char *rest; (rest = strsep(&text, "\n")) && *rest; json_decref(line)) {
        line = json_loads(rest, 0, NULL);
        check_token_bytes(line);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_peak_is_told), cmocka_unit_test(test_entries_follow_a_resume),
        cmocka_unit_test(test_memory_of_a_run),    cmocka_unit_test(test_environment),
        cmocka_unit_test(test_columns_of_samples),
    };
    return cmocka_run_group_tests_name("run_files", tests, setup, run_setup_close);
}
