// Models in GGUF files: two made by gguf-py (tests/data/gguf), metadata in all its shapes, refusals, damaged files.
#include "base/file.h"
#include "base/rng.h"
#include "model/gguf_model.h"
#include "model/model_file.h"
#include "model/safetensors.h"
#include "support/gguf_build.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[64], path[96];

static int setup(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/whet-test-gguf-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(path, sizeof path, "%s/x.gguf", folder);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    Error error;
    return file_remove_tree(folder, &error) ? 0 : -1;
}

// --- models of gguf-py

static void compare_model(const char *gguf, const char *expected, int count) {
    ModelFile *file;
    Safetensors reference;
    Error error;
    Arena arena = {0};
    if (!model_file_open(&file, gguf, &error) || !safetensors_open(&reference, expected, &error))
        fail_msg("%s", error.text);
    const ParameterTable *table = model_file_parameters(file);
    assert_int_equal(table->count, count);
    assert_int_equal(reference.count, count);
    for (int i = 0; i < table->count; i++) {
        const Parameter *item = &table->items[i];
        int64_t elements = item->rows * item->cols;
        float *values = arena_array(&arena, float, elements);
        const SafetensorsEntry *entry = NULL;
        if (!safetensors_require(&entry, &reference, item->name, SAFETENSORS_F32, elements, &error) ||
            !model_file_read(file, item, values, &error))
            fail_msg("%s", error.text);
        for (int64_t j = 0; j < elements; j++)
            if (values[j] != ((const float *)entry->data)[j])
                fail_msg("%s %s [%d]: %.9g, expected %.9g", gguf, item->name, (int)j, (double)values[j],
                         (double)((const float *)entry->data)[j]);
    }
    const Architecture *a = model_file_architecture(file);
    assert_int_equal(a->head_dim, 16);
    assert_int_equal(a->query_heads, 3);
    assert_int_equal(a->kv_heads, 1);
    assert_int_equal(a->max_positions, 64);
    assert_true(a->rope.theta == 50000 && a->rope.scaling == ROPE_PLAIN && a->rms_norm_eps == 1e-5f);
    assert_string_equal(chat_source_find(model_file_chat_templates(file), "default")->text, "{{ messages }}");
    int32_t stop;
    assert_int_equal(model_file_stop_ids(file, &stop, 1), 1);
    assert_int_equal(stop, 23);
    Tokenizer *tokenizer;
    TokenList ids = {0};
    if (!model_file_tokenizer(file, &tokenizer, &error)) fail_msg("%s", error.text);
    assert_true(tokenizer_encode(tokenizer, &ids, "abc<e>", 6, false, &error));
    assert_int_equal(ids.count, 3);
    assert_true(ids.ids[0] == 22 && ids.ids[1] == 2 && ids.ids[2] == 23);
    bpe_list_close(&ids);
    tokenizer_close(tokenizer);
    safetensors_close(&reference);
    model_file_close(file);
    arena_close(&arena);
}

static void test_llama_of_gguf_py(void **state) {
    (void)state;
    compare_model("tests/data/gguf/llama.gguf", "tests/data/gguf/llama.safetensors", 2 * 9 + 2);
}

static void test_qwen2_of_gguf_py(void **state) {
    (void)state;
    compare_model("tests/data/gguf/qwen2.gguf", "tests/data/gguf/qwen2.safetensors", 12 + 3);
}

// --- models built here

static const uint64_t shape_2x2[2] = {2, 2};
static const float four[4] = {1, 2, 3, 4};

static void expect_bad(const char *what, bool opened, const Error *error, const char *first, const char *second) {
    if (opened) fail_msg("accepted: %s", what);
    if (!strstr(error->text, first) || !strstr(error->text, second) || strncmp(error->text, path, strlen(path)) != 0)
        fail_msg("%s: '%s' lacks '%s' or '%s'", what, error->text, first, second);
    for (const char *at = error->text; *at; at++)
        if ((unsigned char)*at < 0x20) fail_msg("%s: not one line: '%s'", what, error->text);
}

typedef struct Options {
    const char *family, *skip_key, *skip_tensor;
    bool biases, norms, head;
} Options;

static void add_weights(GgufBuild *b, const char *name, const Options *o, uint64_t cols, uint64_t rows) {
    static const float values[64 * 64] = {1};
    uint64_t shape[2] = {cols, rows};
    if (o->skip_tensor && !strcmp(o->skip_tensor, name)) return;
    gguf_build_tensor(b, name, rows ? 2 : 1, shape, 0, values, sizeof *values * cols * (rows ? rows : 1));
}

