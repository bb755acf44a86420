// config.json in both styles, what is refused, rotary frequencies, and the layout of parameters.
#include "model/architecture.h"
#include "model/parameters.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SIZES                                                                                                          \
    "'vocab_size':100,'hidden_size':128,'intermediate_size':96,'num_hidden_layers':2,'num_attention_heads':4,"         \
    "'num_key_value_heads':2"
#define LLAMA "'model_type':'llama'," SIZES
#define QWEN2 "'model_type':'qwen2'," SIZES
#define QWEN3 "'model_type':'qwen3'," SIZES
#define MISTRAL "'model_type':'mistral'," SIZES
#define SMOLLM3 "'model_type':'smollm3'," SIZES

// Text with ' for ".
static json_t *parse(const char *text) {
    char copy[2048];
    assert_true(strlen(text) < sizeof copy);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *at = copy; *at; at++)
        if (*at == '\'') *at = '"';
    json_error_t where;
    json_t *value = json_loads(copy, 0, &where);
    if (!value) fail_msg("%s: %s", where.text, copy);
    return value;
}

static bool read(Architecture *architecture, const char *text, Error *error) {
    json_t *config = parse(text);
    bool good = architecture_from_json(architecture, config, "config.json", error);
    json_decref(config);
    return good;
}

static Architecture expect(const char *text) {
    Architecture architecture;
    Error error;
    if (!read(&architecture, text, &error)) fail_msg("%s", error.text);
    return architecture;
}

static bool same(const Architecture *a, const Architecture *b) {
    return a->family == b->family && a->vocab_size == b->vocab_size && a->hidden_size == b->hidden_size &&
           a->intermediate_size == b->intermediate_size && a->layer_count == b->layer_count &&
           a->query_heads == b->query_heads && a->kv_heads == b->kv_heads && a->head_dim == b->head_dim &&
           a->max_positions == b->max_positions && a->rms_norm_eps == b->rms_norm_eps && a->tied_head == b->tied_head &&
           a->qkv_bias == b->qkv_bias && a->qk_norm == b->qk_norm && a->rope.theta == b->rope.theta &&
           a->rope.scaling == b->rope.scaling && a->rope.factor == b->rope.factor &&
           a->rope.low_freq_factor == b->rope.low_freq_factor && a->rope.high_freq_factor == b->rope.high_freq_factor &&
           a->rope.original_max_positions == b->rope.original_max_positions &&
           a->rope.attention_factor == b->rope.attention_factor && a->rope.beta_fast == b->rope.beta_fast &&
           a->rope.beta_slow == b->rope.beta_slow && a->rope.truncate == b->rope.truncate &&
           !memcmp(&a->layers, &b->layers, sizeof a->layers) && a->bos_id == b->bos_id &&
           a->eos_count == b->eos_count && !memcmp(a->eos_ids, b->eos_ids, sizeof *a->eos_ids * (size_t)a->eos_count);
}

static void test_old_and_new_style_agree(void **state) {
    (void)state;
    Architecture old = expect("{" LLAMA ",'torch_dtype':'float32','rope_theta':500000.0,'rope_scaling':{"
                              "'type':'llama3','factor':8.0,'low_freq_factor':1,'high_freq_factor':4.0,"
                              "'original_max_position_embeddings':32},'eos_token_id':[7,8],'rms_norm_eps':1e-5}");
    Architecture new = expect("{" LLAMA ",'dtype':'float32','rope_parameters':{'rope_theta':500000.0,"
                              "'rope_type':'llama3','factor':8.0,'low_freq_factor':1.0,'high_freq_factor':4.0,"
                              "'original_max_position_embeddings':32},'eos_token_id':[7,8,7],'rms_norm_eps':1e-5}");
    assert_true(same(&old, &new));
    assert_int_equal(old.family, MODEL_LLAMA);
    assert_int_equal(old.vocab_size, 100);
    assert_int_equal(old.hidden_size, 128);
    assert_int_equal(old.intermediate_size, 96);
    assert_int_equal(old.layer_count, 2);
    assert_int_equal(old.query_heads, 4);
    assert_int_equal(old.kv_heads, 2);
    assert_int_equal(old.head_dim, 32);
    assert_true(old.rms_norm_eps == 1e-5f && !old.tied_head && !old.qkv_bias);
    assert_int_equal(old.rope.scaling, ROPE_LLAMA3);
    assert_true(old.rope.theta == 500000 && old.rope.factor == 8 && old.rope.original_max_positions == 32);
    assert_int_equal(old.eos_count, 2);
    assert_int_equal(old.eos_ids[1], 8);
}

