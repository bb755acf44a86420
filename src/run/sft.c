#include "run/sft.h"

#include "base/log.h"
#include "run/course.h"
#include "run/supervision.h"
#include "train/update.h"

// --- the phases of a step ---------------------------------------------------------------------------------------------

static bool read_batch(StepReport *report, Supervision *supervision, const Trainer *t, Arena *arena, Error *error) {
    double started = log_seconds();
    int64_t count = t->task.prompts_per_batch;
    if (!supervision_read(supervision, t, false, report->position, count, arena, error)) return false;
    if (supervision->left_out)
        log_warn("step %lld: %lld of %lld conversations have more than %lld tokens and are left out",
                 (long long)report->step, (long long)supervision->left_out, (long long)count,
                 (long long)t->task.max_prompt_length);
    report->left_out = supervision->left_out;
    report->tokens = supervision->batch.offset[count];
    report->consumed_samples = count;
    report->position += count;
    report->times.data = log_seconds() - started;
    return true;
}

void sft_update(StepReport *report, bool *complete, const TrainBatch *batch, Trainer *t) {
    const Settings *s = t->settings;
    double started = log_seconds();
    UpdateOptions options = {.batching = s->policy.batching,
                             .head_chunk = s->policy.logprob_chunk_size,
                             .filter = {.temperature = 1, .top_p = 1},
                             .optimizer = s->optimizer,
                             .lr = report->lr,
                             .stops = &t->mesh.world,
                             .nll = true};
    options.batching.round = (uint32_t)report->step;
    Progress progress;
    int64_t done = 0;
    progress_begin(&progress, "training", batch->count);
    *complete = update_policy(&report->update, &t->walk, batch, &s->loss_fn, &options, &progress, &done);
    progress_end(&progress);
    t->committed = *complete;
    trainer_stops(t);
    report->valid_tokens = (int64_t)report->update.global_valid_toks;
    report->times.training = log_seconds() - started;
}

// --- the algorithm ----------------------------------------------------------------------------------------------------

static bool one_step(Course *course, Trainer *t, Arena *arena, Error *error) {
    StepReport report = course_begin_step(course, t);
    Supervision supervision;
    bool complete;
    if (!read_batch(&report, &supervision, t, arena, error)) return false;
    sft_update(&report, &complete, &supervision.batch, t);
    if (complete) return course_finish_step(course, &report, t, error);
    course_leave_step(course, t);
    return true;
}

bool sft_train(Trainer *t, Error *error) {
    Course course = {0};
    Arena arena = {0};
    bool good = course_begin(&course, t, error) && course_validate_first(&course, t, error);
    while (good && course_goes_on(&course, t)) {
        good = one_step(&course, t, &arena, error);
        arena_reset(&arena);
    }
    good = good && course_end(&course, t, error);
    course_close(&course);
    arena_close(&arena);
    return good;
}
