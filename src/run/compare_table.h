// A comparison's summary in words and Markdown tables, for the terminal and for documents.
#pragma once
#include "base/error.h"
#include "base/strbuf.h"

#include <jansson.h>

// Appends one part of a summary: "setup", "proofs", "memory", "accuracy", "reward", "difference", "verdict", "time" or
// "command". Refuses another one with the nearest, and what is no summary; a plan has "memory" and "command" alone.
bool compare_table_part(StrBuf *out, const json_t *summary, const char *part, Error *error);

void compare_table_all(StrBuf *out, const json_t *summary); // setup to time, for the terminal

// A number or text of the summary by its path ("differences.0.effect"), numbers with four digits behind the point. Refuses a path
// that leads to neither.
bool compare_table_value(StrBuf *out, const json_t *summary, const char *path, Error *error);
