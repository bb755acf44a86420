// The verbs that sample from a model and that score given texts, both on the rollout engine's resident walk.
#pragma once
#include "run/command.h"

extern const Command generate_command, score_command;
