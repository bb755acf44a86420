// What makes a small model one of its family, for models made in tests: biases, norms of heads, windows, layers without rotation,
// rope scaling. Windows are shorter than the tests' sequences and no multiple of a page.
#pragma once
#include "model/architecture.h"

enum { FAMILY_COUNT = MODEL_SMOLLM3 + 1 };

// Sets the family's own fields; sizes must be there.
void family_apply(Architecture *architecture, ModelFamily family);
