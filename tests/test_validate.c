// Validation, and how a run ends before its last step: a metric that is good enough, a deadline, a signal.
#include "base/file.h"
#include "base/jsonio.h"
#include "base/log.h"
#include "base/stop_signal.h"
#include "run/grpo.h"
#include "support/run_setup.h"
#include "train/checkpoint.h"
#include "train/update.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static const char recipe[] =
    "grpo: {num_prompts_per_step: 2, num_generations_per_prompt: 4, max_num_steps: 2, max_num_epochs: 1000, "
    "val_period: 1, "
    "max_val_samples: 5, val_batch_size: 5}\n"
    "policy:\n"
    "  precision: float32\n"
    "  train_global_batch_size: 8\n"
    "  max_total_sequence_length: 96\n"
    "  generation: {max_new_tokens: 12}\n"
    "  optimizer: {kwargs: {lr: 1.0e-3}}\n"
    "checkpointing: {save_period: 100}\n"
    "data:\n"
    "  train: {dataset_name: arithmetic, left: [0, 4], right: [0, 4], split_validation_size: 5}\n"
    "  default: {env_name: last_integer}\n";

static int setup(void **state) {
    (void)state;
    return run_setup_open("validate", recipe);
}

// Runs; whether a signal stopped it.
static bool train(const Settings *settings) {
    bool stopped;
    run_require(run_train(settings, &stopped));
    return stopped;
}
#define TRAIN(name, ...) train(RUN_SETTINGS(name, __VA_ARGS__))

// A metric of the validation at a step; NULL: there was none. Borrowed until the lines go.
static json_t *validation_metric(const json_t *lines, int64_t step, const char *name) {
    size_t i;
    json_t *line, *value = NULL;
    json_array_foreach(lines, i, line) {
        if (json_integer_value(json_object_get(line, "step")) == step && json_object_get(line, name))
            value = json_object_get(line, name);
    }
    return value;
}

static void expect_metric(const json_t *lines, int64_t step, const char *name, double expected) {
    double value = json_number_value(validation_metric(lines, step, name));
    if (fabs(value - expected) > 1e-9)
        fail_msg("%s at step %lld is %g, not %g", name, (long long)step, value, expected);
}

static bool is_there(const char *name, int64_t step) {
    return file_exists(arena_format(&run_arena, "%s/step_%lld/training_info.json", run_path(name), (long long)step));
}

// ---- what is recorded

static void test_equal_weights_give_equal_records(void **state) {
    (void)state;
    char *still = "policy.optimizer.kwargs.lr=0", *twice = "grpo.val_num_generations_per_prompt=3";
    TRAIN("still", still, twice, "grpo.val_at_start=true");
    const char *first = run_text("still/logs/val_data_step0.jsonl");
    assert_string_equal(first, run_text("still/logs/val_data_step1.jsonl"));
    assert_string_equal(first, run_text("still/logs/val_data_step2.jsonl"));
    // However the questions are cut into batches, also where the last is smaller.
    TRAIN("cut", still, twice, "grpo.val_batch_size=2", "whet.threads=3", "whet.max_sequences=4",
          "grpo.max_num_steps=1");
    assert_string_equal(first, run_text("cut/logs/val_data_step1.jsonl"));
    // A sample's draws do not depend on how many there are.
    TRAIN("once", still, "grpo.max_num_steps=1");
    json_t *three = run_lines("still/logs/val_data_step0.jsonl"), *one = run_lines("once/logs/val_data_step1.jsonl");
    assert_int_equal(json_array_size(three), 15);
    assert_int_equal(json_array_size(one), 5);
    for (size_t q = 0; q < 5; q++) assert_true(json_equal(json_array_get(three, 3 * q), json_array_get(one, q)));
    json_decref(three);
    json_decref(one);
}