static void test_defaults_are_those_of_transformers(void **state) {
    (void)state;
    Architecture llama = expect("{" LLAMA ",'head_dim':null,'rope_scaling':null}");
    assert_true(llama.rope.theta == 10000 && llama.rope.scaling == ROPE_PLAIN && llama.rms_norm_eps == 1e-6f);
    assert_int_equal(llama.max_positions, 2048);
    assert_int_equal(llama.bos_id, 1);
    assert_int_equal(llama.eos_count, 1);
    assert_int_equal(llama.eos_ids[0], 2);
    Architecture qwen = expect("{" QWEN2 ",'bos_token_id':null,'eos_token_id':null,'head_dim':24,"
                               "'tie_word_embeddings':true}");
    assert_int_equal(qwen.max_positions, 32768);
    assert_int_equal(qwen.bos_id, -1);
    assert_int_equal(qwen.eos_count, 0);
    assert_int_equal(qwen.head_dim, 24);
    assert_true(qwen.qkv_bias && qwen.tied_head);
}

static void test_defaults_of_the_other_families(void **state) {
    (void)state;
    Architecture qwen3 = expect("{" QWEN3 "}");
    assert_true(qwen3.qk_norm && !qwen3.qkv_bias && !qwen3.tied_head);
    assert_int_equal(qwen3.head_dim, 128);
    assert_int_equal(qwen3.layers.window, 0);
    assert_int_equal(qwen3.bos_id, -1);
    Architecture mistral = expect("{" MISTRAL "}");
    assert_int_equal(mistral.max_positions, 131072);
    assert_int_equal(mistral.layers.window, 4096);
    assert_int_equal(mistral.head_dim, 32);
    assert_int_equal(mistral.eos_ids[0], 2);
    Architecture smollm3 = expect("{" SMOLLM3 "}");
    assert_true(smollm3.tied_head && smollm3.rope.theta == 2e6);
    assert_int_equal(smollm3.bos_id, -1); // 128000 is not in this vocabulary
    assert_int_equal(smollm3.eos_count, 0);
    smollm3 = expect("{'model_type':'smollm3','vocab_size':128256,'hidden_size':16,'intermediate_size':8,"
                     "'num_hidden_layers':8,'num_attention_heads':4}");
    assert_int_equal(smollm3.kv_heads, 4);
    assert_int_equal(smollm3.bos_id, 128000);
    assert_int_equal(smollm3.eos_ids[0], 128001);
    for (int i = 0; i < 8; i++) assert_int_equal(layer_set_has(&smollm3.layers.unrotated, i), i % 4 == 3);
    Architecture llama = expect("{'model_type':'llama','vocab_size':8,'hidden_size':16,'intermediate_size':8,"
                                "'num_hidden_layers':1,'num_attention_heads':4}");
    assert_int_equal(llama.kv_heads, 4);
    mistral = expect("{'model_type':'mistral','vocab_size':8,'hidden_size':32,'intermediate_size':8,"
                     "'num_hidden_layers':1,'num_attention_heads':16,'num_key_value_heads':null}");
    assert_int_equal(mistral.kv_heads, 16);
}

static void expect_windows(const char *text, const char *windows) { // 'w': a layer with a window of 9, '.': without
    Architecture a = expect(text);
    for (int64_t i = 0; i < a.layer_count; i++)
        if (layer_kinds_window(&a.layers, i) != (windows[i] == 'w' ? 9 : 0)) fail_msg("layer %d: %s", (int)i, text);
}

