// Recipes that train by policy.megatron_cfg: what its keys say reaches the fields that the other keys fill, what it replaces does
// not count, and what whet does not do is refused by name.
#include "config/explain.h"
#include "support/recipes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define DATA "data: {train: {dataset_name: arithmetic, env_name: number}}\n"
#define MEGATRON "policy:\n  automodel_cfg: {enabled: false}\n  megatron_cfg:\n    enabled: true\n"

static double rate(const Settings *s, int64_t step) {
    return optimizer_learning_rate(&s->scheduler, s->optimizer.lr, step);
}

static void is_near(double value, double expected) {
    if (!(fabs(value - expected) <= 1e-12 * fabs(expected))) fail_msg("%.17g is not %.17g", value, expected);
}

static bool has_note(const Settings *s, const char *key, const char *reason) {
    for (int64_t i = 0; i < s->note_count; i++)
        if (!strcmp(s->notes[i].key, key)) return strstr(s->notes[i].reason, reason);
    return false;
}

static void test_training(void **state) {
    (void)state;
    const Settings *s =
        recipes_load("policy:\n"
                     "  dtensor_cfg: {enabled: false, tensor_parallel_size: 8, lora_cfg: {enabled: true}}\n"
                     "  optimizer: null\n"
                     "  max_grad_norm: 0.5\n"
                     "  megatron_cfg:\n"
                     "    enabled: true\n"
                     "    tensor_model_parallel_size: 4\n"
                     "    sequence_parallel: true\n"
                     "    apply_rope_fusion: true\n"
                     "    optimizer: {lr: 2.0e-5, weight_decay: 0.3, adam_beta1: 0.8, adam_beta2: 0.95, "
                     "adam_eps: 1.0e-7, bf16: true}\n"
                     "    scheduler: {lr_warmup_iters: 4, lr_warmup_init: 1.0e-6}\n" DATA);
    assert_true(s->megatron.enabled);
    assert_int_equal(s->policy.tensor_parallel_size, 4);
    assert_true(s->policy.sequence_parallel);
    assert_string_equal(settings_tensor_key(s), "policy.megatron_cfg.tensor_model_parallel_size");
    const OptimizerOptions *o = &s->optimizer;
    assert_true(o->lr == 2e-5 && o->weight_decay == 0.3 && o->beta1 == 0.8 && o->beta2 == 0.95 && o->eps == 1e-7);
    assert_true(o->max_grad_norm == 0.5 && o->spares_vectors);
    for (int step = 0; step <= 4; step++) is_near(rate(s, step), 1e-6 + (2e-5 - 1e-6) * step / 4);
    assert_true(rate(s, 5) == 2e-5 && rate(s, 1000000) == 2e-5);
    assert_true(has_note(s, "policy.megatron_cfg.apply_rope_fusion", "an internal of Megatron"));
    assert_true(has_note(s, "policy.automodel_cfg.tensor_parallel_size", "takes its place"));
    assert_true(has_note(s, "policy.optimizer", "takes its place"));
    assert_false(has_note(s, "policy.megatron_cfg", ""));
}

// What stands in the section of a recipe that trains by the other keys is one note, whatever it is.
static void test_not_enabled(void **state) {
    (void)state;
    const Settings *s =
        recipes_load("policy: {megatron_cfg: {enabled: false, tensor_model_parallel_size: 4, x: {y: [1]}}}\n" DATA);
    assert_int_equal(s->policy.tensor_parallel_size, 1);
    assert_false(s->optimizer.spares_vectors);
    assert_int_equal(s->scheduler.part_count, 2);
    assert_true(has_note(s, "policy.megatron_cfg", "enabled: true only"));
    assert_string_equal(settings_tensor_key(s), "policy.automodel_cfg.tensor_parallel_size");
    s = recipes_load("policy: {megatron_cfg: null}\n" DATA);
    assert_false(s->megatron.enabled);
}

// Stages move layers between ranks, which divide each layer here: the same results, and one line at the start.
static void test_pipeline_stages(void **state) {
    (void)state;
    char *stages = "policy.megatron_cfg.pipeline_model_parallel_size=4";
    const Settings *s = recipes_load_with(MEGATRON DATA, 1, &stages);
    assert_true(has_note(s, "policy.megatron_cfg.pipeline_model_parallel_size", "one pipeline stage"));
    assert_false(has_note(recipes_load(MEGATRON DATA), "policy.megatron_cfg.pipeline_model_parallel_size", ""));
}

