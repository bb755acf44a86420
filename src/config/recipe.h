// A recipe file with everything it inherits, as one tree whose interpolations are still unresolved
// (reference/nemo_rl.md section 1.1). `defaults:` names one parent or a list, relative to the file that names them; parents load depth
// first, later ones win over earlier ones, the child over all. Mappings merge deeply, lists and scalars are replaced whole;
// a mapping with `_override_: true` replaces its parent's; a mandatory `???` leaves an inherited value alone.
#pragma once
#include "config/value.h"

enum { RECIPE_MAX_INHERITANCE = 16, RECIPE_MAX_FILES = 64 };

typedef struct Recipe {
    Value *root;
    const char *alias; // where policy.dtensor_cfg stands, "file:line" (the last seen), or NULL
} Recipe;

// In every file the older name policy.dtensor_cfg is read as policy.automodel_cfg, without its _v2; both in one file are
// refused.
bool recipe_load(Recipe *recipe, Arena *arena, const char *path, Error *error);

// Merges over into base. over is used up.
void recipe_merge(Arena *arena, Value *base, Value *over);

// The path with policy.dtensor_cfg spelled policy.automodel_cfg.
const char *recipe_canonical(Arena *arena, const char *path);
