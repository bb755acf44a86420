#include "run/loaded_model.h"

#include "base/file.h"
#include "base/jsonio.h"
#include "model/gguf_model.h"
#include "model/hub_cache.h"
#include "train/checkpoint.h"

#include <string.h>

// Where the parts of a model lie. A checkpoint step_N holds weights; its text side is that of the model it began from, which
// training_info.json names. That may be a checkpoint again.
typedef struct Source {
    const char *weights, *text, *tokenizer_folder, *chat_template;
} Source;

enum { MOST_GENERATIONS = 16 };

static bool is_checkpoint(const char *path, Arena *arena) {
    return file_exists(arena_format(arena, "%s/training_info.json", path));
}

// Moves source->text from a checkpoint to the model that it began from.
static bool step_back(Source *source, const json_t *info, Arena *arena, Error *error) {
    const char *model = json_string_value(json_object_get(info, "model"));
    const char *tokenizer = json_string_value(json_object_get(info, "tokenizer"));
    const char *chat = json_string_value(json_object_get(info, "chat_template"));
    const char *name = arena_format(arena, "%s/training_info.json", source->text);
    if (!model) return error_set(error, "%s: no \"model\": which tokenizer belongs to the weights?", name);
    const char *found;
    if (!hub_cache_find(&found, model, HUB_MODEL, arena, error))
        return error_prefix(error, "%s: the tokenizer of the model that the run began from is needed: ", name);
    if (!source->tokenizer_folder && tokenizer && strcmp(tokenizer, model))
        source->tokenizer_folder = arena_string(arena, tokenizer);
    if ((!source->chat_template || !strcmp(source->chat_template, "default")) && chat)
        source->chat_template = arena_string(arena, chat);
    source->text = arena_string(arena, found);
    return true;
}

static bool find_source(Source *source, Arena *arena, Error *error) {
    const char *given = source->weights;
    for (int generation = 0; is_checkpoint(source->text, arena); generation++) {
        json_t *info;
        if (generation == MOST_GENERATIONS)
            return error_set(error, "%s: more than %d checkpoints that began from each other", given, MOST_GENERATIONS);
        if (!jsonio_read(&info, arena_format(arena, "%s/training_info.json", source->text), error)) return false;
        if (!generation) source->weights = arena_format(arena, "%s/policy/weights/model", given);
        bool good =
            (generation || checkpoint_check_weights(info, given, error)) && step_back(source, info, arena, error);
        json_decref(info);
        if (!good) return false;
    }
    return true;
}

static bool find_tokenizer(Source *source, Arena *arena, Error *error) {
    const char *name = source->tokenizer_folder;
    return !name || hub_cache_find(&source->tokenizer_folder, name, HUB_TOKENIZER, arena, error) ||
           error_prefix(error, "policy.tokenizer.name: ");
}

static bool set_chat(LoadedModel *model, const char *text, size_t size, const char *name, Error *error) {
    model->chat_text = arena_string(&model->arena, text);
    return chat_open(&model->chat, text, size, name, error);
}

// A template of the model by its name; a .jinja file; or the text of a template.
static bool open_wanted(LoadedModel *model, const ChatSource *templates, const char *wanted, Arena *arena,
                        Error *error) {
    const char *name = "the chat template (policy.tokenizer.chat_template, --chat-template)";
    const ChatSourceItem *item = chat_source_find(templates, wanted);
    if (item) return set_chat(model, item->text, strlen(item->text), item->file, error);
    size_t size = strlen(wanted);
    if (size > strlen(".jinja") && !strcmp(wanted + size - strlen(".jinja"), ".jinja")) {
        char *text;
        return file_read(&text, &size, arena, wanted, error) && set_chat(model, text, size, wanted, error);
    }
    if (strstr(wanted, "{{") || strstr(wanted, "{%")) return set_chat(model, wanted, size, name, error);
    StrBuf known = {0};
    for (size_t i = 0; i < templates->count; i++) strbuf_format(&known, " '%.100s',", templates->items[i].name);
    error_set(error, "%s is '%.100s', expected%s a .jinja file or the text of a template", name, wanted,
              known.text ? known.text : "");
    strbuf_close(&known);
    return false;
}

