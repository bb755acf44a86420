#include "run/validate.h"

#include "base/file.h"
#include "base/jsonio.h"
#include "base/log.h"

#include <string.h>

static void record(StrBuf *lines, const Task *task, const Samples *samples, int64_t b) {
    json_t *line = json_object();
    json_object_set_new(line, "idx", json_integer(samples->question[b]));
    json_object_set_new(line, "content", task_messages(task, true, samples->question[b], samples->text[b]));
    json_object_set_new(line, "rewards", jsonio_real((double)samples->reward[b]));
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

bool validate_policy(Validation *validation, Trainer *t, int64_t step, Error *error) {
    const Settings *s = t->settings;
    int64_t total =
        s->grpo.max_val_samples < t->task.validation_count ? s->grpo.max_val_samples : t->task.validation_count;
    double started = log_seconds(), rewards = 0, tokens = 0;
    MemoryPhase before = ledger_enter(&t->ops.device.ledger, PHASE_VALIDATE);
    StrBuf lines = {0};
    Arena arena = {0};
    bool good = true;
    int64_t answers = 0, printed = 0;
    for (int64_t first = 0; good && first < total; first += s->grpo.val_batch_size) {
        int64_t count = total - first < s->grpo.val_batch_size ? total - first : s->grpo.val_batch_size;
        EngineRequest *requests;
        Samples samples;
        EngineRun run = {.seed = (uint64_t)s->grpo.seed, .purpose = RNG_VALIDATE_TOKEN};
        good = task_validation_requests(&t->task, &requests, first, count, 1, &arena, error) &&
               trainer_rollout(t, &samples, &arena, requests, count, &s->val_generation, run, "validating", error);
        if (!good) break;
        task_reward(&t->task, &samples, true, &arena);
        for (int64_t b = 0; b < samples.count; b++, answers++) {
            rewards += (double)samples.reward[b];
            tokens += (double)(samples.offset[b + 1] - samples.offset[b] - samples.prompt_length[b]);
            record(&lines, &t->task, &samples, b);
            if (printed++ < s->logger.num_val_samples_to_print) print_sample(&t->task, &samples, b, &arena);
        }
        arena_reset(&arena);
    }
    if (good) {
        *validation = (Validation){.done = true,
                                   .accuracy = rewards / (double)answers,
                                   .avg_length = tokens / (double)answers,
                                   .seconds = log_seconds() - started,
                                   .samples = answers};
        const char *path = arena_format(&arena, "%s/val_data_step%lld.jsonl", s->logger.log_dir, (long long)step);
        good = file_write(path, lines.text, lines.length, error);
    }
    ledger_enter(&t->ops.device.ledger, before);
    strbuf_close(&lines);
    arena_close(&arena);
    return good;
}
