// What the ranks of a run settle among themselves before they work.
#pragma once
#include "comm/comm.h"
#include "config/settings.h"
#include "run/loaded_model.h"

// Threads of this rank: the cores that it may use, divided by the ranks of this host that may use one of them too. Says so when the
// ranks of the host may use less than half of its cores. All ranks call it.
int ranks_threads(Comm *world);

// Refuses ranks that do not agree on `what`: text must be the same everywhere. All ranks call it, and those below.
bool ranks_same(Comm *world, const char *what, const char *text, Error *error);

// Refuses recipes that differ in a key, which is named; whet.threads may differ, and where the model and its tokenizer lie.
bool ranks_same_recipe(Comm *world, const Settings *settings, Error *error);

// Refuses models that differ in what stands beside the weights: architecture, stop ids, tokenizer, chat template.
bool ranks_same_model(Comm *world, const LoadedModel *model, Error *error);
