// What a step learns from: dynamic sampling over several rollouts, its resumption, its limits; rewards scaled and shaped;
// estimators that need the reference.
#include "base/file.h"
#include "base/jsonio.h"
#include "base/log.h"
#include "run/experience.h"
#include "run/grpo.h"
#include "support/run_setup.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { GROUP = 6, PROMPTS = 3 };

static const char recipe[] =
    "grpo: {num_prompts_per_step: 3, num_generations_per_prompt: 6, max_num_steps: 3, max_num_epochs: 100, val_period: "
    "0, use_dynamic_sampling: true, dynamic_sampling_max_gen_batches: 40}\n"
    "policy:\n"
    "  precision: float32\n"
    "  train_global_batch_size: 18\n"
    "  max_total_sequence_length: 96\n"
    "  generation: {max_new_tokens: 12}\n"
    "  optimizer: {kwargs: {lr: 1.0e-3}}\n"
    "checkpointing: {save_period: 1, keep_top_k: null, metric_name: null}\n"
    "data:\n"
    "  train: {dataset_name: arithmetic, left: [0, 4], right: [0, 4], split_validation_size: 5}\n"
    "  default: {env_name: last_integer}\n";

static int setup(void **state) {
    (void)state;
    return run_setup_open("experience", recipe);
}

// ---- dynamic sampling

// Every group of the step holds a right and a wrong answer.
static double check_groups(const json_t *samples) {
    double sum = 0;
    assert_int_equal(json_array_size(samples), PROMPTS * GROUP);
    for (size_t p = 0; p < PROMPTS; p++) {
        double right = 0;
        for (size_t g = 0; g < GROUP; g++) right += run_number(json_array_get(samples, p * GROUP + g), "rewards");
        assert_true(right > 0 && right < GROUP);
        sum += right;
    }
    return sum / (PROMPTS * GROUP);
}

static void test_steps_are_filled_with_groups_that_differ(void **state) {
    (void)state;
    run_require(RUN("dynamic"));
    json_t *metrics = run_lines("dynamic/logs/metrics.jsonl");
    double rollouts = 0;
    for (int step = 1; step <= 3; step++) {
        json_t *samples = run_lines(arena_format(&run_arena, "dynamic/logs/train_data_step%d.jsonl", step));
        const json_t *line = json_array_get(metrics, (size_t)step - 1);
        assert_true(fabs(run_number(line, "train/filtered_reward") - check_groups(samples)) < 1e-12);
        double batches = run_number(line, "train/dynamic_sampling_num_gen_batches");
        rollouts += batches;
        // Of all answers of the step, equal groups included.
        assert_true(run_number(line, "train/reward") >= 0 && run_number(line, "train/reward") <= 1);
        assert_true(run_number(line, "train/max_abs_logprob_error") == 0);
        double discarded = run_number(line, "train/dynamic_sampling_num_discarded_valid_samples");
        assert_true(discarded >= 0 && fmod(discarded, GROUP) == 0 && discarded < batches * PROMPTS * GROUP);
        assert_true(run_number(line, "train/frac_reward_zero_std") < 1);
        json_decref(samples);
    }
    assert_true(rollouts > 3); // else the test would show nothing
    json_t *info;
    assert_true(jsonio_read(&info, run_path("dynamic/step_3/training_info.json"), &run_error));
    assert_true(run_number(info, "asked_questions") == rollouts * PROMPTS);
    assert_true(run_number(info, "consumed_samples") == rollouts * PROMPTS * GROUP);
    json_decref(info);
    json_decref(metrics);
}

static void test_resumed_steps_have_the_same_bits(void **state) {
    (void)state;
    run_require(RUN("whole"));
    run_require(RUN("parts", "grpo.max_num_steps=2"));
    run_require(RUN("parts"));
    assert_string_equal(run_text("whole/logs/train_data_step3.jsonl"), run_text("parts/logs/train_data_step3.jsonl"));
    json_t *whole = run_lines("whole/logs/metrics.jsonl"), *parts = run_lines("parts/logs/metrics.jsonl");
    assert_int_equal(json_array_size(parts), 3);
    static const char *const names[] = {"train/loss", "train/grad_norm", "train/reward",
                                        "train/dynamic_sampling_num_gen_batches"};
    for (size_t i = 0; i < 4; i++)
        assert_true(run_number(json_array_get(whole, 2), names[i]) == run_number(json_array_get(parts, 2), names[i]));
    json_decref(whole);
    json_decref(parts);
}

