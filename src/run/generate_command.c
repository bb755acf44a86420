#include "run/generate_command.h"

#include "base/jsonio.h"
#include "rollout/engine.h"
#include "run/inputs.h"
#include "run/runtime.h"

#include <stdio.h>
#include <string.h>

static EngineRequest *requests_of(const Inputs *prompts, int32_t samples, Arena *arena) {
    EngineRequest *requests = arena_array(arena, EngineRequest, prompts->count);
    for (int64_t p = 0; p < prompts->count; p++)
        requests[p] = (EngineRequest){.ids = prompts->ids.ids + prompts->offset[p],
                                      .count = prompts->offset[p + 1] - prompts->offset[p],
                                      .prompt = (int32_t)p,
                                      .samples = samples,
                                      .question = (int32_t)p};
    return requests;
}

// The stop string that the text of an answer is cut before, or -1.
static int cut_by(const Samples *samples, int64_t b) {
    return samples->finish[b] == FINISH_STOP_STRING ? samples->stopped_by[b] : -1;
}

// What ended the answer: a stop id, the text of a stop string, or null.
static json_t *stop_reason(const StopStrings *stops, const Samples *samples, int64_t b) {
    if (samples->finish[b] == FINISH_STOP) return json_integer(samples->stopped_by[b]);
    return cut_by(samples, b) < 0 ? json_null() : json_string(stops->text[cut_by(samples, b)]);
}

static void print_json(const StopStrings *stops, const Samples *samples, int64_t b) {
    const int32_t *ids = samples->ids + samples->offset[b];
    int64_t prompt = samples->prompt_length[b], length = samples->offset[b + 1] - samples->offset[b];
    json_t *prompt_ids_list = json_array(), *answer = json_array(), *logprobs = json_array();
    for (int64_t t = 0; t < length; t++) {
        json_array_append_new(t < prompt ? prompt_ids_list : answer, json_integer(ids[t]));
        if (t >= prompt)
            json_array_append_new(logprobs, jsonio_real((double)samples->generation_logprobs[samples->offset[b] + t]));
    }
    StrBuf text = {0};
    stop_strings_text(stops, &text, ids + prompt, length - prompt, cut_by(samples, b));
    json_t *line = json_object();
    json_object_set_new(line, "prompt", json_integer(samples->prompt[b]));
    json_object_set_new(line, "text", json_stringn(text.text ? text.text : "", text.length));
    json_object_set_new(line, "finish_reason", json_string(samples_finish_name(samples->finish[b])));
    json_object_set_new(line, "stop_reason", stop_reason(stops, samples, b));
    json_object_set_new(line, "prompt_ids", prompt_ids_list);
    json_object_set_new(line, "ids", answer);
    json_object_set_new(line, "logprobs", logprobs);
    char *dump = json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9));
    puts(dump);
    free(dump);
    json_decref(line);
    strbuf_close(&text);
}

static void print_text(const StopStrings *stops, const Samples *samples, int64_t b) {
    const int32_t *ids = samples->ids + samples->offset[b] + samples->prompt_length[b];
    int64_t length = samples->offset[b + 1] - samples->offset[b] - samples->prompt_length[b];
    StrBuf text = {0};
    stop_strings_text(stops, &text, ids, length, cut_by(samples, b));
    if (samples->count > 1) printf("[prompt %d, sample %lld]\n", samples->prompt[b], (long long)b);
    fwrite(text.text ? text.text : "", 1, text.length, stdout);
    putchar('\n');
    strbuf_close(&text);
}

// Fails when an answer ended because its numbers were lost, naming the first.
static bool check_numbers(const Samples *samples, const Resident *resident, Error *error) {
    for (int64_t b = 0; b < samples->count; b++) {
        if (samples->finish[b] != FINISH_NAN) continue;
        int64_t tokens = samples->offset[b + 1] - samples->offset[b] - samples->prompt_length[b];
        return error_set(
            error,
            "prompt %d, answer %lld: after %lld tokens the logits hold NaN or infinity; the weights are damaged, or "
            "--precision %s does not hold the model's numbers",
            samples->prompt[b], (long long)b, (long long)tokens, dtype_name(resident->policy.compute));
    }
    return true;
}

static bool sample_all(Runtime *runtime, const Inputs *prompts, const GenerationOptions *options, int64_t count,
                       int64_t seed, bool json, Error *error) {
    Engine *engine;
    Arena arena = {0};
    Samples samples = {0};
    Progress progress;
    EngineRun run = {.seed = (uint64_t)seed, .purpose = RNG_SAMPLE_TOKEN};
    EngineStops stops = {runtime->model.tokenizer, runtime->model.stop_ids, runtime->model.stop_count};
    EngineRequest *requests = requests_of(prompts, (int32_t)count, &arena);
    bool good = engine_open(&engine, &runtime->resident, options, stops, error) &&
                engine_start(engine, requests, prompts->count, run, error);
    double started = log_seconds();
    if (good) progress_begin(&progress, "generating", prompts->count * count);
    while (good && engine_step(engine)) progress_update(&progress, engine_counts(engine).finished);
    if (good) {
        progress_end(&progress);
        double seconds = log_seconds() - started;
        EngineCounts counts = engine_counts(engine);
        engine_collect(engine, &samples, &arena);
        for (int64_t b = 0; b < samples.count; b++)
            (json ? print_json : print_text)(engine_stop_strings(engine), &samples, b);
        log_verbose("%lld prompt tokens and %lld new tokens in %.2f s: %.1f new tokens/s",
                    (long long)counts.prompt_tokens, (long long)counts.answer_tokens, seconds,
                    (double)counts.answer_tokens / seconds);
        log_verbose("%lld prompt tokens found in the cache, %lld preemptions, %lld tokens walked again",
                    (long long)counts.cached_tokens, (long long)counts.preemptions,
                    (long long)counts.recomputed_tokens);
        runtime_say_memory(runtime);
        good = check_numbers(&samples, &runtime->resident, error);
    }
    engine_close(engine);
    arena_close(&arena);
    return good;
}

