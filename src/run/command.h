// The command line: one table of verbs and options, from which the parser and `whet help VERB` both work.
#pragma once
#include "base/arena.h"
#include "base/error.h"

enum { COMMAND_MAX_OPTIONS = 20 };

typedef struct CommandOption {
    const char *name;  // "--temperature"
    const char *value; // "T", or NULL for a switch
    const char *help;  // one sentence, with the default
} CommandOption;

struct Arguments;

typedef struct Command {
    const char *verb, *operands, *summary;
    int min_operands, max_operands; // max -1: any number
    const char *details;            // paragraphs for `whet help VERB`
    CommandOption options[COMMAND_MAX_OPTIONS];
    bool (*run)(struct Arguments *arguments, Error *error);
} Command;

// What was given to a verb. Strings belong to argv.
typedef struct Arguments {
    const Command *command;
    int operand_count;
    char **operands;
    const char *values[COMMAND_MAX_OPTIONS]; // by index of command->options; a switch that is on has ""
    bool misused;                            // what was refused is the command line itself: exit status 2
} Arguments;

// Options may stand anywhere and be written `--name value` or `--name=value`; `--` ends them. Unknown ones are refused with
// the nearest. operands is an array of the arena.
bool command_parse(Arguments *arguments, const Command *command, int count, char **words, Arena *arena, Error *error);

// For a verb that refuses what stands on its command line: `return command_misuse(arguments) || error_set(…)`.
bool command_misuse(Arguments *arguments);

// NULL when the option was not given. The name must be in the table.
const char *command_text(const Arguments *arguments, const char *name);
bool command_switch(const Arguments *arguments, const char *name);
// Leave *value as it is when the option was not given. Refuse, as misuse, what is no number or lies outside the limits.
bool command_integer(Arguments *arguments, const char *name, int64_t *value, int64_t low, int64_t high, Error *error);
bool command_real(Arguments *arguments, const char *name, double *value, double low, double high, Error *error);

void command_help(const Command *command); // of one verb, on stdout
