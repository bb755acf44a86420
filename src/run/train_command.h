// The verbs that take a recipe.
#pragma once
#include "run/command.h"

extern const Command train_command, config_command;
