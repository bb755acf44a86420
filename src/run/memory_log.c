#include "run/memory_log.h"

#include "base/file.h"
#include "base/jsonio.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char ending[] = "\n]\n";
enum { ENDING = sizeof ending - 1 };

json_t *memory_log_by_tag(const uint64_t bytes[MEMORY_TAG_COUNT]) {
    json_t *tags = json_object();
    for (int tag = 0; tag < MEMORY_TAG_COUNT; tag++)
        if (bytes[tag]) json_object_set_new(tags, ledger_tag_name(tag), json_integer((json_int_t)bytes[tag]));
    return tags;
}

MemorySeen memory_log_seen(const Ledger *ledger) {
    struct rusage usage;
    MemorySeen seen = {.peak = ledger->peak};
    memcpy(seen.phase_peak, ledger->phase_peak, sizeof seen.phase_peak);
    memcpy(seen.tag_peak, ledger->tag_peak, sizeof seen.tag_peak);
    getrusage(RUSAGE_SELF, &usage);
    seen.process_peak = (uint64_t)usage.ru_maxrss * 1024;
    return seen;
}

static json_t *entry_of(const MemorySeen *seen, int64_t step, int rank) {
    json_t *entry = json_object(), *phases = json_object();
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        const LedgerPeak *peak = &seen->phase_peak[phase];
        if (!peak->total) continue;
        json_t *alive = json_pack("{s:I}", "total", (json_int_t)peak->total), *tags = memory_log_by_tag(peak->by_tag);
        json_object_update(alive, tags);
        json_object_set_new(phases, ledger_phase_name(phase), alive);
        json_decref(tags);
    }
    json_object_set_new(entry, "step", json_integer(step));
    json_object_set_new(entry, "rank", json_integer(rank));
    json_object_set_new(entry, "peak_memory_allocated_mb", json_real((double)seen->peak.total / 0x1p20));
    json_object_set_new(entry, "process_peak_mb", json_real((double)seen->process_peak / 0x1p20));
    json_object_set_new(entry, "at_peak", memory_log_by_tag(seen->peak.by_tag));
    json_object_set_new(entry, "peak_by_tag", memory_log_by_tag(seen->tag_peak));
    json_object_set_new(entry, "peak_by_phase", phases);
    return entry;
}

// One write in place of the ending; *written is false where there is no array to go on with.
static bool append(bool *written, const char *path, const StrBuf *text, Error *error) {
    char tail[ENDING];
    struct stat status;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    *written = fd >= 0 && fstat(fd, &status) == 0 && status.st_size > ENDING &&
               pread(fd, tail, ENDING, status.st_size - ENDING) == ENDING && !memcmp(tail, ending, ENDING);
    bool good = !*written || pwrite(fd, text->text, text->length, status.st_size - ENDING) == (ssize_t)text->length;
    if (!good) error_set(error, "%s: cannot write: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return good;
}

bool memory_log_write(const MemorySeen *seen, int ranks, int64_t step, const char *log_dir, Error *error) {
    Arena arena = {0};
    StrBuf text = {0};
    bool written;
    const char *path = arena_format(&arena, "%s/memory.json", log_dir);
    for (int rank = 0; rank < ranks; rank++) {
        json_t *entry = entry_of(&seen[rank], step, rank);
        if (text.length) text.length--; // the comma goes before the line's end
        strbuf_puts(&text, ",\n");
        jsonio_line(&text, entry);
        json_decref(entry);
    }
    strbuf_puts(&text, "]\n");
    bool good = append(&written, path, &text, error);
    if (good && !written) {
        text.text[0] = '[';
        good = file_write(path, text.text, text.length, error);
    }
    strbuf_close(&text);
    arena_close(&arena);
    return good;
}

bool memory_log_resume(const char *log_dir, int64_t step, Error *error) {
    Arena arena = {0};
    StrBuf kept = {0};
    char *text = NULL;
    const char *path = arena_format(&arena, "%s/memory.json", log_dir), *before = "[\n";
    bool good = !file_exists(path) || file_read(&text, NULL, &arena, path, error);
    for (char *rest = text, *line; good && rest && (line = strsep(&rest, "\n"));) {
        size_t length = strlen(line);
        if (length && line[length - 1] == ',') length--;
        json_t *entry = json_loadb(line, length, 0, NULL);
        if (json_is_object(entry) && json_integer_value(json_object_get(entry, "step")) <= step) {
            strbuf_puts(&kept, before);
            strbuf_append(&kept, line, length);
            before = ",\n";
        }
        json_decref(entry);
    }
    if (kept.length) strbuf_puts(&kept, ending);
    if (good && kept.length)
        good = file_write(path, kept.text, kept.length, error);
    else if (good)
        good = file_remove_tree(path, error);
    strbuf_close(&kept);
    arena_close(&arena);
    return good;
}
