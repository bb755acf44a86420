// Methods of Python's str for the template interpreter. Results of text marked safe are marked safe. All fail only with
// a fault (limits, or what Python raises); arguments may alias.
#pragma once
#include "text/jinja_value.h"

// chars MISSING or None: white space.
bool jinja_string_strip(JinjaRun *run, JinjaValue text, JinjaValue chars, bool left, bool right, JinjaValue *value);

// separator MISSING or None: runs of white space. most < 0: all. from_right: rsplit.
bool jinja_string_split(JinjaRun *run, JinjaValue text, JinjaValue separator, int64_t most, bool from_right,
                        JinjaValue *list);
bool jinja_string_splitlines(JinjaRun *run, JinjaValue text, bool keep_ends, JinjaValue *list);
bool jinja_string_partition(JinjaRun *run, JinjaValue text, JinjaValue separator, bool from_right, JinjaValue *tuple);

// First (or last) place of part at or behind byte `from`, or SIZE_MAX.
size_t jinja_string_find(JinjaRun *run, JinjaValue text, JinjaValue part, size_t from, bool last);

bool jinja_string_replace(JinjaRun *run, JinjaValue text, JinjaValue old, JinjaValue new, int64_t most,
                          JinjaValue *value);
bool jinja_string_repeat(JinjaRun *run, JinjaValue text, size_t times, JinjaValue *value);

// In the middle, at the left or at the right of `width` code points.
typedef enum JinjaPad { JINJA_CENTER, JINJA_LEFT, JINJA_RIGHT } JinjaPad;
bool jinja_string_pad(JinjaRun *run, JinjaValue text, JinjaPad pad, int64_t width, JinjaValue fill, JinjaValue *value);

typedef enum JinjaCase {
    JINJA_UPPER,
    JINJA_LOWER,
    JINJA_TITLE,
    JINJA_CAPITALIZE,
    JINJA_SWAPCASE,
    JINJA_CASEFOLD
} JinjaCase;
bool jinja_string_case(JinjaRun *run, JinjaValue text, JinjaCase to, JinjaValue *value);

// str.isdigit and its kin.
typedef enum JinjaClass {
    JINJA_IS_ALNUM,
    JINJA_IS_ALPHA,
    JINJA_IS_ASCII,
    JINJA_IS_DECIMAL,
    JINJA_IS_DIGIT,
    JINJA_IS_IDENTIFIER,
    JINJA_IS_LOWER,
    JINJA_IS_NUMERIC,
    JINJA_IS_PRINTABLE,
    JINJA_IS_SPACE,
    JINJA_IS_TITLE,
    JINJA_IS_UPPER,
} JinjaClass;
bool jinja_string_is(JinjaValue text, JinjaClass class);
// What int() and float() read of a text that is not ASCII: the decimal digits of all scripts are those of ASCII, blanks of
// other kinds are spaces.
bool jinja_string_plain(JinjaRun *run, JinjaValue text, JinjaValue *plain);
bool jinja_string_is_word(uint32_t codepoint); // \w of Python's re

// HTML escapes of markupsafe: & < > ' ". What is marked safe stays as it is; the result is marked.
bool jinja_string_escape(JinjaRun *run, JinjaValue value, JinjaValue *escaped);
