// What a run asks, logs and keeps: questions by step alone, metrics under NeMo-RL's names, masks in the sample log, logs that
// go on behind a checkpoint.
#include "base/file.h"
#include "base/jsonio.h"
#include "base/log.h"
#include "run/grpo.h"
#include "run/step_log.h"
#include "support/run_setup.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char recipe[] =
    "grpo: {num_prompts_per_step: 4, num_generations_per_prompt: 8, max_num_steps: 2, max_num_epochs: 100, val_period: "
    "0}\n"
    "policy:\n"
    "  precision: float32\n"
    "  train_global_batch_size: 16\n"
    "  max_total_sequence_length: 96\n"
    "  generation: {max_new_tokens: 16}\n"
    "  optimizer: {kwargs: {lr: 1.0e-3}}\n"
    "checkpointing: {save_period: 1, keep_top_k: null, metric_name: 'train:advantages/max'}\n"
    "data:\n"
    "  train: {dataset_name: arithmetic, left: [0, 4], right: [0, 4], split_validation_size: 5}\n"
    "  default: {env_name: last_integer}\n";

static int setup(void **state) {
    (void)state;
    return run_setup_open("run", recipe);
}

// ---- questions

typedef struct Asked {
    LoadedModel model;
    Task task;
} Asked;

static void open_task(Asked *asked, const Settings *settings) {
    run_require(loaded_model_open(&asked->model, settings->policy.model_name, NULL, NULL, NULL, &run_error) &&
                task_open(&asked->task, settings, &asked->model, true, &run_error));
}

static void close_task(Asked *asked) {
    task_close(&asked->task);
    loaded_model_close(&asked->model);
}

static const EngineRequest *ask(const Asked *asked, int64_t step) {
    EngineRequest *requests;
    run_require(task_train_requests(&asked->task, &requests, (step - 1) * asked->task.prompts_per_batch, 0, 8,
                                    &run_arena, &run_error));
    return requests;
}

static void test_epochs(void **state) {
    (void)state;
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        Asked asked, resumed;
        const Settings *s = RUN_SETTINGS("run", shuffle ? "data.shuffle=true" : "data.shuffle=false");
        open_task(&asked, s);
        assert_int_equal(asked.task.train_count, 20);
        assert_int_equal(asked.task.prompts_per_batch, 4);
        int32_t order[2][20];
        for (int64_t step = 1; step <= 10; step++) {
            const EngineRequest *requests = ask(&asked, step);
            for (int p = 0; p < 4; p++) {
                order[(step - 1) / 5][(step - 1) % 5 * 4 + p] = requests[p].question;
                assert_int_equal(requests[p].prompt, p);
                assert_int_equal(requests[p].samples, 8);
                assert_true(requests[p].count > 10);
            }
        }
        for (int epoch = 0; epoch < 2; epoch++) {
            bool seen[20] = {false};
            for (int i = 0; i < 20; i++) {
                assert_in_range(order[epoch][i], 0, 19);
                assert_false(seen[order[epoch][i]]);
                seen[order[epoch][i]] = true;
                if (!shuffle) assert_int_equal(order[epoch][i], i);
            }
        }
        if (shuffle) assert_memory_not_equal(order[0], order[1], sizeof order[0]);
        // A run that begins at step 7 asks what one that came there asks.
        open_task(&resumed, s);
        const EngineRequest *requests = ask(&resumed, 7);
        for (int p = 0; p < 4; p++) assert_int_equal(requests[p].question, order[1][4 + p]);
        close_task(&resumed);
        close_task(&asked);
    }
}

