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

static bool take_text(Inputs *inputs, json_t *text, Error *error) {
    const LoadedModel *model = inputs->model;
    if (!inputs->options.as_chat)
        return tokenizer_encode(model->tokenizer, &inputs->ids, json_string_value(text), json_string_length(text), true,
                                error);
    json_t *messages = json_pack("[{s:s, s:O}]", "role", "user", "content", text);
    bool good = loaded_model_chat_ids(model, &inputs->ids, messages, inputs->options.answered, error);
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
    if (ids) return json_is_array(ids) ? take_ids(inputs, ids, error) : wrong_type("ids", "list of ids", error);
    if (!json_is_array(messages)) return wrong_type("messages", "list of messages", error);
    bool answered = options->answered || json_is_true(json_object_get(line, "add_generation_prompt"));
    return loaded_model_chat_ids(inputs->model, &inputs->ids, messages, answered, error);
}

static bool add(Inputs *inputs, const json_t *line, Error *error) {
    const InputOptions *options = &inputs->options;
    if (!take_line(inputs, line, error)) return false;
    int64_t length = (int64_t)inputs->ids.count - inputs->offset[inputs->count];
    if (length < options->least)
        return error_set(error, "no tokens; expected at least %lld", (long long)options->least);
    if (length > options->most)
        return error_set(error, "%lld tokens; the %lld positions of the model leave room for %lld", (long long)length,
                         (long long)inputs->model->architecture->max_positions, (long long)options->most);
    inputs->offset[++inputs->count] = (int64_t)inputs->ids.count;
    if (length > inputs->longest) inputs->longest = length;
    return true;
}

static bool is_blank(const char *line, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (!strchr(" \t\r", line[i]) || !line[i]) return false;
    return true;
}

static bool add_line(Inputs *inputs, const char *line, size_t length, Error *error) {
    if (is_blank(line, length)) return true;
    json_error_t where;
    json_t *value = json_loadb(line, length, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &where);
    if (!value) return error_set(error, "not valid JSON: %s", where.text);
    bool good = add(inputs, value, error);
    json_decref(value);
    return good;
}

bool inputs_read(Inputs *inputs, const char *path, Arena *arena, Error *error) {
    static const char mark[] = "\xef\xbb\xbf"; // that some editors put before UTF-8
    char *text;
    size_t size;
    if (!file_read(&text, &size, arena, path, error)) return false;
    const char *at = text, *end = text + size;
    if (!strncmp(text, mark, strlen(mark))) at += strlen(mark);
    int64_t lines = 1;
    for (const char *byte = at; byte < end; byte++) lines += *byte == '\n';
    inputs->offset = arena_array(arena, int64_t, lines + 1);
    for (int64_t number = 1; at < end; number++) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end) line_end = end;
        if (!add_line(inputs, at, (size_t)(line_end - at), error))
            return error_prefix(error, "%s:%lld: ", path, (long long)number);
        at = line_end + 1;
    }
    return inputs->count || error_set(error, "%s: no line holds anything", path);
}

bool inputs_take(Inputs *inputs, const char *text, Arena *arena, Error *error) {
    inputs->offset = arena_array(arena, int64_t, 2);
    json_t *line = json_pack("{s:s}", inputs->options.text_key, text);
    bool good = line ? add(inputs, line, error) : error_set(error, "not UTF-8");
    json_decref(line);
    return good || error_prefix(error, "the %s: ", inputs->options.text_key);
}

void inputs_close(Inputs *inputs) {
    bpe_list_close(&inputs->ids);
}