static void add_size(GgufBuild *b, const Options *o, const char *key, uint32_t value) {
    char full[64];
    snprintf(full, sizeof full, "%s.%s", o->family, key);
    if (!o->skip_key || strcmp(o->skip_key, full) != 0) gguf_build_u32(b, full, value);
}

static void add_block(GgufBuild *b, const Options *o, int layer) {
    static const struct {
        const char *name;
        uint64_t cols, rows;
    } weights[] = {{"attn_q", 8, 8},      {"attn_k", 8, 4},    {"attn_v", 8, 4},
                   {"attn_output", 8, 8}, {"ffn_gate", 8, 12}, {"ffn_up", 8, 12},
                   {"ffn_down", 12, 8},   {"attn_norm", 8, 0}, {"ffn_norm", 8, 0}};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%d.%s.weight", layer, weights[i].name);
        add_weights(b, name, o, weights[i].cols, weights[i].rows);
    }
}

// One layer, hidden size 8, two heads of 4 and one for keys and values, vocabulary of 6.
static void add_model(GgufBuild *b, Options o) {
    if (!o.family) o.family = "llama";
    if (!o.skip_key || strcmp(o.skip_key, "general.architecture") != 0)
        gguf_build_text(b, "general.architecture", o.family);
    add_size(b, &o, "embedding_length", 8);
    add_size(b, &o, "feed_forward_length", 12);
    add_size(b, &o, "block_count", 1);
    add_size(b, &o, "attention.head_count", 2);
    add_size(b, &o, "attention.head_count_kv", 1);
    add_size(b, &o, "context_length", 32);
    char eps[64];
    snprintf(eps, sizeof eps, "%s.attention.layer_norm_rms_epsilon", o.family);
    if (!o.skip_key || strcmp(o.skip_key, eps) != 0) gguf_build_f32(b, eps, 1e-5f);
    static const char *const tokens[] = {"a", "b", "c", "ab", "<s>", "<e>"}, *const merges[] = {"a b"};
    gguf_build_text(b, "tokenizer.ggml.model", "gpt2");
    gguf_build_texts(b, "tokenizer.ggml.tokens", 6, tokens);
    gguf_build_texts(b, "tokenizer.ggml.merges", 1, merges);
    gguf_build_u32(b, "tokenizer.ggml.eos_token_id", 5);
    add_weights(b, "token_embd.weight", &o, 8, 6);
    add_weights(b, "output_norm.weight", &o, 8, 0);
    if (o.head) add_weights(b, "output.weight", &o, 8, 6);
    add_block(b, &o, 0);
    if (o.norms) {
        add_weights(b, "blk.0.attn_q_norm.weight", &o, 4, 0);
        add_weights(b, "blk.0.attn_k_norm.weight", &o, 4, 0);
    }
    if (!o.biases) return;
    add_weights(b, "blk.0.attn_q.bias", &o, 8, 0);
    add_weights(b, "blk.0.attn_k.bias", &o, 4, 0);
    add_weights(b, "blk.0.attn_v.bias", &o, 4, 0);
}

static Architecture good_model(GgufBuild *b) {
    ModelFile *file;
    Error error;
    gguf_build_finish(b, path);
    if (!model_file_open(&file, path, &error)) fail_msg("%s", error.text);
    Architecture architecture = *model_file_architecture(file);
    model_file_close(file);
    return architecture;
}

static void bad_model(GgufBuild *b, const char *first, const char *second) {
    ModelFile *file;
    Error error;
    gguf_build_finish(b, path);
    expect_bad(first, model_file_open(&file, path, &error), &error, first, second);
}

