#include "run/export_command.h"

#include "base/file.h"
#include "base/jsonio.h"
#include "base/log.h"
#include "model/gguf_model.h"
#include "run/export_weights.h"
#include "run/loaded_model.h"
#include "text/tokenizer_export.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    SafetensorsType type;
} dtypes[] = {{"bfloat16", SAFETENSORS_BF16}, {"float16", SAFETENSORS_F16}, {"float32", SAFETENSORS_F32}};

// What belongs to a tokenizer in a folder of the hub's layout. The chat template is written apart.
static const char *const tokenizer_files[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json",
    "merges.txt",     "tokenizer.model"};

static bool copy_file(const char *from, const char *to, Error *error) {
    Arena arena = {0};
    char *text;
    size_t size;
    bool good = file_read(&text, &size, &arena, from, error) && file_write(to, text, size, error);
    arena_close(&arena);
    return good;
}

// A GGUF file's own tables. Those that tokenizer.json cannot hold are not written, which is said.
static bool write_tables(const char *path, const char *folder, Arena *arena, Error *error) {
    Gguf file = {0};
    TokenizerTables tables;
    json_t *tokenizer = NULL, *config = NULL;
    bool good = gguf_open(&file, path, error) && gguf_model_tables(&tables, &file, arena, error);
    if (good && !tokenizer_export(&tokenizer, &config, &tables, error))
        log_warn("%s: no tokenizer.json is written: %s", path, error->text);
    else
        good = good && jsonio_write(tokenizer, arena_format(arena, "%s/tokenizer.json", folder), error) &&
               jsonio_write(config, arena_format(arena, "%s/tokenizer_config.json", folder), error);
    json_decref(tokenizer);
    json_decref(config);
    gguf_close(&file);
    return good;
}

static bool write_text_side(const LoadedModel *model, const char *folder, Arena *arena, Error *error) {
    bool from_folder = file_is_folder(model->tokenizer_path);
    for (size_t i = 0; i < sizeof tokenizer_files / sizeof *tokenizer_files && from_folder; i++) {
        const char *from = arena_format(arena, "%s/%s", model->tokenizer_path, tokenizer_files[i]);
        if (file_is_listed(from) && !copy_file(from, arena_format(arena, "%s/%s", folder, tokenizer_files[i]), error))
            return false;
    }
    if (!from_folder && !write_tables(model->tokenizer_path, folder, arena, error)) return false;
    const char *chat = arena_format(arena, "%s/chat_template.jinja", folder);
    return !model->chat_text || file_write(chat, model->chat_text, strlen(model->chat_text), error);
}

static json_t *ids_of(const int32_t *ids, int count) {
    if (count == 1) return json_integer(ids[0]);
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, json_integer(ids[i]));
    return list;
}

static bool write_config(const LoadedModel *model, const char *dtype, const char *folder, Arena *arena, Error *error) {
    json_t *config = architecture_to_json(model->architecture);
    json_object_set_new(config, "torch_dtype", json_string(dtype));
    bool good = jsonio_write(config, arena_format(arena, "%s/config.json", folder), error);
    json_decref(config);
    if (!good || !model->stop_count) return good;
    json_t *generation = json_object();
    if (model->architecture->bos_id >= 0)
        json_object_set_new(generation, "bos_token_id", json_integer(model->architecture->bos_id));
    json_object_set_new(generation, "eos_token_id", ids_of(model->stop_ids, model->stop_count));
    good = jsonio_write(generation, arena_format(arena, "%s/generation_config.json", folder), error);
    json_decref(generation);
    return good;
}

// Weights last: a folder that lacks them was not finished.
static bool write_folder(const LoadedModel *model, const char *folder, int dtype, int64_t max_shard, Arena *arena,
                         Error *error) {
    return write_config(model, dtypes[dtype].name, folder, arena, error) &&
           write_text_side(model, folder, arena, error) &&
           export_weights(folder, model->file, dtypes[dtype].type, max_shard, error);
}

// A folder that holds a model already is left alone.
static bool take_folder(const char *folder, Arena *arena, Error *error) {
    static const char *const taken[] = {"config.json", "model.safetensors", "model.safetensors.index.json"};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (file_is_listed(arena_format(arena, "%s/%s", folder, taken[i])))
            return error_set(error, "%s: holds a %s already; expected a folder without a model", folder, taken[i]);
    return file_make_folders(folder, error);
}

static bool run_export(Arguments *arguments, Error *error) {
    Arena arena = {0};
    LoadedModel model = {0};
    int dtype = 0;
    int64_t max_shard = (int64_t)5 << 30;
    const char *folder = arguments->operands[1];
    if (command_switch(arguments, "--quiet")) log_set_level(LOG_WARNINGS);
    bool good = command_choice(arguments, "--dtype", &dtype, error) &&
                command_size(arguments, "--max-shard-size", &max_shard, error) &&
                loaded_model_open(&model, arguments->operands[0], NULL, NULL, NULL, error) &&
                take_folder(folder, &arena, error) && write_folder(&model, folder, dtype, max_shard, &arena, error);
    if (good) log_info("%s: %lld parameters in %s", folder, (long long)model.parameters->total, dtypes[dtype].name);
    loaded_model_close(&model);
    arena_close(&arena);
    return good;
}

const Command export_command = {
    .verb = "export",
    .operands = "MODEL FOLDER",
    .summary = "Writes a checkpoint or a model as a folder of safetensors that Transformers loads.",
    .min_operands = 2,
    .max_operands = 2,
    .details =
        "MODEL is a checkpoint step_N of a run, a folder or a GGUF file (its weights are dequantised exactly), or "
        "ORG/NAME of the hub in the cache. FOLDER is made; one that holds a model already is refused. Weights are "
        "rounded to --dtype once, tensor by tensor, so that no more than a tensor's rows are in memory. Configuration, "
        "tokenizer and chat template come from the model that the run began from.",
    .examples = "whet export results/run/step_100 my-model\n"
                "whet export results/run/step_100 my-model --dtype float32  # the masters as they are\n"
                "whet export model.Q4_K_M.gguf my-model --max-shard-size 2G",
    .options = {{"--dtype", "bfloat16|float16|float32", "of the weights (default bfloat16)"},
                {"--max-shard-size", "SIZE", "bytes of one file at most, also as 2G (default 5G)"},
                {"--quiet", NULL, "print warnings only"}},
    .run = run_export,
};
