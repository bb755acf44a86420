// Lines typed on a terminal, with editing and a history that outlives the program, through libedit.
#pragma once
#include "base/error.h"

typedef struct LineEditor LineEditor;

typedef enum LineEvent { LINE_TEXT, LINE_INTERRUPT, LINE_END } LineEvent; // a line; Ctrl-C; Ctrl-D or a closed terminal

// file: keeps the history, or NULL for none; one that cannot be read or written does no harm. SIGINT (Ctrl-C) does nothing any more but
// end the reading of a line, until close.
void line_editor_open(LineEditor **editor, const char *file);
void line_editor_close(LineEditor *editor); // accepts NULL

// *line (without its end) lives until the next call.
LineEvent line_editor_read(LineEditor *editor, const char **line, const char *prompt);
void line_editor_remember(LineEditor *editor, const char *line); // for the history
