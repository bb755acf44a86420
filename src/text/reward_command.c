#include "text/reward_command.h"

#include "base/child.h"
#include "base/file.h"
#include "base/jsonio.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct RewardCommand {
    Arena home; // of this struct
    Child child;
    const RewardOptions *options;
    const char *log_path;
    int64_t log_begin; // bytes that were there before
    int64_t asked;     // requests so far: the next id
    bool answered;     // and with these components:
    int component_count;
    const char *names[REWARD_MAX_COMPONENTS];
};

// ---- its last words

// Appends the last lines of what the program wrote to its standard error.
static void cite_log(const RewardCommand *command, Error *error) {
    FileMap map;
    Error unreadable;
    if (!file_map(&map, command->log_path, &unreadable)) return;
    const char *text = (const char *)map.data, *begin;
    size_t size = map.size, first = (size_t)command->log_begin;
    while (size > first && strchr(" \r\n", text[size - 1])) size--;
    if (size > first) {
        int lines = 0;
        for (begin = text + size; begin > text + first && size - (size_t)(begin - text) < 300; begin--)
            if (begin[-1] == '\n' && ++lines == 3) break;
        size_t length = strlen(error->text);
        snprintf(error->text + length, sizeof error->text - length, "; its last words (%s): %.*s", command->log_path,
                 (int)(text + size - begin), begin);
        // One line for the user.
        for (char *at = error->text + length; *at; at++)
            if ((unsigned char)*at < ' ' || *at == 0x7F) *at = '|';
    }
    file_unmap(&map);
}

static bool fail(RewardCommand *command, Error *error) {
    child_stop(&command->child);
    error_prefix(error, "env.%s.command: ", command->options->name);
    cite_log(command, error);
    return false;
}

// ---- answers

typedef struct Reading {
    RewardCommand *command;
    RewardScores *scores;
    int64_t first, count; // ids of the batch
    bool *seen;
    Arena *arena;
    Error *error;
} Reading;

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool read_number(float *number, const json_t *value, const char *name, Error *error) {
    if (json_is_null(value)) {
        *number = NAN;
        return true;
    }
    if (!json_is_number(value)) return error_set(error, "\"%.60s\" is no number", name);
    *number = (float)json_number_value(value);
    return isfinite(*number) || error_set(error, "\"%.60s\" is %g", name, json_number_value(value));
}

// The first answer of the run decides which components there are.
static bool set_components(Reading *r, const json_t *rewards) {
    RewardCommand *command = r->command;
    const char *name;
    json_t *value;
    if (json_object_size(rewards) > REWARD_MAX_COMPONENTS)
        return error_set(r->error, "%zu rewards; expected at most %d", json_object_size(rewards),
                         REWARD_MAX_COMPONENTS);
    json_object_foreach((json_t *)rewards, name, value) command->names[command->component_count++] =
        arena_string(&command->home, name);
    qsort(command->names, (size_t)command->component_count, sizeof *command->names, by_name);
    command->answered = true;
    return true;
}

static bool read_components(Reading *r, const json_t *rewards, int64_t at) {
    RewardCommand *command = r->command;
    RewardScores *scores = r->scores;
    float sum = 0;
    if (!json_object_size(rewards)) return error_set(r->error, "\"rewards\" is no object with rewards");
    if (!command->answered && !set_components(r, rewards)) return false;
    for (int c = 0; c < command->component_count; c++) {
        const char *name = command->names[c];
        const json_t *value = json_object_get(rewards, name);
        if (!value) return error_set(r->error, "no component \"%.60s\", which there was before", name);
        if (!scores->component[c]) scores->component[c] = arena_array(r->arena, float, r->count);
        if (!read_number(&scores->component[c][at], value, name, r->error)) return false;
        sum += scores->component[c][at];
    }
    if ((size_t)command->component_count != json_object_size(rewards))
        return error_set(r->error, "%zu components; before there were %d", json_object_size(rewards),
                         command->component_count);
    scores->reward[at] = sum;
    return true;
}

