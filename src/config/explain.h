// A resolved recipe written out, and the table of settings as a manual. Texts are appended.
#pragma once
#include "base/strbuf.h"
#include "config/settings.h"

// Plain YAML that loads again to the same settings, here and (1.0e-08, quoted texts) in other YAML readers. Keys without
// effect are left out unless the recipe sets them. This is the config.yaml of runs and checkpoints.
void explain_yaml(StrBuf *out, const Settings *settings);

// The same with a comment behind every value: where it was written, what it was computed from, what the key means.
void explain_settings(StrBuf *out, const Settings *settings);

// Appends "key: old → new" for every honoured key whose values differ, with `between` between two; false when there is none.
bool explain_changes(StrBuf *out, const char *between, const Settings *before, const Settings *after);

// The honoured keys whose values differ, in the table's order; keys[] and texts are the arena's.
typedef struct ExplainChange {
    const char *key, *before, *after;
} ExplainChange;
int64_t explain_differing(ExplainChange **changes, Arena *arena, const Settings *before, const Settings *after);

// The value of a key as it would be written, "" where there is none.
const char *explain_value(Arena *arena, const Settings *settings, const char *key);

// docs/config.md: every key with default, allowed values and meaning, as Markdown tables.
void explain_manual(StrBuf *out);
