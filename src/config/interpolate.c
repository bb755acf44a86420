#include "config/interpolate.h"

#include "base/strbuf.h"
#include "config/recipe.h"

#include <ctype.h>
#include <string.h>

// Together they bound the stack that a hostile recipe can take.
enum { MAX_NESTING = 16, MAX_CHAIN = 64 };

typedef struct Resolver {
    Arena *arena;
    Error *error;
    Value *root;
    int64_t budget; // nodes that copies may still take
    int chain;      // values being resolved for one another
} Resolver;

// One text under way: where it stands, and how far it is read.
typedef struct Cursor {
    Value *where;
    const char *at;
    int nesting;
} Cursor;

static bool resolve(Resolver *resolver, Value *value);
static bool read_text(Resolver *resolver, Cursor *cursor, const char *stops, Value **out);

#define FAIL(...) value_fail(resolver->error, resolver->arena, cursor->where, __VA_ARGS__)

// What stands in a text: Python's spelling, as NeMo-RL's users know it.
static const char *spelled(const Value *value) {
    if (value->kind == VALUE_NULL) return "None";
    if (value->kind == VALUE_BOOL) return value->boolean ? "True" : "False";
    return value->text;
}

// The container that a path with leading dots starts from: one dot is the one that holds the text.
static bool start_of_path(Resolver *resolver, Cursor *cursor, const char **path, Value **start) {
    *start = resolver->root;
    if (**path != '.') return true;
    Value *at = cursor->where;
    for (; **path == '.'; (*path)++) {
        at = at->parent;
        if (!at) return FAIL("${%s}: more dots than levels above", *path);
    }
    *start = at;
    return true;
}

static bool look_up(Resolver *resolver, Cursor *cursor, const char *written, Value **out) {
    const char *path = recipe_canonical(resolver->arena, written);
    char part[256];
    Value *at;
    if (!start_of_path(resolver, cursor, &path, &at)) return false;
    while (*path) {
        // A mapping that is itself an interpolation must be there before it can be walked.
        if (at->kind == VALUE_TEXT && !resolve(resolver, at)) return false;
        bool well_formed = value_next_part(&path, part, sizeof part);
        at = well_formed ? value_child(at, part) : NULL;
        if (!at) return FAIL("${%s}: there is no such key", written);
    }
    if (!resolve(resolver, at)) return false;
    if (value_is_mandatory(at))
        return FAIL("${%s}: mandatory, and nothing gives it a value (%s)", written,
                    value_origin(resolver->arena, at->origin));
    *out = value_copy(resolver->arena, at, &resolver->budget);
    return *out ? true : FAIL("${%s}: interpolations expand to more than %d values", written, VALUE_MAX_NODES);
}

static bool is_number(const Value *value) {
    return value->kind == VALUE_INTEGER || value->kind == VALUE_REAL;
}

static bool compute(Resolver *resolver, Cursor *cursor, const char *name, Value *const *argument, Value **out) {
    const Value *a = argument[0], *b = argument[1];
    for (int i = 0; i < 2; i++)
        if (!is_number(argument[i]))
            return FAIL("${%s:…}: expected a number, found %s", name, value_shown(resolver->arena, argument[i]));
    bool integers = a->kind == VALUE_INTEGER && b->kind == VALUE_INTEGER, overflow = false;
    int64_t integer = 0;
    double real = 0;
    if (!strcmp(name, "mul")) {
        overflow = integers && __builtin_mul_overflow(a->integer, b->integer, &integer);
        real = a->real * b->real;
    } else if (!strcmp(name, "add")) {
        overflow = integers && __builtin_add_overflow(a->integer, b->integer, &integer);
        real = a->real + b->real;
    } else if (!strcmp(name, "max")) {
        const Value *larger = b->real > a->real ? b : a;
        integers = larger->kind == VALUE_INTEGER;
        integer = larger->integer;
        real = larger->real;
    } else {
        if (b->real == 0) return FAIL("${div:%s,%s}: division by zero", a->text, b->text);
        integers = false;
        real = a->real / b->real;
    }
    if (overflow) return FAIL("${%s:%s,%s}: more than 64 bits", name, a->text, b->text);
    Origin origin = cursor->where->origin;
    *out = integers ? value_integer(resolver->arena, integer, origin) : value_real(resolver->arena, real, origin);
    return true;
}

static bool call(Resolver *resolver, Cursor *cursor, const char *name, Value *const *argument, int count, Value **out) {
    static const char *const names[] = {"mul", "add", "div", "max", "oc.env"};
    size_t which = 0;
    while (which < 5 && strcmp(name, names[which])) which++;
    if (which == 5) return FAIL("${%s:…}: there is no such resolver; there are mul, add, div, max, oc.env", name);
    if (which < 4) {
        if (count != 2) return FAIL("${%s:…}: takes two arguments, found %d", name, count);
        return compute(resolver, cursor, name, argument, out);
    }
    if (count != 1 && count != 2) return FAIL("${oc.env:…}: takes NAME or NAME,default, found %d arguments", count);
    const char *found = argument[0]->text ? getenv(argument[0]->text) : NULL;
    if (!found && count == 1)
        return FAIL("${oc.env:…}: the environment has no %s", value_shown(resolver->arena, argument[0]));
    *out = found ? value_text(resolver->arena, found, cursor->where->origin) : argument[1];
    return true;
}

static void skip_blanks(Cursor *cursor) {
    while (*cursor->at == ' ' || *cursor->at == '\t') cursor->at++;
}

