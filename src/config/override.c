#include "config/override.h"

#include "base/strbuf.h"
#include "config/recipe.h"
#include "config/settings_suggest.h"
#include "config/settings_table.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct Cursor {
    Arena *arena;
    Error *error;
    Origin origin;
    const char *at;
    int depth;
} Cursor;

static bool fail(const Cursor *cursor, const char *message) {
    return error_set(cursor->error, "%s: %s", cursor->origin.place, message);
}

static void skip_blanks(Cursor *cursor) {
    while (*cursor->at == ' ' || *cursor->at == '\t' || *cursor->at == '\n') cursor->at++;
}

static bool read_quoted(Cursor *cursor, Value **out) {
    StrBuf text = {0};
    char quote = *cursor->at++;
    strbuf_clear(&text);
    while (*cursor->at && *cursor->at != quote) {
        if (*cursor->at == '\\' && cursor->at[1] == quote) cursor->at++;
        strbuf_putc(&text, *cursor->at++);
    }
    bool closed = *cursor->at == quote;
    if (closed) cursor->at++;
    *out = value_text(cursor->arena, text.text, cursor->origin);
    strbuf_close(&text);
    return closed ? true : fail(cursor, "a quote is not closed");
}

// Copies ${…} whole, braces in braces included; false where it does not end.
static bool copy_interpolation(Cursor *cursor, StrBuf *text) {
    int open = 0;
    for (; *cursor->at; cursor->at++) {
        strbuf_putc(text, *cursor->at);
        if (*cursor->at == '{') open++;
        if (*cursor->at == '}' && !--open) {
            cursor->at++;
            return true;
        }
    }
    return false;
}

// Unquoted text up to one of the stops. Escaped are the characters that mean something.
static bool read_plain(Cursor *cursor, const char *stops, StrBuf *text) {
    strbuf_clear(text);
    while (*cursor->at && !strchr(stops, *cursor->at)) {
        if (!strncmp(cursor->at, "${", 2)) {
            if (!copy_interpolation(cursor, text)) return fail(cursor, "${ is not closed");
            continue;
        }
        if (*cursor->at == '\\' && cursor->at[1] && strchr("\\()[]{}:=, ", cursor->at[1])) cursor->at++;
        strbuf_putc(text, *cursor->at++);
    }
    while (text->length && isspace((unsigned char)text->text[text->length - 1])) text->text[--text->length] = 0;
    return true;
}

static bool read_value(Cursor *cursor, const char *stops, Value **out);

static bool read_list(Cursor *cursor, Value **out) {
    *out = value_container(cursor->arena, VALUE_LIST, cursor->origin);
    cursor->at++;
    skip_blanks(cursor);
    while (*cursor->at != ']') {
        Value *child;
        if (!read_value(cursor, ",]", &child)) return false;
        value_append(*out, child);
        if (*cursor->at == ',')
            cursor->at++;
        else if (*cursor->at != ']')
            return fail(cursor, "a list is not closed by ]");
    }
    cursor->at++;
    return true;
}

static bool read_map(Cursor *cursor, Value **out) {
    *out = value_container(cursor->arena, VALUE_MAP, cursor->origin);
    cursor->at++;
    skip_blanks(cursor);
    for (int count = 0; *cursor->at != '}'; count++) {
        Value *key, *child;
        if (count == VALUE_MAX_KEYS) return fail(cursor, "a mapping of more than 1024 keys");
        if (!read_value(cursor, ":,}", &key)) return false;
        if (*cursor->at != ':' || !key->text || !*key->text) return fail(cursor, "expected {key:value,…}");
        if (value_get(*out, key->text)) return fail(cursor, "a key stands twice in a mapping");
        cursor->at++;
        if (!read_value(cursor, ",}", &child)) return false;
        value_set(cursor->arena, *out, key->text, child);
        if (*cursor->at == ',')
            cursor->at++;
        else if (*cursor->at != '}')
            return fail(cursor, "a mapping is not closed by }");
    }
    cursor->at++;
    return true;
}

// Reads one value and the blanks around it.
static bool read_value(Cursor *cursor, const char *stops, Value **out) {
    skip_blanks(cursor);
    char first = *cursor->at;
    bool fine;
    if (first == '[' || first == '{') {
        if (++cursor->depth > VALUE_MAX_DEPTH) return fail(cursor, "more than 32 lists and mappings in each other");
        fine = first == '[' ? read_list(cursor, out) : read_map(cursor, out);
        cursor->depth--;
    } else if (first == '"' || first == '\'') {
        fine = read_quoted(cursor, out);
    } else {
        StrBuf text = {0};
        fine = read_plain(cursor, stops, &text);
        *out = text.length ? value_plain(cursor->arena, text.text, cursor->origin)
                           : value_text(cursor->arena, "", cursor->origin);
        strbuf_close(&text);
    }
    if (fine) skip_blanks(cursor);
    return fine;
}

bool override_value(Value **out, Arena *arena, const char *text, Origin origin, Error *error) {
    Cursor cursor = {.arena = arena, .error = error, .origin = origin, .at = text};
    if (strlen(text) > VALUE_MAX_TEXT) return fail(&cursor, "more than 64 KiB");
    if (!read_value(&cursor, ",", out)) return false;
    if (*cursor.at == ',')
        return fail(&cursor,
                    "several values (a sweep) are not taken; a list is written [1,2], text with commas in quotes");
    if (*cursor.at) return error_set(error, "%s: '%.40s' stands behind the value", origin.place, cursor.at);
    return true;
}

