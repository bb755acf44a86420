// What tests of whole runs share: a folder with a toy model and a recipe, runs in it, what they wrote.
#pragma once
#include "base/error.h"
#include "config/settings.h"

#include <jansson.h>

extern Arena run_arena; // of everything that these functions return
extern Error run_error; // of the last one that failed

// cmocka's set-up and tear-down of a group. The folder holds model/ and recipe.yaml.
int run_setup_open(const char *name, const char *recipe);
int run_setup_close(void **state);

const char *run_path(const char *name); // in the folder
void run_require(bool good);            // else the test program ends, with run_error

// The recipe with overrides (closed by NULL), its run in folder/name and that run's logs in folder/name/logs; NULL: run_error.
Settings *run_settings(const char *name, char *const *overrides);
#define RUN_SETTINGS(name, ...) run_settings(name, (char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

// Runs, whatever the algorithm; false: run_error, also of settings that are NULL. *stopped (NULL: not asked): a signal ended it.
bool run_train(const Settings *settings, bool *stopped);
#define RUN(name, ...) run_train(RUN_SETTINGS(name, __VA_ARGS__), NULL)

const char *run_text(const char *name); // of a file in the folder
json_t *run_lines(const char *name);    // the objects of a JSONL file as an array
double run_number(const json_t *object, const char *name);
bool run_same_bytes(const char *name, const char *other); // of two files in the folder
