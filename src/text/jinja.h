// An interpreter for the Jinja templates that chat models come with: jinja2 3.1 in transformers' environment
// (trim_blocks, lstrip_blocks, no autoescape, immutable sandbox, loop controls, {% generation %}, tojson without HTML
// escapes, raise_exception, strftime_now). Callers that render conversations use text/chat.h.
//
// Sources: the jinja2 documentation and its lexer, parser, idtracking, runtime, sandbox and filters modules.
// Not built, refused by name: block, extends, include, import, autoescape; the filters pprint, random, striptags,
// urlize, wordwrap, xmlattr; lipsum(); complex numbers; \N{…} in strings. Integers are exact to 127 bits; longer ones
// print but do not compute. jinja2 folds constant expressions and then takes a slice that fails, such as none[1:], for
// undefined; here it is an error. Generators are computed at once, so an error in one is met where it is made.
#pragma once
#include "text/jinja_clock.h"
#include "text/jinja_value.h"

typedef struct JinjaTemplate JinjaTemplate; // parsed once, then only read: threads may share it

enum { JINJA_MOST_SOURCE = 1 << 20 }; // bytes of a template

// The source is copied. On false, *fault says what and in which line.
bool jinja_open(JinjaTemplate **template, const char *source, size_t size, JinjaFault *fault);
void jinja_close(JinjaTemplate *template); // accepts NULL

typedef struct JinjaSpan {
    size_t start, end; // bytes of the rendered text
} JinjaSpan;

// In the memory of the run. spans: the texts of {% generation %} blocks, as transformers counts them.
typedef struct JinjaRendered {
    JinjaValue text;
    JinjaSpan *spans;
    size_t span_count;
} JinjaRendered;

// variables is a DICT by name, in the memory of the run. On false, run->fault says why. A run renders once.
bool jinja_render(const JinjaTemplate *template, JinjaRun *run, JinjaValue variables, const JinjaClock *clock,
                  JinjaRendered *rendered);
