#include "text/records.h"

#include "base/strbuf.h"

#include <string.h>

// ---- which format

typedef struct Ending {
    const char *text;
    RecordFormat format;
} Ending;
static const Ending endings[] = {{".jsonl", RECORDS_JSONL},
                                 {".ndjson", RECORDS_JSONL},
                                 {".json", RECORDS_JSON},
                                 {".csv", RECORDS_CSV},
                                 {".txt", RECORDS_TEXT}};

static bool ends_with(const char *path, const char *ending) {
    size_t length = strlen(path), size = strlen(ending);
    return length > size && !strcmp(path + length - size, ending);
}

bool records_format(RecordFormat *format, const char *path) {
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (!ends_with(path, endings[i].text)) continue;
        if (format) *format = endings[i].format;
        return true;
    }
    return false;
}

static bool refuse_format(const char *path, Error *error) {
    if (ends_with(path, ".parquet") || ends_with(path, ".arrow"))
        return error_set(error,
                         "%s: not read; write it as JSON lines first, in Python: "
                         "datasets.load_dataset(\"parquet\", data_files=\"x.parquet\")[\"train\"].to_json(\"x.jsonl\")",
                         path);
    return error_set(error, "%s: expected a name that ends in .jsonl, .json, .csv or .txt", path);
}

// ---- where records stand

typedef struct Scan {
    const char *start, *at, *end, *counted;
    int64_t line; // of `counted`
    const char *path;
    RecordFormat format;
    bool opened, closed; // JSON: behind the [, behind the ]
    Error *error;
} Scan;

static int64_t line_of(Scan *scan, const char *place) {
    for (; scan->counted < place; scan->counted++) scan->line += *scan->counted == '\n';
    return scan->line;
}

