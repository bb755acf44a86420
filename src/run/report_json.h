// What the parts of a report share: JSON for a script element of a page, lines of JSON that may be damaged, notes.
#pragma once
#include "base/file.h"
#include "base/jsonio.h"

// Appends the value in one line, reals with 7 digits, "<" as \u003c: nothing in it can end the script element.
void report_json_put(StrBuf *out, const json_t *value);

// Adds a sentence to an array of them.
void report_json_note(json_t *notes, const char *format, ...) __attribute__((format(printf, 2, 3)));

// The number of the value among those seen: equal values (as JSON text) have one number, new ones are appended to the list. seen: an
// object for the function's own use.
int64_t report_json_intern(json_t *list, json_t *seen, json_t *value);

// The lines of a file of JSON objects.
typedef struct ReportJsonLines {
    FileMap map;
    size_t at;
    int64_t number, damaged, first_damaged; // of lines, from 1
} ReportJsonLines;

bool report_json_lines_open(ReportJsonLines *lines, const char *path, Error *error);
json_t *report_json_lines_next(
    ReportJsonLines *lines); // new reference; NULL at the end. Damaged lines are counted and passed over
// Closes, and notes damaged lines under that name.
void report_json_lines_close(ReportJsonLines *lines, const char *name, json_t *notes);