static void test_windows_by_layer(void **state) {
    (void)state;
    expect_windows("{" MISTRAL ",'sliding_window':9}", "ww");
    expect_windows("{" MISTRAL ",'sliding_window':null}", "..");
    Architecture far = expect("{" MISTRAL ",'sliding_window':9223372036854775807}");
    assert_int_equal(far.layers.window, far.max_positions); // added to positions: no further than there are keys
    expect_windows("{" QWEN2 ",'use_sliding_window':true,'sliding_window':9,'max_window_layers':1}", ".w");
    expect_windows("{" QWEN3 ",'use_sliding_window':true,'sliding_window':9,'max_window_layers':0}", "ww");
    expect_windows("{" QWEN3 ",'use_sliding_window':true,'sliding_window':9,'max_window_layers':0,"
                   "'layer_types':['sliding_attention','full_attention']}",
                   "w.");
    expect_windows("{" QWEN3 ",'sliding_window':9,'max_window_layers':0}", "..");
    expect_windows("{" SMOLLM3 ",'use_sliding_window':true,'sliding_window':9,'no_rope_layer_interval':2}", ".w");
    expect_windows("{" SMOLLM3 ",'use_sliding_window':true,'sliding_window':9,'no_rope_layers':[0,1,0],"
                   "'layer_types':['full_attention','sliding_attention']}",
                   ".w");
    Architecture lists = expect("{" SMOLLM3 ",'no_rope_layers':[0,1]}");
    assert_true(layer_set_has(&lists.layers.unrotated, 0) && !layer_set_has(&lists.layers.unrotated, 1));
    expect("{" LLAMA ",'sliding_window':9}"); // no key of this model_type
}

// Keys that say what holds anyway.
static void test_idle_keys_are_accepted(void **state) {
    (void)state;
    expect("{" QWEN2 ",'use_sliding_window':false,'sliding_window':256,'max_window_layers':0}");
    expect("{" QWEN2 ",'use_sliding_window':true,'sliding_window':null,'max_window_layers':0}");
    assert_int_equal(expect("{" QWEN2 ",'use_sliding_window':true,'sliding_window':256}").layers.window,
                     0); // from layer 28
    expect("{" QWEN2 ",'layer_types':['full_attention','full_attention']}");
    expect("{" LLAMA ",'attention_bias':false,'mlp_bias':false,'pretraining_tp':1,'rope_interleaved':false}");
    expect("{" LLAMA ",'partial_rotary_factor':1.0,'rope_parameters':{'rope_type':'default','rope_theta':1e4}}");
}

