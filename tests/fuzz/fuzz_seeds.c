// Writes the seeds of every fuzz target below a folder, made of tests/data and recipes/: where the fuzzer starts from.
// usage: fuzz_seeds FOLDER     (in the project's folder)
#include "base/file.h"
#include "base/jsonio.h"
#include "model/random_model.h"
#include "model/safetensors.h"
#include "support/gguf_build.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

enum { MOST_KIND = 40000 }; // bytes

static Arena arena;
static const char *folder;
static int written;

static void need(bool good, const Error *error) {
    if (good) return;
    fprintf(stderr, "fuzz_seeds: %s\n", error->text);
    exit(1);
}

static void seed(const char *target, const void *data, size_t size) {
    Error error;
    const char *place = arena_format(&arena, "%s/%s", folder, target);
    need(file_make_folders(place, &error), &error);
    need(file_write(arena_format(&arena, "%s/seed-%03d", place, written++), data, size, &error), &error);
}

static void seed_text(const char *target, const char *text) {
    seed(target, text, strlen(text));
}

static char *read_text(const char *path, size_t *size) {
    char *text;
    Error error;
    need(file_read(&text, size, &arena, path, &error), &error);
    return text;
}

static void seed_file(const char *target, const char *path) {
    size_t size;
    char *text = read_text(path, &size);
    seed(target, text, size);
}

static void add_part(StrBuf *bundle, const char *name, const char *text, size_t size) {
    if (bundle->length && bundle->text[bundle->length - 1] != '\n') strbuf_putc(bundle, '\n');
    strbuf_format(bundle, "=== %s\n", name);
    strbuf_append(bundle, text, size);
}

static void add_text(StrBuf *bundle, const char *name, const char *text) {
    add_part(bundle, name, text, strlen(text));
}

static void add_file(StrBuf *bundle, const char *name, const char *path) {
    size_t size;
    char *text = read_text(path, &size);
    add_part(bundle, name, text, size);
}

static void take_bundle(const char *target, StrBuf *bundle) {
    seed(target, bundle->text, bundle->length);
    strbuf_close(bundle);
}

// --- weights

static void safetensors_seeds(const char *scratch) {
    static const float floats[6] = {1, -2, 3, 4, 5, 6};
    const SafetensorsEntry entries[] = {
        {.name = "a", .type = SAFETENSORS_F32, .rank = 2, .shape = {2, 3}, .data = floats},
        {.name = "b", .type = SAFETENSORS_BF16, .rank = 1, .shape = {6}, .data = floats, .from_float = true},
        {.name = "c", .type = SAFETENSORS_U8, .rank = 0, .data = floats},
        {.name = "d", .type = SAFETENSORS_I64, .rank = 1, .shape = {0}, .data = floats},
    };
    Error error;
    json_t *metadata = json_pack("{s:s}", "format", "pt");
    const char *path = arena_format(&arena, "%s/x.safetensors", scratch);
    need(safetensors_write(path, entries, 4, metadata, &error), &error);
    json_decref(metadata);
    seed_file("safetensors", path);
    seed_file("safetensors", "tests/data/gguf/qwen2.safetensors");
}

static void gguf_seeds(const char *scratch) {
    static const uint64_t shape[2] = {256, 1};
    static const uint8_t zeros[1024];
    GgufBuild build = {0};
    const char *path = arena_format(&arena, "%s/x.gguf", scratch);
    gguf_build_text(&build, "general.architecture", "llama");
    gguf_build_texts(&build, "list", 2, (const char *const[]){"a", "bc"});
    gguf_build_f32(&build, "real", 1.5f);
    gguf_build_u32(&build, "general.alignment", 32);
    static const struct {
        uint32_t number;
        size_t bytes;
    } sizes[] = {{0, 1024}, {1, 512},  {2, 144},  {3, 160},  {6, 176},  {7, 192}, {8, 272},
                 {10, 84},  {11, 110}, {12, 144}, {13, 176}, {14, 210}, {30, 512}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        gguf_build_tensor(&build, arena_format(&arena, "t%zu", i), 2, shape, sizes[i].number, zeros, sizes[i].bytes);
    gguf_build_finish(&build, path);
    const char *files[] = {path, "tests/data/gguf/llama.gguf", "tests/data/gguf/qwen2.gguf"};
    for (int i = 0; i < 3; i++) seed_file("gguf", files[i]);
    for (int i = 1; i < 3; i++) seed_file("gguf_model", files[i]);
}

// --- text side

static const char config_top[] = "{\"version\": \"1.0\", \"truncation\": null, \"padding\": null, \"added_tokens\": "
                                 "[{\"id\": 12, \"content\": \"<e>\", \"single_word\": false, \"lstrip\": false, "
                                 "\"rstrip\": false, \"normalized\": false, \"special\": true}], ";
static const char config_model[] =
    "\"decoder\": {\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": true}, "
    "\"model\": {\"type\": \"BPE\", \"dropout\": null, \"unk_token\": null, \"continuing_subword_prefix\": null, "
    "\"end_of_word_suffix\": null, \"fuse_unk\": false, \"byte_fallback\": false, \"ignore_merges\": false, \"vocab\": "
    "{\"h\": 0, \"e\": 1, \"l\": 2, \"o\": 3, \"\\u0120\": 4, \"he\": 5, \"ll\": 6, \"hell\": 7, \"1\": 8, \"2\": 9, "
    "\"\\u00c3\": 10, \"\\u00a9\": 11}, \"merges\": [\"h e\", [\"l\", \"l\"], \"he ll\"]}}";
