#include "config/settings_read.h"

#include "base/strbuf.h"
#include "config/override.h"

#include <jansson.h>
#include <string.h>

// What every reader below sees.
typedef struct Reading {
    const Setting *row;
    Arena *arena;
    Error *error;
} Reading;

static bool expected(const Reading *reading, const Value *value, const char *what) {
    const char *or_null = reading->row->nullable && value->parent->kind == VALUE_MAP ? ", or null" : "";
    return value_fail(reading->error, reading->arena, value, "expected %s%s, found %s", what, or_null,
                      value_shown(reading->arena, value));
}

static bool equal(const Value *a, const Value *b) {
    bool numbers =
        (a->kind == VALUE_INTEGER || a->kind == VALUE_REAL) && (b->kind == VALUE_INTEGER || b->kind == VALUE_REAL);
    if (numbers) return a->real == b->real;
    if (a->kind != b->kind) return false;
    if (a->kind == VALUE_BOOL) return a->boolean == b->boolean;
    if (a->kind == VALUE_TEXT) return !strcmp(a->text, b->text);
    return a->kind == VALUE_NULL || (!a->first && !b->first);
}

static bool is_allowed(const Reading *reading, const Value *value) {
    Value *list;
    const char *text = arena_format(reading->arena, "[%s]", reading->row->allowed);
    CHECK(override_value(&list, reading->arena, text, value->origin, reading->error), "allowed: %s", text);
    for (const Value *at = list->first; at; at = at->next)
        if (equal(at, value)) return true;
    return false;
}

static const char *range_text(const Reading *reading) {
    const Setting *row = reading->row;
    bool above = row->low == SETTING_ABOVE_ZERO;
    const char *kind = row->type == SETTING_INTEGER ? "an integer" : "a number";
    if (row->low == 0 && row->high == 0) return kind;
    return arena_format(reading->arena, "%s %s %.10g to %.10g", kind, above ? "above" : "from", above ? 0 : row->low,
                        row->high);
}

static bool in_range(const Setting *row, double number) {
    return (row->low == 0 && row->high == 0) || (number >= row->low && number <= row->high);
}

// div gives reals: a whole one is as good as an integer.
static bool as_integer(const Value *value, int64_t *integer) {
    if (value->kind == VALUE_INTEGER) {
        *integer = value->integer;
        return true;
    }
    if (value->kind != VALUE_REAL || !(fabs(value->real) <= 9007199254740992.0)) return false;
    *integer = (int64_t)value->real;
    return (double)*integer == value->real;
}

static bool read_integer(const Reading *reading, int64_t *field, const Value *value) {
    int64_t integer;
    if (!as_integer(value, &integer) || !in_range(reading->row, (double)integer))
        return expected(reading, value, range_text(reading));
    *field = integer;
    return true;
}

static bool read_real(const Reading *reading, double *field, const Value *value) {
    bool number = value->kind == VALUE_INTEGER || value->kind == VALUE_REAL;
    if (!number || !isfinite(value->real) || !in_range(reading->row, value->real))
        return expected(reading, value, range_text(reading));
    *field = value->real;
    return true;
}

static bool read_text(const Reading *reading, const char **field, const Value *value) {
    if (!value->text || value->kind == VALUE_NULL || !*value->text) return expected(reading, value, "a text");
    *field = value->text;
    return true;
}

static bool read_choice(const Reading *reading, const char **field, const Value *value) {
    if (value->kind == VALUE_TEXT && is_allowed(reading, value)) return read_text(reading, field, value);
    bool several = strchr(reading->row->allowed, ',');
    return value_fail(reading->error, reading->arena, value, "%s is not supported; %s %s%s",
                      value_shown(reading->arena, value), several ? "choose one of" : "choose", reading->row->allowed,
                      reading->row->nullable ? ", or null" : "");
}