static bool fail(Scan *scan, const char *place, const char *what) {
    return error_set(scan->error, "%s:%lld: %s", scan->path, (long long)line_of(scan, place), what);
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void skip_blanks(Scan *scan) {
    while (scan->at < scan->end && is_blank(*scan->at)) scan->at++;
}

// The next line that is not blank, without its end.
static bool next_line(Scan *scan, const char **begin, const char **end) {
    while (scan->at < scan->end) {
        const char *newline = memchr(scan->at, '\n', (size_t)(scan->end - scan->at));
        *begin = scan->at;
        *end = newline ? newline : scan->end;
        scan->at = newline ? newline + 1 : scan->end;
        if (*end > *begin && (*end)[-1] == '\r') --*end;
        for (const char *at = *begin; at < *end; at++)
            if (!is_blank(*at)) return true;
    }
    return false;
}

// Reads one field of CSV and moves *at behind it. *more: a comma follows, *at is behind it. value NULL: not wanted. Returns what
// is wrong, or NULL.
static const char *csv_field(StrBuf *value, const char **at, const char *end, bool *more) {
    const char *p = *at;
    bool quoted = p < end && *p == '"';
    if (quoted) {
        for (p++;; p++) {
            if (p == end) return "a quote is open at the end of the file";
            if (*p == '"' && (++p == end || *p != '"')) break;
            if (value) strbuf_putc(value, *p);
        }
    } else {
        while (p < end && *p != ',' && *p != '\n' && !(*p == '\r' && p + 1 < end && p[1] == '\n')) {
            if (*p == '"') return "a quote within a field that does not begin with one";
            if (value) strbuf_putc(value, *p);
            p++;
        }
    }
    *more = p < end && *p == ',';
    if (quoted && p < end && !*more && *p != '\n' && !(*p == '\r' && p + 1 < end && p[1] == '\n'))
        return "text behind a closing quote";
    *at = *more ? p + 1 : p;
    return NULL;
}

static bool next_csv(Scan *scan, const char **begin, const char **end) {
    for (;;) {
        *begin = scan->at;
        if (scan->at >= scan->end) return false;
        bool more = true;
        while (more) {
            const char *wrong = csv_field(NULL, &scan->at, scan->end, &more);
            if (wrong) return fail(scan, *begin, wrong);
        }
        *end = scan->at;
        if (scan->at < scan->end && *scan->at == '\r') scan->at++;
        if (scan->at < scan->end) scan->at++;
        if (*end > *begin) return true; // a line without any byte is none
    }
}

// The end of the value at p: the comma or bracket behind it, at the depth where it began.
static const char *json_value_end(const char *p, const char *end) {
    int64_t depth = 0;
    for (bool string = false; p < end; p++) {
        if (string) {
            if (*p == '\\')
                p++;
            else
                string = *p != '"';
            continue;
        }
        if (*p == '"') string = true;
        if (*p == '[' || *p == '{') depth++;
        if (!depth && (*p == ',' || *p == ']')) return p;
        if (*p == ']' || *p == '}') depth--;
    }
    return NULL;
}

static bool next_element(Scan *scan, const char **begin, const char **end) {
    if (scan->closed) return false;
    skip_blanks(scan);
    bool first = !scan->opened;
    if (first) scan->opened = true, scan->at++;
    skip_blanks(scan);
    *begin = scan->at;
    const char *stop = json_value_end(scan->at, scan->end);
    if (!stop) return fail(scan, *begin, "the list does not end");
    *end = stop;
    while (*end > *begin && is_blank((*end)[-1])) --*end;
    scan->at = stop + 1;
    if (*stop == ']') {
        scan->closed = true;
        skip_blanks(scan);
        if (scan->at < scan->end) return fail(scan, scan->at, "text behind the list");
        if (first && *end == *begin) return false;
    }
    return *end > *begin || fail(scan, stop, "an element is missing");
}

// False at the end or with scan->error set.
static bool next(Scan *scan, const char **begin, const char **end) {
    bool found = scan->format == RECORDS_CSV    ? next_csv(scan, begin, end)
                 : scan->format == RECORDS_JSON ? next_element(scan, begin, end)
                                                : next_line(scan, begin, end);
    if (!found || *end - *begin <= RECORDS_LONGEST) return found;
    return error_set(scan->error, "%s:%lld: a record of %lld bytes; expected at most %d", scan->path,
                     (long long)line_of(scan, *begin), (long long)(*end - *begin), RECORDS_LONGEST);
}

static Scan scan_begin(const Records *records, Error *error) {
    static const char mark[] = "\xef\xbb\xbf";
    const char *start = (const char *)records->map.data, *end = start + records->map.size;
    Scan scan = {.start = start,
                 .at = start,
                 .end = end,
                 .counted = start,
                 .line = 1,
                 .path = records->path,
                 .format = records->format,
                 .error = error};
    if (records->map.size >= 3 && !memcmp(start, mark, 3)) scan.at += 3;
    return scan;
}

// ---- rows

static bool check_text(const char *text, size_t size, const char *path, int64_t line, Error *error) {
    if (memchr(text, 0, size)) return error_set(error, "%s:%lld: a 0 byte", path, (long long)line);
    return true;
}

// Sets a text under a name; false when it is no UTF-8.
static bool put_text(json_t *row, const char *name, const char *text, size_t size) {
    return !json_object_set_new(row, name, json_stringn(text ? text : "", size));
}

static bool csv_row(json_t *row, const Records *records, const char *at, const char *end, int64_t line, Error *error) {
    StrBuf value = {0};
    bool more = true, good = true;
    int column = 0;
    for (; good && more; column++) {
        strbuf_clear(&value);
        CHECK(!csv_field(&value, &at, end, &more), "%s:%lld", records->path, (long long)line);
        if (column < records->column_count)
            good = put_text(row, records->columns[column], value.text, value.length) ||
                   error_set(error, "%s:%lld: not UTF-8 in column \"%s\"", records->path, (long long)line,
                             records->columns[column]);
    }
    strbuf_close(&value);
    return good && (column == records->column_count ||
                    error_set(error, "%s:%lld: %d fields; the first record names %d columns", records->path,
                              (long long)line, column, records->column_count));
}

static bool read_columns(Records *records, const char *at, const char *end, Arena *arena, Error *error) {
    StrBuf value = {0};
    bool more = true, good = check_text(at, (size_t)(end - at), records->path, 1, error);
    int64_t most = 1;
    for (const char *p = at; p < end; p++) most += *p == ',';
    records->columns = arena_array(arena, const char *, most);
    while (good && more) {
        strbuf_clear(&value);
        const char *wrong = csv_field(&value, &at, end, &more);
        CHECK(!wrong, "%s: %s", records->path, wrong);
        const char *name = arena_bytes(arena, value.text, value.length);
        json_t *text = json_stringn(name, value.length);
        if (!text) good = error_set(error, "%s:1: a column's name is not UTF-8", records->path);
        json_decref(text);
        if (!value.length)
            good = error_set(error, "%s:1: column %d has no name", records->path, records->column_count + 1);
        for (int i = 0; good && i < records->column_count; i++)
            if (!strcmp(records->columns[i], name))
                good = error_set(error, "%s:1: column \"%s\" is there twice", records->path, name);
        records->columns[records->column_count++] = name;
    }
    strbuf_close(&value);
    return good;
}

static bool json_row(json_t **row, const Records *records, const char *text, size_t size, int64_t line, Error *error) {
    json_error_t where;
    *row = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &where);
    if (!*row)
        return error_set(error, "%s:%lld: not valid JSON: %s", records->path, (long long)line + where.line - 1,
                         where.text);
    return json_is_object(*row) || error_set(error, "%s:%lld: expected an object", records->path, (long long)line);
}

