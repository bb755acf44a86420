#include "model/gguf_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const tensor_names[PARAMETER_ROLE_COUNT] = {
    [PARAMETER_Q] = "attn_q.weight",
    [PARAMETER_K] = "attn_k.weight",
    [PARAMETER_V] = "attn_v.weight",
    [PARAMETER_O] = "attn_output.weight",
    [PARAMETER_GATE] = "ffn_gate.weight",
    [PARAMETER_UP] = "ffn_up.weight",
    [PARAMETER_DOWN] = "ffn_down.weight",
    [PARAMETER_Q_BIAS] = "attn_q.bias",
    [PARAMETER_K_BIAS] = "attn_k.bias",
    [PARAMETER_V_BIAS] = "attn_v.bias",
    [PARAMETER_INPUT_NORM] = "attn_norm.weight",
    [PARAMETER_MIDDLE_NORM] = "ffn_norm.weight",
    [PARAMETER_Q_NORM] = "attn_q_norm.weight",
    [PARAMETER_K_NORM] = "attn_k_norm.weight",
    [PARAMETER_EMBEDDING] = "token_embd.weight",
    [PARAMETER_FINAL_NORM] = "output_norm.weight",
    [PARAMETER_HEAD] = "output.weight",
};

void gguf_model_name(char name[64], const Parameter *parameter) {
    const char *last = tensor_names[parameter->role];
    if (parameter->role >= PARAMETER_EMBEDDING)
        snprintf(name, 64, "%s", last);
    else
        snprintf(name, 64, "blk.%d.%s", parameter->unit, last);
}

bool gguf_model_interleaved(ModelFamily family, ParameterRole role) {
    bool turned = family == MODEL_LLAMA || family == MODEL_MISTRAL || family == MODEL_SMOLLM3;
    return turned && (role == PARAMETER_Q || role == PARAMETER_K);
}

bool gguf_model_extra(const char *name) {
    return !strcmp(name, "rope_freqs.weight");
}

// Reads keys below the architecture's name: "llama.", "qwen2.".
typedef struct Reader {
    const Gguf *file;
    const char *family;
    Arena *arena;
    char key[128]; // of the last look-up
} Reader;

static const char *full_key(Reader *reader, const char *key) {
    snprintf(reader->key, sizeof reader->key, "%s.%s", reader->family, key);
    return reader->key;
}

static bool integer_or(int64_t *out, Reader *reader, const char *key, int64_t fallback, Error *error) {
    return gguf_integer_or(out, reader->file, full_key(reader, key), fallback, error);
}

static bool integer(int64_t *out, Reader *reader, const char *key, Error *error) { // required
    if (!gguf_find(reader->file, full_key(reader, key)))
        return error_set(error, "%s: key %s is missing", reader->file->path, reader->key);
    return integer_or(out, reader, key, 0, error);
}

static bool real_or(double *out, Reader *reader, const char *key, double fallback, Error *error) {
    return gguf_real_or(out, reader->file, full_key(reader, key), fallback, error);
}

// Options of relatives of the two families; 0 says "not used".
static bool refuse_unsupported(Reader *reader, Error *error) {
    static const char *const keys[] = {
        "expert_count",
        "logit_scale",
        "embedding_scale",
        "residual_scale",
        "attention.scale",
        "attn_logit_softcapping",
        "final_logit_softcapping",
        "attention.sliding_window_pattern",
        "rope.scaling.yarn_log_multiplier",
    };
    double value;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!real_or(&value, reader, keys[i], 0, error)) return false;
        if (value != 0)
            return error_set(error, "%s: key %s is %g: not supported", reader->file->path, reader->key, value);
    }
    bool causal;
    if (!gguf_flag_or(&causal, reader->file, full_key(reader, "attention.causal"), true, error)) return false;
    return causal || error_set(error, "%s: key %s is false: not supported", reader->file->path, reader->key);
}

