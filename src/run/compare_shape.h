// Whether a JSON value has the shape of a comparison's summary (compare_summary.h) or of a plan (plan.json), as tables, pages and
// plots read it: files come from people too.
#pragma once
#include "base/error.h"

#include <jansson.h>

// The error names the entry that is missing or of another kind. *planned: it is a plan, which has memory alone.
bool compare_shape_check(bool *planned, const json_t *summary, Error *error);
