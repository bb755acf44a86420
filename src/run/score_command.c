#include "base/jsonio.h"
#include "model/score.h"
#include "run/generate_command.h"
#include "run/inputs.h"
#include "run/runtime.h"

#include <stdio.h>
#include <string.h>

static void print_scores(const Inputs *lines, const float *logprobs) {
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

static bool score_all(Runtime *runtime, const Inputs *lines, double temperature, Arena *arena, Error *error) {
    Progress progress;
    float *logprobs = arena_array(arena, float, lines->ids.count);
    ScoreInput input = {.count = lines->count, .offset = lines->offset, .ids = lines->ids.ids};
    SoftmaxFilter filter = {.temperature = (float)temperature, .top_p = 1};
    progress_begin(&progress, "scoring", (int64_t)lines->ids.count);
    bool good = score_sequences(&runtime->resident, logprobs, &input, filter, 0, &progress, error);
    progress_end(&progress);
    if (good) print_scores(lines, logprobs);
    return good;
}

static bool run_score(Arguments *arguments, Error *error) {
    Arena arena = {0};
    Runtime runtime = {0};
    Inputs lines = {.model = &runtime.model, .options = {.text_key = "text"}};
    double temperature = 1;
    int64_t rows = 512;
    const char *path = arguments->operands[1];
    bool good = command_real(arguments, "--temperature", &temperature, 1e-6, 1e6, error) &&
                command_integer(arguments, "--chunk", &rows, 1, 1 << 16, error) &&
                runtime_open(&runtime, arguments, arguments->operands[0], error);
    if (good) {
        lines.options.most = runtime.model.architecture->max_positions;
        good = inputs_read(&lines, path, &arena, error) &&
               runtime_load(&runtime, rows, lines.longest > 0 ? lines.longest : 1, error) &&
               (score_all(&runtime, &lines, temperature, &arena, error) || error_prefix(error, "%s: ", path));
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
    .details = "A line of FILE is {\"text\": …}, {\"messages\": [{\"role\": …, \"content\": …}, …]} or {\"ids\": [id, "
               "…]}; its\n"
               "other keys are passed over. A line of the output has tokens, sum_logprob, mean_nll, ids and logprobs "
               "(null for\n"
               "the first token).",
    .options = {{"--temperature", "T", "divide the logits by T (default 1)"},
                {"--chunk", "N", "tokens that are walked at once (default 512); changes no result"},
                RUNTIME_OPTIONS},
    .run = run_score,
};
