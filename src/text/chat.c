#include "text/chat.h"

#include "text/jinja_json.h"
#include "text/jinja_string.h"
#include "text/jinja_text.h"

#include <string.h>

#define CONTINUE_MARK "CONTINUE_FINAL_MESSAGE_TAG"

struct ChatTemplate {
    Arena home; // of this struct
    JinjaTemplate *parsed;
    char name[256];
};

static bool report(const char *name, const JinjaFault *fault, Error *error) {
    if (!fault->line) return error_set(error, "%s: %s: %s", name, fault->kind, fault->message);
    return error_set(error, "%s:%d: %s: %s", name, fault->line, fault->kind, fault->message);
}

bool chat_open(ChatTemplate **template, const char *source, size_t size, const char *name, Error *error) {
    JinjaTemplate *parsed;
    JinjaFault fault;
    *template = NULL;
    if (!jinja_open(&parsed, source, size, &fault)) return report(name, &fault, error);
    Arena home = {0};
    *template = arena_array(&home, ChatTemplate, 1);
    (*template)->home = home;
    (*template)->parsed = parsed;
    snprintf((*template)->name, sizeof(*template)->name, "%s", name);
    return true;
}

void chat_close(ChatTemplate *template) {
    if (!template) return;
    jinja_close(template->parsed);
    Arena home = template->home;
    arena_close(&home);
}

static bool put(JinjaRun *run, JinjaValue dict, const char *name, JinjaValue value) {
    return jinja_value_put(run, dict, jinja_value_string(name), value);
}

static const char *const reasoning_names[] = {"reasoning_content", "thinking", "reasoning"};

// A copy of the message without nulls, with its reasoning under both names: thinking first of all keys, as in
// transformers, since a template may print the whole message.
static bool normalize_message(JinjaRun *run, size_t number, JinjaValue message, JinjaValue *normal) {
    if (message.kind != JINJA_DICT)
        return jinja_run_fault(run, "TypeError", "message %zu is not an object but a %s", number,
                               jinja_value_type(message));
    *normal = jinja_value_dict(run);
    JinjaValue reasoning = {.kind = JINJA_MISSING};
    for (size_t i = 0; i < 3 && (reasoning.kind == JINJA_MISSING || reasoning.kind == JINJA_NONE); i++)
        reasoning = jinja_value_member(message, reasoning_names[i]);
    bool reasoned = reasoning.kind != JINJA_MISSING && reasoning.kind != JINJA_NONE;
    if (reasoned && !put(run, *normal, "thinking", reasoning)) return false;
    for (size_t i = 0; i < message.dict->count; i++) {
        const JinjaEntry *entry = &message.dict->entries[i];
        if (entry->value.kind != JINJA_NONE && !jinja_value_put(run, *normal, entry->key, entry->value)) return false;
    }
    return !reasoned || put(run, *normal, "reasoning_content", reasoning);
}

// The text with the mark behind it.
static bool marked(JinjaRun *run, JinjaValue text, JinjaValue *result) {
    JinjaBuffer buffer = {0};
    jinja_run_put(run, &buffer, text.text, text.size);
    jinja_run_puts(run, &buffer, CONTINUE_MARK " ");
    *result = jinja_text_taken(&buffer);
    return jinja_run_good(run);
}

// The mark goes behind the last text of a content that is a list of parts.
static bool mark_parts(JinjaRun *run, JinjaValue parts, JinjaValue *text, JinjaValue *result) {
    *result = jinja_value_list(run, JINJA_LIST);
    for (size_t i = 0; i < parts.list->count; i++) jinja_value_push(run, *result, parts.list->items[i]);
    for (size_t i = parts.list->count; i--;) {
        JinjaValue part = parts.list->items[i], copy = jinja_value_dict(run), longer;
        *text = part.kind == JINJA_DICT ? jinja_value_member(part, "text") : (JinjaValue){.kind = JINJA_MISSING};
        if (text->kind != JINJA_STRING) continue;
        if (!marked(run, *text, &longer)) return false;
        for (size_t e = 0; e < part.dict->count; e++)
            if (!jinja_value_put(run, copy, part.dict->entries[e].key, part.dict->entries[e].value)) return false;
        result->list->items[i] = copy;
        return put(run, copy, "text", longer);
    }
    return jinja_run_fault(run, "ValueError", "continue_final_message: the last message holds no text to continue");
}

// Marks the end of a field of the last message; *text is what it said before. Reasoning is marked under all its names.
static bool mark_last(JinjaRun *run, JinjaValue messages, JinjaValue field, JinjaValue *text) {
    JinjaValue message = messages.list->items[messages.list->count - 1], whole, longer, other;
    bool reasoning = false, same;
    if (!jinja_value_get(run, message, field, &whole)) return false;
    *text = whole;
    if (whole.kind == JINJA_LIST) {
        if (!mark_parts(run, whole, text, &longer)) return false;
    } else if (whole.kind != JINJA_STRING) {
        return jinja_run_fault(run, "ValueError", "continue_final_message: the %.*s of the last message is no text",
                               (int)(field.size < 100 ? field.size : 100), field.text);
    } else if (!marked(run, whole, &longer)) {
        return false;
    }
    for (size_t i = 0; i < 3; i++) reasoning |= jinja_value_is(field, reasoning_names[i]);
    for (size_t i = 0; reasoning && i < 3; i++) {
        other = jinja_value_member(message, reasoning_names[i]);
        if (other.kind == JINJA_MISSING) continue;
        if (!jinja_value_equal(run, other, whole, &same) || (same && !put(run, message, reasoning_names[i], longer)))
            return false;
    }
    return jinja_value_put(run, message, field, longer);
}

