// Settings: the table, defaults, kinds and ranges, classes of keys, checks among settings, and what is printed of them.
#include "base/file.h"
#include "config/explain.h"
#include "config/settings_table.h"
#include "config/yaml.h"
#include "support/recipes.h"

#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

// The least that a recipe must say, all else being default.
#define TASK "data:\n  default: {env_name: last_integer}\n  train: {dataset_name: arithmetic}\n"

static void test_defaults(void **state) {
    (void)state;
    const Settings *s = recipes_load(TASK);
    assert_int_equal(s->grpo.num_prompts_per_step, 32);
    assert_int_equal(s->grpo.num_generations_per_prompt, 16);
    assert_int_equal(s->run.seed, 42);
    assert_int_equal(s->run.val_start_at, -1);
    assert_int_equal(s->policy.train_global_batch_size, 512);
    assert_int_equal(s->policy.logprob_batch_size, 4);
    assert_int_equal(s->policy.logprob_chunk_size, 0);
    assert_int_equal(s->generation.max_new_tokens, 512);
    assert_int_equal(s->generation.max_length, 512);
    assert_int_equal(s->generation.top_k, 0);
    assert_string_equal(s->policy.tokenizer_name, "Qwen/Qwen2.5-1.5B");
    assert_int_equal(s->policy.dtypes.compute, DTYPE_BF16);
    assert_int_equal(s->policy.dtypes.output, DTYPE_F32);
    assert_true(s->adv_estimator.normalize_rewards && s->adv_estimator.use_leave_one_out_baseline);
    assert_true(s->adv_estimator.advantage_clip_low == -(double)INFINITY);
    assert_true(s->adv_estimator.advantage_clip_high == (double)INFINITY);
    assert_true(s->optimizer.eps == 1e-8 && s->optimizer.beta2 == 0.999 && s->optimizer.max_grad_norm == 1);
    assert_int_equal(s->scheduler.part_count, 2);
    assert_int_equal(s->scheduler.milestones[0], 50);
    assert_true(fabs(optimizer_learning_rate(&s->scheduler, s->optimizer.lr, 0) - 5e-7) < 1e-18);
    assert_true(fabs(optimizer_learning_rate(&s->scheduler, s->optimizer.lr, 60) - 5e-6) < 1e-17);
    assert_int_equal(s->checkpointing.keep_top_k, 3);
    assert_string_equal(s->checkpointing.metric_name, "val:accuracy");
    assert_int_equal(s->data.train_count, 1);
    assert_true(s->data.train[0].split_validation_size == 0.05 && s->data.validation_count == 0);
    assert_int_equal(s->note_count, 0);
    LossOptions loss = loss_options_default();
    assert_true(s->loss_fn.kl_input_clamp_value == loss.kl_input_clamp_value && isnan(s->loss_fn.ratio_clip_c) &&
                isnan(s->loss_fn.truncated_importance_sampling_ratio_min));
    assert_true(s->loss_fn.reference_policy_kl_penalty == loss.reference_policy_kl_penalty);
    assert_true(s->loss_fn.token_level_loss && !s->loss_fn.truncated_importance_sampling_type);
    assert_string_equal(settings_origin(s, &recipes.arena, "grpo.seed"), "built-in default");
}

