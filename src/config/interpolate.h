// Resolves ${…} in a merged tree (reference/nemo_rl.md section 1.1): absolute ${a.b.c}, relative ${.sibling} and ${..aunt},
// the resolvers mul, add, div, max of two numbers and oc.env:NAME[,default], nested in any way. A text that is one
// interpolation takes the type of what it names, a mapping or list is copied; elsewhere the text is put in. mul, add and
// max of integers stay integers, div is always real. \${ is a plain ${. Cycles, unknown names and what grows beyond the
// limits of config/value.h are refused, naming the place.
#pragma once
#include "config/value.h"

bool interpolate_resolve(Value *root, Arena *arena, Error *error);