static const char *const split_parts[] = {
    "\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Digits\", "
    "\"individual_digits\": true}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, "
    "\"use_regex\": true}]}, \"post_processor\": null, ",
    "\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": "
    "\"Split\", \"pattern\": {\"Regex\": "
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}| "
    "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"}, \"behavior\": "
    "\"Isolated\", "
    "\"invert\": false}, {\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": false, "
    "\"use_regex\": "
    "false}]}, \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": [{\"SpecialToken\": {\"id\": "
    "\"<e>\", "
    "\"type_id\": 0}}, {\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"pair\": [], \"special_tokens\": {\"<e>\": "
    "{\"id\": \"<e>\", \"ids\": [12], \"tokens\": [\"<e>\"]}}}, ",
};
static const char tokenizer_config[] =
    "{\"bos_token\": null, \"eos_token\": {\"content\": \"<e>\", \"lstrip\": false}, \"pad_token\": \"<e>\", "
    "\"add_bos_token\": false, \"added_tokens_decoder\": {\"12\": {\"content\": \"<e>\", \"special\": true}}, "
    "\"chat_template\": \"{% for m in messages %}{{ m.content }}<e>{% endfor %}\"}";

static const char *tokenizer_json(int which) {
    return arena_format(&arena, "%s%s%s", config_top, split_parts[which], config_model);
}

static void tokenizer_seeds(void) {
    for (int i = 0; i < 2; i++) {
        StrBuf bundle = {0};
        add_text(&bundle, "tokenizer.json", tokenizer_json(i));
        add_text(&bundle, "tokenizer_config.json", tokenizer_config);
        add_text(&bundle, "text", " hello, hell\xc3\xa9 12<e> ");
        take_bundle("tokenizer", &bundle);
    }
    seed_text("encode", "Hello, world! It's 2024-02-29.\n\n  \tdef f(x): return x ** 2  # \xe4\xb8\xad\xe6\x96\x87");
    seed_text("encode", "<|im_start|>user\nHi<|im_end|>\n\xf0\x9f\x98\x80 a\xcc\x81 \xff\xc3");
}

// Whole tokenizers of every kind, as long as they are small.
static void add_kinds(void) {
    glob_t found;
    if (glob("tests/data/text/tokenizers/*/tokenizer.json", 0, NULL, &found)) return;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        size_t size;
        const char *json = read_text(found.gl_pathv[i], &size);
        StrBuf bundle = {0};
        if (size > MOST_KIND) continue;
        add_part(&bundle, "tokenizer.json", json, size);
        add_text(&bundle, "tokenizer_config.json", tokenizer_config);
        add_text(&bundle, "text", " Hello, hell\xc3\xa9 123456<e> I'll \n\n  x \xe4\xb8\xad");
        take_bundle("tokenizer", &bundle);
    }
    globfree(&found);
}