// Defaults that name another key follow it, whoever sets it.
static void test_defaults_follow(void **state) {
    (void)state;
    char *overrides[] = {"grpo.seed=7", "policy.train_micro_batch_size=${div:16,2}"};
    const Settings *s =
        recipes_load_with("policy: {max_total_sequence_length: 100, model_name: m, generation: {temperature: 0.7}}\n"
                          "grpo: {normalize_rewards: false}\n" TASK,
                          2, overrides);
    assert_int_equal(s->generation.max_new_tokens, 100);
    assert_int_equal(s->generation.max_length, 100);
    assert_int_equal(s->data.max_input_seq_length, 100);
    assert_int_equal(s->policy.train_micro_batch_size, 8); // a whole real
    assert_int_equal(s->policy.logprob_batch_size, 8);
    assert_int_equal(s->data.train[0].seed, 7);
    assert_string_equal(s->policy.tokenizer_name, "m");
    assert_false(s->adv_estimator.normalize_rewards);
    assert_true(s->val_generation.temperature == 0.7);
    assert_int_equal(s->val_generation.max_new_tokens, 100);
    assert_string_equal(settings_origin(s, &recipes.arena, "grpo.seed"), "override grpo.seed=7");
    char *all[] = {"grpo.val_batch_size=null", "grpo.max_val_samples=null"};
    assert_int_equal(recipes_load_with(TASK, 1, all)->grpo.val_batch_size, 256);
    assert_int_equal(recipes_load_with(TASK, 2, all)->grpo.val_batch_size, 1000000000);
    char *bare = "policy.tokenizer.chat_template=null";
    recipes_said(recipes_load_with(TASK, 1, &bare)->policy.chat_template, "{{ message.content }}");
    char *over_null = "policy.optimizer={kwargs: {lr: 1e-3}}";
    s = recipes_load_with("policy: {optimizer: null}\n" TASK, 1, &over_null);
    assert_true(s->optimizer.lr == 1e-3 && s->optimizer.beta2 == 0.999 && s->optimizer.weight_decay == 0.01);
    s = recipes_load("policy: {model_name: m}\n" TASK);
    recipes_said(settings_origin(s, &recipes.arena, "policy.model_name"), "recipe.yaml:1");
}

static void test_demo_recipes(void **state) {
    (void)state;
    const Settings *s = recipes_load_file("recipes/arithmetic.yaml", 0, NULL);
    assert_int_equal(s->grpo.num_prompts_per_step * s->grpo.num_generations_per_prompt, 64);
    assert_int_equal(s->policy.train_global_batch_size, 64);
    assert_int_equal(s->generation.max_new_tokens, 24);
    assert_true(s->generation.temperature == 1 && s->val_generation.temperature == 0);
    assert_true(s->optimizer.lr == 2e-5);
    assert_int_equal(s->policy.dtypes.compute, DTYPE_F32);
    assert_int_equal(s->data.train[0].arithmetic.left_max, 99);
    assert_string_equal(s->data.train[0].arithmetic.operations, "+");
    assert_true(settings_validates(s));
    assert_string_equal(s->logger.log_dir, "results/arithmetic");
    assert_int_equal(s->note_count, 0);
    s = recipes_load_file("recipes/arithmetic_smoke.yaml", 0, NULL);
    assert_int_equal(s->data.train[0].arithmetic.left_min, 0);
    assert_int_equal(s->grpo.num_prompts_per_step, 8);
}