static void test_metrics_are_those_of_the_records(void **state) {
    (void)state;
    TRAIN("several", "grpo.val_num_generations_per_prompt=4", "grpo.val_batch_size=2", "grpo.max_num_steps=6",
          "checkpointing.save_period=1", "checkpointing.keep_top_k=null", "checkpointing.metric_name='val:pass_k'");
    json_t *metrics = run_lines("several/logs/metrics.jsonl"), *line;
    double all = 0;
    for (int64_t step = 1; step <= 6; step++) {
        json_t *records = run_lines(arena_format(&run_arena, "several/logs/val_data_step%lld.jsonl", (long long)step));
        double rewards = 0, length = 0, passed[5] = {0};
        size_t i;
        assert_int_equal(json_array_size(records), 20);
        json_array_foreach(records, i, line) {
            double reward = json_number_value(json_object_get(line, "rewards"));
            assert_int_equal(json_integer_value(json_object_get(line, "idx")), i / 4);
            assert_int_equal(json_integer_value(json_object_get(line, "sample")), i % 4);
            rewards += reward, length += json_number_value(json_object_get(line, "length"));
            if (reward > 0) passed[i / 4] = 1;
        }
        double pass = (passed[0] + passed[1] + passed[2] + passed[3] + passed[4]) / 5;
        expect_metric(metrics, step, "validation/accuracy", rewards / 20);
        expect_metric(metrics, step, "validation/pass_k", pass);
        expect_metric(metrics, step, "validation/avg_length", length / 20);
        expect_metric(metrics, step, "validation/unscored_samples", 0);
        json_t *info;
        if (!jsonio_read(&info,
                         run_path(arena_format(&run_arena, "several/step_%lld/training_info.json", (long long)step)),
                         &run_error))
            fail_msg("%s", run_error.text);
        assert_true(json_number_value(json_object_get(info, "val:pass_k")) == pass);
        all += rewards;
        json_decref(info);
        json_decref(records);
    }
    assert_true(all > 0);
    json_decref(metrics);
}

static void test_what_could_not_be_scored_does_not_count(void **state) {
    (void)state;
    TRAIN("lost", "policy.optimizer.kwargs.lr=1e3", "policy.scheduler=null",
          "+policy.automodel_cfg.fsdp_output_dtype=float16", "grpo.val_num_generations_per_prompt=2",
          "grpo.max_num_steps=1");
    json_t *metrics = run_lines("lost/logs/metrics.jsonl"), *info;
    assert_string_equal(json_string_value(validation_metric(metrics, 1, "validation/accuracy")), "nan");
    assert_string_equal(json_string_value(validation_metric(metrics, 1, "validation/pass_k")), "nan");
    expect_metric(metrics, 1, "validation/unscored_samples", 10);
    assert_non_null(strstr(run_text("lost/logs/val_data_step1.jsonl"), "\"rewards\":null"));
    assert_true(jsonio_read(&info, run_path("lost/step_1/training_info.json"), &run_error));
    assert_null(json_object_get(info, "val:accuracy"));
    json_decref(info);
    json_decref(metrics);
}

// ---- early ends

static void test_a_metric_that_is_good_enough_ends_the_run(void **state) {
    (void)state;
    char *metric = "grpo.stop_at_validation_metric=avg_length", *low = "grpo.stop_at_validation_threshold=1",
         *high = "grpo.stop_at_validation_threshold=13", *many = "grpo.max_num_steps=3", *period = "grpo.val_period=2";
    TRAIN("goal", metric, low, many, period);
    assert_false(is_there("goal", 1));
    assert_true(is_there("goal", 2)); // with a checkpoint, though save_period is 100
    assert_false(is_there("goal", 3));
    json_t *metrics = run_lines("goal/logs/metrics.jsonl");
    TRAIN("goal", metric, low, many, period); // the same command has nothing left to do
    json_t *again = run_lines("goal/logs/metrics.jsonl");
    assert_true(json_equal(metrics, again));
    TRAIN("goal", metric, high, many, period); // another goal has
    assert_true(is_there("goal", 3));
    json_decref(metrics);
    json_decref(again);
}