static void answer_seeds(void) {
    static const char *const pairs[][2] = {
        {"\\frac{1}{2}", "<think>2</think> So the answer is \\boxed{0.5}."},
        {"(-\\infty, 3] \\cup [5, 7)", "\\boxed{\\left(-\\infty,3\\right]\\cup[5,7)}"},
        {"\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}", "\\boxed{\\begin{bmatrix}1&2\\\\3&4\\end{bmatrix}}"},
        {"x = 2\\sqrt{3} + 3^{10}", "#### 2\\sqrt3+59049"},
        {"#### 1,234", "Answer: $1{,}234.00"},
        {"\\{1, 2, 10^{-3}\\}", "\\boxed{0.001, 1, 2}"},
        {"50\\%", "1/2 or 50 %"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        StrBuf bundle = {0};
        add_text(&bundle, "gold", pairs[i][0]);
        add_text(&bundle, "text", pairs[i][1]);
        take_bundle("answer", &bundle);
    }
}

static void hub_list_seeds(void) {
    StrBuf bundle = {0};
    add_text(&bundle, "list.json",
             "{\"sha\": \"0123456789012345678901234567890123456789\", \"siblings\": [{\"rfilename\": \"config.json\"}, "
             "{\"rfilename\": \"model.safetensors.index.json\"}, {\"rfilename\": \"a.safetensors\"}, {\"rfilename\": "
             "\"tokenizer.json\"}, {\"rfilename\": \"x/b.gguf\"}]}");
    add_text(&bundle, "index.json", "{\"weight_map\": {\"t\": \"a.safetensors\", \"u\": \"a.safetensors\"}}");
    take_bundle("hub_list", &bundle);
}

static void hub_folder_seeds(const char *scratch) {
    const Architecture architecture = {
        .family = MODEL_QWEN2,
        .vocab_size = 16,
        .hidden_size = 4,
        .intermediate_size = 4,
        .layer_count = 1,
        .query_heads = 2,
        .kv_heads = 1,
        .head_dim = 2,
        .max_positions = 64,
        .rms_norm_eps = 1e-6f,
        .tied_head = true,
        .qkv_bias = true,
        .rope = {.theta = 10000, .factor = 1},
        .bos_id = -1,
        .eos_ids = {12},
        .eos_count = 1,
    };
    Error error;
    const char *config = arena_format(&arena, "%s/config.json", scratch);
    const char *weights = arena_format(&arena, "%s/model.safetensors", scratch);
    need(random_model_write(scratch, &architecture, 1, 0.1, &error), &error);
    for (int sharded = 0; sharded < 2; sharded++) {
        StrBuf bundle = {0};
        add_file(&bundle, "config.json", config);
        add_text(&bundle, "generation_config.json", "{\"eos_token_id\": [12, 3]}");
        add_text(&bundle, "tokenizer.json", tokenizer_json(sharded));
        add_text(&bundle, "tokenizer_config.json", tokenizer_config);
        if (sharded) {
            Safetensors file;
            json_t *map = json_object();
            need(safetensors_open(&file, weights, &error), &error);
            for (int64_t i = 0; i < file.count; i++)
                json_object_set_new(map, file.entries[i].name, json_string("a.safetensors"));
            char *text = json_dumps(map, 0);
            add_text(&bundle, "model.safetensors.index.json", arena_format(&arena, "{\"weight_map\": %s}", text));
            free(text);
            json_decref(map);
            safetensors_close(&file);
            add_text(&bundle, "chat_template.jinja", "{{ messages[0].content }}");
        }
        add_file(&bundle, sharded ? "a.safetensors" : "model.safetensors", weights);
        take_bundle("hub_folder", &bundle);
    }
    seed_file("config", config);
}

static void config_seeds(void) {
    static const char *const paths[] = {"tests/data/models/qwen2_tied/config.json",
                                        "tests/data/models/smollm_tied/config.json"};
    static const char llama3[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 64, \"intermediate_size\": 128, \"num_hidden_layers\": 2, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 16, \"vocab_size\": 100, "
        "\"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-05, \"rope_theta\": 500000.0, \"rope_scaling\": "
        "{\"rope_type\": \"llama3\", \"factor\": 32.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "
        "\"original_max_position_embeddings\": 8192}, \"tie_word_embeddings\": true, \"eos_token_id\": [1, 2]}";
    for (int i = 0; i < 2; i++) {
        StrBuf bundle = {0};
        add_file(&bundle, "config.json", paths[i]);
        add_text(&bundle, "generation_config.json", "{\"eos_token_id\": [1, 2], \"bos_token_id\": 0}");
        take_bundle("config", &bundle);
    }
    seed_text("config", llama3);
}

static char *next_line(char **rest) {
    char *line;
    while ((line = strsep(rest, "\n")) && !*line)
        ;
    return line;
}

static void template_seeds(void) {
    seed_file("template", "tests/data/text/chat/templates/smollm2.jinja");
    seed_file("template", "tests/data/text/chat/templates/qwen2.5.jinja");
    static const char *const lists[] = {"tests/data/text/chat/jinja_cases.jsonl",
                                        "tests/data/text/chat/constructs.jsonl"};
    for (int i = 0; i < 2; i++) {
        char *rest = read_text(lists[i], NULL), *line;
        while ((line = next_line(&rest))) {
            json_t *value = json_loads(line, 0, NULL);
            const json_t *source = json_is_array(value) ? json_array_get(value, 0) : json_object_get(value, "template");
            if (json_is_string(source)) seed("template", json_string_value(source), json_string_length(source));
            json_decref(value);
        }
    }
}

static void recipe_seeds(void) {
    static const char *const recipes[] = {"recipes/arithmetic.yaml", "recipes/arithmetic_smoke.yaml"};
    StrBuf bundle = {0};
    for (int i = 0; i < 2; i++) {
        add_file(&bundle, "recipe.yaml", recipes[i]);
        add_file(&bundle, i ? "arithmetic.yaml" : "grpo_base.yaml", i ? recipes[0] : "recipes/grpo_base.yaml");
        if (i) add_file(&bundle, "grpo_base.yaml", "recipes/grpo_base.yaml");
        add_text(&bundle, "overrides", "grpo.seed=7\n++whet.threads=2\n~grpo.val_period\n");
        take_bundle("recipe", &bundle);
    }
    add_text(&bundle, "recipe.yaml",
             "defaults: [grpo_base.yaml, arithmetic.yaml]\ngrpo: {seed: '${mul:2,3}', max_num_steps: 5}\n");
    add_text(
        &bundle, "arithmetic.yaml",
        "defaults: grpo_base.yaml\npolicy: {optimizer: &o {name: torch.optim.AdamW, kwargs: {<<: {lr: 1.0e-6}}}}\n");
    add_text(&bundle, "grpo_base.yaml",
             "grpo:\n  num_prompts_per_step: 8\n  num_generations_per_prompt: ${add:1,${grpo.max_num_steps}}\n");
    add_text(&bundle, "overrides", "policy.optimizer.kwargs.betas=[0.9,0.99]\n");
    take_bundle("recipe", &bundle);
}

static void input_seeds(void) {
    seed_text("inputs", "{\"prompt\": \"Hi \\u00e9\"}\n\n{\"ids\": [1, 2, 3]}\n{\"messages\": [{\"role\": \"user\", "
                        "\"content\": \"2+2?\"}], \"add_generation_prompt\": true, \"x\": null}\n");
    seed_file("inputs", "tests/data/text/chat/cases/smollm2.jsonl");
}

static void dataset_seeds(void) {
    static const char rows[] = "{\"input\": \"2+2\", \"output\": \"4\", \"system\": \"s\"}\n"
                               "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", "
                               "\"content\": \"a\"}], \"tools\": [{\"name\": \"t\"}]}\n"
                               "{\"a\": [{\"b\": \"q\"}], \"c\": {\"d\": 5}, \"e\": null}\n";
    seed_text("dataset", arena_format(&arena, "%c%s", '@', rows));
    seed_text("dataset", arena_format(&arena, "%c%s", 'l', rows));
    seed_text("dataset", "A[{\"input\": \"x\", \"output\": 2.5}, {\"input\": \"y\", \"output\": \"3\"}]");
    seed_text("dataset", "Binput,output\r\n\"a \"\"b\"\"\nc\",1\r\nx,2\r\n");
    seed_text("dataset", "Cfirst\nsecond\n");
}

int main(int count, char **words) {
    char scratch[] = "/tmp/whet-fuzz-seeds-XXXXXX";
    Error error;
    if (count != 2 || !mkdtemp(scratch)) {
        fprintf(stderr, "usage: fuzz_seeds FOLDER\n");
        return 1;
    }
    folder = words[1];
    safetensors_seeds(scratch);
    gguf_seeds(scratch);
    hub_folder_seeds(scratch);
    config_seeds();
    tokenizer_seeds();
    add_kinds();
    answer_seeds();
    hub_list_seeds();
    template_seeds();
    recipe_seeds();
    input_seeds();
    dataset_seeds();
    need(file_remove_tree(scratch, &error), &error);
    arena_close(&arena);
    return 0;
}
