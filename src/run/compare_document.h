// Documents whose figures come from summaries: a Markdown file holds pairs of marks,
//
//   <!-- compare PATH PART --> … <!-- /compare -->
//
// PATH a summary.json (relative to the document), PART one of compare_table.h or a path to one number ("differences.0.effect").
// What stands between the marks is replaced; all else stays as it is.
#pragma once
#include "base/error.h"

// The error names file and line. Nothing is written when a mark is wrong.
bool compare_document_write(const char *path, Error *error);
