// The verb that fetches models and data sets into the cache.
#pragma once
#include "run/command.h"

extern const Command pull_command;
