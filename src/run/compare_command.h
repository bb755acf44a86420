// whet compare: trains the arms that differ in one key, or takes runs that exist, and says what the difference made.
#pragma once
#include "run/command.h"

extern const Command compare_command;
