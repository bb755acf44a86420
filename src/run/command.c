#include "run/command.h"

#include "base/strbuf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int option_count(const Command *command) {
    int count = 0;
    while (count < COMMAND_MAX_OPTIONS && command->options[count].name) count++;
    return count;
}

static int option_find(const Command *command, const char *name, size_t length) {
    for (int i = 0; i < option_count(command); i++) {
        const char *known = command->options[i].name;
        if (strlen(known) == length && !strncmp(known, name, length)) return i;
    }
    return -1;
}

static bool refuse_option(const Command *command, const char *word, size_t length, Error *error) {
    const char *names[COMMAND_MAX_OPTIONS];
    int count = option_count(command);
    for (int i = 0; i < count; i++) names[i] = command->options[i].name;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    const char *near = strbuf_nearest(name, names, (size_t)count);
    if (near) return error_set(error, "unknown option %s; did you mean %s?", name, near);
    return error_set(error, "unknown option %s; see `whet help %s`", name, command->verb);
}

bool command_misuse(Arguments *arguments) {
    arguments->misused = true;
    return false;
}

bool command_parse(Arguments *arguments, const Command *command, int count, char **words, Arena *arena, Error *error) {
    *arguments = (Arguments){.command = command, .misused = true, .operands = arena_array(arena, char *, count + 1)};
    bool options_over = false;
    for (int i = 0; i < count; i++) {
        char *word = words[i];
        if (options_over || word[0] != '-' || word[1] != '-') {
            arguments->operands[arguments->operand_count++] = word;
            continue;
        }
        if (!word[2]) {
            options_over = true;
            continue;
        }
        const char *equals = strchr(word, '=');
        size_t length = equals ? (size_t)(equals - word) : strlen(word);
        int index = option_find(command, word, length);
        if (index < 0) return refuse_option(command, word, length, error);
        const CommandOption *option = &command->options[index];
        if (!option->value) {
            if (equals) return error_set(error, "%s takes no value", option->name);
            arguments->values[index] = "";
        } else if (equals) {
            arguments->values[index] = equals + 1;
        } else if (i + 1 < count) {
            arguments->values[index] = words[++i];
        } else {
            return error_set(error, "%s wants a value (%s)", option->name, option->value);
        }
    }
    bool few = arguments->operand_count < command->min_operands;
    bool many = command->max_operands >= 0 && arguments->operand_count > command->max_operands;
    if (few || many)
        return error_set(error, "%s; usage: whet %s %s", few ? "something is missing" : "too much is given",
                         command->verb, command->operands);
    arguments->misused = false;
    return true;
}

const char *command_text(const Arguments *arguments, const char *name) {
    int index = option_find(arguments->command, name, strlen(name));
    CHECK(index >= 0, "%s is not in the table of %s", name, arguments->command->verb);
    return arguments->values[index];
}

bool command_switch(const Arguments *arguments, const char *name) {
    return command_text(arguments, name) != NULL;
}

bool command_integer(Arguments *arguments, const char *name, int64_t *value, int64_t low, int64_t high, Error *error) {
    const char *text = command_text(arguments, name);
    if (!text) return true;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < low || number > high)
        return command_misuse(arguments) || error_set(error, "%s is '%s'; expected an integer from %lld to %lld", name,
                                                      text, (long long)low, (long long)high);
    *value = number;
    return true;
}

bool command_real(Arguments *arguments, const char *name, double *value, double low, double high, Error *error) {
    const char *text = command_text(arguments, name);
    if (!text) return true;
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= low && number <= high))
        return command_misuse(arguments) ||
               error_set(error, "%s is '%s'; expected a number from %g to %g", name, text, low, high);
    *value = number;
    return true;
}

void command_help(const Command *command) {
    printf("usage: whet %s %s\n\n%s\n", command->verb, command->operands, command->summary);
    if (command->details) printf("\n%s\n", command->details);
    int count = option_count(command);
    if (count) printf("\noptions:\n");
    for (int i = 0; i < count; i++) {
        const CommandOption *option = &command->options[i];
        char left[64];
        snprintf(left, sizeof left, "%s%s%s", option->name, option->value ? " " : "",
                 option->value ? option->value : "");
        printf("  %-26s %s\n", left, option->help);
    }
}
