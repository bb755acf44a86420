#include "run/generate_command.h"

#include "base/file.h"
#include "base/jsonio.h"
#include "rollout/engine.h"
#include "run/runtime.h"

#include <stdio.h>
#include <string.h>

// The prompts of one call, as ids.
typedef struct Prompts {
    int64_t count, longest;
    EngineRequest *requests;
} Prompts;

static json_t *user_message(const char *text) {
    return json_pack("[{s:s, s:s}]", "role", "user", "content", text);
}

// One prompt: {"messages": […]}, {"prompt": text} or {"ids": […]}. Text becomes a user message when there is a chat template
// and raw is off, else it is encoded as it stands.
static bool prompt_ids(const LoadedModel *model, TokenList *ids, const json_t *line, bool raw, Error *error) {
    json_t *messages = json_object_get(line, "messages"), *given = json_object_get(line, "ids");
    const char *text = json_string_value(json_object_get(line, "prompt"));
    if (json_is_array(messages)) return loaded_model_chat_ids(model, ids, messages, true, error);
    for (size_t i = 0; i < json_array_size(given); i++) {
        json_t *id = json_array_get(given, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= model->architecture->vocab_size)
            return error_set(error, "ids[%zu] is no id of the model's vocabulary of %lld", i,
                             (long long)model->architecture->vocab_size);
        bpe_list_append(ids, (int32_t)json_integer_value(id));
    }
    if (given) return true;
    if (!text) return error_set(error, "expected an object with \"prompt\", \"messages\" or \"ids\"");
    if (raw || !model->chat) return tokenizer_encode(model->tokenizer, ids, text, strlen(text), true, error);
    messages = user_message(text);
    bool good = loaded_model_chat_ids(model, ids, messages, true, error);
    json_decref(messages);
    return good;
}

static bool add_prompt(Prompts *prompts, const LoadedModel *model, const json_t *line, bool raw, int32_t samples,
                       Arena *arena, Error *error) {
    TokenList list = {0};
    if (!prompt_ids(model, &list, line, raw, error)) {
        bpe_list_close(&list);
        return false;
    }
    int32_t *ids = arena_array(arena, int32_t, list.count);
    if (list.count) memcpy(ids, list.ids, list.count * sizeof *ids);
    int64_t at = prompts->count++;
    if ((int64_t)list.count > prompts->longest) prompts->longest = (int64_t)list.count;
    prompts->requests[at] = (EngineRequest){.ids = ids,
                                            .count = (int64_t)list.count,
                                            .prompt = (int32_t)at,
                                            .samples = samples,
                                            .question = (int32_t)at};
    bpe_list_close(&list);
    return true;
}

static bool read_prompts(Prompts *prompts, const LoadedModel *model, const char *path, bool raw, int32_t samples,
                         Arena *arena, Error *error) {
    char *text;
    if (!file_read(&text, NULL, arena, path, error)) return false;
    int64_t lines = 1;
    for (const char *at = text; *at; at++) lines += *at == '\n';
    prompts->requests = arena_array(arena, EngineRequest, lines);
    int number = 1;
    for (char *line = text; *line; number++) {
        char *end = strchrnul(line, '\n'), *next = *end ? end + 1 : end;
        *end = 0;
        json_error_t where;
        json_t *value = line[strspn(line, " \t\r")] ? json_loads(line, 0, &where) : NULL;
        if (!value && line[strspn(line, " \t\r")])
            return error_set(error, "%s:%d: not valid JSON: %s", path, number, where.text);
        bool good = !value || add_prompt(prompts, model, value, raw, samples, arena, error);
        json_decref(value);
        if (!good) return error_prefix(error, "%s:%d: ", path, number);
        line = next;
    }
    return prompts->count || error_set(error, "%s: no prompts", path);
}

static void print_json(const LoadedModel *model, const Samples *samples, int64_t b) {
    const int32_t *ids = samples->ids + samples->offset[b];
    int64_t prompt = samples->prompt_length[b], length = samples->offset[b + 1] - samples->offset[b];
    json_t *prompt_ids_list = json_array(), *answer = json_array(), *logprobs = json_array();
    for (int64_t t = 0; t < length; t++) {
        json_array_append_new(t < prompt ? prompt_ids_list : answer, json_integer(ids[t]));
        if (t >= prompt)
            json_array_append_new(logprobs, jsonio_real((double)samples->generation_logprobs[samples->offset[b] + t]));
    }
    StrBuf text = {0};
    tokenizer_decode(model->tokenizer, &text, ids + prompt, (size_t)(length - prompt), true);
    json_t *line = json_object();
    json_object_set_new(line, "prompt", json_integer(samples->prompt[b]));
    json_object_set_new(line, "text", json_stringn(text.text ? text.text : "", text.length));
    json_object_set_new(line, "finish_reason", json_string(samples->finish[b] == FINISH_STOP ? "stop" : "length"));
    json_object_set_new(line, "prompt_ids", prompt_ids_list);
    json_object_set_new(line, "ids", answer);
    json_object_set_new(line, "logprobs", logprobs);
    char *dump = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9));
    puts(dump);
    free(dump);
    json_decref(line);
    strbuf_close(&text);
}

static void print_text(const LoadedModel *model, const Samples *samples, int64_t b) {
    const int32_t *ids = samples->ids + samples->offset[b] + samples->prompt_length[b];
    int64_t length = samples->offset[b + 1] - samples->offset[b] - samples->prompt_length[b];
    StrBuf text = {0};
    tokenizer_decode(model->tokenizer, &text, ids, (size_t)length, true);
    if (samples->count > 1) printf("[prompt %d, sample %lld]\n", samples->prompt[b], (long long)b);
    fwrite(text.text ? text.text : "", 1, text.length, stdout);
    putchar('\n');
    strbuf_close(&text);
}