// The files of Mistral's models say "llama" and, where they have one, sliding_window, which holds for all layers. llama.cpp's
// SmolLM3 leaves every fourth layer unrotated, whatever the file.
static bool read_layers(Architecture *architecture, Reader *reader, Error *error) {
    LayerKinds *layers = &architecture->layers;
    int64_t window;
    if (architecture->family == MODEL_SMOLLM3) layer_kinds_skip(&layers->unrotated, architecture->layer_count, 4);
    if (!integer_or(&window, reader, "attention.sliding_window", 0, error)) return false;
    if (window == 0 || window >= architecture->max_positions) return true;
    if (window < 0 || (architecture->family != MODEL_LLAMA && architecture->family != MODEL_MISTRAL))
        return error_set(error, "%s: key %s is %" PRId64 ": not supported in this architecture", reader->file->path,
                         reader->key, window);
    architecture->family = MODEL_MISTRAL;
    layers->window = window;
    for (int64_t i = 0; i < architecture->layer_count; i++) layer_set_add(&layers->windowed, i);
    return true;
}

// What convert_hf_to_gguf.py writes for Llama 3: each frequency's divisor.
static double llama3_divisor(const RopeOptions *rope, double frequency) {
    double wavelength = 2 * M_PI / frequency, old = rope->original_max_positions;
    if (wavelength < old / rope->high_freq_factor) return 1;
    if (wavelength > old / rope->low_freq_factor) return rope->factor;
    double smooth = (old / wavelength - rope->low_freq_factor) / (rope->high_freq_factor - rope->low_freq_factor);
    return 1 / ((1 - smooth) / rope->factor + smooth);
}

// A number of config.json from a computed one: whole when it nearly is.
static double nearly_whole(double x) {
    return fabs(x - round(x)) <= 1e-3 * fabs(x) ? round(x) : x;
}

// The divisors follow from four numbers of config.json, of which the scale of low, high and original positions is free: low is 1.
// The last divisor is the factor. Between 1 and the factor, smooth is (original / wavelength − 1) / (high − 1): two such
// divisors give both; with one, high is Llama 3's 4; with none, any number of positions between the two ends will do.
static void fit_llama3(RopeOptions *rope, const float *divisors, int64_t half) {
    double turns[2] = {0}, smooth[2] = {0}, wavelength = 0;
    int blended = 0; // the first and the last one that are
    rope->factor = (double)divisors[half - 1];
    rope->low_freq_factor = 1;
    rope->high_freq_factor = 4;
    for (int64_t i = 0; i < half; i++) {
        double divisor = (double)divisors[i], frequency = pow(rope->theta, -(double)i / (double)half);
        bool stretched = divisor >= rope->factor * (1 - 1e-6);
        if (stretched && wavelength == 0) wavelength = 2 * M_PI / frequency;
        if (stretched || divisor <= 1 + 1e-6) continue;
        int at = blended ? 1 : 0;
        turns[at] = frequency / (2 * M_PI);
        smooth[at] = (1 / divisor - 1 / rope->factor) / (1 - 1 / rope->factor);
        blended++;
    }
    if (blended > 1) {
        double slope = (smooth[0] - smooth[1]) / (turns[0] - turns[1]), high = 1 + 1 / (slope * turns[0] - smooth[0]);
        rope->high_freq_factor = nearly_whole(high);
    }
    rope->original_max_positions =
        blended ? nearly_whole((1 + smooth[0] * (rope->high_freq_factor - 1)) / turns[0]) : floor(wavelength);
}

static bool recognise_llama3(Architecture *architecture, Reader *reader, const GgufTensor *divisors, Error *error) {
    RopeOptions *rope = &architecture->rope;
    int64_t half = architecture->head_dim / 2;
    float values[256];
    if (rope->scaling != ROPE_PLAIN || divisors->format != WEIGHT_F32 || divisors->rank != 1 ||
        divisors->shape[0] != half || half > (int64_t)(sizeof values / sizeof *values))
        return error_set(error,
                         "%s: tensor rope_freqs.weight: expected %" PRId64 " values of F32 and no other rope scaling",
                         reader->file->path, half);
    memcpy(values, divisors->data, sizeof *values * (size_t)half);
    rope->scaling = ROPE_LLAMA3;
    fit_llama3(rope, values, half);
    for (int64_t i = 0; i < half; i++) {
        double frequency = pow(rope->theta, -(double)(2 * i) / (double)architecture->head_dim);
        double expected = llama3_divisor(rope, frequency);
        if (fabs((double)values[i] - expected) <= 1e-4 * expected) continue;
        return error_set(error,
                         "%s: tensor rope_freqs.weight: value %" PRId64 " is %g, but Llama 3's scaling gives %g: other "
                         "scalings are not supported",
                         reader->file->path, i, (double)values[i], expected);
    }
    return true;
}