static void test_a_deadline_saves_and_ends_the_run(void **state) {
    (void)state;
    int64_t step = 0;
    double started = log_seconds();
    TRAIN("late", "grpo.max_num_steps=100000", "checkpointing.save_period=100000", "grpo.val_period=0",
          "checkpointing.metric_name=null", "checkpointing.checkpoint_must_save_by=00:00:00:01");
    assert_true(log_seconds() - started < 60);
    assert_true(checkpoint_latest(&step, run_path("late"), &run_error));
    assert_in_range(step, 1, 99999);
    json_t *metrics = run_lines("late/logs/metrics.jsonl");
    assert_int_equal(json_array_size(metrics), step); // it ends behind the step that was saved
    json_decref(metrics);
}

// ---- signals; in a child, which the second would end

typedef bool Body(void);

static void in_child(Body *body) {
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(body() ? 0 : 1);
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static bool stopped_before_the_first_step(void) {
    stop_signal_catch();
    raise(SIGTERM);
    return TRAIN("stopped", "grpo.val_at_start=true") && stop_signal_taken() == SIGTERM && !is_there("stopped", 1) &&
           !file_exists(run_path("stopped/logs/val_data_step0.jsonl"));
}

static void test_a_signal_abandons_the_step(void **state) {
    (void)state;
    in_child(stopped_before_the_first_step);
    assert_false(TRAIN("stopped"));
    assert_true(is_there("stopped", 2));
}

static void test_a_second_signal_ends_at_once(void **state) {
    (void)state;
    const int pairs[][2] = {{SIGINT, SIGINT}, {SIGINT, SIGTERM}, {SIGTERM, SIGINT}};
    for (int i = 0; i < 3; i++) {
        int status = 0;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            signal(SIGINT, SIG_DFL); // a shell's background ignores it
            stop_signal_catch();
            raise(pairs[i][0]);
            if (stop_signal_taken() != pairs[i][0]) _exit(1);
            raise(pairs[i][1]);
            _exit(2);
        }
        waitpid(child, &status, 0);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), pairs[i][1]);
    }
}

// An update that is left between two micro-batches has changed nothing.
static bool abandoned_update(void) {
    Trainer t;
    static const int32_t ids[12] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
    static const int64_t offset[] = {0, 6, 12};
    static const float mask[12] = {0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1}, ones[2] = {1, 1};
    float advantage[12], logprobs[12] = {0};
    for (int i = 0; i < 12; i++) advantage[i] = 1, logprobs[i] = -3;
    const Settings *s =
        RUN_SETTINGS("update", "policy.train_micro_batch_size=1", "policy.sequence_packing.enabled=false");
    if (!s || !trainer_open(&t, s, &run_error)) return false;
    TrainBatch batch = {.count = 2,
                        .offset = offset,
                        .ids = ids,
                        .mask = mask,
                        .sample_mask = ones,
                        .generation = logprobs,
                        .advantage = advantage,
                        .reference = logprobs,
                        .reward = ones};
    UpdateOptions options = {.batching = s->policy.batching,
                             .head_chunk = 8,
                             .filter = {.temperature = 1, .top_p = 1},
                             .optimizer = s->optimizer,
                             .lr = 1e-3,
                             .stops = &t.mesh.world};
    UpdateResult result;
    StrBuf before = {0};
    int64_t done = 0;
    bool good = true;
    for (int round = 0; round < 2; round++) { // left; then whole, though the signal came: nobody looks
        strbuf_clear(&before);
        for (int unit = 0; unit < t.shards.table->unit_count; unit++)
            strbuf_append(&before, t.shards.weight[unit].data, tensor_bytes(&t.shards.weight[unit]));
        stop_signal_catch();
        if (!round) raise(SIGTERM);
        good = good && update_policy(&result, &t.walk, &batch, &s->loss_fn, &options, NULL, &done) == round;
        size_t at = 0;
        bool same = true;
        for (int unit = 0; unit < t.shards.table->unit_count; unit++) {
            size_t bytes = tensor_bytes(&t.shards.weight[unit]);
            same = same && !memcmp(before.text + at, t.shards.weight[unit].data, bytes);
            at += bytes;
        }
        good = good && same == !round && (round ? done == 3 : done == 1);
        options.stops = NULL;
    }
    strbuf_close(&before);
    trainer_close(&t);
    return good;
}