static void test_rollouts_of_a_step_are_limited(void **state) {
    (void)state;
    // All rewards the same: no group ever differs.
    assert_false(RUN("limited", "grpo.reward_scaling.enabled=true", "grpo.reward_scaling.target_min=0.5",
                     "grpo.reward_scaling.target_max=0.5", "grpo.dynamic_sampling_max_gen_batches=2"));
    assert_non_null(
        strstr(run_error.text, "grpo.dynamic_sampling_max_gen_batches: after 2 rollouts of this step 0 of the 18"));
    assert_false(file_exists(run_path("limited/step_1")));
    assert_false(RUN("limited", "grpo.use_dynamic_sampling=false", "grpo.batch_multiplier=2"));
    assert_non_null(strstr(run_error.text, "grpo.batch_multiplier: 2 needs grpo.use_dynamic_sampling"));
}

static void test_questions_may_end_within_a_step(void **state) {
    (void)state;
    run_require(RUN("short", "grpo.max_num_epochs=2", "grpo.max_num_steps=1000", "checkpointing.save_period=1000",
                    "grpo.batch_multiplier=1.5"));
    json_t *metrics = run_lines("short/logs/metrics.jsonl"), *info;
    size_t steps = json_array_size(metrics);
    assert_in_range(steps, 1, 10); // 40 questions in batches of 4
    const char *last = arena_format(&run_arena, "short/step_%zu/training_info.json", steps);
    assert_true(jsonio_read(&info, run_path(last), &run_error)); // the last whole step is kept
    assert_true(run_number(info, "asked_questions") <= 40);
    json_decref(info);
    json_decref(metrics);
    // Resumed, nothing is left.
    run_require(RUN("short", "grpo.max_num_epochs=2", "grpo.max_num_steps=1000", "checkpointing.save_period=1000",
                    "grpo.batch_multiplier=1.5"));
}

static void test_samples_are_collected(void **state) {
    (void)state;
    int64_t offset[] = {0, 3, 5, 9};
    int32_t prompt[] = {4, 5, 6}, length[] = {1, 1, 2}, ids[] = {10, 11, 12, 20, 21, 30, 31, 32, 33}, by[] = {1, -1, 2};
    float logprobs[9] = {0, -1, -2, 0, -3, 0, 0, -4, -5}, reward[] = {1, 0, 0.5f};
    const char *text[] = {"a", "b", "c"};
    const Samples from = {.count = 3,
                          .prompt = prompt,
                          .question = prompt,
                          .offset = offset,
                          .prompt_length = length,
                          .ids = ids,
                          .generation_logprobs = logprobs,
                          .stopped_by = by,
                          .text = text,
                          .reward = reward,
                          .valid = reward};
    Samples pool = {0};
    assert_int_equal(samples_append(&pool, &from, (bool[]){true, false, true}, 10, &run_arena), 0);
    assert_int_equal(pool.count, 2);
    assert_int_equal(samples_append(&pool, &from, (bool[]){false, true, true}, 1, &run_arena), 1);
    assert_int_equal(samples_append(&pool, &from, (bool[]){false, false, false}, 5, &run_arena), 0);
    assert_int_equal(pool.count, 3);
    const int64_t offsets[] = {0, 3, 7, 9};
    const int32_t all_ids[] = {10, 11, 12, 30, 31, 32, 33, 20, 21}, prompts[] = {4, 6, 5};
    assert_memory_equal(pool.offset, offsets, sizeof offsets);
    assert_memory_equal(pool.ids, all_ids, sizeof all_ids);
    assert_memory_equal(pool.prompt, prompts, sizeof prompts);
    assert_true(pool.generation_logprobs[8] == -3 && pool.reward[1] == 0.5f && pool.reward[2] == 0);
    assert_string_equal(pool.text[1], "c");
    assert_null(pool.reference_logprobs);
    assert_null(pool.finish);
}