// 20 questions in batches of 6: a batch ends in the next epoch, and every epoch asks each question once.
static void test_batches_go_on_over_epochs(void **state) {
    (void)state;
    Asked asked;
    open_task(&asked, RUN_SETTINGS("run", "grpo.num_prompts_per_step=6", "policy.train_global_batch_size=48"));
    int times[3][20] = {{0}};
    for (int i = 0; i < 60; i++) times[i / 20][ask(&asked, i / 6 + 1)[i % 6].question]++;
    for (int i = 0; i < 60; i++) assert_int_equal(times[i / 20][i % 20], 1);
    EngineRequest *requests;
    run_require(
        task_train_requests(&asked.task, &requests, 6, 12, 8, &run_arena, &run_error)); // of a step's third rollout
    assert_int_equal(requests[5].prompt, 17);
    assert_int_equal(requests[5].question, ask(&asked, 2)[5].question);
    close_task(&asked);
    Asked none;
    const Settings *s = RUN_SETTINGS("run", "grpo.num_prompts_per_step=24", "policy.train_global_batch_size=192");
    run_require(loaded_model_open(&none.model, s->policy.model_name, NULL, NULL, NULL, &run_error));
    assert_false(task_open(&none.task, s, &none.model, true, &run_error));
    assert_non_null(strstr(run_error.text, "grpo.num_prompts_per_step: 24, but data.train has only 20 questions"));
    close_task(&none);
}

static void test_held_out_questions(void **state) {
    (void)state;
    Asked asked;
    open_task(&asked, RUN_SETTINGS("run"));
    EngineRequest *held_out;
    run_require(task_validation_requests(&asked.task, &held_out, 2, 3, 1, &run_arena, &run_error));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(held_out[i].prompt, 2 + i); // the coordinate of its random numbers, whatever the batch
        const char *question = task_question(&asked.task, true, held_out[i].question, &run_arena);
        for (int64_t step = 1; step <= 5; step++)
            for (int p = 0; p < 4; p++)
                assert_string_not_equal(question,
                                        task_question(&asked.task, false, ask(&asked, step)[p].question, &run_arena));
    }
    close_task(&asked);
}

// A prompt that is too long is cut, asked all the same, as in NeMo-RL, and its samples take part in nothing.
static void test_long_prompts_are_left_out(void **state) {
    (void)state;
    Asked asked;
    open_task(&asked, RUN_SETTINGS("run", "data.max_input_seq_length=12"));
    const EngineRequest *requests = ask(&asked, 1);
    int32_t question[8], length[8];
    FinishReason finish[8] = {0};
    const char *text[8];
    for (int b = 0; b < 8; b++) {
        assert_int_equal(requests[b / 2].count, 4);
        question[b] = requests[b / 2].question, length[b] = 4, text[b] = "7";
    }
    Samples samples = {.count = 8, .question = question, .prompt_length = length, .finish = finish, .text = text};
    run_require(task_reward(&asked.task, &samples, false, 1, &run_arena, &run_error));
    for (int b = 0; b < 8; b++) assert_true(samples.valid[b] == 0 && samples.reward[b] == 0);
    close_task(&asked);
    open_task(&asked, RUN_SETTINGS("run"));
    run_require(task_reward(&asked.task, &samples, false, 1, &run_arena, &run_error));
    for (int b = 0; b < 8; b++) assert_true(samples.valid[b] == 1);
    close_task(&asked);
}

// ---- metrics

enum { ANSWERS = 4 };

// Two groups of two: answers of 2, 4, 3 and 1 tokens behind prompts of 3.
typedef struct Step {
    Samples samples;
    StepReport report;
    Settings settings;
    Trainer trainer;
} Step;