static bool sample_all(Runtime *runtime, const Prompts *prompts, const GenerationOptions *options, int64_t seed,
                       bool json, Error *error) {
    Engine *engine;
    Arena arena = {0};
    Samples samples = {0};
    Progress progress;
    EngineRun run = {.seed = (uint64_t)seed, .purpose = RNG_SAMPLE_TOKEN};
    bool good =
        engine_open(&engine, &runtime->resident, options, runtime->model.stop_ids, runtime->model.stop_count, error) &&
        engine_start(engine, prompts->requests, prompts->count, run, error);
    double started = log_seconds();
    if (good) progress_begin(&progress, "generating", prompts->count * prompts->requests[0].samples);
    while (good && engine_step(engine)) progress_update(&progress, engine_counts(engine).finished);
    if (good) {
        progress_end(&progress);
        double seconds = log_seconds() - started;
        EngineCounts counts = engine_counts(engine);
        engine_collect(engine, &samples, &arena);
        for (int64_t b = 0; b < samples.count; b++) (json ? print_json : print_text)(&runtime->model, &samples, b);
        log_verbose("%lld prompt tokens and %lld new tokens in %.2f s: %.1f new tokens/s",
                    (long long)counts.prompt_tokens, (long long)counts.answer_tokens, seconds,
                    (double)counts.answer_tokens / seconds);
    }
    engine_close(engine);
    arena_close(&arena);
    return good;
}

static bool run_generate(const Arguments *arguments, Error *error) {
    Arena arena = {0};
    Runtime runtime = {0};
    Prompts prompts = {0};
    int64_t samples = 1, seed = 42, batch = 64;
    GenerationOptions options = {.max_new_tokens = 128, .temperature = 1, .top_p = 1, .prefill_chunk = 512};
    const char *file = command_text(arguments, "--prompts");
    bool raw = command_switch(arguments, "--raw");
    if (command_switch(arguments, "--verbose")) log_set_level(LOG_VERBOSE);
    bool good = command_integer(arguments, "--samples", &samples, 1, 1 << 20, error) &&
                command_integer(arguments, "--seed", &seed, 0, UINT32_MAX, error) &&
                command_integer(arguments, "--batch", &batch, 1, 4096, error) &&
                command_integer(arguments, "--max-new-tokens", &options.max_new_tokens, 1, 1 << 20, error) &&
                command_integer(arguments, "--top-k", &options.top_k, 0, INT32_MAX, error) &&
                command_real(arguments, "--temperature", &options.temperature, 0, 1e6, error) &&
                command_real(arguments, "--top-p", &options.top_p, 1e-6, 1, error);
    if (good && !file == (arguments->operand_count < 2))
        good = error_set(error, "whet generate: give either a PROMPT or --prompts FILE");
    good = good && runtime_open(&runtime, arguments, arguments->operands[0], error);
    if (good && file) {
        good = read_prompts(&prompts, &runtime.model, file, raw, (int32_t)samples, &arena, error);
    } else if (good) {
        json_t *line = json_pack("{s:s}", "prompt", arguments->operands[1]);
        if (!line) good = error_set(error, "whet generate: the prompt is not UTF-8");
        prompts.requests = arena_array(&arena, EngineRequest, 1);
        good = good && add_prompt(&prompts, &runtime.model, line, raw, (int32_t)samples, &arena, error);
        json_decref(line);
    }
    if (good) {
        options.max_sequences = batch;
        options.max_length = prompts.longest + options.max_new_tokens;
        if (options.max_length > runtime.model.architecture->max_positions)
            options.max_length = runtime.model.architecture->max_positions;
        options.ignore_eos = command_switch(arguments, "--ignore-eos");
        int64_t rows = options.prefill_chunk > batch ? options.prefill_chunk : batch;
        good = runtime_load(&runtime, rows, options.max_length, error) &&
               sample_all(&runtime, &prompts, &options, seed, command_switch(arguments, "--json"), error);
    }
    runtime_close(&runtime);
    arena_close(&arena);
    return good;
}

const Command generate_command = {
    .verb = "generate",
    .operands = "MODEL [PROMPT]",
    .summary = "Samples answers from a model: a GGUF file, a folder with config.json and safetensors, or a checkpoint.",
    .min_operands = 1,
    .max_operands = 2,
    .details =
        "PROMPT becomes a user message of the model's chat template; --raw encodes it as it stands. A line of FILE is\n"
        "{\"prompt\": text}, {\"messages\": [{\"role\": …, \"content\": …}, …]} or {\"ids\": [id, …]}.\n"
        "Random numbers depend on the seed and on the number of prompt, sample and token only: neither --batch nor\n"
        "--threads changes an answer.",
    .options = {{"--prompts", "FILE", "JSONL file of prompts"},
                {"--samples", "N", "answers for each prompt (default 1)"},
                {"--max-new-tokens", "N", "length limit of an answer (default 128)"},
                {"--temperature", "T", "0: the most likely token (default 1)"},
                {"--top-p", "P", "sample from the shortest set of tokens with this probability (default 1: all)"},
                {"--top-k", "K", "sample from the K most likely tokens (default 0: all)"},
                {"--seed", "S", "seed (default 42)"},
                {"--batch", "N", "answers that are decoded together (default 64)"},
                {"--ignore-eos", NULL, "do not stop at the model's end-of-text tokens"},
                {"--raw", NULL, "do not use the chat template"},
                {"--json", NULL, "one JSON line an answer: text, ids, log-probabilities, finish reason"},
                {"--verbose", NULL, "say how fast it went"},
                RUNTIME_OPTIONS},
    .run = run_generate,
};
