#include "run/generate_command.h"

#include "base/file.h"
#include "run/answers.h"
#include "run/chat_session.h"
#include "run/output.h"
#include "run/terminal.h"

#include <string.h>
#include <unistd.h>

#define CHAT_TEMPERATURE 0.7 // by default: people want to read the likely

enum { DEFAULT_NEW_TOKENS = 512, CHAT_CONTEXT = 8192 };

typedef struct GenerateOptions {
    GenerationOptions generation; // max_length 0: what the model has positions for
    InputOptions inputs;
    int64_t samples, seed, memory; // memory: bytes for the cache; 0: not given
    const char *prompts;           // a file, or NULL
    bool chat, json, verbose;
} GenerateOptions;

// ---- the command line

static bool misuse(Arguments *arguments, Error *error, const char *text) {
    return command_misuse(arguments) || error_set(error, "%s", text);
}

static bool read_sampling(GenerateOptions *o, Arguments *arguments, Error *error) {
    GenerationOptions *g = &o->generation;
    if (!command_integer(arguments, "--samples", &o->samples, 1, 1 << 20, error) ||
        !command_integer(arguments, "--seed", &o->seed, 0, UINT32_MAX, error) ||
        !command_integer(arguments, "--top-k", &g->top_k, 0, INT32_MAX, error) ||
        !command_real(arguments, "--temperature", &g->temperature, 0, GENERATION_MAX_TEMPERATURE, error) ||
        !command_real(arguments, "--top-p", &g->top_p, 1e-6, 1, error) ||
        !command_real(arguments, "--min-p", &g->min_p, 0, 1, error))
        return false;
    return !(g->temperature > 0 && g->temperature < GENERATION_MIN_TEMPERATURE) || command_misuse(arguments) ||
           error_set(error, "--temperature is %g; expected 0 (greedy) or at least %g", g->temperature,
                     GENERATION_MIN_TEMPERATURE);
}

static bool read_stops(GenerationOptions *g, Arguments *arguments, Error *error) {
    const char *text;
    g->ignore_eos = command_switch(arguments, "--ignore-eos");
    for (; (text = command_repeated(arguments, "--stop", g->stop_string_count)); g->stop_string_count++) {
        if (g->stop_string_count == GENERATION_MAX_STOP_STRINGS)
            return command_misuse(arguments) ||
                   error_set(error, "--stop: more than %d texts", GENERATION_MAX_STOP_STRINGS);
        if (!*text) return misuse(arguments, error, "--stop: an empty text");
        g->stop_strings[g->stop_string_count] = text;
    }
    for (; (text = command_repeated(arguments, "--stop-id", g->stop_count)); g->stop_count++) {
        char *end;
        long id = strtol(text, &end, 10);
        if (g->stop_count == GENERATION_MAX_STOP_IDS)
            return command_misuse(arguments) ||
                   error_set(error, "--stop-id: more than %d ids", GENERATION_MAX_STOP_IDS);
        if (end == text || *end || id < 0 || id > INT32_MAX)
            return command_misuse(arguments) || error_set(error, "--stop-id is '%s'; expected a token's id", text);
        g->stop_ids[g->stop_count] = (int32_t)id;
    }
    return true;
}

static bool read_sizes(GenerateOptions *o, Arguments *arguments, Error *error) {
    GenerationOptions *g = &o->generation;
    return command_integer(arguments, "--batch", &g->max_sequences, 1, 4096, error) &&
           command_integer(arguments, "--max-new-tokens", &g->max_new_tokens, 1, INT32_MAX, error) &&
           command_integer(arguments, "--context", &g->max_length, 2, INT32_MAX, error) &&
           command_integer(arguments, "--kv-cache-tokens", &g->kv_cache_tokens, KV_PAGE_TOKENS, INT32_MAX, error) &&
           command_size(arguments, "--memory", &o->memory, error) &&
           (!o->memory || !g->kv_cache_tokens || misuse(arguments, error, "give --memory or --kv-cache-tokens"));
}

