#include "run/loaded_model.h"

#include "base/file.h"
#include "base/jsonio.h"
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

static bool open_chat(LoadedModel *model, const ModelFile *text_side, const char *chat_template, Error *error) {
    Arena arena = {0};
    const char *text = chat_template, *name = "policy.tokenizer.chat_template";
    size_t size = text ? strlen(text) : 0;
    bool good = true;
    if (!text || !strcmp(text, "default")) {
        text = model_file_chat_template(text_side);
        size = text ? strlen(text) : 0;
        name = arena_format(&arena, "%s (chat template)", model->path);
    } else if (size > strlen(".jinja") && !strcmp(text + size - strlen(".jinja"), ".jinja")) {
        char *read;
        name = chat_template;
        good = file_read(&read, &size, &arena, name, error);
        text = read;
    }
    good = good && (!text || chat_open(&model->chat, text, size, name, error));
    if (text) model->chat_text = arena_string(&model->arena, text);
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
    return open_chat(model, file, source->chat_template, error);
}

bool loaded_model_open(LoadedModel *model, const char *path, const char *tokenizer_folder, const char *chat_template,
                       Error *error) {
    *model = (LoadedModel){.path = path};
    Arena arena = {0};
    ModelFile *text_side = NULL;
    bool own_folder = tokenizer_folder && strcmp(tokenizer_folder, path);
    Source source = {.tokenizer_folder = own_folder ? tokenizer_folder : NULL, .chat_template = chat_template};
    bool good = hub_cache_find(&source.weights, path, HUB_MODEL, &arena, error);
    const char *found = source.text = source.weights;
    good = good && find_source(&source, &arena, error) && find_tokenizer(&source, &arena, error) &&
           model_file_open(&model->file, source.weights, error);
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

void loaded_model_close(LoadedModel *model) {
    chat_close(model->chat);
    tokenizer_close(model->tokenizer);
    model_file_close(model->file);
    arena_close(&model->arena);
    *model = (LoadedModel){0};
}

bool loaded_model_chat_ids(const LoadedModel *model, TokenList *ids, const json_t *messages, bool add_generation_prompt,
                           Error *error) {
    if (!model->chat)
        return error_set(error, "%s: the model has no chat template; give policy.tokenizer.chat_template", model->path);
    json_t *variables = json_object();
    json_object_set_new(variables, "add_generation_prompt", json_boolean(add_generation_prompt));
    const char *names[] = {"bos_token", "eos_token", "pad_token"};
    int32_t special[] = {tokenizer_bos(model->tokenizer), tokenizer_eos(model->tokenizer),
                         tokenizer_pad(model->tokenizer)};
    for (int i = 0; i < 3; i++)
        if (special[i] >= 0) {
            StrBuf text = {0};
            tokenizer_decode(model->tokenizer, &text, &special[i], 1, false);
            json_object_set_new(variables, names[i], json_stringn(text.text ? text.text : "", text.length));
            strbuf_close(&text);
        }
    StrBuf text = {0};
    bool good = chat_render(model->chat, &text, messages, variables, NULL, error) &&
                tokenizer_encode(model->tokenizer, ids, text.text ? text.text : "", text.length, false, error);
    strbuf_close(&text);
    json_decref(variables);
    return good;
}