// llama.cpp's YaRN is that of Transformers with the attention factor that follows from the factor; the keys that would change
// either are refused.
static bool read_yarn(Architecture *architecture, Reader *reader, Error *error) {
    static const char *const ones[] = {"rope.scaling.attn_factor", "rope.scaling.yarn_attn_factor",
                                       "rope.scaling.yarn_ext_factor"};
    RopeOptions *rope = &architecture->rope;
    for (int i = 0; i < 3; i++) {
        double value;
        if (!real_or(&value, reader, ones[i], 1, error)) return false;
        if (value != 1) return error_set(error, "%s: key %s is %g, expected 1", reader->file->path, reader->key, value);
    }
    rope->scaling = ROPE_YARN;
    rope->truncate = true;
    rope->attention_factor = rotary_yarn_attention(rope->factor);
    return real_or(&rope->original_max_positions, reader, "rope.scaling.original_context_length",
                   (double)architecture->max_positions, error) &&
           real_or(&rope->beta_fast, reader, "rope.scaling.yarn_beta_fast", 32, error) &&
           real_or(&rope->beta_slow, reader, "rope.scaling.yarn_beta_slow", 1, error);
}

static bool read_rope(Architecture *architecture, Reader *reader, Error *error) {
    RopeOptions *rope = &architecture->rope;
    const char *type;
    double old_scale;
    int64_t rotated;
    *rope = (RopeOptions){.factor = 1};
    if (!real_or(&rope->theta, reader, "rope.freq_base", 10000, error) ||
        !integer_or(&rotated, reader, "rope.dimension_count", architecture->head_dim, error))
        return false;
    if (rotated != architecture->head_dim)
        return error_set(error, "%s: key %s is %" PRId64 ", expected the head's size %" PRId64, reader->file->path,
                         reader->key, rotated, architecture->head_dim);
    if (!real_or(&old_scale, reader, "rope.scale_linear", 1, error) ||
        !real_or(&rope->factor, reader, "rope.scaling.factor", old_scale, error) ||
        !gguf_text_or(&type, reader->file, full_key(reader, "rope.scaling.type"), rope->factor == 1 ? "none" : "linear",
                      reader->arena, error))
        return false;
    if (!strcmp(type, "linear"))
        rope->scaling = ROPE_LINEAR;
    else if (!strcmp(type, "none"))
        rope->factor = 1;
    else if (strcmp(type, "yarn") != 0)
        return error_set(error, "%s: key %s is '%.100s'; supported are none, linear, yarn", reader->file->path,
                         reader->key, type);
    else if (!read_yarn(architecture, reader, error))
        return false;
    const GgufTensor *divisors = gguf_tensor(reader->file, "rope_freqs.weight");
    return !divisors || recognise_llama3(architecture, reader, divisors, error);
}

static bool read_ids(Architecture *architecture, const Gguf *file, Error *error) {
    static const char *const ends[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    int64_t bos;
    if (!gguf_integer_or(&bos, file, "tokenizer.ggml.bos_token_id", -1, error)) return false;
    if (bos < -1 || bos > INT32_MAX)
        return error_set(error, "%s: key tokenizer.ggml.bos_token_id is %" PRId64 ": no token id", file->path, bos);
    architecture->bos_id = (int32_t)bos;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int64_t id;
        if (!gguf_integer_or(&id, file, ends[i], -1, error)) return false;
        if (id < -1 || id > INT32_MAX)
            return error_set(error, "%s: key %s is %" PRId64 ": no token id", file->path, ends[i], id);
        bool known = id < 0;
        for (int j = 0; j < architecture->eos_count; j++) known |= architecture->eos_ids[j] == id;
        if (!known) architecture->eos_ids[architecture->eos_count++] = (int32_t)id;
    }
    return true;
}