static void fill_step(Step *step) {
    static int32_t prompt[ANSWERS] = {0, 0, 1, 1}, question[ANSWERS] = {0, 0, 1, 1}, length[ANSWERS] = {3, 3, 3, 3},
                   ids[22];
    static int64_t offset[ANSWERS + 1] = {0, 5, 12, 18, 22};
    static float logprobs[22], reward[ANSWERS] = {0, 1, 0, 0}, valid[ANSWERS] = {1, 1, 1, 1};
    static const float by_sample[ANSWERS] = {-1, 1, 0.5f, -0.25f};
    static float advantage[22], mask[ANSWERS] = {1, 0, 1, 1}, baseline[ANSWERS] = {1, 0, 0, 0.5f};
    static FinishReason finish[ANSWERS] = {FINISH_STOP, FINISH_LENGTH, FINISH_STOP, FINISH_STOP};
    static const char *text[ANSWERS] = {"a", "\"b\" \\ é", "", "4"};
    for (int b = 0; b < ANSWERS; b++)
        for (int64_t t = offset[b]; t < offset[b + 1]; t++) advantage[t] = by_sample[b];
    *step = (Step){.samples = {.count = ANSWERS,
                               .prompt = prompt,
                               .question = question,
                               .offset = offset,
                               .prompt_length = length,
                               .ids = ids,
                               .generation_logprobs = logprobs,
                               .finish = finish,
                               .text = text,
                               .reward = reward,
                               .valid = valid,
                               .advantage = advantage}};
    step->report = (StepReport){.step = 7,
                                .last_step = 9,
                                .samples = &step->samples,
                                .sample_mask = mask,
                                .baseline = baseline,
                                .update = update_none(),
                                .lr = 5e-7,
                                .collected = {.gen_batches = 1,
                                              .generated = ANSWERS,
                                              .reward = 0.25,
                                              .groups = {.groups = 2, .equal = 1},
                                              .rollout = {.answer_tokens = 10},
                                              .generation_seconds = 0.5},
                                .times = {.total = 2, .training = 1}};
    step->settings.logger.log_dir = run_path("metrics");
    step->settings.loss_fn = loss_options_default();
    step->trainer.settings = &step->settings;
    step->trainer.mesh = mesh_self(&step->trainer.ops.device);
    run_require(file_make_folders(step->settings.logger.log_dir, &run_error));
    run_require(step_log_resume(step->settings.logger.log_dir, 0, &run_error));
}