// The other engine's blocks hand on an output too: here there is one engine.
static void test_output_dtype_counts(void **state) {
    (void)state;
    char *dtype = "policy.automodel_cfg.fsdp_output_dtype=bfloat16";
    const Settings *s = recipes_load_with(MEGATRON DATA, 1, &dtype);
    assert_int_equal(s->policy.dtypes.output, DTYPE_BF16);
}

static void test_schedules(void **state) {
    (void)state;
    static const double pi = 3.14159265358979323846;
    const char *form =
        "    optimizer: {lr: 1.0e-4, min_lr: 2.0e-5}\n"
        "    scheduler: {lr_decay_style: %s, lr_decay_iters: 30, lr_warmup_iters: %d, lr_warmup_init: 0}\n";
    for (int warmup = 0; warmup <= 10; warmup += 10)
        for (int cosine = 0; cosine < 2; cosine++) {
            const char *text = arena_format(&recipes.arena, form, cosine ? "cosine" : "linear", warmup);
            const Settings *s = recipes_load(arena_format(&recipes.arena, MEGATRON "%s" DATA, text));
            for (int step = 0; step < 50; step++) {
                double done = step < 30 ? (step - warmup) / (30.0 - warmup) : 1;
                double expected =
                    cosine ? 2e-5 + (1e-4 - 2e-5) * (1 + cos(pi * done)) / 2 : 1e-4 + (2e-5 - 1e-4) * done;
                if (step < warmup) expected = 1e-4 * step / warmup;
                is_near(rate(s, step), expected);
            }
        }
    const Settings *s = recipes_load(MEGATRON "    optimizer: {lr: 0}\n    scheduler: {lr_warmup_iters: 0}\n" DATA);
    assert_true(rate(s, 0) == 0 && rate(s, 9) == 0);
}

static void test_weight_decay(void **state) {
    (void)state;
    const Settings *s = recipes_load(MEGATRON "    optimizer: {weight_decay: 0.3}\n"
                                              "    scheduler: {start_weight_decay: 0.1, end_weight_decay: 0.1}\n" DATA);
    assert_true(s->optimizer.weight_decay == 0.1);
    recipes_refuse(MEGATRON "    scheduler: {start_weight_decay: 0.1, end_weight_decay: 0.2}\n" DATA, NULL,
                   "recipe.yaml:5: policy.megatron_cfg.scheduler.start_weight_decay: 0.1 is not end_weight_decay, 0.2");
}

static void test_recomputation(void **state) {
    (void)state;
    static const struct {
        const char *text;
        WalkCheckpointing expected;
    } cases[] = {
        {"activation_checkpointing: false, recompute_granularity: selective, recompute_modules: [mlp]", WALK_KEEPS_ALL},
        {"activation_checkpointing: true", WALK_KEEPS_INPUTS},
        {"activation_checkpointing: true, recompute_granularity: selective", WALK_KEEPS_ALL},
        {"activation_checkpointing: true, recompute_granularity: selective, recompute_modules: [core_attn, layernorm]",
         WALK_KEEPS_ALL},
        {"activation_checkpointing: true, recompute_granularity: selective, recompute_modules: [core_attn, mlp]",
         WALK_KEEPS_ATTENTION},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Settings *s = recipes_load(arena_format(
            &recipes.arena, "policy: {automodel_cfg: {enabled: false}, megatron_cfg: {enabled: true, %s}}\n" DATA,
            cases[i].text));
        assert_int_equal(s->policy.activation_checkpointing, cases[i].expected);
    }
}

