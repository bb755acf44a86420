#include "text/prompt_file.h"

#include "base/file.h"
#include "base/strbuf.h"
#include "text/utf8.h"

#include <string.h>

static int line_of(const char *text, const char *place) {
    int line = 1;
    for (; text < place; text++) line += *text == '\n';
    return line;
}

bool prompt_file_text(const char **text, const char *path, Arena *arena, Error *error) {
    char *read;
    size_t size, kept = 0;
    if (!file_read(&read, &size, arena, path, error)) return false;
    for (size_t i = 0; i < size;) {
        Utf8Step step = utf8_step(read + i, size - i);
        if (step.kind != UTF8_GOOD || !step.code)
            return error_set(error, "%s:%d: %s", path, line_of(read, read + i), step.code ? "not UTF-8" : "a 0 byte");
        i += step.size;
    }
    for (size_t i = 0; i < size; i++)
        if (read[i] != '\r' || read[i + 1] != '\n') read[kept++] = read[i];
    read[kept] = 0;
    *text = read;
    return true;
}

bool prompt_file_open(PromptFile *prompt, const char *path, Arena *arena, Error *error) {
    const char *text, *wrong = NULL, *at;
    *prompt = (PromptFile){0};
    if (!prompt_file_text(&text, path, arena, error)) return false;
    StrBuf part = {0};
    strbuf_clear(&part);
    for (at = text; *at && !wrong; at++) {
        if (*at != '{' && *at != '}') {
            strbuf_putc(&part, *at);
        } else if (at[1] == *at) {
            strbuf_putc(&part, *at++);
        } else if (!strncmp(at, "{}", 2) || !strncmp(at, "{0}", 3)) {
            if (prompt->before) wrong = "a second slot {}; braces that are meant are doubled, {{ and }}";
            prompt->before = arena_bytes(arena, part.text, part.length);
            strbuf_clear(&part);
            at = strchr(at, '}');
        } else {
            wrong = *at == '{' ? "a brace { that begins no slot {}; braces that are meant are doubled, {{ and }}"
                               : "a brace } alone; braces that are meant are doubled, {{ and }}";
        }
        if (wrong) error_set(error, "%s:%d: %s", path, line_of(text, at), wrong);
    }
    if (!wrong && !prompt->before) error_set(error, "%s: %s", path, wrong = "no slot {} for the question");
    prompt->behind = arena_bytes(arena, part.text, part.length);
    strbuf_close(&part);
    return !wrong;
}

const char *prompt_file_fill(const PromptFile *prompt, const char *question, Arena *arena) {
    return prompt->before ? arena_format(arena, "%s%s%s", prompt->before, question, prompt->behind) : question;
}