static bool read_sizes(Architecture *architecture, Reader *reader, Error *error) {
    Architecture *a = architecture;
    const Gguf *file = reader->file;
    double eps;
    int64_t value_length;
    if (!integer(&a->hidden_size, reader, "embedding_length", error) ||
        !integer(&a->intermediate_size, reader, "feed_forward_length", error) ||
        !integer(&a->layer_count, reader, "block_count", error) ||
        !integer(&a->query_heads, reader, "attention.head_count", error) ||
        !integer_or(&a->kv_heads, reader, "attention.head_count_kv", a->query_heads, error) ||
        !integer_or(&a->max_positions, reader, "context_length", a->max_positions, error))
        return false;
    if (a->query_heads < 1 ||
        (!gguf_find(file, full_key(reader, "attention.key_length")) && a->hidden_size % a->query_heads))
        return error_set(error, "%s: embedding_length %" PRId64 " is no multiple of attention.head_count %" PRId64,
                         file->path, a->hidden_size, a->query_heads);
    if (!integer_or(&a->head_dim, reader, "attention.key_length", a->hidden_size / a->query_heads, error) ||
        !integer_or(&value_length, reader, "attention.value_length", a->head_dim, error))
        return false;
    if (value_length != a->head_dim)
        return error_set(error, "%s: key %s is %" PRId64 ", expected the same as attention.key_length, %" PRId64,
                         file->path, reader->key, value_length, a->head_dim);
    if (!gguf_find(file, full_key(reader, "attention.layer_norm_rms_epsilon")))
        return error_set(error, "%s: key %s is missing", file->path, reader->key);
    if (!real_or(&eps, reader, "attention.layer_norm_rms_epsilon", 0, error)) return false;
    a->rms_norm_eps = (float)eps;
    const GgufTensor *embedding = gguf_tensor(file, "token_embd.weight");
    if (!embedding) return error_set(error, "%s: tensor token_embd.weight is missing", file->path);
    a->vocab_size = embedding->shape[1];
    a->tied_head = !gguf_tensor(file, "output.weight");
    return true;
}

// What an architecture is refused for has its name of config.json; said with the name that this file has for it. Returns false.
static bool add_key(Reader *reader, Error *error) {
    static const struct {
        const char *config, *key;
    } names[] = {{"hidden_size", "embedding_length"},
                 {"intermediate_size", "feed_forward_length"},
                 {"num_hidden_layers", "block_count"},
                 {"num_attention_heads", "attention.head_count"},
                 {"num_key_value_heads", "attention.head_count_kv"},
                 {"head_dim", "attention.key_length"},
                 {"max_position_embeddings", "context_length"},
                 {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
                 {"rope_theta", "rope.freq_base"},
                 {"rope scaling factor", "rope.scaling.factor"},
                 {"rope scaling: original_max_position_embeddings", "rope.scaling.original_context_length"}};
    Error said = *error;
    const char *subject = said.text + strlen(reader->file->path) + strlen(": ");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i].config);
        const char *key = full_key(reader, names[i].key);
        if (!strncmp(subject, names[i].config, length) && subject[length] == ' ' && gguf_find(reader->file, key))
            return error_set(error, "%s (here %s)", said.text, key);
    }
    return false;
}

bool gguf_model_architecture(Architecture *architecture, const Gguf *file, Error *error) {
    Arena arena = {0};
    Reader reader = {.file = file, .arena = &arena};
    *architecture = (Architecture){0};
    bool good = gguf_text_or(&reader.family, file, "general.architecture", NULL, &arena, error);
    if (good && !reader.family) good = error_set(error, "%s: key general.architecture is missing", file->path);
    good = good && architecture_set_family(architecture, reader.family, file->path, "general.architecture", error) &&
           read_sizes(architecture, &reader, error) &&
           refuse_unsupported(&reader, error) && // before sizes are checked: clearer
           read_ids(architecture, file, error);
    // Sizes are checked before the tables of rope are read by them.
    architecture->rope = (RopeOptions){.theta = 1, .factor = 1};
    good = good && (architecture_check(architecture, file->path, error) || add_key(&reader, error)) &&
           read_rope(architecture, &reader, error) && read_layers(architecture, &reader, error) &&
           (architecture_check(architecture, file->path, error) || add_key(&reader, error));
    arena_close(&arena);
    return good;
}

