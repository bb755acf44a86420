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
    ChatTemplate *chat;      // NULL: the model has none
    ChatTemplate *tool_chat; // used when tools are given; NULL: chat
    json_t *chat_variables;  // what every rendering sees besides its own; NULL: none
    ChatClock clock;         // what strftime_now sees, if clock_set
    bool clock_set;
    int32_t stop_ids[LOADED_MODEL_MAX_STOPS];
    int stop_count;
    const char *tokenizer_path; // folder or GGUF file that the tokenizer was read from
    const char *chat_text;      // the chat template as text; NULL: none
    Arena arena;                // of these two
} LoadedModel;

// path: a GGUF file, a folder of the Hugging Face hub's layout, a name in the hub's cache, or a checkpoint step_N of a run
// (weights from there, tokenizer and chat template as the run had them). It must outlive the model. chat_template: NULL or
// "default": the model's own; the name of one of several; a path ending in .jinja; or the text of a template
// (policy.tokenizer.chat_template). tokenizer_folder: NULL or the model's path: the model's own; else a folder.
// config_overrides: policy.hf_config_overrides as a JSON object, or NULL.
bool loaded_model_open(LoadedModel *model, const char *path, const char *tokenizer_folder, const char *chat_template,
                       const char *config_overrides, Error *error);
void loaded_model_close(LoadedModel *model); // accepts a half-opened one

// Tokenizer and chat template alone: file, architecture and parameters stay NULL. path may also be a tokenizer.json or a GGUF
// file without weights.
bool loaded_model_open_text(LoadedModel *model, const char *path, const char *chat_template, Error *error);

// Before the first rendering. variables: a JSON object (policy.tokenizer.chat_template_kwargs), or NULL. time: what
// strftime_now sees, or NULL: the time of the rendering.
bool loaded_model_chat_options(LoadedModel *model, const char *variables, const char *time, Error *error);

// Appends a conversation (JSON array of {role, content}) as the chat template renders it. variables: an object or NULL; they
// come before those of loaded_model_chat_options, and these before the tokenizer's bos_token, eos_token and pad_token.
bool loaded_model_chat_text(const LoadedModel *model, StrBuf *text, const json_t *messages, const json_t *variables,
                            Error *error);

// Appends the ids of a conversation, without adding special tokens of the tokenizer's own (reference section 7.2): the template
// writes them all.
bool loaded_model_chat_ids(const LoadedModel *model, TokenList *ids, const json_t *messages, bool add_generation_prompt,
                           Error *error);