static bool open_chat(LoadedModel *model, const ChatSource *templates, const char *wanted, Error *error) {
    Arena arena = {0};
    const ChatSourceItem *item = chat_source_find(templates, "default"),
                         *tools = chat_source_find(templates, "tool_use");
    bool good = true;
    if (wanted && strcmp(wanted, "default")) {
        good = open_wanted(model, templates, wanted, &arena, error);
    } else {
        if (!item && templates->count)
            good = error_set(error, "%s: several chat templates and none named default; choose one, such as '%.100s'",
                             templates->items[0].file, templates->items[0].name);
        if (good && item) good = set_chat(model, item->text, strlen(item->text), item->file, error);
        if (good && tools) good = chat_open(&model->tool_chat, tools->text, strlen(tools->text), tools->file, error);
    }
    arena_close(&arena);
    return good;
}

static bool open_text_side(LoadedModel *model, const ModelFile *file, const Source *source, Error *error) {
    const char *folder = source->tokenizer_folder;
    bool own = !folder || !strcmp(folder, source->text);
    if (!(own ? model_file_tokenizer(file, &model->tokenizer, error)
              : tokenizer_open_folder(&model->tokenizer, folder, error)))
        return false;
    model->tokenizer_path = arena_string(&model->arena, own ? source->text : folder);
    if (tokenizer_size(model->tokenizer) > model->architecture->vocab_size)
        return error_set(error, "%s: the tokenizer has ids up to %d, the model %lld rows of embeddings",
                         own ? source->text : folder, tokenizer_size(model->tokenizer) - 1,
                         (long long)model->architecture->vocab_size);
    model->stop_count = model_file_stop_ids(file, model->stop_ids, LOADED_MODEL_MAX_STOPS - 1);
    int32_t eos = tokenizer_eos(model->tokenizer);
    bool known = eos < 0;
    for (int i = 0; i < model->stop_count; i++) known = known || model->stop_ids[i] == eos;
    if (!known) model->stop_ids[model->stop_count++] = eos;
    return open_chat(model, model_file_chat_templates(file), source->chat_template, error);
}

bool loaded_model_open(LoadedModel *model, const char *path, const char *tokenizer_folder, const char *chat_template,
                       const char *config_overrides, Error *error) {
    *model = (LoadedModel){.path = path};
    Arena arena = {0};
    ModelFile *text_side = NULL;
    bool own_folder = tokenizer_folder && strcmp(tokenizer_folder, path);
    Source source = {.tokenizer_folder = own_folder ? tokenizer_folder : NULL, .chat_template = chat_template};
    bool good = hub_cache_find(&source.weights, path, HUB_MODEL, &arena, error);
    const char *found = source.text = source.weights;
    good = good && find_source(&source, &arena, error) && find_tokenizer(&source, &arena, error) &&
           model_file_open_changed(&model->file, source.weights, config_overrides, error);
    if (good) {
        model->architecture = model_file_architecture(model->file);
        model->parameters = model_file_parameters(model->file);
        bool apart = source.text != found;
        good = (!apart || model_file_open(&text_side, source.text, error)) &&
               open_text_side(model, apart ? text_side : model->file, &source, error);
    }
    model_file_close(text_side);
    arena_close(&arena);
    return good;
}

static bool ends_with(const char *text, const char *end) {
    size_t size = strlen(text), length = strlen(end);
    return size >= length && !strcmp(text + size - length, end);
}

