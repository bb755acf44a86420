#include "config/value.h"

#include "base/strbuf.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static Value *make(Arena *arena, ValueKind kind, Origin origin) {
    Value *value = arena_alloc(arena, sizeof *value);
    value->kind = kind;
    value->origin = origin;
    return value;
}

static bool is_word(const char *text, const char *const *words) {
    for (; *words; words++)
        if (!strcasecmp(text, *words)) return true;
    return false;
}

// Copies digits without the underscores that YAML 1.1 allows between them.
static bool copy_digits(StrBuf *out, const char **at) {
    if (!isdigit((unsigned char)**at)) return false;
    for (; isdigit((unsigned char)**at) || **at == '_'; (*at)++)
        if (**at != '_') strbuf_putc(out, **at);
    return true;
}

static bool parse_hexadecimal(Value *value, const char *text) {
    if (text[0] != '0' || text[1] != 'x' || !isxdigit((unsigned char)text[2])) return false;
    errno = 0;
    char *end;
    long long number = strtoll(text + 2, &end, 16);
    if (*end || errno) return false;
    value->kind = VALUE_INTEGER;
    value->integer = number;
    value->real = (double)number;
    return true;
}

// [+-] digits [. digits] [e [+-] digits], with digits on at least one side of the point.
static void parse_decimal(Value *value, const char *text) {
    StrBuf clean = {0};
    const char *at = text;
    if (*at == '-' || *at == '+') strbuf_putc(&clean, *at++);
    const char *first = at;
    bool valid = copy_digits(&clean, &at), leading_zero = valid && first[0] == '0' && at - first > 1, real = false;
    if (*at == '.') {
        real = true;
        strbuf_putc(&clean, *at++);
        if (copy_digits(&clean, &at)) valid = true;
    }
    if (valid && (*at == 'e' || *at == 'E')) {
        real = true;
        strbuf_putc(&clean, *at++);
        if (*at == '-' || *at == '+') strbuf_putc(&clean, *at++);
        valid = copy_digits(&clean, &at);
    }
    if (valid && !*at && (real || !leading_zero)) {
        errno = 0;
        value->integer = real ? 0 : strtoll(clean.text, NULL, 10);
        // An integer beyond 64 bits is a number all the same.
        value->kind = real || errno ? VALUE_REAL : VALUE_INTEGER;
        value->real = strtod(clean.text, NULL);
    }
    strbuf_close(&clean);
}

Value *value_plain(Arena *arena, const char *text, Origin origin) {
    static const char *const nothing[] = {"null", "~", "", NULL}, *const yes[] = {"true", "yes", "on", NULL};
    static const char *const no[] = {"false", "no", "off", NULL}, *const nan[] = {".nan", NULL};
    static const char *const infinity[] = {".inf", "+.inf", NULL}, *const minus[] = {"-.inf", NULL};
    Value *value = value_text(arena, text, origin);
    if (is_word(text, nothing)) {
        value->kind = VALUE_NULL;
        value->text = "null";
    } else if (is_word(text, yes) || is_word(text, no)) {
        value->kind = VALUE_BOOL;
        value->boolean = is_word(text, yes);
    } else if (is_word(text, nan) || is_word(text, infinity) || is_word(text, minus)) {
        value->kind = VALUE_REAL;
        value->real = is_word(text, nan) ? (double)NAN : is_word(text, minus) ? -(double)INFINITY : (double)INFINITY;
    } else if (!parse_hexadecimal(value, text)) {
        parse_decimal(value, text);
    }
    return value;
}

Value *value_text(Arena *arena, const char *text, Origin origin) {
    Value *value = make(arena, VALUE_TEXT, origin);
    value->text = arena_string(arena, text);
    return value;
}

Value *value_integer(Arena *arena, int64_t integer, Origin origin) {
    Value *value = make(arena, VALUE_INTEGER, origin);
    value->text = arena_format(arena, "%lld", (long long)integer);
    value->integer = integer;
    value->real = (double)integer;
    return value;
}

Value *value_real(Arena *arena, double real, Origin origin) {
    Value *value = make(arena, VALUE_REAL, origin);
    value->real = real;
    if (!isfinite(real)) {
        value->text = isnan(real) ? ".nan" : real < 0 ? "-.inf" : ".inf";
        return value;
    }
    char text[40];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, real);
        if (strtod(text, NULL) == real) break;
    }
    value->text = arena_format(arena, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
    return value;
}

Value *value_container(Arena *arena, ValueKind kind, Origin origin) {
    CHECK(kind == VALUE_LIST || kind == VALUE_MAP, "kind %d", (int)kind);
    return make(arena, kind, origin);
}

void value_append(Value *list, Value *child) {
    child->parent = list;
    child->next = NULL;
    if (list->last)
        list->last->next = child;
    else
        list->first = child;
    list->last = child;
}

