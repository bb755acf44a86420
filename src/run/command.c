#include "run/command.h"

#include "base/strbuf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int command_option_count(const Command *command) {
    int count = 0;
    while (count < COMMAND_MAX_OPTIONS && command->options[count].name) count++;
    return count;
}

bool command_is_heading(const CommandOption *option) {
    return option->name[0] != '-';
}

bool command_repeats(const CommandOption *option) {
    static const char mark[] = "…";
    size_t length = option->value ? strlen(option->value) : 0;
    return length >= strlen(mark) && !strcmp(option->value + length - strlen(mark), mark);
}

static int option_find(const Command *command, const char *name, size_t length) {
    int count = command_option_count(command);
    for (int i = 0; i < count; i++) {
        const char *known = command->options[i].name;
        if (!command_is_heading(&command->options[i]) && strlen(known) == length && !strncmp(known, name, length))
            return i;
    }
    return -1;
}

static bool refuse_option(const Command *command, const char *word, size_t length, Error *error) {
    const char *names[COMMAND_MAX_OPTIONS];
    int count = 0;
    for (int i = 0; i < command_option_count(command); i++)
        if (!command_is_heading(&command->options[i])) names[count++] = command->options[i].name;
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
    *arguments = (Arguments){.command = command,
                             .misused = true,
                             .operands = arena_array(arena, char *, count + 1),
                             .given = arena_array(arena, CommandGiven, count + 1)};
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
        CommandGiven *given = &arguments->given[arguments->given_count++];
        *given = (CommandGiven){index, ""};
        if (!option->value) {
            if (equals) return error_set(error, "%s takes no value", option->name);
        } else if (equals) {
            given->value = equals + 1;
        } else if (i + 1 < count) {
            given->value = words[++i];
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

static int option_index(const Arguments *arguments, const char *name) {
    int index = option_find(arguments->command, name, strlen(name));
    CHECK(index >= 0, "%s is not in the table of %s", name, arguments->command->verb);
    return index;
}

const char *command_text(const Arguments *arguments, const char *name) {
    int index = option_index(arguments, name);
    for (int i = arguments->given_count - 1; i >= 0; i--)
        if (arguments->given[i].option == index) return arguments->given[i].value;
    return NULL;
}

bool command_switch(const Arguments *arguments, const char *name) {
    return command_text(arguments, name) != NULL;
}

const char *command_repeated(const Arguments *arguments, const char *name, int number) {
    int index = option_index(arguments, name);
    CHECK(command_repeats(&arguments->command->options[index]), "%s may be given once", name);
    for (int i = 0; i < arguments->given_count; i++)
        if (arguments->given[i].option == index && !number--) return arguments->given[i].value;
    return NULL;
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

bool command_choice(Arguments *arguments, const char *name, int *value, Error *error) {
    const char *text = command_text(arguments, name);
    if (!text) return true;
    const char *allowed = arguments->command->options[option_index(arguments, name)].value;
    size_t length = strlen(text);
    int index = 0;
    for (const char *at = allowed; at; at = strchr(at, '|'), index++) {
        if (*at == '|') at++;
        if (strcspn(at, "|") != length || strncmp(at, text, length)) continue;
        *value = index;
        return true;
    }
    return command_misuse(arguments) || error_set(error, "%s is '%s'; expected %s", name, text, allowed);
}

bool command_size(Arguments *arguments, const char *name, int64_t *value, Error *error) {
    static const char units[] = "KMGT";
    const char *text = command_text(arguments, name);
    if (!text) return true;
    char *end;
    errno = 0;
    double number = strtod(text, &end);
    bool good = end != text && !errno && number > 0;
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) {
        for (const char *power = units; power <= unit; power++) number *= 1024;
        end++;
        if (*end == 'i' && end[1] == 'B') end++;
    }
    if (*end == 'B') end++;
    if (!good || *end || !(number >= 1 && number < 0x1p62))
        return command_misuse(arguments) || error_set(error, "%s is '%s'; expected a size like 800M or 2G", name, text);
    *value = (int64_t)number;
    return true;
}