static void test_metrics(void **state) {
    (void)state;
    Step step;
    fill_step(&step);
    step.report.update.metrics.loss = NAN;
    step.report.update.metrics.is_oob_ratio = 0.125;
    run_require(step_log_write(&step.report, &step.trainer, 1e30, &run_error));
    step.settings.loss_fn.truncated_importance_sampling_type = "tis";
    run_require(step_log_write(&step.report, &step.trainer, 0, &run_error));
    json_t *lines = run_lines("metrics/metrics.jsonl"), *line = json_array_get(lines, 0);
    assert_int_equal(json_array_size(lines), 2);
    static const struct {
        const char *name;
        double value;
    } cases[] = {{"step", 7},
                 {"train/reward", 0.25},
                 {"train/reward_std", 0.5},
                 {"train/lr", 5e-7},
                 {"train/baseline_reward/pct_0", 50}, // by sample and in percent, as NeMo-RL has it
                 {"train/baseline_reward/pct_1", 25},
                 {"train/baseline_reward/pct_mixed", 25},
                 {"train/frac_reward_zero_std", 0.5},
                 {"train/advantages/mean", (-1 * 2 + 1 * 4 + 0.5 * 3 - 0.25) / 10}, // by token
                 {"train/advantages/min", -1},
                 {"train/advantages/max", 1},
                 {"train/mean_prompt_length", 3},
                 {"train/total_num_tokens", 22},
                 {"train/mean_gen_tokens_per_sample", 2.5},
                 {"train/max_gen_tokens_per_sample", 4},
                 {"train/mean_total_tokens_per_sample", 5.5},
                 {"train/truncation_rate", 0.25},
                 {"train/natural_termination_rate", 0.75},
                 {"train/num_mask_sample_filtered", 1},
                 {"train/probs_ratio_min", -1}, // over no token
                 {"train/probs_ratio_max", -1},
                 {"train/max_abs_logprob_error", 0},
                 {"timing/train/total_step_time", 2},
                 {"performance/generation_tokens_per_sec", 20},
                 {"performance/policy_training_tokens_per_sec", 22},
                 {"performance/samples_per_sec", 2},
                 {"memory/peak_memory_allocated_mb", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (fabs(run_number(line, cases[i].name) - cases[i].value) > 1e-12)
            fail_msg("%s is %g, not %g", cases[i].name, run_number(line, cases[i].name), cases[i].value);
    static const char *const others[] = {"train/grad_norm",
                                         "train/kl_penalty",
                                         "train/probs_ratio",
                                         "train/probs_ratio_clamped",
                                         "train/probs_ratio_clamped_min",
                                         "train/probs_ratio_clamped_max",
                                         "train/token_mult_prob_error",
                                         "train/gen_kl_error",
                                         "train/policy_kl_error",
                                         "train/js_divergence_error",
                                         "train/sampling_importance_ratio",
                                         "train/approx_entropy",
                                         "train/num_valid_samples",
                                         "train/global_valid_seqs",
                                         "train/global_valid_toks",
                                         "timing/train/generation",
                                         "timing/train/policy_training",
                                         "timing/train/policy_and_reference_logprobs"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) run_number(line, others[i]);
    assert_string_equal(json_string_value(json_object_get(line, "train/loss")), "nan");
    assert_null(json_object_get(line, "timing/train/checkpointing")); // it has not happened yet
    assert_null(json_object_get(line, "train/is_oob_ratio"));         // without a truncation there is no window
    assert_true(run_number(json_array_get(lines, 1), "train/is_oob_ratio") == 0.125);
    json_decref(lines);
}

static void test_metric_for_checkpoints(void **state) {
    (void)state;
    Step step;
    fill_step(&step);
    double value;
    assert_true(step_log_metric(&value, "train:reward", &step.report, &step.trainer, &run_error));
    assert_true(value == 0.25);
    assert_true(step_log_metric(&value, "train:advantages/max", &step.report, &step.trainer, &run_error));
    assert_true(value == 1);
    assert_true(step_log_metric(&value, "val:accuracy", &step.report, &step.trainer, &run_error));
    assert_true(isnan(value));
    step.report.validation = (Validation){.done = true, .accuracy = 0.75};
    assert_true(step_log_metric(&value, "val:accuracy", &step.report, &step.trainer, &run_error));
    assert_true(value == 0.75);
    // Before the first step only the name can be checked.
    const Samples none = {0};
    const StepReport empty = {.samples = &none};
    assert_true(step_log_metric(&value, "train:loss", &empty, &step.trainer, &run_error));
    assert_false(step_log_metric(&value, "val:acuracy", &empty, &step.trainer, &run_error));
    assert_non_null(strstr(run_error.text,
                           "checkpointing.metric_name: a step has no metric 'val:acuracy'; did you mean "
                           "val:accuracy?"));
    assert_false(step_log_metric(&value, "train:rewards", &empty, &step.trainer, &run_error));
    assert_non_null(strstr(run_error.text, "did you mean train:reward?"));
    assert_false(step_log_metric(&value, "train:total_step_time", &empty, &step.trainer, &run_error)); // a timing
}

// ---- logs that go on

static void put_file(const char *name, const char *text) {
    run_require(file_write(run_path(name), text, strlen(text), &run_error));
}

static void expect_file(const char *name, const char *expected) {
    char *text;
    run_require(file_read(&text, NULL, &run_arena, run_path(name), &run_error));
    assert_string_equal(text, expected);
}

static void test_resumed_log(void **state) {
    (void)state;
    static const char lines[] = "{\"step\":0,\"validation/accuracy\":0.5}\n{\"step\":1}\n{\"step\":2}\n"
                                "{\"step\":2,\"validation/accuracy\":1.0}\n{\"step\":3}\n{\"step\":4,\"tr";
    run_require(file_make_folders(run_path("log"), &run_error));
    run_require(step_log_resume(run_path("log"), 2, &run_error)); // nothing there
    put_file("log/metrics.jsonl", lines);
    run_require(step_log_resume(run_path("log"), 9, &run_error));
    char *whole = arena_string(&run_arena, lines);
    *strrchr(whole, '{') = 0; // the unfinished line is gone
    expect_file("log/metrics.jsonl", whole);
    run_require(step_log_resume(run_path("log"), 2, &run_error));
    *strstr(whole, "{\"step\":3}") = 0;
    expect_file("log/metrics.jsonl", whole);
    run_require(step_log_resume(run_path("log"), 0, &run_error));
    expect_file("log/metrics.jsonl.1", whole);
    assert_false(file_exists(run_path("log/metrics.jsonl")));
    run_require(step_log_resume(run_path("log"), 0, &run_error));
    expect_file("log/metrics.jsonl.1", whole);
}

// ---- a run

static void test_overlong_filtering(void **state) {
    (void)state;
    int64_t cut = 0, whole = 0;
    double tokens = 0;
    run_require(RUN("run", "grpo.overlong_filtering=true"));
    json_t *metrics = run_lines("run/logs/metrics.jsonl"), *info, *sample;
    for (int step = 1; step <= 2; step++) {
        json_t *samples = run_lines(arena_format(&run_arena, "run/logs/train_data_step%d.jsonl", step));
        double filtered = 0, reward = 0, valid = 0;
        size_t index;
        assert_int_equal(json_array_size(samples), 32);
        json_array_foreach(samples, index, sample) {
            const json_t *mask = json_object_get(sample, "token_loss_mask"),
                         *ids = json_object_get(sample, "token_ids");
            size_t length = json_array_size(ids), answer = 0;
            for (size_t t = 0; t < length; t++) answer += json_integer_value(json_array_get(mask, t)) != 0;
            bool stopped = json_integer_value(json_array_get(ids, length - 1)) == 257;
            assert_true(stopped || answer == 16);
            assert_true(run_number(sample, "sample_loss_mask") == (stopped ? 1 : 0));
            whole += stopped, cut += !stopped, filtered += !stopped;
            valid += stopped ? (double)answer : 0;
            reward += run_number(sample, "rewards");
        }
        const json_t *line = json_array_get(metrics, (size_t)step - 1);
        assert_true(run_number(line, "train/num_mask_sample_filtered") == filtered);
        assert_true(fabs(run_number(line, "train/reward") - reward / 32) < 1e-12); // of all samples
        assert_true(run_number(line, "train/global_valid_toks") == valid / 2);     // mean of the step's two updates
        assert_true(run_number(line, "train/global_valid_seqs") == (32 - filtered) / 2);
        assert_true(run_number(line, "train/max_abs_logprob_error") == 0);
        tokens += valid;
        run_require(
            jsonio_read(&info, run_path(arena_format(&run_arena, "run/step_%d/training_info.json", step)), &run_error));
        assert_true(run_number(info, "total_valid_tokens") == tokens);
        assert_true(run_number(info, "consumed_samples") == 32 * step);
        assert_true(run_number(info, "total_steps") == step);
        assert_true(run_number(info, "train:advantages/max") == run_number(line, "train/advantages/max"));
        json_decref(info);
        json_decref(samples);
    }
    json_decref(metrics);
    assert_true(cut > 0 && whole > 0);
}

static void test_unknown_metric_is_refused_before_the_first_step(void **state) {
    (void)state;
    assert_false(RUN("run", "checkpointing.metric_name=val:reward", "logger.log_dir=/nowhere/at/all"));
    assert_non_null(strstr(run_error.text, "checkpointing.metric_name: a step has no metric 'val:reward'"));
}

// Seats and pages for the 32 answers of a step, not for whet.max_sequences.
static void test_engine_is_no_larger_than_a_step(void **state) {
    (void)state;
    int64_t pages[2];
    for (int i = 0; i < 2; i++) {
        Trainer trainer;
        run_require(trainer_open(&trainer, RUN_SETTINGS("run", i ? "whet.max_sequences=32" : "whet.max_sequences=500"),
                                 &run_error));
        pages[i] = engine_counts(trainer.engine).pages;
        trainer_close(&trainer);
    }
    assert_int_equal(pages[0], pages[1]);
    assert_int_equal(pages[0], 32 * kv_pages_of(96));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_batches_go_on_over_epochs),
        cmocka_unit_test(test_held_out_questions),
        cmocka_unit_test(test_long_prompts_are_left_out),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_metric_for_checkpoints),
        cmocka_unit_test(test_resumed_log),
        cmocka_unit_test(test_overlong_filtering),
        cmocka_unit_test(test_unknown_metric_is_refused_before_the_first_step),
        cmocka_unit_test(test_engine_is_no_larger_than_a_step),
    };
    return cmocka_run_group_tests_name("run", tests, setup, run_setup_close);
}