static void test_architecture_by_keys(void **state) {
    (void)state;
    GgufBuild b = {0};
    add_model(&b, (Options){0});
    Architecture a = good_model(&b);
    assert_true(a.family == MODEL_LLAMA && a.tied_head && !a.qkv_bias && a.rope.theta == 10000);
    assert_true(a.vocab_size == 6 && a.hidden_size == 8 && a.intermediate_size == 12 && a.layer_count == 1);
    assert_true(a.query_heads == 2 && a.kv_heads == 1 && a.head_dim == 4 && a.max_positions == 32);
    assert_true(a.bos_id == -1 && a.eos_count == 1 && a.eos_ids[0] == 5);

    b = (GgufBuild){0};
    add_model(&b, (Options){.family = "qwen2", .biases = true, .head = true});
    gguf_build_f32(&b, "qwen2.rope.freq_base", 1e6f);
    gguf_build_text(&b, "qwen2.rope.scaling.type", "linear");
    gguf_build_f32(&b, "qwen2.rope.scaling.factor", 4);
    gguf_build_u32(&b, "tokenizer.ggml.bos_token_id", 4);
    gguf_build_u32(&b, "tokenizer.ggml.eot_token_id", 3);
    gguf_build_u32(&b, "tokenizer.ggml.eom_token_id", 5);
    gguf_build_u32(&b, "qwen2.attention.sliding_window", 32); // as long as the context: not in use
    a = good_model(&b);
    assert_true(a.family == MODEL_QWEN2 && !a.tied_head && a.qkv_bias && a.rope.theta == 1e6);
    assert_true(a.rope.scaling == ROPE_LINEAR && a.rope.factor == 4);
    assert_true(a.bos_id == 4 && a.eos_count == 2 && a.eos_ids[0] == 5 && a.eos_ids[1] == 3);

    b = (GgufBuild){0};
    add_model(&b, (Options){.family = "qwen3", .norms = true});
    gguf_build_text(&b, "qwen3.rope.scaling.type", "yarn");
    gguf_build_f32(&b, "qwen3.rope.scaling.factor", 4);
    gguf_build_u32(&b, "qwen3.rope.scaling.original_context_length", 16);
    gguf_build_f32(&b, "qwen3.rope.scaling.yarn_beta_fast", 24);
    a = good_model(&b);
    assert_true(a.family == MODEL_QWEN3 && a.qk_norm && !a.qkv_bias && a.tied_head);
    assert_true(a.rope.scaling == ROPE_YARN && a.rope.factor == 4 && a.rope.original_max_positions == 16);
    assert_true(a.rope.beta_fast == 24 && a.rope.beta_slow == 1 && a.rope.truncate);
    assert_true(a.rope.attention_factor == rotary_yarn_attention(4));

    const char *const names[] = {"llama", "mistral"};
    for (int i = 0; i < 2; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s.attention.sliding_window", names[i]);
        b = (GgufBuild){0};
        add_model(&b, (Options){.family = names[i], .head = true});
        gguf_build_u32(&b, key, 16);
        a = good_model(&b);
        assert_true(a.family == MODEL_MISTRAL && layer_kinds_window(&a.layers, 0) == 16);
    }

    b = (GgufBuild){0};
    add_model(&b, (Options){.family = "smollm3", .skip_key = "smollm3.block_count"});
    gguf_build_u32(&b, "smollm3.block_count", 4);
    for (int i = 1; i < 4; i++) add_block(&b, &(Options){.family = "smollm3"}, i);
    a = good_model(&b);
    for (int i = 0; i < 4; i++) assert_int_equal(layer_set_has(&a.layers.unrotated, i), i == 3);
    assert_true(gguf_model_interleaved(MODEL_SMOLLM3, PARAMETER_K) &&
                gguf_model_interleaved(MODEL_MISTRAL, PARAMETER_Q));
    assert_true(!gguf_model_interleaved(MODEL_QWEN3, PARAMETER_Q) && !gguf_model_interleaved(MODEL_LLAMA, PARAMETER_V));
}

static void test_models_that_lack_or_exceed(void **state) {
    (void)state;
    static const char *const keys[] = {"general.architecture",       "llama.embedding_length",
                                       "llama.feed_forward_length",  "llama.block_count",
                                       "llama.attention.head_count", "llama.attention.layer_norm_rms_epsilon"};
    GgufBuild b;
    for (int i = 0; i < 6; i++) {
        b = (GgufBuild){0};
        add_model(&b, (Options){.skip_key = keys[i]});
        bad_model(&b, keys[i], "missing");
    }
    static const char *const tensors[] = {"token_embd.weight", "output_norm.weight", "blk.0.attn_q.weight",
                                          "blk.0.ffn_norm.weight"};
    for (int i = 0; i < 4; i++) {
        b = (GgufBuild){0};
        add_model(&b, (Options){.skip_tensor = tensors[i]});
        bad_model(&b, tensors[i], "missing");
    }
    b = (GgufBuild){0};
    add_model(&b, (Options){.family = "qwen2"});
    bad_model(&b, "blk.0.attn_q.bias", "missing");
    b = (GgufBuild){0};
    add_model(&b, (Options){.biases = true});
    bad_model(&b, "bias does not belong", "llama");
    b = (GgufBuild){0};
    add_model(&b, (Options){.family = "gemma"});
    bad_model(&b, "general.architecture 'gemma'", "llama, qwen2");
    b = (GgufBuild){0};
    add_model(&b, (Options){.skip_tensor = "blk.0.attn_k.weight"});
    gguf_build_tensor(&b, "blk.0.attn_k.weight", 2, shape_2x2, 0, four, sizeof four);
    bad_model(&b, "blk.0.attn_k.weight has shape [2, 2]", "expected [8, 4]");
    b = (GgufBuild){0};
    add_model(&b, (Options){0});
    gguf_build_tensor(&b, "blk.1.attn_k.weight", 2, shape_2x2, 0, four, sizeof four);
    bad_model(&b, "blk.1.attn_k.weight does not belong", "1 layers");
}