static void test_refusals_name_key_and_value(void **state) {
    (void)state;
    static const struct {
        const char *text, *first, *second;
    } cases[] = {
        {"[1]", "config.json", "object"},
        {"{" SIZES "}", "model_type", "missing"},
        {"{'model_type':'gemma'," SIZES "}", "gemma", "llama, qwen2, qwen3, mistral, smollm3"},
        {"{'model_type':3," SIZES "}", "model_type is 3", "string"},
        {"{'model_type':'llama'}", "vocab_size", "missing"},
        {"{" LLAMA ",'hidden_act':'gelu'}", "gelu", "silu"},
        {"{" LLAMA ",'attention_bias':true}", "attention_bias", "llama"},
        {"{" LLAMA ",'mlp_bias':true}", "mlp_bias", "not supported"},
        {"{" LLAMA ",'mlp_bias':1}", "mlp_bias is 1", "true or false"},
        {"{" LLAMA ",'quantization_config':{}}", "quantization_config", "GGUF"},
        {"{" LLAMA ",'partial_rotary_factor':0.5}", "partial_rotary_factor", "0.5"},
        {"{" LLAMA ",'rope_scaling':{'type':'dynamic','factor':4.0}}", "dynamic", "default, linear, llama3, yarn"},
        {"{" LLAMA ",'rope_scaling':{'type':'dynamic','factor':4.0}}", "dynamic", "cache"},
        {"{" LLAMA ",'rope_parameters':{'rope_type':'longrope','factor':4.0}}", "longrope", "cache"},
        {"{" LLAMA ",'rope_scaling':{'type':'spiral'}}", "spiral", "unknown"},
        {"{" LLAMA ",'rope_scaling':{'type':'yarn'}}", "yarn", "factor"},
        {"{" LLAMA ",'rope_scaling':{'type':'yarn','factor':2,'beta_slow':4,'beta_fast':2}}", "beta_slow 4",
         "slow <= fast"},
        {"{" LLAMA ",'rope_scaling':{'type':'yarn','factor':2,'attention_factor':-1.0}}", "attention_factor is -1",
         "over 0"},
        {"{" LLAMA ",'rope_scaling':{'type':'yarn','factor':2,'original_max_position_embeddings':0}}",
         "original_max_position_embeddings is 0", "at least 1"},
        {"{" LLAMA ",'rope_theta':1,'rope_scaling':{'type':'yarn','factor':2}}", "rope_theta is 1", "over 1"},
        {"{" LLAMA ",'rope_scaling':{'type':'yarn','factor':2,'truncate':1}}", "truncate is 1", "true or false"},
        {"{" LLAMA ",'use_sliding_window':true,'sliding_window':8}", "use_sliding_window", "no sliding window"},
        {"{" LLAMA ",'layer_types':['full_attention','sliding_attention']}", "layer_types", "layer 1"},
        {"{" LLAMA ",'rope_theta':1e-7}", "rope_theta is 1e-07", "1e-6"},
        {"{" LLAMA ",'rope_scaling':{'rope_type':'linear','factor':1e-300}}", "factor is 1e-300", "1e-6"},
        {"{" MISTRAL ",'sliding_window':0}", "sliding_window is 0", "over 0"},
        {"{" MISTRAL ",'sliding_window':8.5}", "sliding_window is 8.5", "integer"},
        {"{" MISTRAL ",'sliding_window':8,'layer_types':['sliding_attention','full_attention']}", "layer 1",
         "all layers"},
        {"{" MISTRAL ",'attention_bias':true}", "attention_bias", "mistral"},
        {"{" QWEN3 ",'attention_bias':true}", "attention_bias", "qwen3"},
        {"{" QWEN3 ",'layer_types':['full_attention']}", "layer_types has 1", "2 as layers"},
        {"{" QWEN3 ",'layer_types':['full_attention','chunked_attention']}", "layer_types is \"chunked_attention\"",
         "sliding_attention"},
        {"{" SMOLLM3 ",'no_rope_layers':[1]}", "no_rope_layers has 1", "2 as layers"},
        {"{" SMOLLM3 ",'no_rope_layers':[1,'x']}", "no_rope_layers is \"x\"", "0"},
        {"{" SMOLLM3 ",'no_rope_layer_interval':0}", "no_rope_layer_interval is 0", "at least 1"},
        {"{" SMOLLM3 ",'mlp_bias':true}", "mlp_bias", "not supported"},
        {"{" LLAMA ",'head_dim':514}", "head_dim is 514", "1..512"},
        {"{" LLAMA ",'rope_parameters':{'full_attention':{'rope_type':'default'}}}", "rope_parameters", "layer type"},
        {"{" LLAMA ",'rope_scaling':{'type':'linear'}}", "linear", "factor"},
        {"{" LLAMA ",'rope_scaling':{'type':'linear','factor':0}}", "factor is 0", "1e-6"},
        {"{" LLAMA ",'rope_scaling':{'rope_type':'llama3','factor':8.0}}", "llama3", "low_freq_factor"},
        {"{" LLAMA ",'rope_scaling':{'rope_type':'llama3','factor':8.0,'low_freq_factor':4,'high_freq_factor':1}}",
         "low_freq_factor 4", "low < high"},
        {"{" LLAMA ",'rope_scaling':[]}", "rope_scaling is []", "object"},
        {"{" LLAMA ",'rope_theta':-1}", "rope_theta is -1", "1e-6"},
        {"{" LLAMA ",'rms_norm_eps':0}", "rms_norm_eps is 0", "over 0"},
        {"{" LLAMA ",'rms_norm_eps':'x'}", "rms_norm_eps is \"x\"", "number"},
        {"{" LLAMA ",'head_dim':33}", "head_dim is 33", "even"},
        {"{" LLAMA ",'head_dim':-2}", "head_dim is -2", "1.."},
        {"{" LLAMA ",'eos_token_id':100}", "eos_token_id 100", "vocab_size 100"},
        {"{" LLAMA ",'eos_token_id':[1,'x']}", "eos_token_id", "token id"},
        {"{" LLAMA ",'eos_token_id':[11,12,13,14,15,16,17,18,19]}", "eos_token_id", "8"},
        {"{" LLAMA ",'bos_token_id':4294967296}", "bos_token_id", "4294967296"},
        {"{" QWEN2 ",'layer_types':['full_attention','sliding_attention']}", "layer 1 is sliding_attention",
         "no sliding_window is in use"},
        {"{'model_type':'llama','vocab_size':100,'hidden_size':126,'intermediate_size':96,'num_hidden_layers':2,"
         "'num_attention_heads':4}",
         "hidden_size 126", "num_attention_heads 4"},
        {"{'model_type':'llama','vocab_size':100,'hidden_size':128,'intermediate_size':96,"
         "'num_hidden_layers':1000000000000,'num_attention_heads':4}",
         "num_hidden_layers is 1000000000000", "1..4096"},
        {"{'model_type':'llama','vocab_size':100,'hidden_size':128,'intermediate_size':96,'num_hidden_layers':2,"
         "'num_attention_heads':0}",
         "num_attention_heads", "0"},
        {"{'model_type':'llama','vocab_size':100,'hidden_size':128,'intermediate_size':96,'num_hidden_layers':2,"
         "'num_attention_heads':4,'num_key_value_heads':3}",
         "num_key_value_heads 3", "num_attention_heads 4"},
        {"{'model_type':'llama','vocab_size':1.5,'hidden_size':128}", "vocab_size is 1.5", "integer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Architecture architecture;
        Error error;
        if (read(&architecture, cases[i].text, &error)) fail_msg("accepted: %s", cases[i].text);
        if (strncmp(error.text, "config.json", 11) != 0 || !strstr(error.text, cases[i].first) ||
            !strstr(error.text, cases[i].second))
            fail_msg("'%s' lacks '%s' or '%s'", error.text, cases[i].first, cases[i].second);
    }
}

static void test_to_json_and_back(void **state) {
    (void)state;
    static const char *const texts[] = {
        "{" LLAMA ",'rms_norm_eps':1e-5,'tie_word_embeddings':true}",
        "{" QWEN2 ",'head_dim':24,'eos_token_id':[4,5],'rope_scaling':{'type':'linear','factor':2.5}}",
        "{" LLAMA ",'bos_token_id':null,'eos_token_id':null,'rope_scaling':{'rope_type':'llama3','factor':8.0,"
        "'low_freq_factor':1,'high_freq_factor':4.0,'original_max_position_embeddings':8192}}",
        "{" LLAMA ",'rope_scaling':{'type':'yarn','factor':4.0}}",
        "{" QWEN3 ",'rope_scaling':{'type':'yarn','factor':4.0,'attention_factor':0.9,'beta_fast':16,'beta_slow':2,"
        "'truncate':false,'original_max_position_embeddings':77}}",
        "{" QWEN3 ",'use_sliding_window':true,'sliding_window':9,'layer_types':['sliding_attention','full_attention']}",
        "{" QWEN2 ",'use_sliding_window':true,'sliding_window':9,'max_window_layers':1}",
        "{" MISTRAL ",'sliding_window':null}",
        "{" MISTRAL ",'sliding_window':9,'head_dim':6}",
        "{" SMOLLM3 "}",
        "{" SMOLLM3 ",'no_rope_layers':[0,1],'use_sliding_window':true,'sliding_window':9}",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Architecture before = expect(texts[i]), after;
        json_t *config = architecture_to_json(&before);
        Error error;
        if (!architecture_from_json(&after, config, "config.json", &error)) fail_msg("%s", error.text);
        assert_true(same(&before, &after));
        json_decref(config);
    }
    Architecture plain = expect(texts[0]);
    json_t *config = architecture_to_json(&plain);
    assert_true(json_real_value(json_object_get(config, "rms_norm_eps")) == 1e-5);
    assert_string_equal(json_string_value(json_array_get(json_object_get(config, "architectures"), 0)),
                        "LlamaForCausalLM");
    json_decref(config);
}

// Values of transformers 5.24, LlamaRotaryEmbedding, head_dim 32: equal to the bit.
static void test_inv_freq(void **state) {
    (void)state;
    static const struct {
        const char *options;
        float expected[16];
    } cases[] = {
        {"'rope_theta':100000.0",
         {0x1.000000p+0f, 0x1.f2a79ep-2f, 0x1.e5a846p-3f, 0x1.d8ffacp-4f, 0x1.ccab84p-5f, 0x1.c0a9a4p-6f,
          0x1.b4f7e4p-7f, 0x1.a9942ap-8f, 0x1.9e7c70p-9f, 0x1.93aeb8p-10f, 0x1.892918p-11f, 0x1.7ee9aep-12f,
          0x1.74eea6p-13f, 0x1.6b3636p-14f, 0x1.61bea4p-15f, 0x1.58863ap-16f}},
        {"'rope_theta':10000.0,'rope_scaling':{'type':'linear','factor':3.0}",
         {0x1.555556p-2f, 0x1.7fe446p-3f, 0x1.afc19ep-4f, 0x1.e596bep-5f, 0x1.111112p-5f, 0x1.331d02p-6f,
          0x1.5967b2p-7f, 0x1.847898p-8f, 0x1.b4e81ap-9f, 0x1.eb61a0p-10f, 0x1.1452f6p-10f, 0x1.36c6e0p-11f,
          0x1.5d867ep-12f, 0x1.891ae6p-13f, 0x1.ba1e56p-14f, 0x1.f13e32p-15f}},
        {"'rope_theta':500000.0,'rope_scaling':{'rope_type':'llama3','factor':32.0,'low_freq_factor':1.0,"
         "'high_freq_factor':4.0,'original_max_position_embeddings':8192}",
         {0x1.000000p+0f, 0x1.c2ef78p-2f, 0x1.8d2760p-3f, 0x1.5dc95ap-4f, 0x1.341190p-5f, 0x1.0f5386p-6f,
          0x1.ddee9ep-8f, 0x1.a4ee40p-9f, 0x1.c26c40p-12f, 0x1.46831ap-16f, 0x1.1f91f0p-17f, 0x1.fa8b86p-19f,
          0x1.be2188p-20f, 0x1.88ec20p-21f, 0x1.5a0f4ep-22f, 0x1.30c94ep-23f}},
    };
    for (int i = 0; i < 3; i++) {
        char text[1024];
        snprintf(text, sizeof text, "{" LLAMA ",%s}", cases[i].options);
        Architecture architecture = expect(text);
        float inv_freq[16];
        rotary_inv_freq(&architecture.rope, architecture.head_dim, inv_freq);
        for (int j = 0; j < 16; j++)
            if (inv_freq[j] != cases[i].expected[j])
                fail_msg("case %d, %d: %a, expected %a", i, j, (double)inv_freq[j], (double)cases[i].expected[j]);
    }
}

static int64_t size_of(const Parameter *parameter) {
    return parameter->rows * parameter->cols;
}

static void check_joined(const ParameterTable *table, int unit, ParameterRole first, ParameterRole second) {
    const Parameter *a = parameters_find(table, unit, first), *b = parameters_find(table, unit, second);
    assert_int_equal(b->offset, a->offset + size_of(a));
}

static void test_parameters_lie_as_promised(void **state) {
    (void)state;
    // Heads of 6 values: no size is a multiple of 16.
    Architecture architecture = expect("{'model_type':'qwen2','vocab_size':11,'hidden_size':10,'intermediate_size':7,"
                                       "'num_hidden_layers':3,'num_attention_heads':2,'num_key_value_heads':1,"
                                       "'head_dim':6}");
    ParameterTable table;
    parameters_open(&table, &architecture);
    assert_int_equal(table.unit_count, 4);
    assert_int_equal(table.count, 3 * 12 + 3);
    int64_t total = 0, end = 0;
    for (int i = 0; i < table.count; i++) {
        const Parameter *item = &table.items[i];
        if (i == 0 || item->unit != table.items[i - 1].unit) end = 0;
        assert_true(item->offset >= end && item->offset - end < 16);
        end = item->offset + size_of(item);
        total += size_of(item);
        assert_true(end <= table.unit_sizes[item->unit]);
        assert_ptr_equal(parameters_find(&table, item->unit, item->role), item);
        assert_true(item->vector == (item->cols == 1));
    }
    assert_int_equal(table.total, total);
    assert_int_equal(total, 3 * (10 * (12 + 6 + 6) + 12 + 6 + 6 + 12 * 10 + 3 * 7 * 10 + 20) + 2 * 110 + 10);
    for (int unit = 0; unit < 4; unit++) assert_int_equal(table.unit_sizes[unit] % 16, 0);
    for (int unit = 0; unit < 3; unit++) {
        check_joined(&table, unit, PARAMETER_Q, PARAMETER_K);
        check_joined(&table, unit, PARAMETER_K, PARAMETER_V);
        check_joined(&table, unit, PARAMETER_Q_BIAS, PARAMETER_K_BIAS);
        check_joined(&table, unit, PARAMETER_K_BIAS, PARAMETER_V_BIAS);
        check_joined(&table, unit, PARAMETER_GATE, PARAMETER_UP);
        for (int role = PARAMETER_Q; role <= PARAMETER_MIDDLE_NORM; role++) {
            bool joined = role == PARAMETER_K || role == PARAMETER_V || role == PARAMETER_UP ||
                          role == PARAMETER_K_BIAS || role == PARAMETER_V_BIAS;
            if (!joined) assert_int_equal(parameters_find(&table, unit, (ParameterRole)role)->offset % 16, 0);
        }
    }
    assert_string_equal(parameters_find(&table, 2, PARAMETER_K)->name, "model.layers.2.self_attn.k_proj.weight");
    assert_string_equal(parameters_find(&table, 3, PARAMETER_HEAD)->name, "lm_head.weight");
    assert_null(parameters_find(&table, 3, PARAMETER_Q));
    assert_null(parameters_find(&table, 4, PARAMETER_Q));
    parameters_close(&table);

    architecture = expect("{" QWEN3 ",'head_dim':6}");
    parameters_open(&table, &architecture);
    assert_int_equal(table.count, 2 * 11 + 3);
    assert_string_equal(parameters_find(&table, 1, PARAMETER_Q_NORM)->name, "model.layers.1.self_attn.q_norm.weight");
    assert_string_equal(parameters_find(&table, 1, PARAMETER_K_NORM)->name, "model.layers.1.self_attn.k_norm.weight");
    assert_int_equal(parameters_find(&table, 1, PARAMETER_K_NORM)->rows, 6);
    parameters_close(&table);

    architecture = expect("{" LLAMA ",'tie_word_embeddings':true}");
    parameters_open(&table, &architecture);
    assert_null(parameters_find(&table, 2, PARAMETER_HEAD));
    assert_null(parameters_find(&table, 0, PARAMETER_Q_BIAS));
    assert_int_equal(table.count, 2 * 9 + 2);
    parameters_close(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_old_and_new_style_agree),
        cmocka_unit_test(test_defaults_are_those_of_transformers),
        cmocka_unit_test(test_defaults_of_the_other_families),
        cmocka_unit_test(test_windows_by_layer),
        cmocka_unit_test(test_idle_keys_are_accepted),
        cmocka_unit_test(test_refusals_name_key_and_value),
        cmocka_unit_test(test_to_json_and_back),
        cmocka_unit_test(test_inv_freq),
        cmocka_unit_test(test_parameters_lie_as_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