// Tokenizer and templates of a folder, of the folder that a tokenizer.json lies in, or of a GGUF file.
static bool open_text_alone(LoadedModel *model, const Source *source, Arena *arena, Error *error) {
    ChatSource templates = {0};
    const char *path = source->text;
    bool folder = file_is_folder(path), json = !folder && ends_with(path, ".json");
    if (folder || json) {
        const char *slash = strrchr(path, '/');
        const char *place = folder ? path : slash ? arena_format(arena, "%.*s", (int)(slash - path), path) : ".";
        const char *own = source->tokenizer_folder;
        return (json ? tokenizer_open_file(&model->tokenizer, path, error)
                     : tokenizer_open_folder(&model->tokenizer, own ? own : place, error)) &&
               chat_source_read(&templates, place, arena, error) &&
               open_chat(model, &templates, source->chat_template, error);
    }
    Gguf file = {0};
    bool good = gguf_open(&file, path, error) && gguf_model_tokenizer(&model->tokenizer, &file, error) &&
                gguf_model_chat_templates(&templates, &file, arena, error) &&
                open_chat(model, &templates, source->chat_template, error);
    gguf_close(&file);
    return good;
}

bool loaded_model_open_text(LoadedModel *model, const char *path, const char *chat_template, Error *error) {
    *model = (LoadedModel){.path = path};
    Arena arena = {0};
    Source source = {.chat_template = chat_template};
    bool good = hub_cache_find(&source.weights, path, HUB_TOKENIZER, &arena, error);
    source.text = source.weights;
    good = good && find_source(&source, &arena, error) && find_tokenizer(&source, &arena, error) &&
           open_text_alone(model, &source, &arena, error);
    arena_close(&arena);
    return good;
}

void loaded_model_close(LoadedModel *model) {
    chat_close(model->chat);
    chat_close(model->tool_chat);
    json_decref(model->chat_variables);
    tokenizer_close(model->tokenizer);
    model_file_close(model->file);
    arena_close(&model->arena);
    *model = (LoadedModel){0};
}

bool loaded_model_chat_options(LoadedModel *model, const char *variables, const char *time, Error *error) {
    json_error_t where;
    if (variables) {
        model->chat_variables = json_loads(variables, JSON_REJECT_DUPLICATES, &where);
        if (!json_is_object(model->chat_variables))
            return error_set(error, "the variables of the chat template are no JSON object: %s",
                             model->chat_variables ? "another value" : where.text);
    }
    if (!time) return true;
    model->clock_set = jinja_clock_parse(&model->clock, time);
    return model->clock_set ||
           error_set(error, "'%.100s' is no time; expected one like 2025-03-07 or 2025-03-07T04:05:06", time);
}

bool loaded_model_chat_text(const LoadedModel *model, StrBuf *text, const json_t *messages, const json_t *variables,
                            Error *error) {
    json_t *all = json_object();
    for (int i = 0; i < TOKENIZER_NAMES; i++) {
        const char *token = tokenizer_named(model->tokenizer, tokenizer_names[i]);
        if (token) json_object_set_new(all, tokenizer_names[i], json_string(token));
    }
    if (model->chat_variables) json_object_update(all, model->chat_variables);
    if (variables) json_object_update(all, (json_t *)(uintptr_t)variables);
    const json_t *tools = json_object_get(all, "tools");
    const ChatTemplate *chat = model->tool_chat && tools && !json_is_null(tools) ? model->tool_chat : model->chat;
    ChatDetails details = {.clock = model->clock_set ? &model->clock : NULL};
    bool good =
        chat ? chat_render(chat, text, messages, all, &details, error)
             : error_set(
                   error,
                   "%s: the model has no chat template; give one (policy.tokenizer.chat_template, --chat-template)",
                   model->path);
    json_decref(all);
    return good;
}

bool loaded_model_chat_ids(const LoadedModel *model, TokenList *ids, const json_t *messages, bool add_generation_prompt,
                           Error *error) {
    json_t *variables = json_pack("{s:b}", "add_generation_prompt", add_generation_prompt);
    StrBuf text = {0};
    bool good = loaded_model_chat_text(model, &text, messages, variables, error) &&
                tokenizer_encode(model->tokenizer, ids, text.text ? text.text : "", text.length, false, error);
    strbuf_close(&text);
    json_decref(variables);
    return good;
}
