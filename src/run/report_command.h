// whet report.
#pragma once
#include "run/command.h"

extern const Command report_command;
