// One value of a resolved recipe → its field, by its row of the settings table: kind, range and choices are checked here.
#pragma once
#include "config/settings.h"
#include "config/settings_table.h"

bool settings_read(Settings *settings, const Setting *row, const Value *value, Arena *arena, Error *error);
