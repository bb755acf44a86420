#include "run/output.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void output_json(json_t *line) {
    StrBuf text = {0};
    jsonio_line(&text, line);
    fwrite(text.text, 1, text.length, stdout);
    strbuf_close(&text);
    json_decref(line);
}

void output_text(const char *text, size_t size) {
    if (!isatty(STDOUT_FILENO)) {
        fwrite(text, 1, size, stdout);
        return;
    }
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        bool second = byte == 0xc2 && i + 1 < size && (unsigned char)text[i + 1] < 0xa0; // U+0080 to U+009F
        if (second)
            fputs("\xef\xbf\xbd", stdout);
        else if ((byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7f)
            printf("\xe2\x90%c", byte == 0x7f ? 0xa1 : 0x80 + byte); // U+2400 and what follows
        else
            putchar(byte);
        i += second;
    }
}

bool output_flush(Error *error) {
    errno = 0;
    if (!fflush(stdout) && !ferror(stdout)) return true;
    return error_set(error, "standard output: cannot write%s%s", errno ? ": " : "", errno ? strerror(errno) : "");
}

void output_progress_begin(Progress *progress, const char *label, int64_t total) {
    progress_begin(progress, label, total);
    if (isatty(STDOUT_FILENO)) progress->shown = false;
}
