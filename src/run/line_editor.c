#include "run/line_editor.h"

#include "base/arena.h"
#include "base/strbuf.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { REMEMBERED = 1000 };

struct LineEditor {
    EditLine *edit;
    History *history;
    const char *file, *prompt;
    StrBuf line;
    struct sigaction before;
    Arena arena;
};

static char *prompt_of(EditLine *edit) {
    LineEditor *editor;
    el_get(edit, EL_CLIENTDATA, &editor);
    return (char *)(uintptr_t)editor->prompt;
}

static void do_nothing(int signal) {
    (void)signal;
}

// libedit reads and shows wide characters by the locale. Where the environment asks for none that knows UTF-8, take one.
static void choose_locale(void) {
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
}

void line_editor_open(LineEditor **editor, const char *file) {
    Arena arena = {0};
    HistEvent event;
    LineEditor *e = arena_array(&arena, LineEditor, 1);
    choose_locale();
    e->file = file ? arena_string(&arena, file) : NULL;
    e->edit = el_init("whet", stdin, stdout, stderr);
    e->history = history_init();
    OBTAINED(e->edit && e->history, "a line editor");
    history(e->history, &event, H_SETSIZE, REMEMBERED);
    history(e->history, &event, H_SETUNIQUE, 1);
    if (e->file) history(e->history, &event, H_LOAD, e->file);
    el_set(e->edit, EL_CLIENTDATA, e);
    el_set(e->edit, EL_PROMPT, prompt_of);
    el_set(e->edit, EL_EDITOR, "emacs");
    el_set(e->edit, EL_SIGNAL,
           1); // the terminal is put right when a signal stops or ends the program, or changes its size
    el_set(e->edit, EL_HIST, history, e->history);
    el_source(e->edit, NULL); // the user's ~/.editrc
    struct sigaction ignore = {.sa_handler = do_nothing};
    sigemptyset(&ignore.sa_mask);
    sigaction(SIGINT, &ignore, &e->before);
    e->arena = arena;
    *editor = e;
}

void line_editor_close(LineEditor *e) {
    if (!e) return;
    HistEvent event;
    if (e->file) history(e->history, &event, H_SAVE, e->file);
    el_end(e->edit);
    history_end(e->history);
    strbuf_close(&e->line);
    sigaction(SIGINT, &e->before, NULL);
    Arena arena = e->arena; // the editor itself lies in it
    arena_close(&arena);
}

LineEvent line_editor_read(LineEditor *e, const char **line, const char *prompt) {
    int count = 0;
    e->prompt = prompt;
    el_set(e->edit, EL_PREP_TERM, 1); // before the prompt shows that keys are read one by one
    errno = 0;
    const char *text = el_gets(e->edit, &count);
    if (!text || count <= 0) {
        bool interrupted = count < 0 && errno == EINTR;
        putchar('\n');
        if (interrupted) el_reset(e->edit);
        return interrupted ? LINE_INTERRUPT : LINE_END;
    }
    strbuf_clear(&e->line);
    strbuf_append(&e->line, text, strcspn(text, "\r\n"));
    *line = e->line.text;
    return LINE_TEXT;
}

void line_editor_remember(LineEditor *e, const char *line) {
    HistEvent event;
    if (*line) history(e->history, &event, H_ENTER, line);
}
