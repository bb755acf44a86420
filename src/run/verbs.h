// All verbs of the program.
#pragma once
#include "run/command.h"

const Command *const *verbs_all(int *count);       // in the order of `whet help`
const Command *verbs_find(const char *verb);       // or NULL
bool verbs_refuse(const char *verb, Error *error); // an unknown verb, with the nearest known one; always false
