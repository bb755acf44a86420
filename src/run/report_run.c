#include "run/report_run.h"

#include "base/int64.h"
#include "config/yaml.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *path_of(Arena *arena, const ReportSamples *s, const char *name) {
    return arena_format(arena, "%s/%s", s->folder, name);
}

// Notes that the file is missing.
static bool is_there(const ReportSamples *s, const char *name) {
    Arena arena = {0};
    bool there = file_exists(path_of(&arena, s, name));
    if (!there) report_json_note(s->notes, "%s is missing", name);
    arena_close(&arena);
    return there;
}

// ---- metrics.jsonl

static int compare_integers(const void *a, const void *b) {
    json_int_t x = *(const json_int_t *)a, y = *(const json_int_t *)b;
    return (x > y) - (x < y);
}

// The steps of the lines, ascending, each once.
static json_int_t *steps_of(size_t *count, const json_t *lines, Arena *arena) {
    size_t all = json_array_size(lines), kept = 0;
    json_int_t *steps = arena_array(arena, json_int_t, all);
    for (size_t i = 0; i < all; i++) steps[i] = json_integer_value(json_object_get(json_array_get(lines, i), "step"));
    qsort(steps, all, sizeof *steps, compare_integers);
    for (size_t i = 0; i < all; i++)
        if (!kept || steps[kept - 1] != steps[i]) steps[kept++] = steps[i];
    *count = kept;
    return steps;
}

static json_t *empty_column(size_t rows) {
    json_t *column = json_array();
    for (size_t row = 0; row < rows; row++) json_array_append_new(column, json_null());
    return column;
}

// Lines as columns; a later line of a step wins.
static json_t *columns_of(const json_t *lines) {
    Arena arena = {0};
    size_t rows;
    json_int_t *steps = steps_of(&rows, lines, &arena);
    json_t *columns = json_object(), *list = json_array();
    for (size_t row = 0; row < rows; row++) json_array_append_new(list, json_integer(steps[row]));
    for (size_t i = 0; i < json_array_size(lines); i++) {
        json_t *line = json_array_get(lines, i), *value;
        json_int_t step = json_integer_value(json_object_get(line, "step"));
        const json_int_t *at = bsearch(&step, steps, rows, sizeof *steps, compare_integers);
        const char *name;
        json_object_foreach(line, name, value) {
            if (!strcmp(name, "step") || !(json_is_number(value) || json_is_string(value))) continue;
            json_t *column = json_object_get(columns, name);
            if (!column) json_object_set_new(columns, name, column = empty_column(rows));
            json_array_set(column, (size_t)(at - steps), value);
        }
    }
    arena_close(&arena);
    return json_pack("{s:o, s:o}", "steps", list, "columns", columns);
}

static json_t *metrics(const ReportSamples *s) {
    static const char name[] = "metrics.jsonl";
    Arena arena = {0};
    Error error;
    ReportJsonLines lines;
    json_t *result = NULL;
    if (!is_there(s, name)) return NULL;
    if (report_json_lines_open(&lines, path_of(&arena, s, name), &error)) {
        json_t *all = json_array();
        for (json_t *line; (line = report_json_lines_next(&lines));) json_array_append_new(all, line);
        if (s->goes_on && lines.damaged == 1 && lines.first_damaged == lines.number) lines.damaged = 0;
        report_json_lines_close(&lines, name, s->notes);
        if (!json_array_size(all)) report_json_note(s->notes, "%s holds no step yet", name);
        result = columns_of(all);
        json_decref(all);
    } else {
        report_json_note(s->notes, "%s", error.text);
    }
    arena_close(&arena);
    return result;
}

// ---- memory.json

// The entries of a file that was cut: each stands on a line.
static json_t *memory_entries(const ReportSamples *s, const char *path) {
    Error error;
    json_t *entries;
    Arena arena = {0};
    if (jsonio_read(&entries, path, &error)) return entries;
    if (!s->goes_on) report_json_note(s->notes, "%s; the entries that are whole are shown", error.text);
    char *text = NULL;
    entries = json_array();
    if (file_read(&text, NULL, &arena, path, &error))
        for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
            size_t length = strlen(line);
            if (length && line[length - 1] == ',') length--;
            json_t *entry = json_loadb(line, length, 0, NULL);
            if (json_is_object(entry)) json_array_append(entries, entry);
            json_decref(entry);
        }
    arena_close(&arena);
    return entries;
}

static json_t *copy_of(const json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    return value ? json_incref(value) : json_null();
}

static json_t *memory(const ReportSamples *s) {
    if (!is_there(s, "memory.json")) return NULL;
    Arena arena = {0};
    json_t *entries = memory_entries(s, path_of(&arena, s, "memory.json"));
    json_t *list = json_array(), *profiles = json_array(), *seen = json_object();
    for (size_t i = 0; i < json_array_size(entries); i++) {
        const json_t *entry = json_array_get(entries, i);
        json_t *profile = json_pack("{s:o, s:o, s:o}", "at_peak", copy_of(entry, "at_peak"), "peak_by_tag",
                                    copy_of(entry, "peak_by_tag"), "peak_by_phase", copy_of(entry, "peak_by_phase"));
        json_array_append_new(list,
                              json_pack("[o, o, o, o, I]", copy_of(entry, "step"), copy_of(entry, "rank"),
                                        copy_of(entry, "peak_memory_allocated_mb"), copy_of(entry, "process_peak_mb"),
                                        (json_int_t)report_json_intern(profiles, seen, profile)));
        json_decref(profile);
    }
    json_decref(seen);
    json_decref(entries);
    arena_close(&arena);
    return json_pack("{s:o, s:o}", "list", list, "profiles", profiles);
}

