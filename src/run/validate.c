#include "run/validate.h"

#include "base/file.h"
#include "base/int64.h"
#include "base/jsonio.h"
#include "base/log.h"
#include "run/board_samples.h"
#include "run/step_log.h"
#include "run/supervision.h"

#include <math.h>

static void record(StrBuf *lines, const Task *task, const Samples *samples, int64_t b, int64_t sample) {
    json_t *line = json_object();
    json_object_set_new(line, "idx", json_integer(samples->question[b]));
    json_object_set_new(line, "content", task_messages(task, true, samples->question[b], samples->text[b]));
    json_object_set_new(line, "sample", json_integer(sample));
    json_object_set_new(line, "rewards", samples->valid[b] ? jsonio_real((double)samples->reward[b]) : json_null());
    step_log_put_components(line, samples, b);
    json_object_set_new(line, "length",
                        json_integer(samples->offset[b + 1] - samples->offset[b] - samples->prompt_length[b]));
    json_object_set_new(line, "finish_reason", json_string(samples_finish_name(samples->finish[b])));
    jsonio_line(lines, line);
    json_decref(line);
}

static void print_sample(const Task *task, const Samples *samples, int64_t b, Arena *arena) {
    log_info("    %.2f  %s → %s", (double)samples->reward[b], task_question(task, true, samples->question[b], arena),
             samples->text[b]);
}

static double mean(double sum, int64_t count) {
    return count ? sum / (double)count : (double)NAN;
}

// Sums over the samples so far.
typedef struct Tally {
    double rewards, tokens;
    int64_t samples, scored, questions, asked, passed; // questions: with a sample that could be scored
    int64_t printed;
    StrBuf shown; // those that are printed, for TensorBoard
} Tally;

// The samples of one question, first..first+count-1.
static void count_question(Tally *tally, const Samples *samples, int64_t first, int64_t count) {
    bool scored = false, passed = false;
    for (int64_t b = first; b < first + count; b++) {
        tally->samples++;
        tally->tokens += (double)(samples->offset[b + 1] - samples->offset[b] - samples->prompt_length[b]);
        if (samples->valid[b] == 0) continue;
        tally->scored++, tally->rewards += (double)samples->reward[b];
        scored = true, passed |= samples->reward[b] > 0;
    }
    tally->asked++, tally->questions += scored, tally->passed += passed;
}

// Asks questions first..first+count-1. *complete is false when the validation is abandoned.
static bool ask(Tally *tally, StrBuf *lines, bool *complete, Trainer *t, int64_t step, int64_t first, int64_t count,
                Arena *arena, Error *error) {
    const Settings *s = t->settings;
    int64_t k = s->grpo.val_num_generations_per_prompt;
    EngineRequest *requests;
    Samples samples;
    EngineRun run = {.seed = (uint64_t)s->run.seed, .purpose = RNG_VALIDATE_TOKEN};
    if (!task_validation_requests(&t->task, &requests, first, count, (int32_t)k, arena, error) ||
        !trainer_rollout(t, &samples, NULL, complete, arena, requests, count, &s->val_generation, run, "validating",
                         error))
        return false;
    if (!*complete) return true;
    if (!trainer_reward(t, &samples, true, step, arena, error)) return false;
    for (int64_t q = 0; q < count; q++) count_question(tally, &samples, q * k, k);
    for (int64_t b = 0; b < samples.count && trainer_writes(t); b++) {
        record(lines, &t->task, &samples, b, b % k);
        if (tally->printed++ >= s->logger.num_val_samples_to_print) continue;
        print_sample(&t->task, &samples, b, arena);
        board_samples_put(&tally->shown, &t->task, &samples, true, b);
    }
    return true;
}

static bool validate_answers(Validation *validation, Trainer *t, int64_t step, Error *error) {
    const GrpoOptions *grpo = &t->settings->grpo;
    int64_t total = int64_smaller(grpo->max_val_samples, t->task.validation_count);
    double started = log_seconds();
    MemoryPhase before = ledger_enter(&t->ops.device.ledger, PHASE_VALIDATE);
    StrBuf lines = {0};
    Arena arena = {0};
    Tally tally = {0};
    bool good = true, complete = true;
    for (int64_t first = 0; good && complete && first < total; first += grpo->val_batch_size) {
        int64_t count = int64_smaller(total - first, grpo->val_batch_size);
        good = ask(&tally, &lines, &complete, t, step, first, count, &arena, error);
        arena_reset(&arena);
    }
    if (good && complete) {
        *validation = (Validation){.done = true,
                                   .accuracy = mean(tally.rewards, tally.scored),
                                   .pass_k = mean((double)tally.passed, tally.questions),
                                   .avg_length = mean(tally.tokens, tally.samples),
                                   .seconds = log_seconds() - started,
                                   .questions = tally.asked,
                                   .samples = tally.samples,
                                   .unscored = tally.samples - tally.scored};
        const char *path =
            arena_format(&arena, "%s/val_data_step%lld.jsonl", t->settings->logger.log_dir, (long long)step);
        good =
            !trainer_writes(t) || (file_write(path, lines.text, lines.length, error) &&
                                   (!t->settings->logger.tensorboard_enabled || !tally.shown.length ||
                                    tensorboard_text(&t->board, "validation/samples", tally.shown.text, step, error)));
    }
    ledger_enter(&t->ops.device.ledger, before);
    strbuf_close(&lines);
    strbuf_close(&tally.shown);
    arena_close(&arena);
    return good;
}

static bool validate_conversations(Validation *validation, Trainer *t, Error *error) {
    const SftOptions *sft = &t->settings->sft;
    int64_t total = t->task.validation_count, size = sft->val_global_batch_size, tokens = 0, left_out = 0;
    if (sft->val_batches > 0 && sft->val_batches < total) total = int64_smaller(total, sft->val_batches * size);
    double started = log_seconds(), loss = 0;
    Arena arena = {0};
    Supervision supervision;
    bool good = true, complete = true;
    trainer_refit(t);
    MemoryPhase before = ledger_enter(&t->ops.device.ledger, PHASE_VALIDATE);
    Progress progress;
    progress_begin(&progress, "validating", total);
    for (int64_t first = 0; good && complete && first < total; first += size) {
        int64_t count = int64_smaller(total - first, size);
        good = supervision_read(&supervision, t, true, first, count, &arena, error) &&
               supervision_measure(&loss, &tokens, t, &supervision.batch, &arena, error);
        left_out += supervision.left_out;
        progress_update(&progress, first + count);
        arena_reset(&arena);
        complete = !trainer_stops(t);
    }
    progress_end(&progress);
    trainer_rest(t);
    ledger_enter(&t->ops.device.ledger, before);
    arena_close(&arena);
    if (good && complete)
        *validation = (Validation){.done = true,
                                   .loss = mean(loss, tokens),
                                   .seconds = log_seconds() - started,
                                   .questions = total,
                                   .samples = total,
                                   .unscored = left_out,
                                   .tokens = tokens};
    return good;
}

bool validate_policy(Validation *validation, Trainer *t, int64_t step, Error *error) {
    return t->settings->algorithm == ALGORITHM_SFT ? validate_conversations(validation, t, error)
                                                   : validate_answers(validation, t, step, error);
}
