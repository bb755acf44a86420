// Recipes in a folder of their own, loaded or refused, for the tests of config/. Where one is not as it must be, the program
// ends.
#pragma once
#include "config/settings.h"

typedef struct Recipes {
    Arena arena; // of all that is loaded
    Error error;
    char folder[32];
} Recipes;
extern Recipes recipes; // of the program's one group of tests

// The group's set-up and tear-down.
int recipes_open(void **state);
int recipes_close(void **state);

// Where a file of the folder lies; written there.
const char *recipes_path(const char *name);
const char *recipes_put(const char *name, const char *text);

// What must load: a file, or a text as recipe.yaml.
Settings *recipes_load_file(const char *path, int count, char **overrides);
Settings *recipes_load_with(const char *text, int count, char **overrides);
Settings *recipes_load(const char *text);

// A text, with an override or NULL, that must be refused with a message of which `part` is one.
void recipes_refuse(const char *text, char *override, const char *part);

void recipes_said(const char *message, const char *part); // part is in the message, which is one line