// ---- the rest

static json_t *environment(const ReportSamples *s) {
    Arena arena = {0};
    Error error;
    json_t *value = NULL;
    if (is_there(s, "environment.json") && !jsonio_read(&value, path_of(&arena, s, "environment.json"), &error))
        report_json_note(s->notes, "%s", error.text);
    arena_close(&arena);
    return value;
}

static void add_leaves(json_t *keys, const Value *value, Arena *arena) {
    for (const Value *child = value->first; child; child = child->next) add_leaves(keys, child, arena);
    if (value->first || !value->parent) return;
    const char *text = value->kind == VALUE_LIST ? "[]" : value->kind == VALUE_MAP ? "{}" : value->text;
    json_object_set_new(keys, value_path(arena, value), json_string(text ? text : "null"));
}

static json_t *config(const ReportSamples *s) {
    Arena arena = {0};
    Error error;
    Value *root;
    json_t *keys = NULL;
    if (is_there(s, "config.yaml")) {
        if (yaml_read(&root, &arena, path_of(&arena, s, "config.yaml"), &error))
            add_leaves(keys = json_object(), root, &arena);
        else
            report_json_note(s->notes, "%s", error.text);
    }
    arena_close(&arena);
    return keys;
}

// How many of the steps' rollouts the page has room for, if all files take as much of it as the middle one.
static int64_t room(const ReportSamples *s, const int64_t *steps, int64_t count) {
    double files = 0, middle = 0;
    Arena arena = {0};
    for (int64_t i = 0; i < count; i++) {
        Error ignored;
        FileStamp stamp = {0};
        file_stamp(&stamp, arena_format(&arena, "%s/train_data_step%lld.jsonl", s->folder, (long long)steps[i]),
                   &ignored);
        files += (double)stamp.size;
        if (i == count / 2) middle = (double)stamp.size;
    }
    arena_close(&arena);
    if (files <= (double)s->budget) return count; // a page holds less than its files
    double page = (double)report_samples_size(s, steps[count / 2]) * files / fmax(middle, 1);
    return page <= (double)s->budget ? count : int64_larger(1, (int64_t)((double)count * (double)s->budget / page));
}

// Of count steps `most` at even distances, with the first and the last; returns how many.
static int64_t thin(int64_t *steps, int64_t count, int64_t most) {
    if (count <= most) return count;
    for (int64_t i = 0; i < most; i++) steps[i] = steps[most > 1 ? i * (count - 1) / (most - 1) : count - 1];
    return most;
}

// Steps of the metrics whose samples are missing.
static void note_missing(const ReportSamples *s, const json_t *table, const char *sign, const char *prefix,
                         const int64_t *steps, int64_t count) {
    const json_t *column = json_object_get(json_object_get(table, "columns"), sign);
    const json_t *all = json_object_get(table, "steps");
    int64_t missing = 0, first = 0;
    for (size_t row = 0; row < json_array_size(column); row++) {
        int64_t step = json_integer_value(json_array_get(all, row));
        if (json_is_null(json_array_get(column, row))) continue;
        if (count && bsearch(&step, steps, (size_t)count, sizeof *steps, compare_integers)) continue;
        if (!missing++) first = step;
    }
    if (missing == 1)
        report_json_note(s->notes, "%s%lld.jsonl is missing", prefix, (long long)first);
    else if (missing)
        report_json_note(s->notes, "%s<N>.jsonl is missing for %lld steps, the first is %lld", prefix,
                         (long long)missing, (long long)first);
}

static void set(json_t *run, const char *key, json_t *part) {
    if (part) json_object_set_new(run, key, part);
}

bool report_run_collect(json_t **run, const ReportSamples *s, const char *name, int64_t rollout_steps, Error *error) {
    Arena arena = {0};
    int64_t train_count, validation_count;
    int64_t *train = report_samples_steps(&train_count, s->folder, "train_data_step", &arena);
    int64_t *validation = report_samples_steps(&validation_count, s->folder, "val_data_step", &arena);
    bool any = train_count + validation_count > 0;
    static const char *const files[] = {"metrics.jsonl", "memory.json", "environment.json", "config.yaml"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) any |= file_exists(path_of(&arena, s, files[i]));
    if (any) {
        json_t *table = metrics(s), *label = json_string(name), *place = json_string(s->folder);
        *run = json_pack("{s:o, s:o}", "name", label ? label : json_string("run"), "folder",
                         place ? place : json_string("(a name that is not UTF-8)"));
        note_missing(s, table, "train/reward", "train_data_step", train, train_count);
        note_missing(s, table, "validation/accuracy", "val_data_step", validation, validation_count);
        set(*run, "metrics", table);
        set(*run, "memory", memory(s));
        set(*run, "environment", environment(s));
        set(*run, "config", config(s));
        int64_t shown = thin(train, train_count, rollout_steps < 0 ? room(s, train, train_count) : rollout_steps);
        if (shown < train_count)
            report_json_note(s->notes, "the page holds the rollouts of %lld of %lld steps (--rollout-steps)",
                             (long long)shown, (long long)train_count);
        if (shown) set(*run, "rollouts", report_samples_rollouts(s, train, shown));
        if (validation_count) set(*run, "validations", report_samples_validations(s, validation, validation_count));
        json_object_set(*run, "notes", s->notes);
    } else {
        error_set(error, "%s: holds nothing of a run (metrics.jsonl, memory.json, config.yaml, …)", s->folder);
    }
    arena_close(&arena);
    return any;
}