static bool read_options(GenerateOptions *o, Arguments *arguments, Error *error) {
    bool prompt = arguments->operand_count > 1, raw = command_switch(arguments, "--raw");
    *o = (GenerateOptions){.samples = 1,
                           .seed = 42,
                           .prompts = command_text(arguments, "--prompts"),
                           .json = command_switch(arguments, "--json"),
                           .verbose = command_switch(arguments, "--verbose")};
    o->generation = (GenerationOptions){.max_new_tokens = DEFAULT_NEW_TOKENS,
                                        .temperature = 1,
                                        .top_p = 1,
                                        .enable_prefix_caching = true,
                                        .prefill_chunk = 512,
                                        .max_sequences = 64};
    o->inputs = (InputOptions){.text_key = "prompt",
                               .as_chat = !raw,
                               .raw = raw,
                               .answered = true,
                               .system = command_text(arguments, "--system"),
                               .least = 1};
    if (!read_sampling(o, arguments, error) || !read_stops(&o->generation, arguments, error) ||
        !read_sizes(o, arguments, error) || !inputs_options(&o->inputs, arguments, o->prompts, error))
        return false;
    if (prompt && o->prompts) return misuse(arguments, error, "give either a PROMPT or --prompts FILE");
    if (raw && o->inputs.system) return misuse(arguments, error, "--raw leaves no place for --system");
    if (raw && command_text(arguments, "--chat-template"))
        return misuse(arguments, error, "--raw leaves no place for --chat-template");
    o->chat = !prompt && !o->prompts && isatty(STDIN_FILENO);
    if (o->chat && (!terminal_is_dialogue() || o->json || o->samples > 1))
        return misuse(arguments, error,
                      "give a PROMPT or --prompts FILE (a chat needs a terminal, one sample and no --json)");
    if (o->verbose) log_set_level(LOG_VERBOSE);
    return true;
}

// ---- one answer, or many

// Behind the options, the prompt given, or all of standard input but for the line's end.
static bool read_prompts(Inputs *prompts, const GenerateOptions *o, Arguments *arguments, Arena *arena, Error *error) {
    if (o->prompts) return inputs_read(prompts, o->prompts, arena, error);
    char *text = arguments->operand_count > 1 ? arguments->operands[1] : NULL;
    size_t size = text ? strlen(text) : 0;
    if (!text || !strcmp(text, "-")) {
        if (!file_read_stream(&text, &size, arena, "-", error)) return false;
        size -= size && text[size - 1] == '\n';
        if (!size) return misuse(arguments, error, "standard input is empty; give a PROMPT or --prompts FILE");
    }
    return inputs_take(prompts, text, size, arena, error);
}

static bool check_stop_ids(const GenerationOptions *g, const LoadedModel *model, Error *error) {
    for (int i = 0; i < g->stop_count; i++)
        if (g->stop_ids[i] >= model->architecture->vocab_size)
            return error_set(error, "--stop-id is %d; the model's vocabulary has %lld ids", g->stop_ids[i],
                             (long long)model->architecture->vocab_size);
    return true;
}

// The limits that follow from the model: positions, and tokens of cache for the memory given.
static bool fit_model(GenerateOptions *o, const Runtime *runtime, Error *error) {
    const LoadedModel *model = &runtime->model;
    const Architecture *a = model->architecture;
    GenerationOptions *g = &o->generation;
    if (g->max_length > a->max_positions)
        return error_set(error, "--context is %lld; the model has %lld positions", (long long)g->max_length,
                         (long long)a->max_positions);
    if (!g->max_length) g->max_length = a->max_positions;
    if (o->memory) {
        size_t token = kv_cache_token_bytes(a, runtime->policy.compute);
        g->kv_cache_tokens = o->memory / (int64_t)token;
        if (g->kv_cache_tokens < KV_PAGE_TOKENS || g->kv_cache_tokens > INT32_MAX)
            return error_set(
                error, "--memory is %lld bytes, room for %lld tokens of cache; expected %d to %d tokens of %zu bytes",
                (long long)o->memory, (long long)g->kv_cache_tokens, KV_PAGE_TOKENS, INT32_MAX, token);
    }
    if (o->inputs.system && !model->chat)
        return error_set(error, "%s: the model has no chat template, so no place for --system", model->path);
    o->inputs.as_chat = o->inputs.as_chat && model->chat;
    o->inputs.context = g->max_length;
    o->inputs.most = g->max_length - 1;
    return check_stop_ids(g, model, error);
}

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

static void say_speed(const Engine *engine, double started, double first) {
    EngineCounts counts = engine_counts(engine);
    double seconds = log_seconds() - started;
    log_verbose("%lld new tokens in %.2f s: %.1f a second; the first after %.2f s", (long long)counts.answer_tokens,
                seconds, (double)counts.answer_tokens / seconds, first - started);
    log_verbose("%lld prompt tokens walked, %lld found in the cache; %lld preemptions, %lld tokens walked again",
                (long long)counts.prompt_tokens, (long long)counts.cached_tokens, (long long)counts.preemptions,
                (long long)counts.recomputed_tokens);
}