// One argument of a resolver, up to ',' or '}': quoted text, one interpolation, or a plain scalar with interpolations in it.
static bool read_argument(Resolver *resolver, Cursor *cursor, Value **out) {
    skip_blanks(cursor);
    char quote = *cursor->at;
    if (quote == '"' || quote == '\'') {
        const char *first = cursor->at + 1, *end = strchr(first, quote);
        if (!end) return FAIL("${…}: a quote is not closed");
        *out = value_text(resolver->arena, arena_bytes(resolver->arena, first, (size_t)(end - first)),
                          cursor->where->origin);
        cursor->at = end + 1;
    } else if (!read_text(resolver, cursor, ",}", out)) {
        return false;
    }
    skip_blanks(cursor);
    if (*cursor->at != ',' && *cursor->at != '}') return FAIL("${…}: expected , or }, found '%.20s'", cursor->at);
    return true;
}

static bool read_call(Resolver *resolver, Cursor *cursor, const char *name, Value **out) {
    enum { MOST = 8 };
    Value *argument[MOST];
    int count = 0;
    do {
        cursor->at++; // ':' or ','
        if (count == MOST) return FAIL("${%s:…}: more than %d arguments", name, MOST);
        if (!read_argument(resolver, cursor, &argument[count++])) return false;
    } while (*cursor->at == ',');
    cursor->at++;
    return call(resolver, cursor, name, argument, count, out);
}

// Reads from behind "${" to behind its "}".
static bool read_interpolation(Resolver *resolver, Cursor *cursor, Value **out) {
    if (cursor->nesting >= MAX_NESTING) return FAIL("${…}: more than %d interpolations in each other", MAX_NESTING);
    cursor->nesting++;
    Value *name;
    skip_blanks(cursor);
    if (!read_text(resolver, cursor, ":}", &name)) return false;
    if (!name->text || !*name->text || name->kind == VALUE_NULL) return FAIL("${}: names nothing");
    bool fine;
    if (*cursor->at == ':') {
        fine = read_call(resolver, cursor, name->text, out);
    } else {
        cursor->at++;
        fine = look_up(resolver, cursor, name->text, out);
    }
    cursor->nesting--;
    return fine;
}

// Before "${", two backslashes stand for one, and an odd one takes the interpolation's meaning away.
static void read_backslashes(Cursor *cursor, StrBuf *out) {
    size_t run = strspn(cursor->at, "\\");
    bool meant = !strncmp(cursor->at + run, "${", 2);
    for (size_t i = 0; i < (meant ? run / 2 : run); i++) strbuf_putc(out, '\\');
    cursor->at += run;
    if (!meant || run % 2 == 0) return;
    strbuf_puts(out, "${");
    cursor->at += 2;
}

static bool read_pieces(Resolver *resolver, Cursor *cursor, const char *stops, StrBuf *out, Value **only) {
    int pieces = 0;
    while (*cursor->at && !strchr(stops, *cursor->at)) {
        if (*cursor->at == '\\') {
            read_backslashes(cursor, out);
            pieces += 2;
        } else if (strncmp(cursor->at, "${", 2)) {
            strbuf_putc(out, *cursor->at++);
            pieces += 2;
        } else {
            Value *piece = NULL;
            cursor->at += 2;
            if (!read_interpolation(resolver, cursor, &piece)) return false;
            *only = pieces++ ? NULL : piece;
            bool alone = *only && (!*cursor->at || strchr(stops, *cursor->at));
            if (alone) return true;
            if (!piece->text && piece->kind != VALUE_NULL)
                return FAIL("%s cannot stand inside a text", value_shown(resolver->arena, piece));
            strbuf_puts(out, spelled(piece));
        }
        *only = NULL;
        if (out->length > VALUE_MAX_TEXT) return FAIL("interpolations make a text of more than 64 KiB");
    }
    return true;
}

// Reads up to one of the stops, which must come, or to the end where there are none. *out is the one interpolation that
// the text is, or the text with all of them put in (a plain scalar where stops are given, for a number as argument).
static bool read_text(Resolver *resolver, Cursor *cursor, const char *stops, Value **out) {
    StrBuf text = {0};
    Value *only = NULL;
    strbuf_clear(&text);
    bool fine = read_pieces(resolver, cursor, stops, &text, &only);
    if (fine && *stops && !*cursor->at) fine = FAIL("${…}: a brace is not closed");
    while (*stops && text.length && isspace((unsigned char)text.text[text.length - 1])) text.text[--text.length] = 0;
    Origin origin = cursor->where->origin;
    if (fine && only)
        *out = only;
    else if (fine)
        *out =
            *stops ? value_plain(resolver->arena, text.text, origin) : value_text(resolver->arena, text.text, origin);
    strbuf_close(&text);
    return fine;
}

static bool resolve(Resolver *resolver, Value *value) {
    if (value->state == VALUE_RESOLVED) return true;
    Cursor whole = {.where = value, .at = value->text}, *cursor = &whole;
    if (value->state == VALUE_RESOLVING) return FAIL("interpolations that need each other in a circle");
    if (++resolver->chain > MAX_CHAIN) return FAIL("a chain of more than %d interpolations", MAX_CHAIN);
    value->state = VALUE_RESOLVING;
    for (Value *at = value->first; at; at = at->next)
        if (!resolve(resolver, at)) return false;
    if (value->kind == VALUE_TEXT && strstr(value->text, "${")) {
        Value *content;
        if (!read_text(resolver, cursor, "", &content)) return false;
        value->formula = value->text;
        value_become(value, content);
    }
    value->state = VALUE_RESOLVED;
    resolver->chain--;
    return true;
}

bool interpolate_resolve(Value *root, Arena *arena, Error *error) {
    Resolver resolver = {.arena = arena, .error = error, .root = root, .budget = VALUE_MAX_NODES};
    return resolve(&resolver, root);
}
