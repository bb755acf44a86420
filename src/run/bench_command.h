// `whet bench`: kernels and phases as a share of what this machine can do.
#pragma once
#include "run/command.h"

extern const Command bench_command;
