#include "run/command_help.h"

#include <stdio.h>
#include <string.h>

enum { NAME_INDENT = 2, TEXT_INDENT = 28, NARROW_TEXT_INDENT = 6, NARROW = 56 };

// Characters of text[size].
static int columns(const char *text, size_t size) {
    int count = 0;
    for (size_t i = 0; i < size; i++) count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

static void pad(StrBuf *out, int count) {
    while (count-- > 0) strbuf_putc(out, ' ');
}

// Appends a word, in a new line where it does not fit into this one. Returns the column behind it.
static int put_word(StrBuf *out, const char *word, size_t size, int column, int indent, int width, bool begun) {
    int wide = columns(word, size);
    if (begun && column + 1 + wide > width) {
        strbuf_putc(out, '\n');
        pad(out, indent);
        column = indent;
    } else if (begun) {
        strbuf_putc(out, ' ');
        column++;
    }
    strbuf_append(out, word, size);
    return column + wide;
}

void command_help_wrap(StrBuf *out, const char *text, int column, int indent, int width) {
    bool begun = false; // something stands in this line
    for (const char *at = text; *at; at += *at == '\n') {
        const char *end = at + strcspn(at, "\n");
        bool verbatim = *at == ' ';
        if (begun && (verbatim || at == end)) {
            strbuf_puts(out, verbatim ? "\n" : "\n\n");
            pad(out, indent);
            begun = false;
            column = indent;
        }
        if (verbatim) {
            strbuf_append(out, at, (size_t)(end - at));
            begun = true;
            column = width; // nothing more fits
            at = end;
        }
        while (at < end) {
            size_t size = strcspn(at, " \n");
            if (size) column = put_word(out, at, size, column, indent, width, begun);
            begun = begun || size;
            at += size + (at[size] == ' ');
        }
    }
}

static void put_option(StrBuf *out, const CommandOption *option, int width) {
    int indent = width < NARROW ? NARROW_TEXT_INDENT : TEXT_INDENT;
    char left[120];
    snprintf(left, sizeof left, "%s%s%s", option->name, option->value ? " " : "", option->value ? option->value : "");
    int column = NAME_INDENT + columns(left, strlen(left));
    pad(out, NAME_INDENT);
    strbuf_puts(out, left);
    if (column + 2 > indent) {
        strbuf_putc(out, '\n');
        column = 0;
    }
    pad(out, indent - column);
    command_help_wrap(out, option->help, indent, indent, width);
    strbuf_putc(out, '\n');
}

static void put_options(StrBuf *out, const Command *command, int width) {
    int count = command_option_count(command);
    if (count && !command_is_heading(&command->options[0])) strbuf_puts(out, "\noptions:\n");
    for (int i = 0; i < count; i++) {
        if (command_is_heading(&command->options[i]))
            strbuf_format(out, "\n%s:\n", command->options[i].name);
        else
            put_option(out, &command->options[i], width);
    }
}

static void put_examples(StrBuf *out, const char *examples) {
    strbuf_puts(out, "\nexamples:\n");
    for (const char *at = examples; *at;) {
        size_t length = strcspn(at, "\n");
        pad(out, NAME_INDENT);
        strbuf_append(out, at, length);
        strbuf_putc(out, '\n');
        at += length + (at[length] == '\n');
    }
}

void command_help(const Command *command, int width) {
    StrBuf out = {0};
    strbuf_format(&out, "usage: whet %s %s\n\n", command->verb, command->operands);
    command_help_wrap(&out, command->summary, 0, 0, width);
    strbuf_putc(&out, '\n');
    if (command->details) {
        strbuf_putc(&out, '\n');
        command_help_wrap(&out, command->details, 0, 0, width);
        strbuf_putc(&out, '\n');
    }
    put_options(&out, command, width);
    if (command->examples) put_examples(&out, command->examples);
    fwrite(out.text, 1, out.length, stdout);
    strbuf_close(&out);
}