// A list of `count` children, or an error that says so.
static bool is_list_of(const Reading *reading, const Value *value, int64_t count, const char *what) {
    return value->kind == VALUE_LIST && value_count(value) == count ? true : expected(reading, value, what);
}

static bool read_betas(const Reading *reading, double *beta1, double *beta2, const Value *value) {
    return is_list_of(reading, value, 2, "a list of two numbers") && read_real(reading, beta1, value->first) &&
           read_real(reading, beta2, value->last);
}

static bool read_range(const Reading *reading, int64_t low_high[2], const Value *value) {
    if (!is_list_of(reading, value, 2, "a list of two integers, [least, greatest]")) return false;
    for (const Value *at = value->first; at; at = at->next)
        if (!as_integer(at, &low_high[at != value->first])) return expected(reading, at, "an integer");
    enum { LIMIT = 1000000000 };
    if (low_high[0] < -LIMIT || low_high[1] > LIMIT || low_high[0] > low_high[1])
        return value_fail(reading->error, reading->arena, value,
                          "[%lld, %lld] is no range within -1000000000 to 1000000000", (long long)low_high[0],
                          (long long)low_high[1]);
    return true;
}

static json_t *json_of(const Value *value) {
    json_t *json = value->kind == VALUE_LIST ? json_array() : json_object();
    switch (value->kind) {
    case VALUE_LIST:
        for (const Value *at = value->first; at; at = at->next) json_array_append_new(json, json_of(at));
        return json;
    case VALUE_MAP:
        for (const Value *at = value->first; at; at = at->next) json_object_set_new(json, at->key, json_of(at));
        return json;
    default: break;
    }
    json_decref(json);
    if (value->kind == VALUE_BOOL) return json_boolean(value->boolean);
    if (value->kind == VALUE_INTEGER) return json_integer(value->integer);
    if (value->kind == VALUE_REAL && isfinite(value->real)) return json_real(value->real);
    return value->kind == VALUE_NULL ? json_null() : json_string(value->text);
}

static bool read_mapping(const Reading *reading, const char **field, const Value *value) {
    if (value->kind != VALUE_MAP) return expected(reading, value, "a mapping");
    json_t *json = json_of(value);
    char *text = json_dumps(json, JSON_COMPACT);
    if (text) *field = arena_string(reading->arena, text);
    free(text);
    json_decref(json);
    return text || value_fail(reading->error, reading->arena, value, "holds a text that is not UTF-8");
}

static bool read_weights(const Reading *reading, AdvantageOptions *options, const Value *value) {
    if (value->kind != VALUE_LIST || !value->first) return expected(reading, value, "a list of numbers");
    options->reward_weight_count = 0;
    for (const Value *at = value->first; at; at = at->next) {
        if (options->reward_weight_count == ADVANTAGE_MAX_COMPONENTS)
            return value_fail(reading->error, reading->arena, value, "more than %d weights", ADVANTAGE_MAX_COMPONENTS);
        if (!read_real(reading, &options->reward_weights[options->reward_weight_count++], at)) return false;
    }
    return true;
}

static bool read_operations(const Reading *reading, ArithmeticOptions *options, const Value *value) {
    if (value->kind != VALUE_LIST || !value->first) return expected(reading, value, "a list of '+', '-', '*'");
    options->operation_count = 0;
    memset(options->operations, 0, sizeof options->operations);
    for (const Value *at = value->first; at; at = at->next) {
        bool known = at->kind == VALUE_TEXT && strlen(at->text) == 1 && strchr("+-*", at->text[0]);
        if (!known) return expected(reading, at, "one of '+', '-', '*'");
        if (strchr(options->operations, at->text[0]))
            return value_fail(reading->error, reading->arena, at, "'%s' stands twice", at->text);
        options->operations[options->operation_count++] = at->text[0];
    }
    return true;
}

