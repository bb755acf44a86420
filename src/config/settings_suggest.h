// What was meant: the nearest key of the settings table.
#pragma once
#include "config/settings_table.h"

// Appends "; did you mean <key>?" when a key is near: a slip in the path, or the right name below another parent.
void settings_suggest(Error *error, Arena *arena, const char *key);
