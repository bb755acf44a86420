// JSON files through jansson, with messages that name the file.
#pragma once
#include "base/error.h"
#include "base/strbuf.h"

#include <jansson.h>

enum { JSONIO_MAX_BYTES = 1 << 28 };

// Reads a whole JSON file of at most that many bytes. The caller owns *value (json_decref). An integer beyond ±2^63, like the
// 10^30 that Transformers writes for "no limit", becomes a real.
bool jsonio_read(json_t **value, const char *path, Error *error);

// The same for a file that must hold an object: a list is refused.
bool jsonio_read_object(json_t **object, const char *path, Error *error);

// Writes atomically (file_write), indented, keys in insertion order.
bool jsonio_write(const json_t *value, const char *path, Error *error);

// Appends one compact line to a JSONL file.
bool jsonio_append(const json_t *value, const char *path, Error *error);

// Appends the value in one line and "\n" to the text. Reals have 9 digits: enough for floats.
void jsonio_line(StrBuf *text, const json_t *value);

// A real that stays valid JSON: NaN and infinities become the strings "nan", "inf", "-inf". New reference.
json_t *jsonio_real(double value);
