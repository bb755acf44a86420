// Conversations rendered with a model's chat template: what transformers' apply_chat_template(tokenize=False) does.
// Source: transformers, utils/chat_template_utils.py; the template language itself is in text/jinja.h.
//
// Around the template: keys of a message whose value is null are dropped; the first of reasoning_content, thinking and
// reasoning that a message has also becomes its reasoning_content and thinking; messages, tools (null), documents
// (null) and add_generation_prompt (false) are always defined, everything else only if the caller passes it: special
// tokens, too, are the caller's to pass. continue_final_message ends the text behind the content of the last
// message or, where it is a string ("reasoning_content"), behind the field of that name.
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/strbuf.h"
#include "text/jinja.h"

#include <jansson.h>

typedef struct ChatTemplate ChatTemplate; // parsed once, then only read: threads may share it
typedef JinjaClock ChatClock;             // what strftime_now sees
typedef JinjaSpan ChatSpan;               // bytes [start, end)

// source: the bytes of the template, copied. name: the file, for messages, copied. The error is
// "NAME:LINE: TemplateSyntaxError: what".
bool chat_open(ChatTemplate **template, const char *source, size_t size, const char *name, Error *error);
void chat_close(ChatTemplate *template); // accepts NULL

// Wishes and extra results, all optional: zero-initialise.
typedef struct ChatDetails {
    const ChatClock *clock; // NULL: now, local time
    Arena *arena;           // where spans go; NULL: they are not wanted
    ChatSpan *spans;        // out: what {% generation %} blocks printed: the assistant's own text
    size_t span_count;
    JinjaFault fault; // out, on failure: kind "raise_exception" when the template refused the conversation itself, and
        // then message is exactly its text; else a Python class name ("UndefinedError", …), "LimitError"
        // for a template that runs wild, or "ValueError" for a request that makes no sense
} ChatDetails;

// Appends the rendered text (UTF-8; may hold 0 bytes if a message does). messages: an array of objects. variables: an
// object with everything else the caller passes, or NULL. details may be NULL. The error is "NAME:LINE: KIND: what".
bool chat_render(const ChatTemplate *template, StrBuf *text, const json_t *messages, const json_t *variables,
                 ChatDetails *details, Error *error);

// The same with values in the memory of a fresh run, read by jinja_json_read: for JSON with integers that jansson
// cannot hold. variables: a DICT or MISSING. The caller closes the run.
bool chat_render_values(const ChatTemplate *template, JinjaRun *run, StrBuf *text, JinjaValue messages,
                        JinjaValue variables, ChatDetails *details, Error *error);