static bool read_options(GenerationOptions *options, int64_t *samples, int64_t *seed, Arguments *arguments,
                         Error *error) {
    *options = (GenerationOptions){.max_new_tokens = 128,
                                   .temperature = 1,
                                   .top_p = 1,
                                   .prefill_chunk = 512,
                                   .max_sequences = 64,
                                   .enable_prefix_caching = true,
                                   .ignore_eos = command_switch(arguments, "--ignore-eos")};
    if (!command_integer(arguments, "--samples", samples, 1, 1 << 20, error) ||
        !command_integer(arguments, "--seed", seed, 0, UINT32_MAX, error) ||
        !command_integer(arguments, "--batch", &options->max_sequences, 1, 4096, error) ||
        !command_integer(arguments, "--max-new-tokens", &options->max_new_tokens, 1, 1 << 20, error) ||
        !command_integer(arguments, "--top-k", &options->top_k, 0, INT32_MAX, error) ||
        !command_real(arguments, "--temperature", &options->temperature, 0, GENERATION_MAX_TEMPERATURE, error) ||
        !command_real(arguments, "--top-p", &options->top_p, 1e-6, 1, error) ||
        !command_real(arguments, "--min-p", &options->min_p, 0, 1, error))
        return false;
    for (const char *text; (text = command_repeated(arguments, "--stop", options->stop_string_count));) {
        if (options->stop_string_count == GENERATION_MAX_STOP_STRINGS)
            return command_misuse(arguments) ||
                   error_set(error, "--stop is given more than %d times", GENERATION_MAX_STOP_STRINGS);
        options->stop_strings[options->stop_string_count++] = text;
    }
    if (options->temperature > 0 && options->temperature < GENERATION_MIN_TEMPERATURE)
        return command_misuse(arguments) || error_set(error, "--temperature is %g; expected 0 (greedy) or at least %g",
                                                      options->temperature, GENERATION_MIN_TEMPERATURE);
    if (!command_text(arguments, "--prompts") == (arguments->operand_count < 2))
        return command_misuse(arguments) || error_set(error, "give either a PROMPT or --prompts FILE");
    return true;
}

static bool read_prompts(Inputs *prompts, const LoadedModel *model, const Arguments *arguments, Arena *arena,
                         Error *error) {
    const char *file = command_text(arguments, "--prompts");
    bool raw = command_switch(arguments, "--raw");
    prompts->model = model;
    prompts->options = (InputOptions){.text_key = "prompt",
                                      .as_chat = !raw && model->chat,
                                      .answered = true,
                                      .least = 1,
                                      .most = model->architecture->max_positions - 1};
    return file ? inputs_read(prompts, file, arena, error) : inputs_take(prompts, arguments->operands[1], arena, error);
}

static bool run_generate(Arguments *arguments, Error *error) {
    Arena arena = {0};
    Runtime runtime = {0};
    Inputs prompts = {0};
    int64_t samples = 1, seed = 42;
    GenerationOptions options;
    if (command_switch(arguments, "--verbose")) log_set_level(LOG_VERBOSE);
    bool good = read_options(&options, &samples, &seed, arguments, error) &&
                runtime_open(&runtime, arguments, arguments->operands[0], error) &&
                read_prompts(&prompts, &runtime.model, arguments, &arena, error);
    if (good) {
        options.max_length = prompts.longest + options.max_new_tokens;
        if (options.max_length > runtime.model.architecture->max_positions)
            options.max_length = runtime.model.architecture->max_positions;
        int64_t rows = options.prefill_chunk > options.max_sequences ? options.prefill_chunk : options.max_sequences;
        good = runtime_load(&runtime, rows, options.max_length, error) &&
               sample_all(&runtime, &prompts, &options, samples, seed, command_switch(arguments, "--json"), error);
    }
    inputs_close(&prompts);
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
        "{\"prompt\": text}, {\"messages\": [{\"role\": …, \"content\": …}, …]} or {\"ids\": [id, …]}; its other keys\n"
        "are passed over.\n"
        "Random numbers depend on the seed and on the number of prompt, sample and token only: neither --batch nor\n"
        "--threads changes an answer.",
    .options = {{"--prompts", "FILE", "JSONL file of prompts"},
                {"--samples", "N", "answers for each prompt (default 1)"},
                {"--max-new-tokens", "N",
                 "length limit of an answer (default 128); the model's last position is another"},
                {"--temperature", "T", "0: the most likely token (default 1)"},
                {"--top-p", "P", "sample from the shortest set of tokens with this probability (default 1: all)"},
                {"--top-k", "K", "sample from the K most likely tokens (default 0: all)"},
                {"--min-p", "P", "sample from tokens at least P times as likely as the likeliest (default 0: all)"},
                {"--stop", "TEXT…", "text that ends an answer, not shown"},
                {"--seed", "S", "seed (default 42)"},
                {"--batch", "N", "answers that are decoded together (default 64)"},
                {"--ignore-eos", NULL, "do not stop at the model's end-of-text tokens"},
                {"--raw", NULL, "do not use the chat template"},
                {"--json", NULL, "one JSON line an answer: text, ids, log-probabilities, finish reason"},
                {"--verbose", NULL, "say how fast it went and what memory it took"},
                RUNTIME_OPTIONS},
    .run = run_generate,
};