static void test_options_not_computed_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *key, *text; // a text, or else a number
        float number;
        const char *second;
    } cases[] = {
        {"llama.expert_count", NULL, 8, "not supported"},
        {"llama.attention.sliding_window", NULL, 16, "an integer"},
        {"llama.attention.sliding_window_pattern", NULL, 2, "not supported"},
        {"llama.rope.dimension_count", NULL, 2, "integer"},
        {"llama.rope.scaling.type", "spiral", 0, "linear, yarn"},
        {"llama.rope.freq_base", NULL, -5, "expected 1e-6 to 1e12 (here llama.rope.freq_base)"},
        {"llama.rope.freq_base", "x", 0, "a number"},
        {"llama.rope.scaling.factor", NULL, 0, "factor is 0"},
        {"llama.logit_scale", NULL, 2, "not supported"},
        {"split.count", NULL, 2, "integer"},
        {"tokenizer.chat_template", NULL, 2, "a string"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        GgufBuild b = {0};
        add_model(&b, (Options){0});
        if (cases[i].text)
            gguf_build_text(&b, cases[i].key, cases[i].text);
        else
            gguf_build_f32(&b, cases[i].key, cases[i].number);
        bad_model(&b, strstr(cases[i].second, "is") ? "rope" : cases[i].key, cases[i].second);
    }
    static const struct {
        const char *key;
        uint32_t value;
        const char *first, *second;
    } integers[] = {
        {"split.count", 2, "first of 2 parts", "-00001-of-00002.gguf"},
        {"llama.rope.dimension_count", 2, "llama.rope.dimension_count is 2", "head's size 4"},
        {"llama.attention.key_length", 3, "head_dim is 3", "even"},
        {"llama.attention.value_length", 2, "llama.attention.value_length is 2", "key_length, 4"},
        {"tokenizer.ggml.bos_token_id", 6, "bos_token_id 6", "vocab_size 6"},
        {"tokenizer.ggml.bos_token_id", ~0u, "bos_token_id is 4294967295", "token id"},
        {"tokenizer.ggml.eot_token_id", 99, "eos_token_id 99", "vocab_size 6"},
    };
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++) {
        GgufBuild b = {0};
        add_model(&b, (Options){0});
        gguf_build_u32(&b, integers[i].key, integers[i].value);
        bad_model(&b, integers[i].first, integers[i].second);
    }
    static const char *const factors[] = {"attn_factor", "yarn_attn_factor", "yarn_ext_factor"};
    for (int i = 0; i < 3; i++) {
        GgufBuild b = {0};
        char key[64];
        snprintf(key, sizeof key, "llama.rope.scaling.%s", factors[i]);
        add_model(&b, (Options){0});
        gguf_build_text(&b, "llama.rope.scaling.type", "yarn");
        gguf_build_f32(&b, "llama.rope.scaling.factor", 4);
        gguf_build_f32(&b, key, 0.75f);
        bad_model(&b, key, "is 0.75, expected 1");
    }
    GgufBuild b = {0};
    add_model(&b, (Options){.family = "qwen3", .norms = true});
    gguf_build_u32(&b, "qwen3.attention.sliding_window", 16);
    bad_model(&b, "qwen3.attention.sliding_window is 16", "not supported");
    b = (GgufBuild){0};
    add_model(&b, (Options){.skip_key = "llama.block_count"});
    gguf_build_u32(&b, "llama.block_count", ~0u);
    bad_model(&b, "num_hidden_layers is 4294967295", "4096");
    b = (GgufBuild){0};
    add_model(&b, (Options){.skip_key = "llama.attention.head_count"});
    gguf_build_u32(&b, "llama.attention.head_count", 0);
    bad_model(&b, "head_count 0", "embedding_length 8");
    b = (GgufBuild){0};
    add_model(&b, (Options){0});
    gguf_build_value(&b, "llama.attention.causal", GGUF_BOOL, "\0", 1);
    bad_model(&b, "llama.attention.causal is false", "not supported");
}