static void test_sft_defaults(void **state) {
    (void)state;
    const Settings *s = recipes_load("sft: {seed: 1}\n" MEGATRON DATA);
    const OptimizerOptions *o = &s->optimizer;
    assert_true(o->lr == 5e-6 && o->weight_decay == 0.1 && o->beta2 == 0.98 && o->eps == 1e-5);
    is_near(rate(s, 0), 4.9999e-6);
    is_near(rate(s, 50), 5e-6);
}

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        char *override;
        const char *message;
    } cases[] = {
        {"policy.megatron_cfg.context_parallel_size=2", "2 is not supported yet; only 1 is"},
        {"policy.megatron_cfg.expert_model_parallel_size=8", "8 is not supported yet; only 1 is"},
        {"+policy.megatron_cfg.peft.enabled=true", "policy.megatron_cfg.peft.enabled: true is not supported yet"},
        {"+policy.megatron_cfg.fp8_cfg.enabled=true", "policy.megatron_cfg.fp8_cfg.enabled: true is not supported yet"},
        {"+policy.megatron_cfg.mtp_num_layers=2", "policy.megatron_cfg.mtp_num_layers: 2 is not supported yet"},
        {"+policy.megatron_cfg.model_overrides={x:1}", "model_overrides: a mapping is not supported yet"},
        {"+policy.megatron_cfg.layernorm_epsilon=1e-6", "rms_norm_eps in policy.hf_config_overrides"},
        {"policy.megatron_cfg.optimizer.optimizer=sgd", "'sgd' is not supported; choose adam"},
        {"policy.megatron_cfg.optimizer.adam_beta2=1", "adam_beta2: expected a number below 1"},
        {"policy.megatron_cfg.optimizer.clip_grad=-1", "clip_grad: -1 is below 0"},
        {"policy.megatron_cfg.scheduler.lr_decay_style=WSD", "choose one of constant, linear, cosine"},
        {"policy.megatron_cfg.scheduler.lr_warmup_init=1", "lr_warmup_init: 1 is above optimizer.lr, 5e-06"},
        {"policy.megatron_cfg.scheduler={lr_decay_style:linear,lr_decay_iters:null}",
         "lr_decay_iters: null, but lr_decay_style 'linear' needs a number of steps"},
        {"policy.megatron_cfg.scheduler={lr_decay_style:cosine,lr_decay_iters:9}",
         "lr_decay_iters: 9 is not above lr_warmup_iters, 13"},
        {"policy.megatron_cfg.activation_checkpointing=selective", "expected true or false"},
        {"policy.megatron_cfg={activation_checkpointing:true,recompute_granularity:selective,recompute_modules:[moe]}",
         "recompute_modules: 'moe': choose of core_attn, layernorm, mlp"},
        {"+policy.megatron_cfg.tensor_model_paralel_size=2",
         "unknown key policy.megatron_cfg.tensor_model_paralel_size; did you mean "
         "policy.megatron_cfg.tensor_model_parallel_size?"},
        {"policy.automodel_cfg.enabled=true",
         "policy.automodel_cfg.enabled: true, and so is policy.megatron_cfg.enabled"},
        {"policy.megatron_cfg.enabled=false", "policy.automodel_cfg.enabled: false is not supported yet"},
        {"policy.megatron_cfg.enabled=5", "policy.megatron_cfg.enabled: expected true or false, found 5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        recipes_refuse(MEGATRON DATA, cases[i].override, cases[i].message);
}

static void test_loads_again(void **state) {
    (void)state;
    const Settings *first = recipes_load(MEGATRON "    tensor_model_parallel_size: 2\n    recompute_modules: [mlp]\n"
                                                  "    env_vars: {A: '1'}\n" DATA);
    StrBuf one = {0}, two = {0}, changes = {0};
    explain_yaml(&one, first);
    const Settings *second = recipes_load(one.text);
    explain_yaml(&two, second);
    assert_string_equal(one.text, two.text);
    assert_non_null(strstr(one.text, "tensor_model_parallel_size: 2\n"));
    assert_null(strstr(one.text, "custom_parallel_plan")); // does not count, and no one wrote it
    assert_false(explain_changes(&changes, ", ", first, second));
    strbuf_clear(&two);
    explain_yaml(&two, recipes_load(DATA));
    assert_null(strstr(two.text, "megatron"));
    strbuf_close(&one);
    strbuf_close(&two);
    strbuf_close(&changes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),        cmocka_unit_test(test_not_enabled),
        cmocka_unit_test(test_pipeline_stages), cmocka_unit_test(test_output_dtype_counts),
        cmocka_unit_test(test_schedules),       cmocka_unit_test(test_weight_decay),
        cmocka_unit_test(test_recomputation),   cmocka_unit_test(test_sft_defaults),
        cmocka_unit_test(test_refusals),        cmocka_unit_test(test_loads_again),
    };
    return cmocka_run_group_tests_name("settings_megatron", tests, recipes_open, recipes_close);
}