static bool sample_all(const Runtime *runtime, Engine *engine, const Inputs *prompts, const GenerateOptions *o,
                       Error *error) {
    Arena arena = {0};
    Progress progress;
    Answers answers;
    EngineRun run = {.seed = (uint64_t)o->seed, .purpose = RNG_SAMPLE_TOKEN};
    EngineRequest *requests = requests_of(prompts, (int32_t)o->samples, &arena);
    double started = log_seconds(), first = 0;
    answers_open(&answers, engine, prompts, (int32_t)o->samples, o->json);
    output_progress_begin(&progress, "generating", prompts->count * o->samples);
    bool good = engine_start(engine, requests, prompts->count, run, error), more = good;
    while (more && good) {
        more = engine_step(engine);
        if (first <= 0 && engine_counts(engine).answer_tokens) first = log_seconds();
        good = answers_print(&answers, error);
        progress_update(&progress, engine_counts(engine).finished);
    }
    progress_end(&progress);
    if (good) {
        say_speed(engine, started, first);
        runtime_say_memory(runtime);
        good = answers_check(&answers, runtime->policy.compute, error);
    }
    answers_close(&answers);
    arena_close(&arena);
    return good;
}

// A cache that cannot hold the longest prompt with its answer is refused in the words of the command line.
static bool check_cache(const Engine *engine, const Inputs *prompts, const GenerateOptions *o, Error *error) {
    int64_t most = engine_longest_prompt(engine);
    if (prompts->longest <= most) return true;
    return error_set(error,
                     "%s: the cache has room for a prompt of %lld tokens with an answer of --max-new-tokens %lld; the "
                     "longest prompt has %lld",
                     o->memory ? "--memory" : "--kv-cache-tokens", (long long)most,
                     (long long)o->generation.max_new_tokens, (long long)prompts->longest);
}

static bool answer_prompts(Runtime *runtime, GenerateOptions *o, Arguments *arguments, Error *error) {
    Arena arena = {0};
    const LoadedModel *model = &runtime->model;
    GenerationOptions *g = &o->generation;
    Inputs prompts = {.model = model, .options = o->inputs};
    Engine *engine = NULL;
    EngineStops stops = {model->tokenizer, model->stop_ids, model->stop_count};
    bool good = read_prompts(&prompts, o, arguments, &arena, error);
    if (good) {
        if (g->max_length > prompts.longest + g->max_new_tokens) g->max_length = prompts.longest + g->max_new_tokens;
        if (g->max_sequences > prompts.count * o->samples) g->max_sequences = prompts.count * o->samples;
        int64_t rows = g->prefill_chunk > g->max_sequences ? g->prefill_chunk : g->max_sequences;
        good = runtime_load(runtime, rows, g->max_length, error) &&
               engine_open(&engine, &runtime->resident, g, stops, error) && check_cache(engine, &prompts, o, error) &&
               sample_all(runtime, engine, &prompts, o, error);
    }
    engine_close(engine);
    inputs_close(&prompts);
    arena_close(&arena);
    return good;
}

// ---- chat

// A conversation has no more room than the cache gives it.
static bool fit_context(GenerationOptions *g, const GenerateOptions *o, const Arguments *arguments, Error *error) {
    bool given = command_text(arguments, "--context");
    if (!given && g->max_length > CHAT_CONTEXT) g->max_length = CHAT_CONTEXT;
    int64_t room = g->kv_cache_tokens / KV_PAGE_TOKENS * KV_PAGE_TOKENS;
    if (!room || g->max_length <= room) return true;
    if (given)
        return error_set(error, "--context is %lld; %s leaves room for %lld tokens", (long long)g->max_length,
                         o->memory ? "--memory" : "--kv-cache-tokens", (long long)room);
    g->max_length = room;
    return true;
}

static bool chat(Runtime *runtime, const GenerateOptions *o, const Arguments *arguments, Error *error) {
    ChatOptions options = {.generation = o->generation,
                           .seed = o->seed,
                           .system = o->inputs.system,
                           .plain = !o->inputs.as_chat,
                           .verbose = o->verbose};
    GenerationOptions *g = &options.generation;
    g->max_sequences = 1;
    g->prefill_chunk = 256; // Ctrl-C is looked for between chunks
    if (!fit_context(g, o, arguments, error)) return false;
    if (!command_text(arguments, "--temperature")) g->temperature = CHAT_TEMPERATURE;
    if (!command_text(arguments, "--max-new-tokens") || g->max_new_tokens > g->max_length)
        g->max_new_tokens = g->max_length;
    return runtime_load(runtime, g->prefill_chunk, g->max_length, error) && chat_session_run(runtime, &options, error);
}

