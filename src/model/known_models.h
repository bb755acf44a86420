// Shapes of models that many people train, by name: what their config.json says of sizes, so that a plan needs no download.
#pragma once
#include "base/strbuf.h"

#include <jansson.h>

// The config.json (its keys that whet reads) of a model of the Hugging Face hub, or NULL. The organisation, a revision behind @,
// case and the words -Base, -Instruct, -Coder and -it do not matter. New reference.
json_t *known_models_config(const char *name);

// The known name that is nearest, or NULL.
const char *known_models_nearest(const char *name);

// All names, each with a blank before it.
void known_models_list(StrBuf *text);