static bool read_stop_ids(const Reading *reading, GenerationOptions *options, const Value *value) {
    options->stop_count = 0;
    if (value->kind == VALUE_NULL) return true;
    if (value->kind != VALUE_LIST) return expected(reading, value, "a list of token numbers");
    for (const Value *at = value->first; at; at = at->next) {
        int64_t id;
        if (options->stop_count == GENERATION_MAX_STOP_IDS)
            return value_fail(reading->error, reading->arena, value, "more than %d tokens", GENERATION_MAX_STOP_IDS);
        if (!as_integer(at, &id) || id < 0 || id > INT32_MAX) return expected(reading, at, "a token number");
        options->stop_ids[options->stop_count++] = (int32_t)id;
    }
    return true;
}

static bool read_stop_strings(const Reading *reading, GenerationOptions *options, const Value *value) {
    options->stop_string_count = 0;
    if (value->kind == VALUE_NULL) return true;
    if (value->kind != VALUE_LIST) return expected(reading, value, "a list of texts");
    for (const Value *at = value->first; at; at = at->next) {
        if (options->stop_string_count == GENERATION_MAX_STOP_STRINGS)
            return value_fail(reading->error, reading->arena, value, "more than %d texts", GENERATION_MAX_STOP_STRINGS);
        if (at->kind != VALUE_TEXT || !*at->text) return expected(reading, at, "a text in quotes, not empty");
        options->stop_strings[options->stop_string_count++] = at->text;
    }
    return true;
}

static bool read_datasets(const Reading *reading, const Value *value) {
    if (value->kind == VALUE_MAP || value->kind == VALUE_LIST) return true;
    return expected(reading, value, "a mapping or a list of mappings");
}

// A list of words, or a text for the shell.
static bool read_command(const Reading *reading, const char *const **field, const Value *value) {
    const char **words = arena_array(reading->arena, const char *, value_count(value) + 4);
    int count = 0;
    if (value->kind == VALUE_TEXT && *value->text) {
        words[0] = "/bin/sh", words[1] = "-c", words[2] = value->text;
        *field = words;
        return true;
    }
    if (value->kind != VALUE_LIST || !value->first)
        return expected(reading, value, "a program and its arguments as a list of texts, or a text for the shell");
    for (const Value *at = value->first; at; at = at->next)
        if (!at->text || !read_text(reading, &words[count++], at)) return expected(reading, at, "a text");
    *field = words;
    return true;
}

// ---- policy.scheduler

typedef struct ScheduleArgument {
    const char *name;
    size_t offset; // in SchedulePart
    double fallback;
    bool required;
} ScheduleArgument;

typedef struct Scheduler {
    const char *name;
    ScheduleKind kind;
    ScheduleArgument arguments[4];
} Scheduler;

#define PART(field) offsetof(SchedulePart, field)
// torch's signatures and defaults.
static const Scheduler schedulers[] = {
    {"torch.optim.lr_scheduler.LinearLR",
     SCHEDULE_LINEAR,
     {{"start_factor", PART(start_factor), 1.0 / 3, false},
      {"end_factor", PART(end_factor), 1, false},
      {"total_iters", PART(total_iters), 5, false}}},
    {"torch.optim.lr_scheduler.ConstantLR",
     SCHEDULE_CONSTANT,
     {{"factor", PART(start_factor), 1.0 / 3, false}, {"total_iters", PART(total_iters), 5, false}}},
    {"torch.optim.lr_scheduler.CosineAnnealingLR",
     SCHEDULE_COSINE,
     {{"T_max", PART(total_iters), 0, true}, {"eta_min", PART(eta_min), 0, false}}},
};
enum { SCHEDULERS = sizeof schedulers / sizeof *schedulers };

static bool unknown_key(const Reading *reading, const Value *value, const char *const *names, size_t count) {
    const char *near = strbuf_nearest(value->key, names, count);
    return value_fail(reading->error, reading->arena, value, "unknown key%s%s%s", near ? "; did you mean " : "",
                      near ? near : "", near ? "?" : "");
}