static void test_output_dtype(void **state) {
    (void)state;
    static const struct {
        char *override;
        DType dtype;
    } cases[] = {
        {"policy.automodel_cfg.fsdp_output_dtype=bfloat16", DTYPE_BF16},
        {"policy.automodel_cfg.fsdp_output_dtype=\" BF16 \"", DTYPE_BF16},
        {"policy.automodel_cfg.fsdp_output_dtype=fp16", DTYPE_F16},
        {"policy.automodel_cfg.fsdp_output_dtype=param", DTYPE_BF16},
        {"policy.automodel_cfg.fsdp_output_dtype=null", DTYPE_F32},
        {"+policy.automodel_cfg.fsdp_output_dtype=bf16", DTYPE_BF16},
        {"++policy.dtensor_cfg.fsdp_output_dtype=bf16", DTYPE_BF16},
        {"~policy.automodel_cfg.fsdp_output_dtype", DTYPE_F32},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(recipes_load_with(TASK, 1, (char *[]){cases[i].override})->policy.dtypes.output,
                         cases[i].dtype);
    recipes_refuse(
        "policy:\n  automodel_cfg:\n    fsdp_output_dtype: int8\n" TASK, NULL,
        "recipe.yaml:3: policy.automodel_cfg.fsdp_output_dtype: 'int8' is none of float32 (fp32), bfloat16 (bf16), "
        "float16 (fp16), param");
    recipes_refuse(
        TASK, "policy.automodel_cfg.fsdp_output_dtype=32",
        "override policy.automodel_cfg.fsdp_output_dtype=32: policy.automodel_cfg.fsdp_output_dtype: '32' is none of");
    recipes_refuse(TASK, "policy.automodel_cfg.fsdp_output_dtype=[bf16]", "expected a text, or null, found a list");
    recipes_refuse(TASK, "policy.automodel_cfg.fsdp_output_dtype=''", "expected a text, or null, found ''");
    recipes_refuse("policy: {generation: {fsdp_output_dtype: bf16}}\n" TASK, NULL,
                   "recipe.yaml:1: unknown key policy.generation.fsdp_output_dtype; did you mean "
                   "policy.automodel_cfg.fsdp_output_dtype?");
}

static void test_alias(void **state) {
    (void)state;
    const Settings *s = recipes_load("policy:\n  dtensor_cfg: {_v2: true, fsdp_output_dtype: bf16}\n" TASK);
    assert_int_equal(s->policy.dtypes.output, DTYPE_BF16);
    recipes_said(s->alias, "recipe.yaml:2");
    assert_null(recipes_load(TASK)->alias);
    recipes_refuse(
        "policy:\n  dtensor_cfg: {}\n  automodel_cfg: {}\n" TASK, NULL,
        "recipe.yaml:2: policy.dtensor_cfg: the older name of policy.automodel_cfg, which stands at line 3 too");
    recipes_refuse("policy: {automodel_cfg: {_v2: true}}\n" TASK, NULL, "unknown key policy.automodel_cfg._v2");
    // An old parent and a new child are one mapping.
    recipes_put("old.yaml",
                "policy: {dtensor_cfg: {_v2: true, fsdp_output_dtype: float32, activation_checkpointing: true, "
                "sequence_parallel: true}}\n");
    s = recipes_load("defaults: old.yaml\npolicy: {automodel_cfg: {fsdp_output_dtype: param}}\n" TASK);
    assert_int_equal(s->policy.dtypes.output, DTYPE_BF16);
    assert_int_equal(s->policy.activation_checkpointing, WALK_KEEPS_INPUTS);
    assert_true(s->policy.sequence_parallel && !recipes_load(TASK)->policy.sequence_parallel);
    char *selective = "policy.automodel_cfg.activation_checkpointing=selective";
    assert_int_equal(recipes_load_with(TASK, 1, &selective)->policy.activation_checkpointing, WALK_KEEPS_ATTENTION);
}

static void test_unknown_keys(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"grpo:\n  num_promts_per_step: 3\n",
         "recipe.yaml:2: unknown key grpo.num_promts_per_step; did you mean grpo.num_prompts_per_step?"},
        {"grop: {seed: 3}\n", "recipe.yaml:1: unknown key grop; did you mean grpo?"},
        {"seed: 3\n", "recipe.yaml:1: unknown key seed"},
        {"lr: 3\n", "unknown key lr; did you mean policy.optimizer.kwargs.lr?"},
        {"policy: {max_num_steps: 3}\n", "unknown key policy.max_num_steps; did you mean grpo.max_num_steps?"},
        {"grpo: {optimizer: {kwargs: {lr: 1}}}\n", "unknown key grpo.optimizer; did you mean policy.optimizer?"},
        {"policy: {optimiser: {kwargs: {lr: 1}}}\n", "did you mean policy.optimizer?"},
        {"policy: {automodel_cfg: {fsdp_ouput_dtype: bf16}}\n", "did you mean policy.automodel_cfg.fsdp_output_dtype?"},
        {"qqqqqqqq: 1\n", "recipe.yaml:1: unknown key qqqqqqqq"},
        {"grpo.seed: 3\n", "recipe.yaml:1: grpo.seed: a key with a dot; write it as nested mappings"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        recipes_refuse(cases[i].text, NULL, cases[i].message);
    }
    recipes_refuse(TASK, "+grpo.num_promts_per_step=3", "did you mean grpo.num_prompts_per_step?");
}

