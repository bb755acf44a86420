// environment.json of a run: what built it and what it ran on.
#pragma once
#include "run/trainer.h"

bool environment_write(const Trainer *trainer, Error *error);