// The engine speaks of a recipe's keys; here they are options.
static bool name_options(const GenerateOptions *o, Error *error) {
    const struct {
        const char *key, *option;
    } names[] = {{"policy.generation.stop_strings", "--stop"},
                 {"whet.min_p", "--min-p"},
                 {"whet.kv_cache_tokens", o->memory > 0 ? "--memory" : "--kv-cache-tokens"},
                 {"whet.max_sequences", o->chat ? "--context" : "--batch"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i].key);
        if (strncmp(error->text, names[i].key, length) || error->text[length] != ':') continue;
        Error said = *error;
        return error_set(error, "%s%s", names[i].option, said.text + length);
    }
    return false;
}

static bool run_generate(Arguments *arguments, Error *error) {
    Runtime runtime = {0};
    GenerateOptions options = {0};
    bool good = read_options(&options, arguments, error) &&
                runtime_open(&runtime, arguments, arguments->operands[0], error) &&
                fit_model(&options, &runtime, error) &&
                (options.chat ? chat(&runtime, &options, arguments, error)
                              : answer_prompts(&runtime, &options, arguments, error));
    runtime_close(&runtime);
    return good || name_options(&options, error);
}

const Command generate_command = {
    .verb = "generate",
    .operands = "MODEL [PROMPT]",
    .summary = "Samples answers from a model; on a terminal and without a prompt: a chat.",
    .min_operands = 1,
    .max_operands = 2,
    .details =
        "MODEL is a GGUF file, a folder with config.json and safetensors, a checkpoint step_N of a run, or the name of "
        "a "
        "model in the cache.\n\n"
        "PROMPT becomes a user message of the model's chat template; with --raw, and where the model has none, it is "
        "continued as it stands. Without PROMPT all of standard input is one. A line of --prompts FILE is "
        "{\"prompt\": text}, {\"messages\": [{\"role\": …, \"content\": …}, …]} or {\"ids\": [id, …]}; its other keys "
        "are "
        "passed over. Answers come in the order of the prompts, each as soon as it is there.\n\n"
        "Random numbers depend on the seed and on the number of prompt, sample and token only: what is answered "
        "besides, "
        "--batch, --threads and the size of the cache change no answer.",
    .examples = "whet generate MODEL                                # chat\n"
                "whet generate MODEL 'What is 17 + 25?' --temperature 0\n"
                "git diff | whet generate MODEL --system 'Summarise in one line.'\n"
                "whet generate MODEL --prompts questions.jsonl --samples 4 --json >answers.jsonl\n"
                "whet generate MODEL --raw 'Once upon a time' --stop . --stop '!'\n",
    .options =
        {{"what is asked", NULL, NULL},
         {"--prompts", "FILE", "a prompt a line; - for standard input"},
         INPUT_OPTIONS("prompt"),
         {"--system", "TEXT", "system message, where a conversation brings none"},
         {"--raw", NULL, "continue texts as they stand, without the chat template"},
         {"--samples", "N", "answers for each prompt (default 1)"},
         {"how tokens are drawn", NULL, NULL},
         {"--temperature", "T", "0: the likeliest token (default 1; in a chat 0.7)"},
         {"--top-k", "K", "of the K likeliest tokens (default 0: all)"},
         {"--top-p", "P", "of the fewest tokens that have this probability together (default 1: all)"},
         {"--min-p", "P", "of tokens with at least P times the likeliest one's probability (default 0: all)"},
         {"--seed", "S", "another seed, other answers (default 42)"},
         {"what ends an answer", NULL, NULL},
         {"--max-new-tokens", "N", "so many tokens (default 512; in a chat, what the context leaves)"},
         {"--stop", "TEXT…", "this text, which is not part of the answer"},
         {"--stop-id", "ID…", "this token, besides the model's own"},
         {"--ignore-eos", NULL, "not the model's own end-of-text tokens"},
         {"--context", "N",
          "tokens of prompt and answer together (default: the model's positions; in a chat at most 8192, and what the "
          "cache has room for)"},
         {"what is printed", NULL, NULL},
         {"--json", NULL,
          "one JSON object an answer: prompt, sample, text, finish_reason, stop_reason, prompt_ids, ids, logprobs"},
         {"--verbose", NULL, "say how fast it went, what the cache did and what memory it took"},
         {"how it is computed", NULL, NULL},
         RUNTIME_OPTIONS,
         {"--batch", "N", "answers that are decoded together, at most (default 64)"},
         {"--kv-cache-tokens", "N",
          "tokens whose keys and values are kept (default: enough for a whole batch; with less, answers wait or "
          "are walked again, and a chat's context is shorter)"},
         {"--memory", "SIZE", "the same in bytes, like 800M or 2G"}},
    .run = run_generate,
};
