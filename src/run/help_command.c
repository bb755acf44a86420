#include "run/help_command.h"

#include "run/command_help.h"
#include "run/terminal.h"
#include "run/verbs.h"

void help_overview(FILE *out) {
    enum { INDENT = 14 };
    int count, width = terminal_width();
    const Command *const *verbs = verbs_all(&count);
    StrBuf text = {0};
    strbuf_puts(&text, "usage: whet VERB …\n\n");
    for (int i = 0; i < count; i++) {
        strbuf_format(&text, "  %-*s", INDENT - 2, verbs[i]->verb);
        command_help_wrap(&text, verbs[i]->summary, INDENT, INDENT, width);
        strbuf_putc(&text, '\n');
    }
    strbuf_putc(&text, '\n');
    command_help_wrap(&text, "`whet help VERB` says what a verb takes, `whet --version` which whet this is.\n", 0, 0,
                      width);
    strbuf_putc(&text, '\n');
    fwrite(text.text, 1, text.length, out);
    strbuf_close(&text);
}

static bool run_help(Arguments *arguments, Error *error) {
    if (!arguments->operand_count) {
        help_overview(stdout);
        return true;
    }
    const Command *command = verbs_find(arguments->operands[0]);
    if (!command) return command_misuse(arguments) || verbs_refuse(arguments->operands[0], error);
    command_help(command, terminal_width());
    return true;
}

const Command help_command = {
    .verb = "help",
    .operands = "[VERB]",
    .summary = "What a verb does and takes.",
    .max_operands = 1,
    .run = run_help,
};