// ---- rewards and estimators

static void test_rewards_are_scaled_and_shaped(void **state) {
    (void)state;
    run_require(RUN("shaped", "grpo.use_dynamic_sampling=false", "grpo.max_num_steps=1",
                    "policy.generation.max_new_tokens=50", "grpo.reward_scaling.enabled=true",
                    "grpo.reward_scaling.target_min=-1", "grpo.reward_shaping.enabled=true",
                    "grpo.reward_shaping.stop_properly_penalty_coef=0.5"));
    json_t *samples = run_lines("shaped/logs/train_data_step1.jsonl"), *sample;
    size_t i;
    int cut = 0, stopped = 0;
    json_array_foreach(samples, i, sample) {
        const json_t *ids = json_object_get(sample, "token_ids");
        bool ended = json_integer_value(json_array_get(ids, json_array_size(ids) - 1)) == 257;
        double reward = run_number(sample, "rewards");
        assert_true(fabs(reward) == (ended ? 1 : 0.5));
        stopped += ended, cut += !ended;
    }
    assert_true(cut > 0 && stopped > 0);
    json_decref(samples);
}

static void test_kl_in_the_reward_reads_the_reference(void **state) {
    (void)state;
    run_require(RUN("plusplus", "grpo.use_dynamic_sampling=false", "grpo.adv_estimator.name=reinforce_plus_plus",
                    "loss_fn.use_kl_in_reward=true", "loss_fn.reference_policy_kl_penalty=0.5",
                    "grpo.advantage_clip_high=1.5"));
    json_t *first = run_lines("plusplus/logs/train_data_step1.jsonl");
    json_t *third = run_lines("plusplus/logs/train_data_step3.jsonl"),
           *metrics = run_lines("plusplus/logs/metrics.jsonl");
    // The reference is the policy that the run began with: no KL in the first step, some at the tokens of the third.
    for (int late = 0; late < 2; late++) {
        json_t *sample = json_array_get(late ? third : first, 0), *list = json_object_get(sample, "advantages");
        size_t count = json_array_size(list);
        bool same = true;
        for (size_t t = count - 2; t < count; t++)
            same = same && json_equal(json_array_get(list, t), json_array_get(list, count - 3));
        assert_int_equal(same, !late);
    }
    assert_true(run_number(json_array_get(metrics, 0), "train/advantages/max") <= 1.5);
    assert_true(run_number(json_array_get(metrics, 2), "train/kl_penalty") == 0); // none in the loss
    json_decref(first);
    json_decref(third);
    json_decref(metrics);
}

static void test_losses_over_sequences_run(void **state) {
    (void)state;
    run_require(RUN("gspo", "grpo.use_dynamic_sampling=false", "loss_fn.token_level_loss=false",
                    "loss_fn.sequence_level_importance_ratios=true", "policy.train_global_batch_size=9",
                    "policy.logprob_chunk_size=16", "grpo.max_num_steps=1"));
    json_t *metrics = run_lines("gspo/logs/metrics.jsonl");
    const json_t *line = json_array_get(metrics, 0);
    assert_true(run_number(line, "train/max_abs_logprob_error") == 0);
    assert_true(run_number(line, "train/probs_ratio_max") > 1); // of the second update
    assert_true(fabs(run_number(line, "train/sampling_importance_ratio") - 1) < 1e-12);
    json_decref(metrics);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_are_filled_with_groups_that_differ),
        cmocka_unit_test(test_resumed_steps_have_the_same_bits),
        cmocka_unit_test(test_rollouts_of_a_step_are_limited),
        cmocka_unit_test(test_questions_may_end_within_a_step),
        cmocka_unit_test(test_samples_are_collected),
        cmocka_unit_test(test_rewards_are_scaled_and_shaped),
        cmocka_unit_test(test_kl_in_the_reward_reads_the_reference),
        cmocka_unit_test(test_losses_over_sequences_run),
    };
    return cmocka_run_group_tests_name("experience", tests, setup, run_setup_close);
}
