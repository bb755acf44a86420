// The verb that shows what a model's tokenizer and chat template make of a text.
#pragma once
#include "run/command.h"

extern const Command tokenize_command;
