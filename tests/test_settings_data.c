// What a recipe says of data sets and rewards: mappings, lists, defaults that fill them, and the keys that all share.
#include "base/file.h"
#include "config/explain.h"
#include "config/settings_data.h"
#include "support/recipes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const DataOptions *data_of(const char *text, char *override) {
    return &recipes_load_with(text, override != NULL, &override)->data;
}

static const char list[] = "data:\n"
                           "  train:\n"
                           "    - {dataset_name: arithmetic, env_name: number, left: [1, 2]}\n"
                           "    - {dataset_name: a.jsonl, input_key: q, seed: 7}\n"
                           "  validation: {dataset_name: gsm8k, split: train}\n"
                           "  default: {env_name: judge, prompt_file: p.txt, output_key: gold}\n"
                           "env:\n"
                           "  judge: {command: [python3, score.py, 5], timeout_seconds: 2.5, num_workers: 4}\n"
                           "  math: {num_workers: 8, math_verify_impl: dapo_math_verify}\n";

static void test_lists(void **state) {
    (void)state;
    const Settings *s = recipes_load(list);
    const DataOptions *data = &s->data;
    assert_int_equal(data->train_count, 2);
    assert_int_equal(data->validation_count, 1);
    const DatasetOptions *first = &data->train[0], *second = &data->train[1], *validation = &data->validation[0];
    assert_string_equal(first->key, "data.train.0");
    assert_string_equal(second->key, "data.train.1");
    assert_string_equal(validation->key, "data.validation");
    assert_true(!first->validates && validation->validates);
    assert_string_equal(first->env_name, "number");
    assert_string_equal(second->env_name, "judge");
    assert_true(first->arithmetic.left_min == 1 && first->arithmetic.right_max == 9 &&
                second->arithmetic.left_max == 99);
    assert_string_equal(first->output_key, "gold"); // whatever key data.default has
    assert_string_equal(second->input_key, "q");
    assert_null(first->input_key);
    assert_true(first->seed == 42 && second->seed == 7);
    assert_string_equal(validation->split, "train");
    assert_null(first->split);
    assert_true(first->split_validation_size == 0); // as there is data.validation
    const RewardOptions *judge = settings_data_reward(s, "judge"), *math = settings_data_reward(s, "math");
    assert_string_equal(judge->command[0], "python3");
    assert_string_equal(judge->command[2], "5");
    assert_null(judge->command[3]);
    assert_true(judge->timeout_seconds == 2.5 && math->timeout_seconds == 300 && !math->command);
    assert_string_equal(math->math_verify_impl, "dapo_math_verify");
    assert_null(settings_data_reward(s, "other"));
    assert_int_equal(s->note_count, 2); // num_workers, twice
    assert_string_equal(s->notes[0].key, "env.math.num_workers");
    // What is written beside a checkpoint reads back as the same.
    StrBuf text = {0}, changes = {0};
    explain_yaml(&text, s);
    const Settings *again = recipes_load(text.text);
    if (explain_changes(&changes, ", ", s, again)) fail_msg("%s", changes.text);
    assert_string_equal(again->data.train[1].prompt_file, "p.txt");
    char *question = "data.train.1.input_key=question";
    const Settings *other = recipes_load_with(list, 1, &question);
    assert_true(explain_changes(&changes, ", ", s, other));
    assert_non_null(strstr(changes.text, "data.train: ["));
    strbuf_close(&text);
    strbuf_close(&changes);
}

static void test_one_mapping(void **state) {
    (void)state;
    const DataOptions *data =
        data_of("data: {train: {dataset_name: arithmetic}, default: {env_name: last_integer, left: "
                "[3, 4]}}\n",
                NULL);
    assert_int_equal(data->train_count, 1);
    assert_string_equal(data->train[0].key, "data.train");
    assert_int_equal(data->train[0].arithmetic.left_max, 4); // data.default goes before built-in defaults
    assert_true(data->train[0].split_validation_size == 0.05);
    data = data_of("data: {train: {dataset_name: arithmetic, left: [5, 6]}, default: {left: [3, 4]}}\n", NULL);
    assert_int_equal(data->train[0].arithmetic.left_max, 6);
    data = data_of("data: {train: {dataset_name: arithmetic}}\n", "+data.default.left=[7,8]");
    assert_int_equal(data->train[0].arithmetic.left_max, 8);
    data = data_of("data: {train: {dataset_name: arithmetic}}\nenv: {s: {command: 'exec x | y'}}\n", NULL);
    assert_string_equal(data->rewards[data->reward_count - 1].command[2], "exec x | y");
}

