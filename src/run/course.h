// The course of a run: what stands around the steps of every algorithm, from the checkpoint that it goes on from to the last
// one that it leaves. An algorithm makes the steps between (run/grpo.c):
//
//   course_begin; course_validate_first
//   while course_goes_on:  course_begin_step; (learn); course_finish_step, or course_leave_step when there was none
//   course_end; course_close
#pragma once
#include "run/progression.h"

typedef struct Course {
    Progression at;
    int64_t last; // step that the recipe asks for; dynamic sampling may need several rollouts for one
    bool over;
    double started; // of the step under way, log_seconds
} Course;

// Goes on from the newest checkpoint, or begins; opens the logs. Zero-initialise the course.
bool course_begin(Course *course, Trainer *trainer, Error *error);

// Validates before the first step where the recipe says so.
bool course_validate_first(Course *course, Trainer *trainer, Error *error);

bool course_goes_on(const Course *course, Trainer *trainer);

// A report of the step to come: number, position, learning rate.
StepReport course_begin_step(Course *course, Trainer *trainer);

// The step was made: validation, logs and checkpoint as they are due. The report's position is the next question.
bool course_finish_step(Course *course, StepReport *report, Trainer *trainer, Error *error);

// The step was not made: a signal came, or the questions ended within it.
void course_leave_step(Course *course, Trainer *trainer);

// What is kept of a run that ended between steps.
bool course_end(Course *course, Trainer *trainer, Error *error);

void course_close(Course *course);
