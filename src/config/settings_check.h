// What settings owe each other, once every one of them is read (reference/nemo_rl.md section 4.1), and what follows from them:
// dtypes, held-out questions, the sampling of validation.
#pragma once
#include "config/settings.h"

bool settings_check(Settings *settings, Arena *arena, Error *error);
