#include "model/score.h"
#include "run/generate_command.h"
#include "run/inputs.h"
#include "run/output.h"
#include "run/runtime.h"

#include <math.h>

typedef struct ScoreTotals {
    int64_t tokens; // that have a log-probability
    double sum;
    int64_t lost; // the first text whose log-probabilities are no numbers, from 1; 0: none
} ScoreTotals;

static void print_score(const Inputs *lines, int64_t b, const float *logprobs, ScoreTotals *totals) {
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
    output_json(line);
    if (!isfinite(sum) && !totals->lost) totals->lost = b + 1;
    totals->tokens += length > 1 ? length - 1 : 0;
    totals->sum += sum;
}

// How many lines from `first` on make one walk of at most max_rows rows; a longer one walks alone.
static int64_t walk_of(const Inputs *lines, int64_t first, int64_t max_rows) {
    int64_t last = first + 1;
    while (last < lines->count && lines->offset[last + 1] - lines->offset[first] <= max_rows) last++;
    return last - first;
}

// Prints each line as soon as it is scored.
static bool score_all(Runtime *runtime, const Inputs *lines, double temperature, ScoreTotals *totals, Arena *arena,
                      Error *error) {
    Progress progress;
    float *logprobs = arena_array(arena, float, lines->ids.count);
    SoftmaxFilter filter = {.temperature = (float)temperature, .top_p = 1};
    output_progress_begin(&progress, "scoring", (int64_t)lines->ids.count);
    bool good = true;
    for (int64_t first = 0, count; good && first < lines->count; first += count) {
        count = walk_of(lines, first, runtime->resident.max_rows);
        ScoreInput input = {.count = count, .offset = lines->offset + first, .ids = lines->ids.ids};
        good = score_sequences(&runtime->resident, logprobs, &input, filter, 0, NULL, error);
        for (int64_t b = first; good && b < first + count; b++) print_score(lines, b, logprobs, totals);
        good = good && output_flush(error);
        progress_update(&progress, lines->offset[first + count]);
    }
    progress_end(&progress);
    return good;
}

// Its line has said so; a caller learns it from the status too.
static bool check_totals(const ScoreTotals *totals, const char *path, DType compute, Error *error) {
    return !totals->lost ||
           error_set(error, "%s: text %lld has log-probabilities that are NaN or infinite; " RUNTIME_NUMBERS_LOST, path,
                     (long long)totals->lost, dtype_name(compute));
}

static void say_totals(const Inputs *lines, const ScoreTotals *totals) {
    if (!totals->tokens) return;
    double nll = -totals->sum / (double)totals->tokens;
    log_info("texts %lld  tokens scored %lld  mean_nll %.4f  perplexity %.4g", (long long)lines->count,
             (long long)totals->tokens, nll, exp(nll));
}

static bool run_score(Arguments *arguments, Error *error) {
    Arena arena = {0};
    Runtime runtime = {0};
    Inputs lines = {.model = &runtime.model, .options = {.text_key = "text"}};
    ScoreTotals totals = {0};
    double temperature = 1;
    int64_t rows = 512;
    const char *path = arguments->operands[1];
    bool good = command_real(arguments, "--temperature", &temperature, 1e-6, 1e6, error) &&
                command_integer(arguments, "--chunk", &rows, 1, 1 << 16, error) &&
                inputs_options(&lines.options, arguments, path, error) &&
                runtime_open(&runtime, arguments, arguments->operands[0], error);
    if (good) {
        lines.options.most = lines.options.context = runtime.model.architecture->max_positions;
        good = inputs_read(&lines, path, &arena, error) &&
               runtime_load(&runtime, rows, lines.longest > 0 ? lines.longest : 1, error) &&
               score_all(&runtime, &lines, temperature, &totals, &arena, error);
        good = good && check_totals(&totals, path, runtime.policy.compute, error);
        if (good) say_totals(&lines, &totals);
    }
    inputs_close(&lines);
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
    .details = "MODEL is a GGUF file, a folder with config.json and safetensors, a checkpoint step_N of a run, or the "
               "name of a "
               "model in the cache. FILE may be - for standard input.\n\n"
               "A line of FILE is {\"text\": …}, {\"messages\": [{\"role\": …, \"content\": …}, …]} or {\"ids\": [id, "
               "…]}; its "
               "other keys are passed over. A line of the output has tokens, sum_logprob, mean_nll, ids and logprobs "
               "(null for "
               "the first token). The mean over all tokens and its perplexity are said at the end, on standard error.",
    .examples = "whet score MODEL texts.jsonl >scores.jsonl\n"
                "whet score MODEL book.txt >/dev/null         # perplexity, a line a text\n"
                "head -n 5 chats.jsonl | whet score MODEL - | jq .mean_nll\n",
    .options = {{"texts", NULL, NULL},
                INPUT_OPTIONS("text"),
                {"how they are scored", NULL, NULL},
                {"--temperature", "T", "divide the logits by T (default 1)"},
                {"--chunk", "N", "tokens that are walked at once (default 512); changes no result"},
                RUNTIME_OPTIONS},
    .run = run_score,
};
