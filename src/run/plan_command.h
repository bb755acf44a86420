// whet plan: what a step takes, without the machine that takes it.
#pragma once
#include "run/command.h"

extern const Command plan_command;