static bool read_part_arguments(const Reading *reading, SchedulePart *part, const Scheduler *scheduler,
                                const Value *entry, const Value *kwargs) {
    const char *names[4];
    size_t count = 0;
    for (const ScheduleArgument *at = scheduler->arguments; at->name; at++) {
        names[count++] = at->name;
        double *field = (double *)((char *)part + at->offset);
        const Value *value = kwargs ? value_get(kwargs, at->name) : NULL;
        *field = at->fallback;
        if (!value && at->required)
            return value_fail(reading->error, reading->arena, entry, "%s needs kwargs.%s", scheduler->name, at->name);
        if (value && !read_real(reading, field, value)) return false;
    }
    for (const Value *at = kwargs ? kwargs->first : NULL; at; at = at->next) {
        size_t i = 0;
        while (i < count && strcmp(names[i], at->key)) i++;
        if (i == count) return unknown_key(reading, at, names, count);
    }
    return true;
}

// {name: …, kwargs: {…}}
static bool read_part(const Reading *reading, ScheduleOptions *options, const Value *entry) {
    static const char *const keys[] = {"name", "kwargs", "milestones"};
    for (const Value *at = entry->first; at; at = at->next)
        if (strcmp(at->key, keys[0]) && strcmp(at->key, keys[1])) return unknown_key(reading, at, keys, 3);
    const Value *name = value_get(entry, "name"), *kwargs = value_get(entry, "kwargs");
    if (!name) return value_fail(reading->error, reading->arena, entry, "a scheduler needs a name");
    if (kwargs && kwargs->kind != VALUE_MAP && kwargs->kind != VALUE_NULL)
        return expected(reading, kwargs, "a mapping of arguments");
    size_t which = 0;
    while (which < SCHEDULERS && (!name->text || strcmp(name->text, schedulers[which].name))) which++;
    if (which == SCHEDULERS)
        return value_fail(reading->error, reading->arena, name, "%s is not supported; choose one of %s, %s, %s",
                          value_shown(reading->arena, name), schedulers[0].name, schedulers[1].name,
                          schedulers[2].name);
    if (options->part_count == SCHEDULE_MAX_PARTS)
        return value_fail(reading->error, reading->arena, entry, "more than %d schedulers", SCHEDULE_MAX_PARTS);
    SchedulePart *part = &options->parts[options->part_count++];
    part->kind = schedulers[which].kind;
    return read_part_arguments(reading, part, &schedulers[which], entry, kwargs);
}

static bool read_milestones(const Reading *reading, ScheduleOptions *options, const Value *value, int64_t *count) {
    if (value->kind != VALUE_LIST) return expected(reading, value, "a list of steps");
    *count = 0;
    for (const Value *at = value->first; at; at = at->next) {
        if (*count == SCHEDULE_MAX_PARTS)
            return value_fail(reading->error, reading->arena, value, "more than %d milestones", SCHEDULE_MAX_PARTS);
        if (!as_integer(at, &options->milestones[(*count)++])) return expected(reading, at, "a step");
    }
    return true;
}

static bool read_schedule(const Reading *reading, ScheduleOptions *options, const Value *value) {
    *options = (ScheduleOptions){0};
    if (value->kind == VALUE_NULL) return true;
    if (value->kind == VALUE_MAP) return read_part(reading, options, value);
    if (value->kind != VALUE_LIST) return expected(reading, value, "a scheduler or a list of schedulers");
    int64_t milestones = 0;
    for (const Value *at = value->first; at; at = at->next) {
        if (at->kind != VALUE_MAP) return expected(reading, at, "a scheduler or milestones");
        const Value *steps = value_get(at, "milestones");
        if (steps ? !read_milestones(reading, options, steps, &milestones) : !read_part(reading, options, at))
            return false;
    }
    int64_t needed = options->part_count ? options->part_count - 1 : 0;
    return milestones == needed
               ? true
               : value_fail(reading->error, reading->arena, value, "%d schedulers need %lld milestones, found %lld",
                            options->part_count, (long long)needed, (long long)milestones);
}