// As convert_hf_to_gguf.py computes them for Llama 3. Head of 64, theta 500000.
static void llama3_divisors(float out[32], double factor, double low, double high, double original) {
    for (int i = 0; i < 32; i++) {
        double wavelength = 2 * M_PI * pow(500000, i / 32.0);
        double smooth = (original / wavelength - low) / (high - low);
        out[i] = wavelength < original / high  ? 1
                 : wavelength > original / low ? (float)factor
                                               : (float)(1 / ((1 - smooth) / factor + smooth));
    }
}

static void add_wide_model(GgufBuild *b, const float divisors[32]) {
    static const uint64_t shape[1] = {32};
    Options o = {.family = "llama"};
    gguf_build_text(b, "general.architecture", "llama");
    add_size(b, &o, "embedding_length", 64);
    add_size(b, &o, "feed_forward_length", 4);
    add_size(b, &o, "block_count", 1);
    add_size(b, &o, "attention.head_count", 1);
    gguf_build_f32(b, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    gguf_build_f32(b, "llama.rope.freq_base", 500000);
    add_weights(b, "token_embd.weight", &o, 64, 6);
    add_weights(b, "output_norm.weight", &o, 64, 0);
    add_weights(b, "blk.0.attn_q.weight", &o, 64, 64);
    add_weights(b, "blk.0.attn_k.weight", &o, 64, 64);
    add_weights(b, "blk.0.attn_v.weight", &o, 64, 64);
    add_weights(b, "blk.0.attn_output.weight", &o, 64, 64);
    add_weights(b, "blk.0.ffn_gate.weight", &o, 64, 4);
    add_weights(b, "blk.0.ffn_up.weight", &o, 64, 4);
    add_weights(b, "blk.0.ffn_down.weight", &o, 4, 64);
    add_weights(b, "blk.0.attn_norm.weight", &o, 64, 0);
    add_weights(b, "blk.0.ffn_norm.weight", &o, 64, 0);
    gguf_build_tensor(b, "rope_freqs.weight", 1, shape, 0, divisors, 32 * sizeof *divisors);
}

static void test_llama3_scaling_is_recognised(void **state) {
    (void)state;
    // Factor, low, high, original; then high and original for low = 1.
    static const double cases[][6] = {{32, 1, 4, 8192, 4, 8192},
                                      {8, 2, 8, 1000, 4, 500},
                                      {16, 1, 6, 300, 6, 300},
                                      {2, 1, 2.5, 77, 2.5, 77}};
    float divisors[32];
    for (int k = 0; k < 4; k++) {
        llama3_divisors(divisors, cases[k][0], cases[k][1], cases[k][2], cases[k][3]);
        GgufBuild b = {0};
        add_wide_model(&b, divisors);
        Architecture a = good_model(&b);
        assert_int_equal(a.rope.scaling, ROPE_LLAMA3);
        assert_true(a.rope.factor == cases[k][0] && a.rope.low_freq_factor == 1);
        assert_true(fabs(a.rope.high_freq_factor - cases[k][4]) < 1e-4);
        assert_true(fabs(a.rope.original_max_positions - cases[k][5]) < 1e-3);
        float scaled[32], plain[32];
        rotary_inv_freq(&a.rope, a.head_dim, scaled);
        a.rope.scaling = ROPE_PLAIN;
        rotary_inv_freq(&a.rope, a.head_dim, plain);
        for (int i = 0; i < 32; i++) assert_true(fabsf(plain[i] / divisors[i] - scaled[i]) < 2e-6f * scaled[i]);
    }
    GgufBuild b;
    llama3_divisors(divisors, 32, 1, 4, 8192);
    divisors[16] *= 1.01f;
    b = (GgufBuild){0};
    add_wide_model(&b, divisors);
    bad_model(&b, "rope_freqs.weight: value 16", "Llama 3");
    divisors[31] = NAN;
    b = (GgufBuild){0};
    add_wide_model(&b, divisors);
    bad_model(&b, "rope_freqs.weight", "Llama 3");
}

static void test_tokenizer_tables_that_lie(void **state) {
    (void)state;
    static const struct {
        const char *key, *text;
        const char *first;
    } cases[] = {
        {"tokenizer.ggml.model", "bert", "tokenizer.ggml.model is 'bert'"},
        {"tokenizer.ggml.pre", "no-such", "no-such"},
        {"tokenizer.ggml.tokens", "abc", "tokenizer.ggml.tokens is of type string"},
    };
    for (int i = 0; i < 3; i++) {
        GgufBuild b = {0};
        Gguf file;
        Error error;
        Tokenizer *tokenizer;
        if (i) gguf_build_text(&b, "tokenizer.ggml.model", "gpt2");
        if (i < 2) gguf_build_texts(&b, "tokenizer.ggml.tokens", 1, (const char *const[]){"a"});
        gguf_build_text(&b, cases[i].key, cases[i].text);
        gguf_build_finish(&b, path);
        if (!gguf_open(&file, path, &error)) fail_msg("%s", error.text);
        expect_bad(cases[i].key, gguf_model_tokenizer(&tokenizer, &file, &error), &error, cases[i].first, "");
        assert_null(tokenizer);
        gguf_close(&file);
    }
}

// --- damage

// Opens the file as a model and reads all there is; false with one line when that is refused somewhere.
static bool read_whole(Error *error) {
    static float values[8 * 12];
    ModelFile *file;
    Tokenizer *tokenizer = NULL;
    if (!model_file_open(&file, path, error)) return false;
    bool good = model_file_tokenizer(file, &tokenizer, error);
    const ParameterTable *table = model_file_parameters(file);
    for (int i = 0; good && i < table->count; i++) {
        assert_true(table->items[i].rows * table->items[i].cols <= 8 * 12);
        good = model_file_read(file, &table->items[i], values, error);
    }
    tokenizer_close(tokenizer);
    model_file_close(file);
    return good;
}

static void test_every_truncation_is_refused(void **state) {
    (void)state;
    GgufBuild b = {0};
    Error error;
    Arena arena = {0};
    char *whole;
    size_t size;
    add_model(&b, (Options){.head = true});
    gguf_build_finish(&b, path);
    assert_true(read_whole(&error));
    assert_true(file_read(&whole, &size, &arena, path, &error));
    for (size_t length = size; length-- > 0;) {
        assert_int_equal(truncate(path, (off_t)length), 0);
        if (read_whole(&error)) fail_msg("accepted when cut to %zu of %zu bytes", length, size);
        if (strncmp(error.text, path, strlen(path)) != 0) fail_msg("'%s' does not name the file", error.text);
    }
    arena_close(&arena);
}

static void test_flipped_bits(void **state) {
    (void)state;
    GgufBuild b = {0};
    Error error;
    Arena arena = {0};
    char *whole;
    size_t size;
    add_model(&b, (Options){.head = true});
    size_t header = 24 + b.values.length + b.tensors.length;
    gguf_build_finish(&b, path);
    assert_true(file_read(&whole, &size, &arena, path, &error));
    int opened = 0, refused = 0;
    for (uint32_t variant = 0; variant < 4000; variant++) {
        uint32_t flips = 1 + variant % 4, words[4][4];
        size_t range = variant % 8 == 7 ? size : header;
        for (uint32_t i = 0; i < flips; i++) {
            rng_words(words[i], 23, RNG_TEST_WEIGHTS, (RngCounter){.step = variant, .token = i});
            whole[words[i][0] % range] ^= (char)(1 << words[i][1] % 8);
        }
        FILE *out = fopen(path, "r+b");
        assert_non_null(out);
        assert_int_equal(fwrite(whole, 1, size, out), size);
        assert_int_equal(fclose(out), 0);
        if (read_whole(&error)) {
            opened++;
        } else {
            refused++;
            if (strncmp(error.text, path, strlen(path)) != 0) fail_msg("'%s' does not name the file", error.text);
        }
        for (uint32_t i = 0; i < flips; i++) whole[words[i][0] % range] ^= (char)(1 << words[i][1] % 8);
    }
    assert_true(opened > 100 && refused > 1000);
    arena_close(&arena);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_llama_of_gguf_py),
        IN_FOLDER(test_qwen2_of_gguf_py),
        IN_FOLDER(test_architecture_by_keys),
        IN_FOLDER(test_models_that_lack_or_exceed),
        IN_FOLDER(test_options_not_computed_are_refused),
        IN_FOLDER(test_llama3_scaling_is_recognised),
        IN_FOLDER(test_tokenizer_tables_that_lie),
        IN_FOLDER(test_every_truncation_is_refused),
        IN_FOLDER(test_flipped_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