static void test_prompts_lie_beside_the_recipe_that_names_them(void **state) {
    (void)state;
    if (!file_make_folders(recipes_path("base/prompts"), &recipes.error)) fail_msg("%s", recipes.error.text);
    recipes_put("base/prompts/p.txt", "{}");
    recipes_put("base/base.yaml", "data: {train: {dataset_name: arithmetic}, default: {prompt_file: prompts/p.txt}}\n");
    const DataOptions *data = data_of("defaults: base/base.yaml\n", NULL);
    assert_string_equal(data->train[0].prompt_file, recipes_path("base/prompts/p.txt"));
    recipes_put("q.txt", "{}");
    data = data_of("defaults: base/base.yaml\n", "data.train.prompt_file=q.txt");
    assert_string_equal(data->train[0].prompt_file, recipes_path("q.txt"));
    data = data_of("defaults: base/base.yaml\n", "data.train.prompt_file=none.txt");
    assert_string_equal(data->train[0].prompt_file, "none.txt");
}

#define ONE "data: {train: {dataset_name: arithmetic}}\n"

static void test_refusals(void **state) {
    (void)state;
    recipes_refuse("data: {train: [{dataset_name: arithmetic, lft: [1, 2]}]}\n", NULL,
                   "recipe.yaml:1: unknown key data.train.0.lft; did you mean data.train.0.left?");
    recipes_refuse("data: {train: [{dataset_name: arithmetic}, 5]}\n", NULL,
                   "data.train.1: expected a mapping, found 5");
    recipes_refuse("data: {train: [{dataset_name: arithmetic, left: 5}]}\n", NULL,
                   "left: expected a list of two integers");
    recipes_refuse("data: {train: []}\n", NULL, "recipe.yaml:1: data.train: an empty list; expected a data set");
    recipes_refuse("data: {train: null}\n", NULL, "data.train: expected a mapping or a list of mappings, found null");
    recipes_refuse("data: {train: [{dataset_name: x.jsonl, env_name: jdge}]}\n", NULL,
                   "recipe.yaml:1: data.train.0.env_name: \"jdge\" is no reward");
    recipes_refuse(ONE, "++data.validation.datset_name=gsm8k", "unknown key data.validation.datset_name");
    recipes_refuse(ONE, "++data.default.inputkey=q",
                   "unknown key data.default.inputkey; did you mean data.default.input_key?");
    recipes_refuse(ONE, "++data.validation={dataset_name: gsm8k, split_validation_size: 0.5}",
                   "all its questions are for");
    recipes_refuse(ONE, "++env.judge.comand=x", "unknown key env.judge.comand; did you mean env.judge.command?");
    recipes_refuse(ONE, "++env.judge.command=[]", "env.judge.command: expected a program and its arguments");
    recipes_refuse(ONE, "++env.judge.command=[[x]]", "expected a text");
    recipes_refuse(ONE, "++env.judge.timeout_seconds=0", "env.judge.timeout_seconds: expected a number above 0");
    recipes_refuse(ONE, "++env.math.verifier_type=multilingual_multichoice",
                   "'multilingual_multichoice' is not supported");
    recipes_refuse(ONE, "++env.math.math_verify_impl=x", "choose one of hf_math_verify, dapo_math_verify");
    recipes_refuse(ONE, "++data.num_prompts_per_dataloader=4", "needs data.use_multiple_dataloader: true");
    recipes_refuse(ONE, "++data.train.processor=sft_processor",
                   "'sft_processor' in a recipe of grpo; expected math_hf_data_processor");
    recipes_refuse(ONE "grpo: {adv_estimator: {name: gdpo}}\n", NULL, "data.train.env_name 'math' gives one");
    data_of(ONE "grpo: {adv_estimator: {name: gdpo}}\nenv: {math: {command: [x]}}\n", NULL);
    data_of(
        "data: {train: {dataset_name: arithmetic, env_name: math_multi_reward}}\ngrpo: {adv_estimator: {name: gdpo}}\n",
        NULL);
}

static void test_recipes(void **state) {
    (void)state;
    const Settings *s = recipes_load_file("recipes/gsm8k.yaml", 0, NULL);
    assert_string_equal(s->data.train[0].prompt_file, "recipes/prompts/gsm8k.txt");
    assert_int_equal(s->data.validation_count, 1);
    assert_true(s->data.train[0].split_validation_size == 0);
    assert_int_equal(s->note_count, 0);
    PromptFile prompt;
    if (!prompt_file_open(&prompt, s->data.train[0].prompt_file, &recipes.arena, &recipes.error))
        fail_msg("%s", recipes.error.text);
    assert_non_null(strstr(prompt_file_fill(&prompt, "q", &recipes.arena), "\\boxed{}.\n\nq"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_one_mapping),
        cmocka_unit_test(test_prompts_lie_beside_the_recipe_that_names_them),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_recipes),
    };
    return cmocka_run_group_tests_name("settings_data", tests, recipes_open, recipes_close);
}
