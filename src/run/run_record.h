// What a run left in its folder, read back: recipe, curves, memory, answers. All memory is the arena's.
#pragma once
#include "config/settings.h"
#include "device/ledger.h"

// One step of one rank, in bytes: its peak; that of its update (forward, backward, optimizer) and what was alive at it; the peak of each
// phase.
typedef struct RunMemory {
    int64_t step;
    int rank;
    double step_peak, peak, at_peak[MEMORY_TAG_COUNT], phase[PHASE_COUNT];
} RunMemory;

typedef struct RunRecord {
    const char *folder; // where metrics.jsonl is
    Settings *settings; // by config.yaml
    const char *model_digest, *data_digest;
    int64_t step_count;
    double *reward, *step_seconds; // [step_count], of step 1…
    double training_seconds;       // of all steps and validations
    int64_t validation_count;
    int64_t *validation_step; // [validation_count], ascending
    double *accuracy;
    int64_t memory_count;
    RunMemory *memory;
} RunRecord;

// The last answers of a validation: a mean reward for each question.
typedef struct RunAnswers {
    int64_t count;          // questions
    int64_t *question;      // their numbers, ascending as they were asked
    double *reward;         // mean of the answers that could be scored; NAN: none could
    bool *passed;           // an answer has a reward above 0
    double lowest, highest; // reward of an answer; infinite where none could be scored
    int64_t answers_each;   // of the first question
} RunAnswers;

bool run_record_is_run(const char *path); // a folder with config.yaml and metrics.jsonl

// The error names the file and what it lacks. Reads no samples.
bool run_record_open(RunRecord *record, const char *folder, Arena *arena, Error *error);

// Of the validation at a step.
bool run_record_answers(RunAnswers *answers, const RunRecord *record, int64_t step, Arena *arena, Error *error);

const char *run_record_validation_path(const RunRecord *record, int64_t step, Arena *arena);

// Digest of the prompts of a step in their order, each as often as a group of it follows another; what was answered is not in it.
bool run_record_prompts(char hex[33], const RunRecord *record, int64_t step, Arena *arena, Error *error);
