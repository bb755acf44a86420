#include "run/tokenize_command.h"

#include "base/file.h"
#include "run/loaded_model.h"
#include "text/utf8.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool read_input(StrBuf *text, const char *path, Error *error) {
    Arena arena = {0};
    char *read;
    size_t size;
    strbuf_clear(text);
    bool good = file_read_stream(&read, &size, &arena, path, error);
    if (good) strbuf_append(text, read, size);
    arena_close(&arena);
    return good;
}

static bool read_json(json_t **value, const char *path, Error *error) {
    StrBuf text = {0};
    json_error_t where;
    *value = NULL;
    bool good = read_input(&text, path, error);
    if (good) {
        *value = json_loadb(text.text, text.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
        good = *value || error_set(error, "%s:%d: not valid JSON: %s", path, where.line, where.text);
    }
    strbuf_close(&text);
    return good;
}

static json_t *json_text(const char *text, size_t size) {
    StrBuf good = {0};
    strbuf_clear(&good);
    utf8_repair(&good, text, size, true);
    json_t *value = json_stringn(good.text, good.length);
    strbuf_close(&good);
    return value;
}

static void print_text(const StrBuf *text) {
    if (text->length) fwrite(text->text, 1, text->length, stdout);
    // Into a pipe goes the text alone.
    if (isatty(STDOUT_FILENO) && !(text->length && text->text[text->length - 1] == '\n')) putchar('\n');
}

static void print_json(const Tokenizer *tokenizer, const StrBuf *text, const TokenList *ids) {
    json_t *numbers = json_array(), *tokens = json_array();
    for (size_t i = 0; i < ids->count; i++) {
        const char *token = tokenizer_token_text(tokenizer, ids->ids[i]);
        json_array_append_new(numbers, json_integer(ids->ids[i]));
        json_array_append_new(tokens, token ? json_text(token, strlen(token)) : json_null());
    }
    json_t *line = json_pack("{s:o, s:o, s:o}", "text", json_text(text->text ? text->text : "", text->length), "ids",
                             numbers, "tokens", tokens);
    char *dump = json_dumps(line, JSON_COMPACT);
    puts(dump);
    free(dump);
    json_decref(line);
}

static void print_ids(const TokenList *ids) {
    for (size_t i = 0; i < ids->count; i++) printf("%s%d", i ? " " : "", ids->ids[i]);
    putchar('\n');
}

// ---- --decode

// Numbers with blanks, commas or brackets between, as this verb and JSON write them.
// What is no id is the caller's misuse, *misused; what the tokenizer does not have is not.
static bool read_ids(TokenList *ids, bool *misused, const Tokenizer *tokenizer, const char *text, Error *error) {
    static const char between[] = " \t\r\n,[]";
    for (const char *at = text + strspn(text, between); *at; at += strspn(at, between)) {
        char *end;
        long id = strtol(at, &end, 10);
        int length = (int)strcspn(at, between);
        *misused = end != at + length;
        if (*misused) return error_set(error, "--decode: '%.*s' is no id", length < 20 ? length : 20, at);
        if (id < 0 || id >= tokenizer_size(tokenizer))
            return error_set(error, "--decode: there is no id %.*s; the tokenizer has 0 to %d",
                             length < 40 ? length : 40, at, tokenizer_size(tokenizer) - 1);
        bpe_list_append(ids, (int32_t)id);
        at = end;
    }
    return true;
}

static bool decode(const LoadedModel *model, StrBuf *text, TokenList *ids, Arguments *arguments, Error *error) {
    StrBuf read = {0};
    const char *given = command_text(arguments, "--decode");
    bool piped = !strcmp(given, "-"), misused = false;
    bool good = !piped || read_input(&read, "-", error);
    if (good && read.length != strlen(read.text ? read.text : "")) good = error_set(error, "--decode: a 0 byte");
    good = good && read_ids(ids, &misused, model->tokenizer, read.text ? read.text : given, error);
    if (misused && !piped) command_misuse(arguments);
    if (good) tokenizer_decode(model->tokenizer, text, ids->ids, ids->count, command_switch(arguments, "--no-special"));
    strbuf_close(&read);
    return good;
}

// ---- --render

// NAME=VALUE, where VALUE is JSON or else a text.
static bool set_variables(json_t *variables, const Arguments *arguments, Error *error) {
    const char *given;
    for (int i = 0; (given = command_repeated(arguments, "--variable", i)); i++) {
        const char *equals = strchr(given, '='); // check_options saw to it
        json_t *value = json_loads(equals + 1, JSON_DECODE_ANY, NULL);
        if (!value) value = json_string(equals + 1);
        if (!value) return error_set(error, "--variable %.100s: not UTF-8", given);
        json_object_setn_new(variables, given, (size_t)(equals - given), value);
    }
    return true;
}

static bool set_file(json_t *variables, const Arguments *arguments, const char *option, const char *name,
                     Error *error) {
    const char *path = command_text(arguments, option);
    json_t *value;
    if (!path) return true;
    if (!read_json(&value, path, error)) return false;
    json_object_set_new(variables, name, value);
    return json_is_array(value) || error_set(error, "%s: expected a list of objects", path);
}

// The messages: JSON itself, a file of it, or standard input.
static bool read_messages(json_t **messages, const char *given, Error *error) {
    json_error_t where;
    const char *start = given ? given + strspn(given, " \t\r\n") : "";
    if (*start != '[' && *start != '{') return read_json(messages, given ? given : "-", error);
    *messages = json_loads(given, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    return *messages || error_set(error, "the messages are not valid JSON: %s", where.text);
}

static bool render(const LoadedModel *model, StrBuf *text, const Arguments *arguments, Error *error) {
    json_t *messages = NULL, *variables = json_object();
    bool good = read_messages(&messages, arguments->operand_count > 1 ? arguments->operands[1] : NULL, error);
    if (good && json_is_object(messages)) { // a line of a data set
        json_t *list = json_object_get(messages, "messages"), *tools = json_object_get(messages, "tools");
        if (tools) json_object_set(variables, "tools", tools);
        good = list || error_set(error, "expected a list of messages or an object with \"messages\"");
        json_incref(list);
        json_decref(messages);
        messages = list;
    }
    good = good && set_file(variables, arguments, "--tools", "tools", error) &&
           set_file(variables, arguments, "--documents", "documents", error) &&
           set_variables(variables, arguments, error);
    bool goes_on = json_is_true(json_object_get(variables, "continue_final_message"));
    if (good && !json_object_get(variables, "add_generation_prompt"))
        json_object_set_new(variables, "add_generation_prompt",
                            json_boolean(!goes_on && !command_switch(arguments, "--no-generation-prompt")));
    good = good && loaded_model_chat_text(model, text, messages, variables, error);
    json_decref(messages);
    json_decref(variables);
    return good;
}

// ---- the verb

static bool check_options(Arguments *arguments, Error *error) {
    const char *given;
    static const char *const rendering[] = {"--chat-template",        "--tools", "--documents", "--variable",
                                            "--no-generation-prompt", "--time"};
    bool renders = command_switch(arguments, "--render"), decodes = command_text(arguments, "--decode") != NULL;
    if (renders && decodes)
        return command_misuse(arguments) || error_set(error, "--decode and --render do not go together");
    if (renders && command_switch(arguments, "--no-special"))
        return command_misuse(arguments) ||
               error_set(error, "--no-special: a template writes its special tokens itself (--render)");
    if (decodes && arguments->operand_count > 1)
        return command_misuse(arguments) || error_set(error, "--decode takes ids and no TEXT");
    for (size_t i = 0; !renders && i < sizeof rendering / sizeof *rendering; i++)
        if (command_text(arguments, rendering[i]))
            return command_misuse(arguments) || error_set(error, "%s goes with --render", rendering[i]);
    for (int i = 0; (given = command_repeated(arguments, "--variable", i)); i++)
        if (*given == '=' || !strchr(given, '='))
            return command_misuse(arguments) || error_set(error, "--variable is '%.100s'; expected NAME=VALUE", given);
    return true;
}

static bool encode(const LoadedModel *model, StrBuf *text, TokenList *ids, Arguments *arguments, Error *error) {
    bool renders = command_switch(arguments, "--render"),
         special = !renders && !command_switch(arguments, "--no-special");
    strbuf_clear(text);
    if (renders) {
        if (!render(model, text, arguments, error)) return false;
    } else if (arguments->operand_count > 1) {
        strbuf_puts(text, arguments->operands[1]);
    } else if (!read_input(text, "-", error)) {
        return false;
    }
    // A template writes its special tokens itself.
    return tokenizer_encode(model->tokenizer, ids, text->text, text->length, special, error);
}

static bool run_tokenize(Arguments *arguments, Error *error) {
    LoadedModel model = {0};
    StrBuf text = {0};
    TokenList ids = {0};
    bool decodes = command_text(arguments, "--decode") != NULL;
    bool good =
        check_options(arguments, error) &&
        loaded_model_open_text(&model, arguments->operands[0], command_text(arguments, "--chat-template"), error) &&
        (loaded_model_chat_options(&model, NULL, command_text(arguments, "--time"), error) ||
         command_misuse(arguments)) &&
        (decodes ? decode : encode)(&model, &text, &ids, arguments, error);
    if (good) {
        if (command_switch(arguments, "--json"))
            print_json(model.tokenizer, &text, &ids);
        else if (decodes || command_switch(arguments, "--render"))
            print_text(&text);
        else
            print_ids(&ids);
    }
    bpe_list_close(&ids);
    strbuf_close(&text);
    loaded_model_close(&model);
    return good;
}

const Command tokenize_command = {
    .verb = "tokenize",
    .operands = "MODEL [TEXT]",
    .summary = "Shows the ids of a text, the text of ids, or a conversation as the chat template writes it.",
    .min_operands = 1,
    .max_operands = 2,
    .details =
        "MODEL may also be a tokenizer.json or a GGUF file without weights; weights are not read. Without TEXT, "
        "standard input\n"
        "is read as it stands, its last newline too. The tokenizer's own special tokens (BOS) are added, unless "
        "the text\n"
        "begins with them.\n\n"
        "With --render, TEXT is a JSON list of messages or an object with messages and tools, or names a file of "
        "it (-:\n"
        "standard input). What the template writes is printed byte by byte; --json shows its ids, to which "
        "nothing is added.",
    .examples = "whet tokenize MODEL 'What is 58 + 7?'\n"
                "whet tokenize MODEL --decode '2061 318'\n"
                "whet tokenize MODEL --render '[{\"role\": \"user\", \"content\": \"Hi\"}]'\n"
                "whet tokenize MODEL --render chat.json --tools tools.json --variable enable_thinking=false\n",
    .options = {{"--decode", "IDS", "print the text of these ids; -: of those on standard input"},
                {"--no-special", NULL,
                 "do not add the tokenizer's special tokens; with --decode, leave special tokens out"},
                {"--json", NULL, "one JSON line: text, ids, tokens"},
                {"chat templates", NULL, NULL},
                {"--render", NULL, "print a conversation as the chat template writes it"},
                {"--chat-template", "T",
                 "one of the model's templates by name, a .jinja file, or the text of a template"},
                {"--tools", "FILE", "JSON list of tools"},
                {"--documents", "FILE", "JSON list of documents"},
                {"--variable", "NAME=VALUE…", "what the template sees under NAME: JSON, else a text"},
                {"--no-generation-prompt", NULL, "do not end with the beginning of an answer"},
                {"--time", "TIME", "what strftime_now sees, as 2025-03-07 or 2025-03-07T04:05:06 (default: now)"}},
    .run = run_tokenize,
};
