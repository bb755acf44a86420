// The arms of a comparison: runs that differ in one key, each value with the same seeds. What is proved here is that the
// resolved recipes differ in nothing else; compare_pairs.h proves what the runs themselves must show.
#pragma once
#include "comm/comm.h"
#include "run/run_record.h"

typedef struct CompareArm {
    const char *value; // of the key, as the resolved recipe writes it
    int64_t seed;      // grpo.seed
    const char *folder;
    Settings *settings;
    RunRecord record; // once it has run
    bool ended;       // its training said that nothing is left to do
} CompareArm;

typedef struct Comparison {
    Arena *arena; // of everything below
    const char *key;
    const char *following; // keys that the recipe computes from it, "a, b"; "" where there are none
    const char *folder;    // where summary and plots go
    int value_count, seed_count;
    const char **values; // the first is the baseline
    int64_t *seeds;
    CompareArm *arms; // [value_count][seed_count]
} Comparison;

CompareArm *compare_arms_at(const Comparison *comparison, int value, int seed);

// The parts of "A,B[,C]": commas in brackets, braces and quotes part nothing. Returns their number; −1 for more than `most`
// and where one is empty.
int compare_arms_split(const char **parts, int most, const char *text, Arena *arena);

// Arms of a recipe: vary is "KEY=A,B[,C]", seeds "42,43" or NULL for the recipe's own, overrides those of all arms. Their runs are
// folders in `folder` (NULL: results/compare/RECIPE_KEY). Refused: a key that changes another one that the recipe does not compute
// from it, values that come to the same.
bool compare_arms_of_recipe(Comparison *comparison, const char *recipe, const char *vary, const char *seeds,
                            int override_count, char **overrides, const char *folder, Arena *arena, Error *error);

// Arms of runs that exist already (folders of their logs, or with logs/), the first with the baseline's value. key NULL: the one
// in which they differ. Refused: a key that is no setting, or decides what is asked; a second key that differs, a value without a
// run for each seed, runs that are not whole. `folder` NULL: where the first run lies.
bool compare_arms_of_runs(Comparison *comparison, int count, char *const *folders, const char *key, const char *folder,
                          Arena *arena, Error *error);

// Whether the arms of a recipe may be trained. Refused: a recipe without validation before the first and after the last step, arms
// that cannot be asked the same questions in the same order (grpo.seed, data.train…), a folder that holds a run by another
// recipe.
bool compare_arms_check(const Comparison *comparison, Error *error);

// Trains the arms that are not whole, one after the other, seed by seed, and reads what they left; each is proved against the
// baseline as soon as it is there. As every rank does it. *stop: the signal that ended it, or 0; the same command goes on from there.
bool compare_arms_train(Comparison *comparison, Comm *world, int *stop, Error *error);

// Trains one of them alone, by its number from 1 in that order: so arms can run side by side, in processes of their own.
bool compare_arms_train_one(Comparison *comparison, int64_t number, Comm *world, int *stop, Error *error);

// Whether the record holds every step and a validation before the first and after the last.
bool compare_arms_whole(const CompareArm *arm, Error *error);
