// Where a model folder keeps its chat templates, and which of them is meant (transformers, tokenization_utils_base.py).
//
// chat_template.jinja is "default" and additional_chat_templates/NAME.jinja is NAME; where none of these is there,
// chat_template of tokenizer_config.json: a text ("default") or a list of {name, template}; else that of chat_template.json.
#pragma once
#include "base/arena.h"
#include "base/error.h"

#include <stddef.h>

typedef struct ChatSourceItem {
    const char *name, *text; // 0-terminated; a template holds no 0 byte
    const char *file;        // for messages
} ChatSourceItem;

enum { CHAT_SOURCE_MOST = 64 };

// Zero-initialise. Strings belong to the arena that was given.
typedef struct ChatSource {
    ChatSourceItem items[CHAT_SOURCE_MOST];
    size_t count;
} ChatSource;

bool chat_source_read(ChatSource *source, const char *folder, Arena *arena, Error *error);

// One more; all strings must live as long. Refuses a name that is there already.
bool chat_source_add(ChatSource *source, const char *name, const char *text, const char *file, Error *error);

const ChatSourceItem *chat_source_find(const ChatSource *source, const char *name); // NULL: not there
