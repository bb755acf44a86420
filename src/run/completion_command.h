// whet completion SHELL: a script, made from the tables of verbs and settings, by which a shell completes whet's words.
#pragma once
#include "run/command.h"

extern const Command completion_command;