// Written in place, so that the map shows what the index does not know. A file that was replaced or removed is still there.
static bool changed(const Records *records) {
    FileStamp now;
    Error gone;
    if (!file_stamp(&now, records->path, &gone)) return false;
    const FileStamp *then = &records->stamp;
    bool same_file = now.device == then->device && now.inode == then->inode;
    return same_file && (now.size != then->size || now.nanoseconds != then->nanoseconds);
}

bool records_row(json_t **row, const Records *records, int64_t index, Error *error) {
    CHECK(index >= 0 && index < records->count, "row %lld of %lld", (long long)index, (long long)records->count);
    const RecordPlace *place = &records->places[index];
    const char *text = (const char *)records->map.data + place->begin;
    *row = NULL;
    if (changed(records)) return error_set(error, "%s: was written to while this run reads it", records->path);
    bool good = check_text(text, place->size, records->path, place->line, error);
    if (good && (records->format == RECORDS_JSONL || records->format == RECORDS_JSON)) {
        good = json_row(row, records, text, place->size, place->line, error);
    } else if (good) {
        *row = json_object();
        good = records->format == RECORDS_CSV
                   ? csv_row(*row, records, text, text + place->size, place->line, error)
                   : put_text(*row, "text", text, place->size) ||
                         error_set(error, "%s:%lld: not UTF-8", records->path, (long long)place->line);
    }
    if (good) return true;
    json_decref(*row);
    *row = NULL;
    return false;
}

int64_t records_line(const Records *records, int64_t index) {
    return records->places[index].line;
}

static bool index_records(Records *records, Arena *arena, Error *error) {
    const char *begin, *end;
    *error = (Error){{0}};
    // Twice: how many there are, then where.
    for (int pass = 0; pass < 2; pass++) {
        Scan scan = scan_begin(records, error);
        if (pass) records->places = arena_array(arena, RecordPlace, records->count);
        if (records->format == RECORDS_CSV && next(&scan, &begin, &end) && !pass &&
            !read_columns(records, begin, end, arena, error))
            return false;
        for (records->count = 0; !*error->text && next(&scan, &begin, &end); records->count++) {
            if (records->count == RECORDS_MOST)
                return error_set(error, "%s: more than %d rows", records->path, RECORDS_MOST);
            if (pass)
                records->places[records->count] = (RecordPlace){.begin = (uint64_t)(begin - scan.start),
                                                                .size = (uint32_t)(end - begin),
                                                                .line = (uint32_t)line_of(&scan, begin)};
        }
        if (*error->text) return false;
        if (!records->count) return error_set(error, "%s: no row", records->path);
    }
    return true;
}

bool records_open(Records *records, const char *path, Arena *arena, Error *error) {
    *records = (Records){.path = arena_string(arena, path)};
    if (!records_format(&records->format, path)) return refuse_format(path, error);
    if (!file_stamp(&records->stamp, path, error) || !file_map(&records->map, path, error)) return false;
    if (!records->map.size) return error_set(error, "%s: empty", path);
    if (records->format == RECORDS_JSON) {
        Scan scan = scan_begin(records, error);
        skip_blanks(&scan);
        if (scan.at == scan.end || *scan.at != '[') records->format = RECORDS_JSONL;
    }
    return index_records(records, arena, error);
}

void records_close(Records *records) {
    file_unmap(&records->map);
    *records = (Records){0};
}
