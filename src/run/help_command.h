// whet help [VERB].
#pragma once
#include "run/command.h"

#include <stdio.h>

extern const Command help_command;

void help_overview(FILE *out); // the verbs, a line or two each
