#include "run/inputs.h"

#include "base/file.h"

#include <string.h>

static bool take_ids(Inputs *inputs, const json_t *given, Error *error) {
    int64_t vocabulary = inputs->model->architecture->vocab_size;
    for (size_t i = 0; i < json_array_size(given); i++) {
        json_t *id = json_array_get(given, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= vocabulary)
            return error_set(error, "ids[%zu] is no id of the model's vocabulary of %lld", i, (long long)vocabulary);
        bpe_list_append(&inputs->ids, (int32_t)json_integer_value(id));
    }
    return true;
}

// The conversation as ids, behind the system message of the options if it brings none.
static bool take_messages(Inputs *inputs, json_t *messages, bool answered, Error *error) {
    const char *first = json_string_value(json_object_get(json_array_get(messages, 0), "role"));
    json_t *whole = json_array();
    if (inputs->options.system && !(first && !strcmp(first, "system")))
        json_array_append_new(whole, json_pack("{s:s, s:s}", "role", "system", "content", inputs->options.system));
    json_array_extend(whole, messages);
    bool good = loaded_model_chat_ids(inputs->model, &inputs->ids, whole, answered, error);
    json_decref(whole);
    return good;
}

static bool take_text(Inputs *inputs, json_t *text, Error *error) {
    if (!inputs->options.as_chat)
        return tokenizer_encode(inputs->model->tokenizer, &inputs->ids, json_string_value(text),
                                json_string_length(text), true, error);
    json_t *messages = json_pack("[{s:s, s:O}]", "role", "user", "content", text);
    bool good = take_messages(inputs, messages, inputs->options.answered, error);
    json_decref(messages);
    return good;
}

static bool wrong_type(const char *key, const char *wanted, Error *error) {
    return error_set(error, "\"%s\" is no %s", key, wanted);
}

static bool take_line(Inputs *inputs, const json_t *line, Error *error) {
    const InputOptions *options = &inputs->options;
    json_t *text = json_object_get(line, options->text_key), *messages = json_object_get(line, "messages"),
           *ids = json_object_get(line, "ids");
    if (!text + !messages + !ids != 2)
        return error_set(error, "expected an object with exactly one of \"%s\", \"messages\" and \"ids\"",
                         options->text_key);
    if (text)
        return json_is_string(text) ? take_text(inputs, text, error) : wrong_type(options->text_key, "text", error);
    if (ids && options->system) return error_set(error, "\"ids\" leave no place for a system message (--system)");
    if (ids) return json_is_array(ids) ? take_ids(inputs, ids, error) : wrong_type("ids", "list of ids", error);
    if (!json_is_array(messages)) return wrong_type("messages", "list of messages", error);
    if (options->raw) return error_set(error, "\"messages\" need the chat template, which --raw leaves out");
    bool answered = options->answered || json_is_true(json_object_get(line, "add_generation_prompt"));
    return take_messages(inputs, messages, answered, error);
}

static bool add(Inputs *inputs, const json_t *line, Error *error) {
    const InputOptions *options = &inputs->options;
    if (!take_line(inputs, line, error)) return false;
    int64_t length = (int64_t)inputs->ids.count - inputs->offset[inputs->count];
    if (length < options->least)
        return error_set(error, "no tokens; expected at least %lld", (long long)options->least);
    if (length > options->most)
        return error_set(error, "%lld tokens; expected at most %lld (the context has %lld)", (long long)length,
                         (long long)options->most, (long long)options->context);
    inputs->offset[++inputs->count] = (int64_t)inputs->ids.count;
    if (length > inputs->longest) inputs->longest = length;
    return true;
}

static bool is_blank(const char *line, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!strchr(" \t\r", line[i]) || !line[i]) return false;
    return true;
}

static bool add_text(Inputs *inputs, const char *text, size_t length, Error *error) {
    json_t *value = json_stringn(text, length);
    if (!value) return error_set(error, "not UTF-8");
    json_t *line = json_object();
    json_object_set_new(line, inputs->options.text_key, value);
    bool good = add(inputs, line, error);
    json_decref(line);
    return good;
}

static bool add_line(Inputs *inputs, const char *line, size_t length, Error *error) {
    if (is_blank(line, length)) return true;
    if (inputs->options.plain) return add_text(inputs, line, length - (line[length - 1] == '\r'), error);
    json_error_t where;
    json_t *value = json_loadb(line, length, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &where);
    if (!value) return error_set(error, "not valid JSON: %s", where.text);
    bool good = add(inputs, value, error);
    json_decref(value);
    return good;
}

static bool ends_with(const char *text, const char *ending) {
    size_t length = strlen(text), size = strlen(ending);
    return length >= size && !strcmp(text + length - size, ending);
}

bool inputs_options(InputOptions *options, Arguments *arguments, const char *path, Error *error) {
    const char *key = command_text(arguments, "--key");
    int format = path && ends_with(path, ".txt");
    if (!command_choice(arguments, "--format", &format, error)) return false;
    options->plain = format;
    if (key) options->text_key = key;
    if (!path && (key || command_text(arguments, "--format")))
        return command_misuse(arguments) || error_set(error, "--format and --key belong to a FILE");
    if (key && format) return command_misuse(arguments) || error_set(error, "--key: lines of plain text have no keys");
    if (!strcmp(options->text_key, "messages") || !strcmp(options->text_key, "ids"))
        return command_misuse(arguments) || error_set(error, "--key is '%s', which is no text", key);
    return true;
}

bool inputs_read(Inputs *inputs, const char *path, Arena *arena, Error *error) {
    static const char mark[] = "\xef\xbb\xbf"; // that some editors put before UTF-8
    const char *name = strcmp(path, "-") ? path : "standard input";
    char *text;
    size_t size;
    if (!file_read_stream(&text, &size, arena, path, error)) return false;
    const char *at = text, *end = text + size;
    if (!strncmp(text, mark, strlen(mark))) at += strlen(mark);
    int64_t lines = 1;
    for (const char *byte = at; byte < end; byte++) lines += *byte == '\n';
    inputs->offset = arena_array(arena, int64_t, lines + 1);
    for (int64_t number = 1; at < end; number++) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end) line_end = end;
        if (!add_line(inputs, at, (size_t)(line_end - at), error))
            return error_prefix(error, "%s:%lld: ", name, (long long)number);
        at = line_end + 1;
    }
    return inputs->count || error_set(error, "%s: no line holds anything", name);
}

bool inputs_take(Inputs *inputs, const char *text, size_t size, Arena *arena, Error *error) {
    inputs->offset = arena_array(arena, int64_t, 2);
    return add_text(inputs, text, size, error) || error_prefix(error, "the %s: ", inputs->options.text_key);
}

void inputs_close(Inputs *inputs) {
    bpe_list_close(&inputs->ids);
}
