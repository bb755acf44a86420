// key=value on the command line, in Hydra's grammar and struct mode (reference/nemo_rl.md section 1.1):
//   a.b=1     changes a key that is in the recipe or in the settings table
//   +a.b=1    adds a key that the recipe does not name      ++a.b=1  adds or changes
//   ~a.b      takes the key out, also ~a.b=1 (only if its value is 1): a key that may be null is null then, another has
//             its built-in default
// Values: null, true, numbers, text (quoted where it holds , [ ] { } or blanks at its ends), [1,2], {k:v}, ${…}. A mapping
// merges into a mapping, all else is replaced. a.0.b and a[0].b name an element of a list.
#pragma once
#include "config/value.h"

bool override_apply(Value *root, Arena *arena, const char *text, Error *error);

// The right-hand side alone; the settings table writes its defaults so.
bool override_value(Value **out, Arena *arena, const char *text, Origin origin, Error *error);