static void test_kinds_and_ranges(void **state) {
    (void)state;
    static const struct {
        char *override;
        const char *message;
    } cases[] = {
        {"grpo.seed=x", "override grpo.seed=x: grpo.seed: expected an integer from 0 to 9e+18, found 'x'"},
        {"grpo.seed='42'", "expected an integer from 0 to 9e+18, found '42'"},
        {"grpo.seed=1.5", "expected an integer from 0 to 9e+18, found 1.5"},
        {"grpo.seed=true", "expected an integer"},
        {"grpo.seed=null", "expected an integer from 0 to 9e+18, found null"},
        {"grpo.seed=-1", "expected an integer from 0"},
        {"grpo.seed=1e300", "expected an integer from 0"},
        {"grpo.seed=.nan", "expected an integer from 0"},
        {"grpo.num_prompts_per_step=0", "expected an integer from 1 to 1000000, found 0"},
        {"grpo.val_at_start=1", "grpo.val_at_start: expected true or false, found 1"},
        {"grpo.normalize_rewards=maybe", "grpo.normalize_rewards: expected true or false, found 'maybe'"},
        {"policy.optimizer.kwargs.lr=fast", "expected a number from 0 to 1000000, found 'fast'"},
        {"policy.optimizer.kwargs.lr=.inf", "expected a number from 0 to 1000000, found .inf"},
        {"policy.optimizer.kwargs.betas=[0.9]", "expected a list of two numbers, found a list"},
        {"policy.optimizer.kwargs.betas=[0.9,x]", "policy.optimizer.kwargs.betas.1: expected a number, found 'x'"},
        {"policy.optimizer.kwargs.betas=[0.9,1.0]",
         "override policy.optimizer.kwargs.betas=[0.9,1.0]: policy.optimizer.kwargs.betas[1]: "},
        {"policy.model_name=null", "policy.model_name: expected a text, found null"},
        {"policy.model_name=", "policy.model_name: expected a text, found ''"},
        {"policy.precision=float64", "override policy.precision=float64: policy.precision: 'float64' is not supported; "
                                     "choose one of float32, bfloat16, float16"},
        {"loss_fn.reference_policy_kl_type=k4",
         "loss_fn.reference_policy_kl_type: 'k4' is not supported; choose one of k1, k2, k3"},
        {"loss_fn.ratio_clip_min=-1", "override loss_fn.ratio_clip_min=-1: loss_fn.ratio_clip_min"},
        {"loss_fn.sequence_level_importance_ratios=true",
         "override loss_fn.sequence_level_importance_ratios=true: loss_fn.sequence_level_importance_ratios: true goes"},
        {"policy.generation.top_p=0", "override policy.generation.top_p=0: policy.generation.top_p"},
        {"policy.generation.temperature=0", "policy.generation.temperature: 0 (greedy)"},
        {"policy.generation.val_temperature=-1", "policy.generation.val_temperature: expected a number from 0"},
        {"policy.generation.stop_token_ids=[1,-1]",
         "policy.generation.stop_token_ids.1: expected a token number, found -1"},
        {"policy.generation.stop_strings=[x,'']",
         "policy.generation.stop_strings.1: expected a text in quotes, not empty, found ''"},
        {"policy.generation.stop_strings=[7]", "policy.generation.stop_strings.0: expected a text in quotes"},
        {"policy.generation.stop_strings=x", "expected a list of texts"},
        {"policy.generation.stop_strings=[a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q]", "more than 16 texts"},
        {"policy.generation.stop_token_ids=[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]", "more than 16 tokens"},
        {"data.train.dataset_name=gsm9k", "data.train.dataset_name: 'gsm9k' is not here (did you mean 'gsm8k'?)"},
        {"data.train.operations=['/']", "data.train.operations.0: expected one of '+', '-', '*', found '/'"},
        {"data.train.operations=['+','+']", "'+' stands twice"},
        {"data.train.operations=[]", "expected a list of '+', '-', '*', found a list"},
        {"data.train.left=[9,1]", "[9, 1] is no range"},
        {"data.train.left=5", "expected a list of two integers"},
        {"data.train.left=null", "expected a list of two integers"},
        {"data.train.left=[0,1000000000]", "more than 2147483647 questions"},
        {"data.validation=3", "data.validation: expected a mapping or a list of mappings, or null, found 3"},
        {"data.validation={dataset_name:gsm9k}", "data.validation.dataset_name: 'gsm9k' is not here"},
        {"env.math=null", NULL},
        {"grpo.async_grpo=null", NULL},
        {"grpo.async_grpo=3", "grpo.async_grpo: expected a mapping, found 3"},
        {"policy=null", "policy: expected a mapping, found null"},
        {"policy.optimizer.name=torch.optim.SGD", "'torch.optim.SGD' is not supported; choose one of"},
        {"policy.scheduler=3", "policy.scheduler: expected a scheduler or a list of schedulers, or null, found 3"},
        {"policy.scheduler=[{kwargs:{}}]", "policy.scheduler.0: a scheduler needs a name"},
        {"policy.scheduler=[{name:torch.optim.lr_scheduler.StepLR}]",
         "policy.scheduler.0.name: 'torch.optim.lr_scheduler.StepLR' is not supported"},
        {"policy.scheduler.0.kwargs.total_iter=3", "unknown key"},
        {"+policy.scheduler.0.kwargs.total_iter=3",
         "policy.scheduler.0.kwargs.total_iter: unknown key; did you mean total_iters?"},
        {"policy.scheduler.0.kwargs.start_factor=0",
         "policy.scheduler.0.kwargs.start_factor=0: policy.scheduler[0].kwargs.start_factor"},
        {"policy.scheduler.2.milestones=[5,6]", "2 schedulers need 1 milestones, found 2"},
        {"policy.scheduler={name:torch.optim.lr_scheduler.CosineAnnealingLR}", "needs kwargs.T_max"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (cases[i].message)
            recipes_refuse(TASK, cases[i].override, cases[i].message);
        else
            recipes_load_with(TASK, 1, (char *[]){cases[i].override});
    }
    recipes_refuse("grpo: {seed: ???}\n" TASK, NULL, "recipe.yaml:1: grpo.seed: a value is mandatory");
    recipes_refuse("policy:\n", NULL, "recipe.yaml:1: policy: expected a mapping, found null");
    recipes_load(""); // the defaults are a recipe: the rows are looked for when a run begins
    recipes_refuse("data: {train: {dataset_name: clevr-cogent}}\n", NULL,
                   "data.train.dataset_name: 'clevr-cogent' is not here; there are arithmetic, gsm8k, and");
    recipes_refuse("dpo: {seed: 1}\n" TASK, NULL,
                   "recipe.yaml:1: dpo: this algorithm is not here; whet trains by grpo and by sft");
    recipes_refuse("env: {judge: 3}\n" TASK, NULL, "env.judge: expected a mapping, found 3");
    recipes_refuse("env: {should_use_nemo_gym: true}\n", NULL, "env.should_use_nemo_gym: true is not supported yet");
    assert_int_equal(
        recipes_load("data: {validation: {dataset_name: AIME2024, repeat: 16}}\n")->data.validation[0].repeat, 16);
    recipes_refuse("data: {validation: {dataset_name: AIME2024, repeat: 0}}\n", NULL, "expected an integer from 1");
}

static void test_schedules(void **state) {
    (void)state;
    char *cosine = "policy.scheduler={name:torch.optim.lr_scheduler.CosineAnnealingLR,kwargs:{T_max:10,eta_min:1e-7}}";
    const Settings *s = recipes_load_with(TASK, 1, &cosine);
    assert_int_equal(s->scheduler.part_count, 1);
    assert_int_equal(s->scheduler.parts[0].kind, SCHEDULE_COSINE);
    assert_true(s->scheduler.parts[0].total_iters == 10 && s->scheduler.parts[0].eta_min == 1e-7);
    char *constant = "policy.scheduler=null";
    assert_int_equal(recipes_load_with(TASK, 1, &constant)->scheduler.part_count, 0);
    char *torch_defaults = "policy.scheduler=[{name:torch.optim.lr_scheduler.LinearLR}]";
    s = recipes_load_with(TASK, 1, &torch_defaults);
    assert_true(s->scheduler.parts[0].start_factor == 1.0 / 3 && s->scheduler.parts[0].total_iters == 5);
    char *element = "policy.scheduler.0.kwargs.total_iters=7";
    assert_true(recipes_load_with(TASK, 1, &element)->scheduler.parts[0].total_iters == 7);
}

static void test_classes(void **state) {
    (void)state;
    const Settings *s =
        recipes_load("policy:\n  generation:\n    vllm_cfg: {enforce_eager: true}\n    vllm_kwargs: {a: {b: 1}}\n"
                     "  megatron_cfg: {enabled: false, anything: [1]}\nlogger: {wandb_enabled: true}\n" TASK);
    assert_int_equal(s->note_count, 4);
    assert_string_equal(s->notes[0].key, "policy.generation.vllm_cfg.enforce_eager");
    assert_string_equal(s->notes[0].value, "true");
    recipes_said(s->notes[0].origin, "recipe.yaml:3");
    recipes_said(s->notes[0].reason, "vLLM");
    assert_string_equal(s->notes[1].key, "policy.generation.vllm_kwargs");
    assert_string_equal(s->notes[2].key, "policy.megatron_cfg");
    static const struct {
        char *override;
        const char *message;
    } cases[] = {
        {"grpo.max_rollout_turns=2", "grpo.max_rollout_turns: 2 is not supported yet; only 1 is"},
        {"policy.automodel_cfg.context_parallel_size=2", "2 is not supported yet; only 1 is"},
        {"policy.automodel_cfg.context_parallel_size=1.0", NULL},
        {"policy.automodel_cfg.enabled=false", "false is not supported yet; only true is"},
        {"policy.automodel_cfg.activation_checkpointing=full",
         "activation_checkpointing: expected true, false or selective, found 'full'"},
        {"policy.megatron_cfg.enabled=true", NULL},
        {"policy.generation.colocated.enabled=false", NULL},
        {"policy.automodel_cfg.cpu_offload=true", NULL},
        {"+policy.is_vlm=true", "policy.is_vlm: true is not supported yet; only false is (A model that sees or hears)"},
        {"++policy.megatron_cfg.whatever.x=true", NULL},
        {"grpo.async_grpo.enabled=true", "not supported yet"},
        {"policy.tokenizer.chat_template_kwargs={enable_thinking:false}", NULL},
        {"policy.tokenizer.chat_template_kwargs={}", NULL},
        {"policy.tokenizer.chat_template_kwargs=[1]", "expected a mapping, or null, found a list"},
        {"checkpointing.model_save_format=null", NULL},
        {"checkpointing.model_save_format=torch_save", "'torch_save' is not supported yet; only safetensors, null is"},
        {"+policy.automodel_cfg.automodel_kwargs.freeze_config={x:1}", "freeze_config: a mapping is not supported yet"},
        {"+policy.automodel_cfg.automodel_kwargs.force_hf=true", NULL},
        {"data.train_data_path=x.jsonl", "'x.jsonl' is not supported yet"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (cases[i].message)
            recipes_refuse(TASK, cases[i].override, cases[i].message);
        else
            recipes_load_with(TASK, 1, (char *[]){cases[i].override});
    }
}

// What a recipe asks for in vain is told in one line: the first with its reason, then the other keys.
static void test_all_refusals(void **state) {
    (void)state;
    static const char text[] =
        "grpo:\n  seed: x\n  async_grpo: {enabled: true}\npolicy:\n  draft: {enabled: true}\n" TASK;
    recipes_refuse(text, NULL,
                   "recipe.yaml:2: grpo.seed: expected an integer from 0 to 9e+18, found 'x'; not accepted either: "
                   "grpo.async_grpo.enabled, policy.draft.enabled");
    // A message that cannot go on is not lost behind them, nor they behind it.
    recipes_refuse("grpo: {async_grpo: {enabled: true}}\npolicy: {optimizer: null}\n" TASK, NULL,
                   "only false is (Sample and train at the same time)");
}

static void test_cross_checks(void **state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"policy: {train_global_batch_size: 100}\n",
         "recipe.yaml:1: policy.train_global_batch_size: 100 does not divide"},
        {"grpo: {max_val_samples: 32}\n", "grpo.val_batch_size: 256 is more than grpo.max_val_samples, 32"},
        {"grpo: {skip_reference_policy_logprobs_calculation: true}\n", "needs loss_fn.reference_policy_kl_penalty 0"},
        {"policy: {train_global_batch_size: 256}\nloss_fn: {force_on_policy_ratio: true}\n",
         "recipe.yaml:2: loss_fn.force_on_policy_ratio: true needs"},
        {"checkpointing: {metric_name: val_reward}\n", "'val_reward' is neither val:<metric> nor train:<metric>"},
        {"checkpointing: {metric_name: 'val:'}\n", "is neither val:<metric> nor train:<metric>"},
        {"policy: {generation: {vllm_cfg: {precision: fp8}}}\n", "'fp8' is not policy.precision 'bfloat16'"},
        {"grpo: {advantage_clip_low: 1, advantage_clip_high: 0}\n",
         "recipe.yaml:1: grpo.advantage_clip_low: 1: expected a number up to"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        recipes_refuse(arena_format(&recipes.arena, "%s%s", cases[i].text, TASK), NULL, cases[i].message);
    recipes_refuse(TASK, "data.train.split_validation_size=810", "leaves no training question of the 810 there are");
    recipes_refuse(TASK, "data.train.split_validation_size=1.5", "neither a share below 1 nor a whole number");
    recipes_refuse(TASK, "data.train.split_validation_size=0", "leaves no question for validation");
    char *without[] = {"data.train.split_validation_size=0", "grpo.val_period=0"};
    assert_true(recipes_load_with(TASK, 2, without)->data.train[0].split_validation_size == 0);
    char *counted[] = {"data.train.split_validation_size=${div:128,2}"};
    assert_true(recipes_load_with(TASK, 1, counted)->data.train[0].split_validation_size == 64);
    char *skipped[] = {"++grpo.skip_reference_policy_logprobs_calculation=true",
                       "loss_fn.reference_policy_kl_penalty=0"};
    assert_true(recipes_load_with(TASK, 2, skipped)->grpo.skip_reference_policy_logprobs_calculation);
}

// ---- the table and what is printed

static void test_table(void **state) {
    (void)state;
    for (size_t i = 0; i < settings_table_count; i++) {
        const Setting *row = &settings_table[i];
        if (settings_table_find(row->key) != row) fail_msg("%s stands twice", row->key);
        if (!row->help || !*row->help) fail_msg("%s says nothing", row->key);
        bool sentence = row->help[strlen(row->help) - 1] == '.';
        if (row->class != SETTING_NOT_APPLICABLE && !sentence) fail_msg("%s: the help is no sentence", row->key);
        if (row->class == SETTING_REFUSED && !row->allowed) fail_msg("%s accepts nothing", row->key);
    }
}

// Every recipe of the tree is accepted, and what whet config --plain says of it is the same recipe.
static void test_recipes_load_again(void **state) {
    (void)state;
    glob_t found;
    assert_int_equal(glob("recipes/*.yaml", 0, NULL, &found), 0);
    assert_true(found.gl_pathc >= 2);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        Settings *second;
        if (!strcmp(found.gl_pathv[i], "recipes/grpo_base.yaml")) continue; // names no data
        const Settings *first = recipes_load_file(found.gl_pathv[i], 0, NULL);
        StrBuf one = {0}, two = {0};
        explain_yaml(&one, first);
        if (!settings_load(&second, &recipes.arena, recipes_put("plain.yaml", one.text), 0, NULL, &recipes.error))
            fail_msg("%s, plain: %s", found.gl_pathv[i], recipes.error.text);
        explain_yaml(&two, second);
        assert_string_equal(one.text, two.text);
        strbuf_clear(&one);
        if (explain_changes(&one, ", ", first, second)) fail_msg("%s: %s", found.gl_pathv[i], one.text);
        strbuf_close(&one);
        strbuf_close(&two);
    }
    globfree(&found);
}

static void test_plain_yaml_loads_again(void **state) {
    (void)state;
    char *overrides[] = {"policy.model_name=\"a: \\\"b\\\" \\${c} 100%\"", "policy.generation.stop_token_ids=[1,2]",
                         "policy.generation.stop_strings=[\"</a>\",\"\n- x\"]",
                         "+policy.generation.vllm_kwargs.yes={on:'off',n:'1'}", "policy.optimizer.kwargs.lr=1e-5"};
    const Settings *first = recipes_load_with(
        "grpo: {max_num_steps: 3}\npolicy: {dtensor_cfg: {_v2: true}, megatron_cfg: {'${k}': 1}}\n" TASK, 5, overrides);
    StrBuf one = {0}, two = {0};
    explain_yaml(&one, first);
    const Settings *second = recipes_load(one.text);
    explain_yaml(&two, second);
    assert_string_equal(one.text, two.text);
    assert_string_equal(second->policy.model_name, first->policy.model_name);
    assert_int_equal(second->generation.stop_ids[1], 2);
    assert_int_equal(second->val_generation.stop_string_count, 2);
    assert_string_equal(second->val_generation.stop_strings[0], "</a>");
    assert_string_equal(second->val_generation.stop_strings[1], "\n- x");
    assert_int_equal(second->scheduler.milestones[0], 50);
    assert_true(second->optimizer.lr == 1e-5 && second->optimizer.eps == 1e-8);
    assert_non_null(strstr(one.text, "eps: 1.0e-08\n"));
    assert_non_null(strstr(one.text, "max_num_steps: 3\n"));
    assert_non_null(strstr(one.text, "vllm_kwargs:\n      \"yes\":\n        \"on\": \"off\"\n        n: \"1\"\n"));
    assert_non_null(strstr(one.text, "\"${k}\": 1\n"));
    assert_null(strstr(one.text, "enforce_eager")); // no effect, and no one wrote it
    strbuf_close(&one);
    strbuf_close(&two);
}

// Only what is honoured counts as a difference.
static void test_changes(void **state) {
    (void)state;
    StrBuf text = {0};
    char *overrides[] = {"grpo.seed=7", "cluster.num_nodes=4", "policy.optimizer.kwargs.betas=[0.8,0.9]"};
    const Settings *before = recipes_load(TASK), *after = recipes_load_with(TASK, 3, overrides);
    assert_false(explain_changes(&text, "\n", before, recipes_load_with(TASK, 1, overrides + 1)));
    assert_true(explain_changes(&text, "\n", before, after));
    assert_non_null(strstr(text.text, "grpo.seed: 42 → 7\n"));
    assert_non_null(strstr(text.text, "policy.optimizer.kwargs.betas: [0.9, 0.999] → [0.8, 0.9]"));
    strbuf_close(&text);
}

static void test_annotated_yaml(void **state) {
    (void)state;
    char *overrides[] = {"policy.max_total_sequence_length=64", "policy.generation.vllm_cfg.enforce_eager=true"};
    StrBuf text = {0};
    explain_settings(&text, recipes_load_with(TASK, 2, overrides));
    assert_non_null(
        strstr(text.text, "# override policy.max_total_sequence_length=64; Tokens of prompt and answer at most."));
    assert_non_null(strstr(text.text, "max_new_tokens: 64 "));
    assert_non_null(
        strstr(text.text, "# built-in default, ${policy.max_total_sequence_length}; Tokens of an answer at most."));
    assert_non_null(strstr(text.text, "; no effect: an internal of vLLM"));
    assert_non_null(strstr(text.text, "; only 1 is supported yet: Ranks that share each sequence."));
    Value *root;
    if (!yaml_parse(&root, &recipes.arena, text.text, text.length, "r.yaml", &recipes.error))
        fail_msg("%s", recipes.error.text);
    strbuf_close(&text);
}

// docs/config.md is written from the table: WHET_WRITE_DOCS=1 build/tests/test_config writes it anew.
static void test_manual_is_current(void **state) {
    (void)state;
    StrBuf manual = {0};
    explain_manual(&manual);
    if (getenv("WHET_WRITE_DOCS"))
        assert_true(file_write("docs/config.md", manual.text, manual.length, &recipes.error));
    char *written;
    if (!file_read(&written, NULL, &recipes.arena, "docs/config.md", &recipes.error))
        fail_msg("%s", recipes.error.text);
    if (strcmp(written, manual.text)) fail_msg("docs/config.md is not what the table says; write it anew");
    strbuf_close(&manual);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_defaults_follow),
        cmocka_unit_test(test_demo_recipes),
        cmocka_unit_test(test_output_dtype),
        cmocka_unit_test(test_alias),
        cmocka_unit_test(test_unknown_keys),
        cmocka_unit_test(test_kinds_and_ranges),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_all_refusals),
        cmocka_unit_test(test_cross_checks),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_recipes_load_again),
        cmocka_unit_test(test_plain_yaml_loads_again),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_annotated_yaml),
        cmocka_unit_test(test_manual_is_current),
    };
    return cmocka_run_group_tests_name("config", tests, recipes_open, recipes_close);
}
