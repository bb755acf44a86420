// The rows of a data file: JSON lines, a JSON list, CSV or plain text. The file is mapped and walked once for where its records
// stand; a record is read when it is asked for, so that memory is 16 bytes a row whatever the rows hold.
//
//   .jsonl, .ndjson   an object a line; blank lines are passed over
//   .json             a list of objects, or an object a line
//   .csv              RFC 4180: commas, "quoted, with ""quotes"" and newlines"; the first record names the columns; all values are texts
//   .txt              a text a line under the key "text"; blank lines are passed over
//
// UTF-8 without 0 bytes; a byte order mark at the beginning and carriage returns before newlines are passed over.
#pragma once
#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"

#include <jansson.h>

enum { RECORDS_LONGEST = 1 << 24, RECORDS_MOST = INT32_MAX }; // bytes of a record, rows of a file

typedef enum RecordFormat { RECORDS_JSONL, RECORDS_JSON, RECORDS_CSV, RECORDS_TEXT } RecordFormat;

typedef struct RecordPlace {
    uint64_t begin; // byte of the file
    uint32_t size, line;
} RecordPlace;

typedef struct Records {
    FileMap map;
    FileStamp stamp;
    const char *path;
    RecordFormat format;
    int64_t count;
    RecordPlace *places;
    int column_count;
    const char **columns; // CSV
} Records;

// Whether the name ends as one of the formats above; *format may be NULL.
bool records_format(RecordFormat *format, const char *path);

// Finds the rows. path and index lie in the arena. Refuses other formats, empty files, records that are too long and what
// has no structure (an open quote, a list that does not end), naming file and line; what a record holds is not looked at.
bool records_open(Records *records, const char *path, Arena *arena, Error *error);
void records_close(Records *records); // accepts a half-opened one

int64_t records_line(const Records *records, int64_t index); // from 1; where the record begins

// The record as an object. New reference. The error is "path:line: what"; also when the file was written to in the meantime.
bool records_row(json_t **row, const Records *records, int64_t index, Error *error);
