// `whet export`: a model, or a checkpoint of a run, as a folder that Transformers loads.
#pragma once
#include "run/command.h"

extern const Command export_command;
