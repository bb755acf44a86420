#include "run/generate_command.h"
#include "run/train_command.h"

#include "base/strbuf.h"

#include <stdio.h>
#include <string.h>

static const Command *const commands[] = {&train_command, &generate_command, &score_command, &config_command};
enum { COMMAND_COUNT = sizeof commands / sizeof *commands };

static int usage(FILE *out, int status) {
    fprintf(out, "usage: whet VERB …\n\n");
    for (int i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  whet %-9s %-26s %s\n", commands[i]->verb, commands[i]->operands, commands[i]->summary);
    fprintf(out, "  whet %-9s %-26s %s\n", "help", "[VERB]", "Says what a verb does and takes.");
    return status;
}

static const Command *find(const char *verb) {
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (!strcmp(commands[i]->verb, verb)) return commands[i];
    return NULL;
}

static int unknown(const char *verb) {
    const char *names[COMMAND_COUNT];
    for (int i = 0; i < COMMAND_COUNT; i++) names[i] = commands[i]->verb;
    const char *near = strbuf_nearest(verb, names, COMMAND_COUNT);
    if (near)
        fprintf(stderr, "whet: unknown verb '%s'; did you mean '%s'?\n", verb, near);
    else
        fprintf(stderr, "whet: unknown verb '%s'; see `whet help`\n", verb);
    return 2;
}

int main(int argc, char **argv) {
    if (argc < 2) return usage(stderr, 2);
    const char *verb = argv[1];
    bool help = !strcmp(verb, "help") || !strcmp(verb, "--help") || !strcmp(verb, "-h");
    if (help && argc == 2) return usage(stdout, 0);
    const Command *command = find(help ? argv[2] : verb);
    if (!command) return unknown(help ? argv[2] : verb);
    if (help || (argc > 2 && (!strcmp(argv[2], "--help") || !strcmp(argv[2], "-h")))) {
        command_help(command);
        return 0;
    }
    Arena arena = {0};
    Arguments arguments;
    Error error = {0};
    bool parsed = command_parse(&arguments, command, argc - 2, argv + 2, &arena, &error);
    bool good = parsed && command->run(&arguments, &error);
    arena_close(&arena);
    if (!good) fprintf(stderr, "whet: %s\n", error.text);
    fflush(stdout);
    return good ? 0 : parsed ? 1 : 2;
}
