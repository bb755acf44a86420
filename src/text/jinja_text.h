// Text of the template interpreter: code points in UTF-8, Python's str() and repr().
#pragma once
#include "text/jinja_value.h"

// Whether the bytes are UTF-8 (no surrogates, nothing overlong). All strings of the interpreter are.
bool jinja_text_valid(const char *text, size_t size);

// The code point at byte `at` of valid text; its length in bytes goes to *size (may be NULL).
uint32_t jinja_text_codepoint(const char *text, size_t at, size_t *size);
size_t jinja_text_size_at(JinjaValue string, size_t at);

size_t jinja_text_length(JinjaValue string);               // in code points
size_t jinja_text_offset(JinjaValue string, size_t index); // byte of code point `index`, the size when beyond
JinjaValue jinja_text_part(JinjaValue string, size_t from, size_t to); // bytes [from, to), shared, mark kept

bool jinja_text_is_space(uint32_t codepoint);     // str.isspace
bool jinja_text_is_printable(uint32_t codepoint); // shown as itself by repr()

// Of Python's identifiers, by category: letters and underscores; behind the first also marks, digits and joiners.
bool jinja_text_is_name(uint32_t codepoint, bool first);

// str(value) and repr(value), appended. Too deep or too long sets the run's fault.
void jinja_text_str(JinjaRun *run, JinjaBuffer *buffer, JinjaValue value);
void jinja_text_repr(JinjaRun *run, JinjaBuffer *buffer, JinjaValue value);

// str(value) as a value; a string is returned as it is, without its mark.
bool jinja_text_of(JinjaRun *run, JinjaValue value, JinjaValue *string);

// The buffer's text as a value (shares the buffer's memory).
JinjaValue jinja_text_taken(const JinjaBuffer *buffer);