bool gguf_model_tables(TokenizerTables *tables, const Gguf *file, Arena *arena, Error *error) {
    const char *kind;
    int64_t tokens, types, scores, merges, bos, eos, pad, unknown;
    bool add_bos, add_eos;
    if (!gguf_text_or(&kind, file, "tokenizer.ggml.model", "absent", arena, error)) return false;
    tables->sentencepiece = !strcmp(kind, "llama");
    if (!tables->sentencepiece && strcmp(kind, "gpt2") != 0)
        return error_set(error,
                         "%s: key tokenizer.ggml.model is '%.100s', expected 'gpt2' (byte-level BPE) or 'llama' "
                         "(SentencePiece BPE)",
                         file->path, kind);
    if (!gguf_texts(&tables->tokens, &tokens, file, "tokenizer.ggml.tokens", arena, error) ||
        !gguf_integers(&tables->types, &types, file, "tokenizer.ggml.token_type", arena, error) ||
        !gguf_floats(&tables->scores, &scores, file, "tokenizer.ggml.scores", arena, error) ||
        !gguf_texts(&tables->merges, &merges, file, "tokenizer.ggml.merges", arena, error) ||
        !gguf_text_or(&tables->pre, file, "tokenizer.ggml.pre", "default", arena, error) ||
        !gguf_integer_or(&bos, file, "tokenizer.ggml.bos_token_id", -1, error) ||
        !gguf_integer_or(&eos, file, "tokenizer.ggml.eos_token_id", -1, error) ||
        !gguf_integer_or(&pad, file, "tokenizer.ggml.padding_token_id", -1, error) ||
        !gguf_integer_or(&unknown, file, "tokenizer.ggml.unknown_token_id", -1, error) ||
        !gguf_flag_or(&tables->add_space_prefix, file, "tokenizer.ggml.add_space_prefix", true, error) ||
        !gguf_flag_or(&add_bos, file, "tokenizer.ggml.add_bos_token", false, error) ||
        !gguf_flag_or(&add_eos, file, "tokenizer.ggml.add_eos_token", false, error))
        return false;
    tables->add_bos = gguf_find(file, "tokenizer.ggml.add_bos_token") ? add_bos : -1;
    tables->add_eos = gguf_find(file, "tokenizer.ggml.add_eos_token") ? add_eos : -1;
    if (scores && scores != tokens)
        return error_set(error,
                         "%s: key tokenizer.ggml.scores has %" PRId64 " elements, expected %" PRId64 " as tokens",
                         file->path, scores, tokens);
    if (types && types != tokens)
        return error_set(error,
                         "%s: key tokenizer.ggml.token_type has %" PRId64 " elements, expected %" PRId64 " as tokens",
                         file->path, types, tokens);
    if (tokens > INT32_MAX || merges > INT32_MAX)
        return error_set(error, "%s: key tokenizer.ggml.tokens or .merges is too long", file->path);
    if (bos >= tokens || eos >= tokens || pad >= tokens || unknown >= tokens)
        return error_set(error, "%s: tokenizer.ggml: bos, eos, padding or unknown_token_id is not under %" PRId64,
                         file->path, tokens);
    tables->token_count = (int32_t)tokens;
    tables->merge_count = (int32_t)merges;
    tables->bos_id = bos < 0 ? -1 : (int32_t)bos;
    tables->eos_id = eos < 0 ? -1 : (int32_t)eos;
    tables->pad_id = pad < 0 ? -1 : (int32_t)pad;
    tables->unknown_id = unknown < 0 ? -1 : (int32_t)unknown;
    return true;
}

bool gguf_model_tokenizer(Tokenizer **tokenizer, const Gguf *file, Error *error) {
    Arena arena = {0};
    TokenizerTables tables = {0};
    *tokenizer = NULL;
    bool good =
        gguf_model_tables(&tables, file, &arena, error) && tokenizer_open_tables(tokenizer, &tables, file->path, error);
    arena_close(&arena);
    return good;
}

bool gguf_model_chat_templates(ChatSource *source, const Gguf *file, Arena *arena, Error *error) {
    static const char key[] = "tokenizer.chat_template";
    const char *text, *const *names, *place = arena_format(arena, "%s (chat template)", file->path);
    int64_t count;
    if (!gguf_text_or(&text, file, key, NULL, arena, error)) return false;
    if (text && !chat_source_add(source, "default", text, place, error)) return false;
    if (!gguf_texts(&names, &count, file, "tokenizer.chat_templates", arena, error)) return false;
    for (int64_t i = 0; i < count; i++) {
        const char *named = arena_format(arena, "%s.%s", key, names[i]);
        if (!gguf_text_or(&text, file, named, NULL, arena, error)) return false;
        if (!text)
            return error_set(error, "%s: key %.200s is missing, but tokenizer.chat_templates names it", file->path,
                             named);
        if (!chat_source_add(source, names[i], text, place, error)) return false;
    }
    return true;
}
