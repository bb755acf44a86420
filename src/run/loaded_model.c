#include "run/loaded_model.h"

#include "base/file.h"

#include <string.h>

static bool open_chat(LoadedModel *model, const char *chat_template, Error *error) {
    Arena arena = {0};
    const char *text = chat_template, *name = "policy.tokenizer.chat_template";
    size_t size = text ? strlen(text) : 0;
    bool good = true;
    if (!text || !strcmp(text, "default")) {
        text = model_file_chat_template(model->file);
        size = text ? strlen(text) : 0;
        name = model->path;
    } else if (size > strlen(".jinja") && !strcmp(text + size - strlen(".jinja"), ".jinja")) {
        char *read;
        name = chat_template;
        good = file_read(&read, &size, &arena, name, error);
        text = read;
    }
    good = good && (!text || chat_open(&model->chat, text, size, name, error));
    arena_close(&arena);
    return good;
}

bool loaded_model_open(LoadedModel *model, const char *path, const char *tokenizer_folder, const char *chat_template,
                       Error *error) {
    *model = (LoadedModel){.path = path};
    if (!model_file_open(&model->file, path, error)) return false;
    model->architecture = model_file_architecture(model->file);
    model->parameters = model_file_parameters(model->file);
    bool own = !tokenizer_folder || !strcmp(tokenizer_folder, path);
    if (!(own ? model_file_tokenizer(model->file, &model->tokenizer, error)
              : tokenizer_open_folder(&model->tokenizer, tokenizer_folder, error)))
        return false;
    if (tokenizer_size(model->tokenizer) > model->architecture->vocab_size)
        return error_set(error, "%s: the tokenizer has ids up to %d, the model %lld rows of embeddings",
                         own ? path : tokenizer_folder, tokenizer_size(model->tokenizer) - 1,
                         (long long)model->architecture->vocab_size);
    model->stop_count = model_file_stop_ids(model->file, model->stop_ids, LOADED_MODEL_MAX_STOPS - 1);
    int32_t eos = tokenizer_eos(model->tokenizer);
    bool known = eos < 0;
    for (int i = 0; i < model->stop_count; i++) known = known || model->stop_ids[i] == eos;
    if (!known) model->stop_ids[model->stop_count++] = eos;
    return open_chat(model, chat_template, error);
}

void loaded_model_close(LoadedModel *model) {
    chat_close(model->chat);
    tokenizer_close(model->tokenizer);
    model_file_close(model->file);
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
