// What makes a small model one of its family, for models made in tests: biases, norms of heads, windows, layers without rotation,
// rope scaling. Windows are shorter than the tests' sequences and no multiple of a page.
#pragma once
#include "model/architecture.h"

enum { FAMILY_COUNT = MODEL_SMOLLM3 + 1 };

// Sets the family's own fields; sizes must be there.
void family_apply(Architecture *architecture, ModelFamily family);

// cmocka's set-up and tear-down: a random model of each family in a folder of its own, /tmp/whet-NAME-PROCESS-FAMILY, of these
// sizes; Qwen2 alone has a head of its own.
enum { FAMILY_PATH = 64 };
int family_write_models(char folder[FAMILY_COUNT][FAMILY_PATH], const char *name, const Architecture *sizes);
void family_remove_models(char folder[FAMILY_COUNT][FAMILY_PATH]);