static bool read_checkpointing(const Reading *reading, PolicyOptions *policy, const Value *value) {
    if (value->kind == VALUE_BOOL)
        policy->activation_checkpointing = value->boolean ? WALK_KEEPS_INPUTS : WALK_KEEPS_ALL;
    else if (value->kind == VALUE_TEXT && !strcmp(value->text, "selective"))
        policy->activation_checkpointing = WALK_KEEPS_ATTENTION;
    else
        return expected(reading, value, "true, false or selective");
    return true;
}

// ---- rows

static bool read_null(const Reading *reading, void *field) {
    if (!field) return true;
    switch (reading->row->type) {
    case SETTING_INTEGER: *(int64_t *)field = (int64_t)reading->row->null_value; return true;
    case SETTING_REAL: *(double *)field = reading->row->null_value; return true;
    case SETTING_TEXT:
    case SETTING_CHOICE:
    case SETTING_MAPPING: *(const char **)field = NULL; return true;
    default: return true;
    }
}

static bool read_field(const Reading *reading, Settings *settings, void *field, const Value *value) {
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *text;
    } unread; // for keys that only other keys' defaults read
    void *out = field ? field : &unread;
    switch (reading->row->type) {
    case SETTING_UNREAD: return true;
    case SETTING_GROUP: return value->kind == VALUE_MAP ? true : expected(reading, value, "a mapping");
    case SETTING_BOOL:
        if (value->kind != VALUE_BOOL) return expected(reading, value, "true or false");
        *(bool *)out = value->boolean;
        return true;
    case SETTING_CHECKPOINTING: return read_checkpointing(reading, &settings->policy, value);
    case SETTING_INTEGER: return read_integer(reading, out, value);
    case SETTING_REAL: return read_real(reading, out, value);
    case SETTING_TEXT: return read_text(reading, out, value);
    case SETTING_CHOICE: return read_choice(reading, out, value);
    case SETTING_STOP_IDS: return read_stop_ids(reading, &settings->generation, value);
    case SETTING_STOP_STRINGS: return read_stop_strings(reading, &settings->generation, value);
    case SETTING_BETAS: return read_betas(reading, &settings->optimizer.beta1, &settings->optimizer.beta2, value);
    case SETTING_SCHEDULE: return read_schedule(reading, &settings->scheduler, value);
    case SETTING_WEIGHTS: return read_weights(reading, &settings->adv_estimator, value);
    case SETTING_RANGE: return read_range(reading, field, value);
    case SETTING_MAPPING: return read_mapping(reading, out, value);
    case SETTING_OPERATIONS: return read_operations(reading, &settings->data.entry.arithmetic, value);
    case SETTING_DATASETS: return read_datasets(reading, value);
    case SETTING_COMMAND: return read_command(reading, field, value);
    }
    CHECK(false, "type %d of %s", (int)reading->row->type, reading->row->key);
}

bool settings_read(Settings *settings, const Setting *row, const Value *value, Arena *arena, Error *error) {
    Reading reading = {.row = row, .arena = arena, .error = error};
    if (row->class == SETTING_REFUSED && !is_allowed(&reading, value))
        return value_fail(error, arena, value, "%s is not supported yet; only %s is (%.*s)", value_shown(arena, value),
                          row->allowed, (int)strlen(row->help) - 1, row->help);
    bool nowhere = row->type == SETTING_UNREAD || row->type == SETTING_GROUP || row->type == SETTING_DATASETS ||
                   row->offset == SETTING_NOWHERE;
    void *field = nowhere ? NULL : (char *)settings + row->offset;
    if (value->kind == VALUE_NULL && row->nullable) return read_null(&reading, field);
    return read_field(&reading, settings, field, value);
}
