// The command line: one table of verbs and options, from which the parser, `whet help VERB` and the completion of shells work.
#pragma once
#include "base/arena.h"
#include "base/error.h"

enum { COMMAND_MAX_OPTIONS = 48 };

// A row of a verb's table: an option, or a heading over the options that follow, which has a name only.
typedef struct CommandOption {
    const char *name; // "--temperature"; of a heading: "how tokens are drawn"
    const char
        *value; // what help shows for it; NULL: a switch. FILE, FOLDER and MODEL are completed by shells, and so are
                // alternatives ("jsonl|text"); what ends in … may be given several times
    const char *help; // one sentence, with the default
} CommandOption;

struct Arguments;

typedef struct Command {
    const char *verb, *operands, *summary; // operands: one word for each, [in brackets] or with … as usual
    int min_operands, max_operands;        // max -1: any number
    const char *details;                   // paragraphs for `whet help VERB`, parted by an empty line
    const char *examples;                  // whole command lines; what follows "  # " explains
    CommandOption options[COMMAND_MAX_OPTIONS];
    bool (*run)(struct Arguments *arguments, Error *error);
} Command;

typedef struct CommandGiven {
    int option; // index of command->options
    const char *value;
} CommandGiven;

// What was given to a verb. Strings belong to argv.
typedef struct Arguments {
    const Command *command;
    int operand_count, given_count;
    char **operands;
    CommandGiven *given; // options in the order of the command line; the value of a switch is ""
    bool misused;        // what was refused is the command line itself: exit status 2
} Arguments;

int command_option_count(const Command *command); // headings included
bool command_is_heading(const CommandOption *option);
bool command_repeats(const CommandOption *option);

// Options may stand anywhere and be written `--name value` or `--name=value`; `--` ends them. Unknown ones are refused with
// the nearest. The arrays are the arena's.
bool command_parse(Arguments *arguments, const Command *command, int count, char **words, Arena *arena, Error *error);

// For a verb that refuses what stands on its command line: `return command_misuse(arguments) || error_set(…)`.
bool command_misuse(Arguments *arguments);

// The value given last, or NULL when the option was not given. The name must be in the table.
const char *command_text(const Arguments *arguments, const char *name);
bool command_switch(const Arguments *arguments, const char *name);
// The number-th value (from 0) of an option that may be given several times, or NULL.
const char *command_repeated(const Arguments *arguments, const char *name, int number);
// These leave *value as it is when the option was not given, and refuse, as misuse, what is no number or lies outside the
// limits, what is none of the alternatives that the table names (*value is its index), and what is no size (bytes, or with
// K, M, G or T for powers of 1024, also as KiB or KB).
bool command_integer(Arguments *arguments, const char *name, int64_t *value, int64_t low, int64_t high, Error *error);
bool command_real(Arguments *arguments, const char *name, double *value, double low, double high, Error *error);
bool command_choice(Arguments *arguments, const char *name, int *value, Error *error);
bool command_size(Arguments *arguments, const char *name, int64_t *value, Error *error);