static bool read_answer(Reading *r, const json_t *answer) {
    const json_t *id = json_object_get(answer, "id"), *reward = json_object_get(answer, "reward"),
                 *rewards = json_object_get(answer, "rewards");
    if (!json_is_object(answer)) return error_set(r->error, "no object");
    if (!json_is_integer(id)) return error_set(r->error, "no \"id\" that is an integer");
    int64_t at = json_integer_value(id) - r->first;
    if (json_integer_value(id) < r->first || at >= r->count)
        return error_set(r->error, "id %lld was not asked; ids of this batch are %lld to %lld",
                         (long long)json_integer_value(id), (long long)r->first, (long long)(r->first + r->count - 1));
    if (r->seen[at]) return error_set(r->error, "id %lld is there twice", (long long)json_integer_value(id));
    r->seen[at] = true;
    if (!reward && !rewards) return error_set(r->error, "neither \"reward\" nor \"rewards\"");
    if (json_is_null(reward) || (json_is_null(rewards) && !reward)) {
        r->scores->reward[at] = NAN;
        return true;
    }
    if (rewards && !json_is_null(rewards) && !read_components(r, rewards, at)) return false;
    if (!rewards && r->command->component_count) return error_set(r->error, "no \"rewards\", which there were before");
    r->command->answered = true;
    if (!reward || isnan(r->scores->reward[at])) return true;
    return read_number(&r->scores->reward[at], reward, "reward", r->error);
}

static bool read_line(Reading *r, const char *line, size_t size) {
    json_error_t where;
    json_t *answer = json_loadb(line, size, JSON_REJECT_DUPLICATES, &where);
    bool good = answer ? read_answer(r, answer) : error_set(r->error, "not valid JSON (%s)", where.text);
    json_decref(answer);
    return good ||
           error_prefix(r->error, "its answer '%.*s%s': ", (int)(size < 120 ? size : 120), line, size < 120 ? "" : "…");
}

static bool read_lines(Reading *r, const char *text, size_t size) {
    for (const char *end = text + size; text < end;) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        if (!read_line(r, text, (size_t)(newline - text))) return false;
        text = newline + 1;
    }
    return true;
}

// ---- the program

bool reward_command_open(RewardCommand **out, const RewardOptions *options, const char *log_path, Error *error) {
    Arena home = {0};
    RewardCommand *command = arena_alloc(&home, sizeof *command);
    FileStamp stamp;
    Error fresh;
    *out = NULL;
    command->options = options;
    command->log_path = arena_string(&home, log_path);
    command->log_begin = file_stamp(&stamp, log_path, &fresh) ? (int64_t)stamp.size : 0;
    bool good = child_start(&command->child, options->command, log_path, error);
    command->home = home;
    if (good) *out = command;
    if (!good) arena_close(&home);
    return good || error_prefix(error, "env.%s.command: ", options->name);
}

void reward_command_close(RewardCommand *command) {
    if (!command) return;
    child_stop(&command->child);
    Arena home = command->home;
    arena_close(&home);
}

bool reward_command_score(RewardCommand *command, RewardScores *scores, json_t *const *requests, int64_t count,
                          Arena *arena, Error *error) {
    StrBuf input = {0}, output = {0};
    Reading reading = {.command = command,
                       .scores = scores,
                       .first = command->asked,
                       .count = count,
                       .seen = arena_array(arena, bool, count),
                       .arena = arena,
                       .error = error};
    *scores = (RewardScores){.reward = arena_array(arena, float, count)};
    for (int64_t i = 0; i < count; i++) {
        json_object_set_new(requests[i], "id", json_integer(command->asked++));
        jsonio_line(&input, requests[i]);
    }
    // As many lines as requests: with none twice, each has one.
    bool good = !count || (child_exchange(&command->child, &output, input.text, input.length, count,
                                          command->options->timeout_seconds, error) &&
                           read_lines(&reading, output.text, output.length));
    strbuf_close(&input);
    strbuf_close(&output);
    if (!good) return fail(command, error);
    scores->component_count = command->component_count;
    for (int c = 0; c < command->component_count; c++) {
        scores->names[c] = command->names[c];
        // No answer of this batch could be scored.
        if (!scores->component[c]) scores->component[c] = arena_array(arena, float, count);
    }
    return true;
}
