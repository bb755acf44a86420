#include "run/report.h"

#include "base/file.h"
#include "base/log.h"
#include "device/ledger.h"
#include "run/compare_shape.h"
#include "run/report_page.h"
#include "run/report_run.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <time.h>

// ---- folders and names

bool report_folder(const char **folder, const char *given, Arena *arena, Error *error) {
    const char *logs = arena_format(arena, "%s/logs", given);
    if (!file_is_folder(given)) return error_set(error, "%s: no folder of a run", given);
    DIR *listing = opendir(given);
    if (!listing) return error_set(error, "%s: cannot open: %s", given, strerror(errno));
    closedir(listing);
    *folder = !file_exists(arena_format(arena, "%s/metrics.jsonl", given)) && file_is_folder(logs) ? logs : given;
    return true;
}

// The last `parts` parts of a path.
static const char *path_end(const char *path, int parts) {
    const char *at = path + strlen(path);
    while (at > path && (at[-1] != '/' || --parts)) at--;
    return at;
}

static char *trimmed(const char *path, Arena *arena) {
    char *copy = arena_string(arena, path);
    for (size_t length = strlen(copy); length > 1 && copy[length - 1] == '/';) copy[--length] = 0;
    return copy;
}

static bool distinct(const char *const *names, int count) {
    for (int i = 0; i < count; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(names[i], names[j])) return false;
    return true;
}

static const char **names_of(const ReportRun *runs, int count, Arena *arena) {
    enum { MOST_PARTS = 16 };
    const char **names = arena_array(arena, const char *, count);
    for (int parts = 1; parts == 1 || (parts < MOST_PARTS && !distinct(names, count)); parts++)
        for (int i = 0; i < count; i++)
            names[i] = runs[i].name ? runs[i].name : path_end(trimmed(runs[i].folder, arena), parts);
    return names;
}

// ---- the page

static json_t *tag_names(void) {
    json_t *names = json_array();
    for (int tag = 0; tag < MEMORY_TAG_COUNT; tag++) json_array_append_new(names, json_string(ledger_tag_name(tag)));
    return names;
}

static json_t *phase_names(void) {
    json_t *names = json_array();
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        json_array_append_new(names, json_string(ledger_phase_name(phase)));
    return names;
}

static json_t *now(void) {
    char text[32];
    time_t seconds = time(NULL);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return json_string(text);
}

static bool collect(json_t *list, StrBuf *chunks, const ReportRun *runs, int count, const ReportOptions *options,
                    Arena *arena, Error *error) {
    const char **names = names_of(runs, count, arena);
    int64_t chunk = 0;
    for (int i = 0; i < count; i++) {
        json_t *run, *notes = json_array();
        ReportSamples samples = {.chunks = chunks,
                                 .chunk = &chunk,
                                 .notes = notes,
                                 .known = options->known,
                                 .budget = ((int64_t)REPORT_PAGE_MB << 20) / count};
        bool good = report_folder(&samples.folder, runs[i].folder, arena, error);
        samples.goes_on = good && file_locked(arena_format(arena, "%s/.lock", samples.folder));
        good = good && report_run_collect(&run, &samples, names[i], options->rollout_steps, error);
        for (size_t n = 0; good && n < json_array_size(notes); n++)
            log_warn("%s: %s", runs[i].folder, json_string_value(json_array_get(notes, n)));
        json_decref(notes);
        if (!good) return false;
        json_array_append_new(list, run);
    }
    return true;
}

static bool write_page(const char *path, const json_t *data, const StrBuf *chunks, Error *error) {
    StrBuf page = {0};
    size_t size;
    const char *part = report_page_top(&size);
    strbuf_append(&page, part, size);
    strbuf_puts(&page, "<script type=\"application/json\" id=\"data\">");
    report_json_put(&page, data);
    strbuf_puts(&page, "</script>\n");
    strbuf_append(&page, chunks->text, chunks->length);
    part = report_page_bottom(&size);
    strbuf_append(&page, part, size);
    bool good = file_write(path, page.text, page.length, error);
    strbuf_close(&page);
    return good;
}

static bool read_summary(json_t **summary, const char *path, Error *error) {
    bool planned;
    if (!jsonio_read(summary, path, error)) return false;
    if (!compare_shape_check(&planned, *summary, error)) return error_prefix(error, "%s: ", path);
    return !planned || error_set(error, "%s: a plan; expected summary.json of `whet compare`", path);
}

bool report_write(const char *path, const ReportRun *runs, int count, const ReportOptions *options, Error *error) {
    Arena arena = {0};
    StrBuf chunks = {0};
    json_t *list = json_array(), *summary = NULL;
    bool good = (!options->summary || read_summary(&summary, options->summary, error)) &&
                collect(list, &chunks, runs, count, options, &arena, error);
    json_t *title = options->title ? json_string(options->title) : NULL;
    json_t *data = json_pack("{s:o, s:f, s:o, s:o, s:o, s:o, s:o}", "generated", now(), "refresh", options->refresh,
                             "title", title ? title : json_null(), "tags", tag_names(), "phases", phase_names(), "runs",
                             list, "summary", summary ? summary : json_null());
    good = good && write_page(path, data, &chunks, error);
    json_decref(data);
    strbuf_close(&chunks);
    arena_close(&arena);
    return good;
}
