#include "base/file.h"
#include "base/jsonio.h"
#include "model/score.h"
#include "run/generate_command.h"
#include "run/runtime.h"

#include <stdio.h>
#include <string.h>

// The lines of the input as one batch, and the objects that they were.
typedef struct Lines {
    int64_t count, tokens, longest;
    int64_t *offset; // [count + 1]
    TokenList ids;
} Lines;

// {"text": …} is encoded as it stands (with a BOS where the tokenizer wants one), {"messages": […]} by the chat template,
// {"ids": […]} is taken as given.
static bool line_ids(const LoadedModel *model, TokenList *ids, const json_t *line, Error *error) {
    json_t *given = json_object_get(line, "ids"), *messages = json_object_get(line, "messages");
    json_t *text = json_object_get(line, "text");
    if (json_is_string(text))
        return tokenizer_encode(model->tokenizer, ids, json_string_value(text), json_string_length(text), true, error);
    if (json_is_array(messages)) {
        json_t *prompt = json_object_get(line, "add_generation_prompt");
        return loaded_model_chat_ids(model, ids, messages, json_is_true(prompt), error);
    }
    if (!json_is_array(given)) return error_set(error, "expected an object with \"text\", \"messages\" or \"ids\"");
    for (size_t i = 0; i < json_array_size(given); i++) {
        json_t *id = json_array_get(given, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= model->architecture->vocab_size)
            return error_set(error, "ids[%zu] is no id of the model's vocabulary of %lld", i,
                             (long long)model->architecture->vocab_size);
        bpe_list_append(ids, (int32_t)json_integer_value(id));
    }
    return true;
}

static bool read_lines(Lines *lines, const LoadedModel *model, const char *path, Arena *arena, Error *error) {
    char *text;
    if (!file_read(&text, NULL, arena, path, error)) return false;
    int64_t most = 1;
    for (const char *at = text; *at; at++) most += *at == '\n';
    lines->offset = arena_array(arena, int64_t, most + 1);
    int number = 1;
    for (char *line = text; *line; number++) {
        char *end = strchrnul(line, '\n'), *next = *end ? end + 1 : end;
        *end = 0;
        if (line[strspn(line, " \t\r")]) {
            json_error_t where;
            json_t *value = json_loads(line, JSON_ALLOW_NUL, &where);
            if (!value) return error_set(error, "%s:%d: not valid JSON: %s", path, number, where.text);
            bool good = line_ids(model, &lines->ids, value, error);
            json_decref(value);
            if (!good) return error_prefix(error, "%s:%d: ", path, number);
            lines->offset[++lines->count] = (int64_t)lines->ids.count;
            int64_t length = lines->offset[lines->count] - lines->offset[lines->count - 1];
            if (length > lines->longest) lines->longest = length;
        }
        line = next;
    }
    return lines->count || error_set(error, "%s: nothing to score", path);
}

static void print_scores(const Lines *lines, const float *logprobs) {
    for (int64_t b = 0; b < lines->count; b++) {
        json_t *ids = json_array(), *values = json_array();
        double sum = 0;
        for (int64_t t = lines->offset[b]; t < lines->offset[b + 1]; t++) {
            json_array_append_new(ids, json_integer(lines->ids.ids[t]));
            json_array_append_new(values, t == lines->offset[b] ? json_null() : jsonio_real((double)logprobs[t]));
            sum += (double)logprobs[t];
        }
        int64_t length = lines->offset[b + 1] - lines->offset[b];
        json_t *line = json_object();
        json_object_set_new(line, "tokens", json_integer(length));
        json_object_set_new(line, "sum_logprob", jsonio_real(sum));
        json_object_set_new(line, "mean_nll", length > 1 ? jsonio_real(-sum / (double)(length - 1)) : json_null());
        json_object_set_new(line, "ids", ids);
        json_object_set_new(line, "logprobs", values);
        char *dump = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9));
        puts(dump);
        free(dump);
        json_decref(line);
    }
}

static bool run_score(const Arguments *arguments, Error *error) {
    Arena arena = {0};
    Runtime runtime = {0};
    Lines lines = {0};
    double temperature = 1;
    int64_t rows = 512;
    const char *path = arguments->operands[1];
    bool good = command_real(arguments, "--temperature", &temperature, 1e-6, 1e6, error) &&
                command_integer(arguments, "--chunk", &rows, 1, 1 << 16, error) &&
                runtime_open(&runtime, arguments, arguments->operands[0], error) &&
                read_lines(&lines, &runtime.model, path, &arena, error) &&
                runtime_load(&runtime, rows, lines.longest > 0 ? lines.longest : 1, error);
    if (good) {
        Progress progress;
        progress_begin(&progress, "scoring", (int64_t)lines.ids.count);
        float *logprobs = arena_array(&arena, float, lines.ids.count);
        ScoreInput input = {.count = lines.count, .offset = lines.offset, .ids = lines.ids.ids};
        SoftmaxFilter filter = {.temperature = (float)temperature, .top_p = 1};
        good = score_sequences(&runtime.resident, logprobs, &input, filter, 0, &progress, error);
        progress_end(&progress);
        if (good)
            print_scores(&lines, logprobs);
        else
            error_prefix(error, "%s: ", path);
    }
    bpe_list_close(&lines.ids);
    runtime_close(&runtime);
    arena_close(&arena);
    return good;
}

const Command score_command = {
    .verb = "score",
    .operands = "MODEL FILE",
    .summary = "Log-probability of each token of texts, chats or ids; one JSON line in, one JSON line out.",
    .min_operands = 2,
    .max_operands = 2,
    .details =
        "A line of FILE is {\"text\": …}, {\"messages\": [{\"role\": …, \"content\": …}, …]} or {\"ids\": [id, …]}.\n"
        "A line of the output has tokens, sum_logprob, mean_nll, ids and logprobs (null for the first token).",
    .options = {{"--temperature", "T", "divide the logits by T (default 1)"},
                {"--chunk", "N", "tokens that are walked at once (default 512); changes no result"},
                RUNTIME_OPTIONS},
    .run = run_score,
};