static void test_an_abandoned_update_changes_nothing(void **state) {
    (void)state;
    in_child(abandoned_update);
}

// ---- refusals

static void test_refusals(void **state) {
    (void)state;
    static char metric[] = "grpo.stop_at_validation_metric", threshold[] = "grpo.stop_at_validation_threshold",
                deadline[] = "checkpointing.checkpoint_must_save_by";
    const struct {
        const char *key, *value, *other, *message;
    } cases[] = {
        {metric, "accuracy", NULL, "'accuracy' without grpo.stop_at_validation_threshold"},
        {threshold, "0.5", NULL, "0.5 without grpo.stop_at_validation_metric"},
        {metric, "acuracy", "grpo.stop_at_validation_threshold=0.5", "'acuracy'"},
        {metric, "pass_k", "grpo.stop_at_validation_threshold=0.5",
         "'pass_k' needs grpo.val_num_generations_per_prompt above 1"},
        {"grpo.val_num_generations_per_prompt", "0", NULL, "from 1 to 1000000, found 0"},
        {deadline, "3h", NULL, "'3h' is no DD:HH:MM:SS"},
        {deadline, "03:45:00", NULL, "'03:45:00' is no DD:HH:MM:SS"},
        {deadline, "00:03:45:00:", NULL, "is no DD:HH:MM:SS"},
        {deadline, "00:03:-5:00", NULL, "is no DD:HH:MM:SS"},
        {deadline, "00:00:00:00", NULL, "'00:00:00:00' leaves no time"},
        {"checkpointing.ft_keep_latest_k", "0", NULL, "found 0"},
        {"checkpointing.ft_save_period", "0", NULL, "found 0"},
        {"checkpointing.save_consolidated", "every", NULL, "'every' is not supported"},
        {"checkpointing.model_save_format", "torch_save", NULL, "'torch_save' is not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *override = arena_format(&run_arena, "%s=%s", cases[i].key, cases[i].value);
        if (RUN_SETTINGS("refused", override, (char *)cases[i].other)) fail_msg("%s is not refused", override);
        if (!strstr(run_error.text, cases[i].key) || !strstr(run_error.text, cases[i].message))
            fail_msg("%s: %s", override, run_error.text);
    }
    assert_null(RUN_SETTINGS("refused", "grpo.stop_at_validation_metric=accuracy",
                             "grpo.stop_at_validation_threshold=0.5", "grpo.val_period=0"));
    assert_non_null(strstr(run_error.text, "there is no validation"));
    const Settings *s = RUN_SETTINGS("fine", "checkpointing.checkpoint_must_save_by=01:02:03:04");
    assert_true(s->checkpointing.must_save_seconds == 93784);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_weights_give_equal_records),
        cmocka_unit_test(test_metrics_are_those_of_the_records),
        cmocka_unit_test(test_what_could_not_be_scored_does_not_count),
        cmocka_unit_test(test_a_metric_that_is_good_enough_ends_the_run),
        cmocka_unit_test(test_a_deadline_saves_and_ends_the_run),
        cmocka_unit_test(test_a_signal_abandons_the_step),
        cmocka_unit_test(test_a_second_signal_ends_at_once),
        cmocka_unit_test(test_an_abandoned_update_changes_nothing),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("validate", tests, setup, run_setup_close);
}
