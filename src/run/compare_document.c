#include "run/compare_document.h"

#include "base/file.h"
#include "base/jsonio.h"
#include "run/compare_table.h"

#include <string.h>

static const char opening[] = "<!-- compare ", closing[] = "<!-- /compare -->", ending[] = " -->";

static int line_of(const char *text, const char *at) {
    int line = 1;
    for (; text < at; text++) line += *text == '\n';
    return line;
}

// "PATH PART" of a mark.
static bool put_part(StrBuf *out, const char *mark, const char *document, Arena *arena, bool inline_mark,
                     Error *error) {
    const char *space = strchr(mark, ' '), *slash = strrchr(document, '/');
    if (!space || space == mark) return error_set(error, "'%s' is no summary and part", mark);
    const char *path = arena_bytes(arena, mark, (size_t)(space - mark)), *part = space + strspn(space, " ");
    if (slash && *path != '/') path = arena_format(arena, "%.*s%s", (int)(slash + 1 - document), document, path);
    json_t *summary;
    if (!jsonio_read(&summary, path, error)) return false;
    if (!inline_mark) strbuf_putc(out, '\n');
    bool good =
        inline_mark ? compare_table_value(out, summary, part, error) : compare_table_part(out, summary, part, error);
    if (!good) error_prefix(error, "%s: ", path);
    json_decref(summary);
    return good;
}

// The text with every pair's content made anew.
static bool fill(StrBuf *out, const char *text, const char *document, Arena *arena, Error *error) {
    const char *at = text, *mark;
    for (; (mark = strstr(at, opening)); at = strstr(at, closing)) {
        const char *end = strstr(mark, ending), *close = end ? strstr(end, closing) : NULL;
        if (!close || (strstr(mark + 1, opening) && strstr(mark + 1, opening) < close))
            return error_set(error, "line %d: the mark is not closed by %s", line_of(text, mark), closing);
        const char *inside = end + strlen(ending);
        const char *words = arena_bytes(arena, mark + strlen(opening), (size_t)(end - mark) - strlen(opening));
        strbuf_append(out, at, (size_t)(inside - at));
        // A mark at the end of its line holds a part, one within a line a single value.
        if (!put_part(out, words, document, arena, *inside != '\n', error))
            return error_prefix(error, "line %d: ", line_of(text, mark));
        at = close;
    }
    strbuf_puts(out, at);
    return true;
}

bool compare_document_write(const char *path, Error *error) {
    Arena arena = {0};
    StrBuf out = {0};
    char *text;
    bool good = file_read(&text, NULL, &arena, path, error) &&
                (fill(&out, text, path, &arena, error) || error_prefix(error, "%s: ", path)) &&
                file_write(path, out.text, out.length, error);
    strbuf_close(&out);
    arena_close(&arena);
    return good;
}