// The pointer that leads to child.
static Value **link_of(Value *child) {
    Value **link = &child->parent->first;
    while (*link != child) link = &(*link)->next;
    return link;
}

void value_set(Arena *arena, Value *map, const char *key, Value *child) {
    Value *old = value_get(map, key);
    child->key = arena_string(arena, key);
    if (!old) {
        value_append(map, child);
        return;
    }
    child->parent = map;
    child->next = old->next;
    *link_of(old) = child;
    if (map->last == old) map->last = child;
}

void value_take(Value *child) {
    Value *parent = child->parent, *before = NULL;
    for (Value *at = parent->first; at != child; at = at->next) before = at;
    *link_of(child) = child->next;
    if (parent->last == child) parent->last = before;
    child->parent = child->next = NULL;
}

Value *value_get(const Value *map, const char *key) {
    for (Value *at = map->first; at; at = at->next)
        if (at->key && !strcmp(at->key, key)) return at;
    return NULL;
}

bool value_is_mandatory(const Value *value) {
    return value->kind == VALUE_TEXT && !strcmp(value->text, "???");
}

int64_t value_count(const Value *container) {
    int64_t count = 0;
    for (const Value *at = container->first; at; at = at->next) count++;
    return count;
}

Value *value_child(const Value *container, const char *part) {
    if (container->kind == VALUE_MAP) return value_get(container, part);
    if (container->kind != VALUE_LIST || !isdigit((unsigned char)*part)) return NULL;
    char *end;
    errno = 0;
    unsigned long long index = strtoull(part, &end, 10);
    if (*end || errno) return NULL;
    Value *at = container->first;
    while (at && index--) at = at->next;
    return at;
}

bool value_next_part(const char **path, char *part, size_t size) {
    const char *at = *path;
    bool index = *at == '[';
    if (index) at++;
    size_t length = strcspn(at, index ? "]" : ".[");
    if (!length || length >= size || (index && at[length] != ']')) return false;
    memcpy(part, at, length);
    part[length] = 0;
    at += length + (index ? 1 : 0);
    if (*at == '.') {
        at++;
        if (!*at || *at == '[' || *at == '.') return false;
    } else if (*at && *at != '[') {
        return false;
    }
    *path = at;
    return true;
}

Value *value_find(const Value *root, const char *path) {
    char part[256];
    Value *at = (Value *)(uintptr_t)root;
    while (at && *path) at = value_next_part(&path, part, sizeof part) ? value_child(at, part) : NULL;
    return at;
}

Value *value_copy(Arena *arena, const Value *value, int64_t *budget) {
    if (--*budget < 0) return NULL;
    Value *copy = arena_alloc(arena, sizeof *copy);
    *copy = *value;
    copy->parent = copy->first = copy->last = copy->next = NULL;
    for (const Value *at = value->first; at; at = at->next) {
        Value *child = value_copy(arena, at, budget);
        if (!child) return NULL;
        value_append(copy, child);
    }
    return copy;
}

void value_become(Value *value, Value *content) {
    value->kind = content->kind;
    value->text = content->text;
    value->boolean = content->boolean;
    value->integer = content->integer;
    value->real = content->real;
    value->first = content->first;
    value->last = content->last;
    for (Value *at = value->first; at; at = at->next) at->parent = value;
}

const char *value_path(Arena *arena, const Value *value) {
    if (!value->parent) return "";
    const char *above = value_path(arena, value->parent), *name = value->key;
    if (!name) {
        long long index = 0;
        for (const Value *at = value->parent->first; at != value; at = at->next) index++;
        name = arena_format(arena, "%lld", index);
    }
    return *above ? arena_format(arena, "%s.%s", above, name) : name;
}

const char *value_origin(Arena *arena, Origin origin) {
    return origin.line ? arena_format(arena, "%s:%d", origin.place, origin.line) : origin.place;
}

const char *value_shown(Arena *arena, const Value *value) {
    if (value->kind == VALUE_LIST) return "a list";
    if (value->kind == VALUE_MAP) return "a mapping";
    if (value->kind != VALUE_TEXT) return value->text;
    enum { SHOWN = 80 };
    size_t length = strlen(value->text), kept = length < SHOWN ? length : SHOWN;
    // Never cut inside a UTF-8 character.
    while (kept < length && kept && ((unsigned char)value->text[kept] & 0xC0) == 0x80) kept--;
    char *shown = arena_format(arena, "'%.*s%s'", (int)kept, value->text, kept < length ? "…" : "");
    for (char *at = shown; *at; at++)
        if ((unsigned char)*at < ' ') *at = ' ';
    return shown;
}

bool value_fail(Error *error, Arena *arena, const Value *value, const char *format, ...) {
    char message[sizeof error->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    const char *path = value_path(arena, value);
    return error_set(error, "%s: %s%s%s", value_origin(arena, value->origin), path, *path ? ": " : "", message);
}