// Cuts the rendered text at the last mark; what the template stripped from the mark was stripped from the text, too.
static bool cut_at_mark(JinjaRun *run, JinjaValue last, JinjaValue *text) {
    JinjaValue missing = {.kind = JINJA_MISSING}, mark = jinja_value_string(CONTINUE_MARK), stripped;
    if (!jinja_string_strip(run, last, missing, true, true, &stripped)) return false;
    size_t at = jinja_string_find(run, *text, mark, 0, true);
    if (at == SIZE_MAX || jinja_string_find(run, *text, stripped, 0, false) == SIZE_MAX)
        return jinja_run_fault(run, "ValueError",
                               "continue_final_message: the template does not print the last message as it is");
    bool whole = at + mark.size < text->size && text->text[at + mark.size] == ' ';
    *text = jinja_text_part(*text, 0, at);
    return whole || jinja_string_strip(run, *text, missing, false, true, text);
}

// tools and documents are null or lists of objects.
static bool check_objects(JinjaRun *run, JinjaValue variables, const char *name) {
    JinjaValue value = jinja_value_member(variables, name);
    if (value.kind == JINJA_MISSING) return put(run, variables, name, jinja_value_none());
    if (value.kind == JINJA_NONE) return true;
    bool good = value.kind == JINJA_LIST;
    for (size_t i = 0; good && i < value.list->count; i++) good = value.list->items[i].kind == JINJA_DICT;
    return good || jinja_run_fault(run, "ValueError", "%s must be a list of objects", name);
}

// *continued: the field of the last message that is to be continued, or MISSING.
static bool copy_variables(JinjaRun *run, JinjaValue given, JinjaValue *variables, JinjaValue *continued) {
    *variables = jinja_value_dict(run);
    *continued = (JinjaValue){.kind = JINJA_MISSING};
    for (size_t i = 0; given.kind == JINJA_DICT && i < given.dict->count; i++) {
        const JinjaEntry *entry = &given.dict->entries[i];
        if (jinja_value_is(entry->key, "messages"))
            return jinja_run_fault(run, "ValueError", "the messages are given twice: also among the variables");
        if (jinja_value_is(entry->key, "continue_final_message")) {
            bool named = entry->value.kind == JINJA_STRING;
            if (jinja_value_truth(entry->value)) *continued = named ? entry->value : jinja_value_string("content");
        } else if (!jinja_value_put(run, *variables, entry->key, entry->value)) {
            return false;
        }
    }
    JinjaValue prompt = jinja_value_member(*variables, "add_generation_prompt");
    if (prompt.kind == JINJA_MISSING && !put(run, *variables, "add_generation_prompt", jinja_value_bool(false)))
        return false;
    if (continued->kind != JINJA_MISSING && jinja_value_truth(prompt))
        return jinja_run_fault(run, "ValueError",
                               "continue_final_message and add_generation_prompt do not go together");
    return check_objects(run, *variables, "tools") && check_objects(run, *variables, "documents");
}

static bool render(const ChatTemplate *template, JinjaRun *run, JinjaValue messages, JinjaValue given,
                   const ChatClock *clock, JinjaRendered *rendered) {
    JinjaValue variables, normal = jinja_value_list(run, JINJA_LIST), message, last, continued;
    if (messages.kind != JINJA_LIST || !messages.list->count)
        return jinja_run_fault(run, "ValueError", "the messages are %s",
                               messages.kind == JINJA_LIST ? "empty" : "no list");
    for (size_t i = 0; i < messages.list->count; i++) {
        if (!normalize_message(run, i + 1, messages.list->items[i], &message)) return false;
        jinja_value_push(run, normal, message);
    }
    if (!copy_variables(run, given, &variables, &continued)) return false;
    bool goes_on = continued.kind != JINJA_MISSING;
    if (goes_on && !mark_last(run, normal, continued, &last)) return false;
    if (!put(run, variables, "messages", normal)) return false;
    return jinja_render(template->parsed, run, variables, clock, rendered) &&
           (!goes_on || cut_at_mark(run, last, &rendered->text));
}

static void keep_spans(ChatDetails *details, const JinjaRendered *rendered) {
    if (!details->arena) return;
    details->span_count = rendered->span_count;
    details->spans = arena_array(details->arena, ChatSpan, rendered->span_count);
    for (size_t i = 0; i < rendered->span_count; i++) {
        size_t size = rendered->text.size; // shorter than what was rendered, when a message is to be continued
        ChatSpan span = rendered->spans[i];
        details->spans[i] = (ChatSpan){span.start < size ? span.start : size, span.end < size ? span.end : size};
    }
}

bool chat_render_values(const ChatTemplate *template, JinjaRun *run, StrBuf *text, JinjaValue messages,
                        JinjaValue variables, ChatDetails *details, Error *error) {
    JinjaRendered rendered;
    ChatClock clock;
    if (details && details->clock)
        clock = *details->clock;
    else
        jinja_clock_now(&clock);
    if (!render(template, run, messages, variables, &clock, &rendered)) {
        if (details) details->fault = run->fault;
        return report(template->name, &run->fault, error);
    }
    strbuf_append(text, rendered.text.text, rendered.text.size);
    if (details) keep_spans(details, &rendered);
    return true;
}

bool chat_render(const ChatTemplate *template, StrBuf *text, const json_t *messages, const json_t *variables,
                 ChatDetails *details, Error *error) {
    JinjaRun run = {0};
    JinjaValue list, dict = {.kind = JINJA_MISSING};
    bool good = jinja_json_from(&run, &list, messages) && (!variables || jinja_json_from(&run, &dict, variables));
    if (good)
        good = chat_render_values(template, &run, text, list, dict, details, error);
    else
        report(template->name, &run.fault, error);
    jinja_run_close(&run);
    return good;
}
