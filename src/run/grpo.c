#include "run/grpo.h"

#include "run/course.h"
#include "run/experience.h"
#include "run/learning.h"

// Samples, scores and trains. *complete is false when the step was not made: the questions ended before it was full, or
// the run was asked to stop; then the policy is as it was.
static bool learn(StepReport *report, bool *complete, Samples *samples, Trainer *t, Arena *arena, Error *error) {
    Experience experience;
    if (!experience_collect(&experience, complete, t, report->step, &report->position, arena, error)) return false;
    if (!*complete) return true;
    *samples = experience.samples;
    report->collected = experience.counts;
    report->consumed_samples = experience.counts.generated;
    return learning_run(report, complete, samples, t, arena, error);
}

static bool one_step(Course *course, Trainer *t, Arena *arena, Error *error) {
    Samples samples;
    StepReport report = course_begin_step(course, t);
    bool complete;
    if (!learn(&report, &complete, &samples, t, arena, error)) return false;
    if (complete) return course_finish_step(course, &report, t, error);
    course_leave_step(course, t);
    return true;
}

bool grpo_train(Trainer *t, Error *error) {
    Course course = {0};
    Arena arena = {0};
    bool good = course_begin(&course, t, error);
    if (good) {
        trainer_refit(t);
        good = course_validate_first(&course, t, error);
    }
    while (good && course_goes_on(&course, t)) {
        good = one_step(&course, t, &arena, error);
        arena_reset(&arena);
    }
    good = good && course_end(&course, t, error);
    course_close(&course);
    arena_close(&arena);
    return good;
}
