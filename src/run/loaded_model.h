// A model with its text side: file, tokenizer, chat template, stop ids. What every verb that takes a MODEL opens.
#pragma once
#include "model/model_file.h"
#include "text/chat.h"

enum { LOADED_MODEL_MAX_STOPS = 16 };

typedef struct LoadedModel {
    const char *path;
    ModelFile *file;
    const Architecture *architecture;
    const ParameterTable *parameters;
    Tokenizer *tokenizer;
    ChatTemplate *chat; // NULL: the model has none
    int32_t stop_ids[LOADED_MODEL_MAX_STOPS];
    int stop_count;
    const char *tokenizer_path; // folder or GGUF file that the tokenizer was read from
    const char *chat_text;      // the chat template as text; NULL: none
    Arena arena;                // of these two
} LoadedModel;

// path: a GGUF file, a folder of the Hugging Face hub's layout, a checkpoint step_N of a run (weights from there, tokenizer and
// chat template as the run had them), or ORG/NAME in the hub's cache (model/hub_cache.h). It must outlive the model. chat_template: NULL or "default": the model's own; a path ending in .jinja; or the text of a
// template (policy.tokenizer.chat_template). tokenizer_folder: NULL or the model's path: the model's own; else a folder or ORG/NAME.
bool loaded_model_open(LoadedModel *model, const char *path, const char *tokenizer_folder, const char *chat_template,
                       Error *error);
void loaded_model_close(LoadedModel *model); // accepts a half-opened one

// Appends the ids of a conversation (JSON array of {role, content}) rendered by the chat template, without adding special
// tokens of the tokenizer's own (reference section 7.2): the template writes them all.
bool loaded_model_chat_ids(const LoadedModel *model, TokenList *ids, const json_t *messages, bool add_generation_prompt,
                           Error *error);