typedef struct Override {
    Arena *arena;
    Error *error;
    const char *text, *place, *path; // place: "override <text>", cut where it is long
    bool add, force, take;
    Value *value; // NULL: none given
} Override;

__attribute__((format(printf, 2, 3))) static bool refuse(const Override *override, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(override->error->text, sizeof override->error->text, format, arguments);
    va_end(arguments);
    return error_prefix(override->error, "%s: ", override->place);
}

static bool parse(Override *override) {
    const char *at = override->text;
    override->take = *at == '~';
    override->force = !strncmp(at, "++", 2);
    override->add = *at == '+' && !override->force;
    at += override->force ? 2 : override->add || override->take ? 1 : 0;
    size_t length = strcspn(at, "=");
    const char *path = arena_bytes(override->arena, at, length);
    for (const char *byte = path; *byte; byte++)
        if (!isalnum((unsigned char)*byte) && !strchr("_.-[]", *byte))
            return refuse(override, "'%.100s' is no key; expected key=value, +key=value, ++key=value or ~key", path);
    char part[256];
    const char *rest = path;
    do {
        if (!value_next_part(&rest, part, sizeof part)) return refuse(override, "'%.100s' is no key", path);
    } while (*rest);
    override->path = recipe_canonical(override->arena, path);
    if (!at[length]) return override->take ? true : refuse(override, "expected key=value, found '%.100s'", path);
    Origin origin = {.place = override->place};
    return override_value(&override->value, override->arena, at + length + 1, origin, override->error);
}

// `+` may replace what no one has written: a built-in default, null, or a mapping that the value merges into.
static bool may_be_added(const Value *old) {
    return !old || old->kind == VALUE_NULL || old->kind == VALUE_MAP ||
           !strcmp(old->origin.place, SETTINGS_TABLE_DEFAULT);
}

static bool check_existence(const Override *override, const Value *old) {
    const char *path = override->path;
    if (override->add)
        return may_be_added(old) ? true : refuse(override, "%s is in the recipe already; ++ changes it", path);
    if (override->force || old || settings_table_knows(path)) return true;
    if (settings_table_open(path)) return refuse(override, "%s is not in the recipe; + adds it", path);
    refuse(override, "unknown key %s", path);
    settings_suggest(override->error, override->arena, path);
    return false;
}

// Finds the container of the path's last part, making the mappings on the way. A null on the way becomes a mapping.
static bool reach(const Override *override, Value *root, Value **container, char part[256]) {
    const char *rest = override->path;
    Origin origin = override->value->origin;
    Value *at = root;
    for (;;) {
        CHECK(value_next_part(&rest, part, 256), "path %s", override->path);
        if (at->kind != VALUE_MAP && at->kind != VALUE_LIST)
            return refuse(override, "%s is no mapping", value_path(override->arena, at));
        if (!*rest) break;
        Value *child = value_child(at, part);
        if (!child && at->kind == VALUE_LIST) return refuse(override, "the list has no element %s", part);
        if (!child || child->kind == VALUE_NULL) {
            child = value_container(override->arena, VALUE_MAP, origin);
            if (at->kind == VALUE_LIST) return refuse(override, "element %s of the list is null", part);
            value_set(override->arena, at, part, child);
        }
        at = child;
    }
    *container = at;
    return true;
}

static bool put(const Override *override, Value *root) {
    char part[256];
    Value *container = NULL;
    if (!reach(override, root, &container, part)) return false;
    Value *old = value_child(container, part), *value = override->value;
    if (old && old->kind == VALUE_MAP && value->kind == VALUE_MAP) {
        recipe_merge(override->arena, old, value);
    } else if (old) {
        value_become(old, value);
        old->origin = value->origin;
    } else if (container->kind == VALUE_MAP) {
        value_set(override->arena, container, part, value);
    } else {
        return refuse(override, "the list has no element %s", part);
    }
    return true;
}

static bool take(Override *override, Algorithm algorithm, Value *old) {
    if (!old) return check_existence(override, old);
    if (override->value && (!old->text || !override->value->text || strcmp(old->text, override->value->text)))
        return refuse(override, "%s is %s", override->path, value_shown(override->arena, old));
    Value *fallback = value_find(settings_table_defaults(override->arena, algorithm), override->path);
    Origin origin = {.place = override->place};
    if (settings_table_nullable(override->path)) fallback = value_plain(override->arena, "null", origin);
    if (fallback) {
        value_become(old, fallback);
        old->origin = fallback->origin;
    } else {
        value_take(old);
    }
    return true;
}

bool override_apply(Value *root, Arena *arena, const char *text, Error *error) {
    Override override = {.arena = arena, .error = error, .text = text};
    override.place = arena_format(arena, "override %.200s%s", text, strlen(text) > 200 ? "…" : "");
    if (!parse(&override)) return false;
    Value *old = value_find(root, override.path);
    if (override.take) return take(&override, settings_table_algorithm(root), old);
    return check_existence(&override, old) && put(&override, root);
}
