// What verbs print on standard output, and whether it gets there.
#pragma once
#include "base/jsonio.h"
#include "base/log.h"

void output_json(json_t *line); // one line; takes the reference

// Text that a model wrote. On a terminal control characters other than tab and line feed are shown as pictures: they could
// move the cursor, or worse.
void output_text(const char *text, size_t size);

// Hands on what was printed. The error says why it does not arrive: nothing more needs to be computed.
bool output_flush(Error *error);

// A bar on standard error, unless what is printed in the meantime shows on a terminal: it would run through the bar.
void output_progress_begin(Progress *progress, const char *label, int64_t total);
