// JSON of the template interpreter: into values, and out of them as Python's json.dumps writes it.
//
// Numbers keep their digits. jansson cannot hold 12345678901234567890, so whoever needs such integers reads the text
// with jinja_json_read instead of handing over a json_t.
#pragma once
#include "text/jinja_value.h"

#include <jansson.h>

// Parses one JSON text (what Python's json.loads takes, with NaN and Infinity; a key given twice keeps its first place
// and its last value). Lone surrogates are refused. Fails with a JSONDecodeError that names the byte.
bool jinja_json_read(JinjaRun *run, JinjaValue *value, const char *text, size_t size);

// The same tree as values; strings are shared with it, so it must outlive the run. Fails when nested too deep.
bool jinja_json_from(JinjaRun *run, JinjaValue *value, const json_t *tree);

// json.dumps: indent NULL writes one line.
typedef struct JinjaJsonStyle {
    bool ascii, sorted;
    JinjaValue indent; // a string, or MISSING for one line
    JinjaValue item_separator, key_separator;
} JinjaJsonStyle;

// Appends. Fails with Python's TypeError for what JSON cannot hold.
bool jinja_json_write(JinjaRun *run, JinjaBuffer *buffer, JinjaValue value, const JinjaJsonStyle *style);
