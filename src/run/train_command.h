// The verbs that take a recipe.
#pragma once
#include "comm/comm.h"
#include "config/settings.h"
#include "ops/trace.h"
#include "run/command.h"

extern const Command train_command, config_command;

// Trains by these settings, in the folders that they name, as every rank does it; goes on where a stopped run ended. *stop is the signal
// that ended the run, which the caller is to obey (base/stop_signal.h), or 0. trace: NULL, or what operations write is noted there.
bool train_command_train(const Settings *settings, Comm *world, Trace *trace, int *stop, Error *error);
