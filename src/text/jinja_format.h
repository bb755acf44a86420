// Python's string formatting for the template interpreter: "…" % values and "…".format(…).
#pragma once
#include "text/jinja_eval.h"

// format % values. values: a tuple for several, a dict for %(name)s, or one value.
bool jinja_format_percent(JinjaRun *run, JinjaValue format, JinjaValue values, JinjaValue *text);

// format.format(…): fields {}, {0}, {name}, {name.attribute}, {name[key]}, with !r, !s and a format specification.
bool jinja_format_braces(JinjaRun *run, JinjaValue format, const JinjaArguments *arguments, JinjaValue *text);
