// Help for people, printed on standard output from the tables of command.h.
#pragma once
#include "base/strbuf.h"
#include "run/command.h"

// Appends text[…] wrapped to `width` columns, a character a column. Lines after the first begin with `indent` blanks; the
// first is taken to begin in column `column`. An empty line parts paragraphs, a lone line break is a blank, and a line that
// begins with a blank stays as it is.
void command_help_wrap(StrBuf *out, const char *text, int column, int indent, int width);

// Usage, summary, details, options under their headings, examples.
void command_help(const Command *command, int width);
