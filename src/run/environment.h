// environment.json of a run: what built it and what it ran on.
#pragma once
#include "run/trainer.h"

bool environment_write(Trainer *trainer, Error *error); // all ranks call it, rank 0 writes
