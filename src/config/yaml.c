#include "config/yaml.h"

#include "base/file.h"
#include "text/utf8.h"

#include <libfyaml.h>
#include <string.h>

typedef struct Anchor Anchor;
struct Anchor {
    const char *name;
    const Value *value;
    Anchor *next;
};

typedef struct Reader {
    Arena *arena;
    Error *error;
    const char *name;
    struct fy_diag *diag;
    struct fy_parser *parser;
    Anchor *anchors; // newest first: a later anchor of the same name hides the earlier
    int64_t budget;  // nodes still allowed
} Reader;

static bool fail(const Reader *reader, int line, const char *message) {
    return error_set(reader->error, "%s:%d: %s", reader->name, line, message);
}

// libfyaml's own first complaint, on one line.
static bool fail_as_told(const Reader *reader) {
    void *iterator = NULL;
    const struct fy_diag_error *told = fy_diag_errors_iterate(reader->diag, &iterator);
    if (!told) return error_set(reader->error, "%s: not valid YAML", reader->name);
    error_set(reader->error, "%s:%d: not valid YAML: %s", reader->name, told->line, told->msg ? told->msg : "?");
    for (char *at = reader->error->text; *at; at++)
        if ((unsigned char)*at < ' ') *at = ' ';
    return false;
}

static Origin origin_of(const Reader *reader, struct fy_event *event) {
    const struct fy_mark *mark = fy_event_start_mark(event);
    return (Origin){reader->name, mark ? mark->line + 1 : 1};
}

static struct fy_token *anchor_of(const struct fy_event *event) {
    if (event->type == FYET_SCALAR) return event->scalar.anchor;
    if (event->type == FYET_SEQUENCE_START) return event->sequence_start.anchor;
    return event->type == FYET_MAPPING_START ? event->mapping_start.anchor : NULL;
}

static bool has_tag(const struct fy_event *event) {
    if (event->type == FYET_SCALAR) return event->scalar.tag;
    if (event->type == FYET_SEQUENCE_START) return event->sequence_start.tag;
    return event->type == FYET_MAPPING_START && event->mapping_start.tag;
}

static const char *token_text(const Reader *reader, struct fy_token *token, size_t *length) {
    *length = 0;
    const char *text = fy_token_get_text(token, length);
    return arena_bytes(reader->arena, text ? text : "", text ? *length : 0);
}

static bool read_scalar(Reader *reader, Value **out, struct fy_event *event, Origin origin) {
    size_t length;
    const char *text = token_text(reader, event->scalar.value, &length);
    if (strlen(text) != length) return fail(reader, origin.line, "a zero byte in a text");
    if (length > VALUE_MAX_TEXT) return fail(reader, origin.line, "a text of more than 64 KiB");
    bool plain = fy_token_scalar_style(event->scalar.value) == FYSS_PLAIN;
    *out = plain ? value_plain(reader->arena, text, origin) : value_text(reader->arena, text, origin);
    return true;
}

static bool read_alias(Reader *reader, Value **out, struct fy_event *event, Origin origin) {
    size_t length;
    const char *name = token_text(reader, event->alias.anchor, &length);
    for (const Anchor *at = reader->anchors; at; at = at->next) {
        if (strcmp(at->name, name)) continue;
        *out = value_copy(reader->arena, at->value, &reader->budget);
        return *out ? true : fail(reader, origin.line, "aliases (*) expand to more than 100000 values");
    }
    return error_set(reader->error, "%s:%d: alias *%.80s names no finished anchor before it", reader->name, origin.line,
                     name);
}

static bool read_node(Reader *reader, Value **out, struct fy_event *event, int depth);

// Reads the next event's node. *out is NULL at the end of the container.
static bool read_next(Reader *reader, Value **out, int depth) {
    *out = NULL;
    struct fy_event *event = fy_parser_parse(reader->parser);
    if (!event) return fail_as_told(reader);
    bool end = event->type == FYET_SEQUENCE_END || event->type == FYET_MAPPING_END;
    bool fine = end || read_node(reader, out, event, depth);
    fy_parser_event_free(reader->parser, event);
    return fine;
}

static bool read_list(Reader *reader, Value *list, int depth) {
    for (Value *child;;) {
        if (!read_next(reader, &child, depth)) return false;
        if (!child) return true;
        value_append(list, child);
    }
}

// `<<: *base` and `<<: [*a, *b]`: keys that the map does not have itself; an earlier base wins over a later one.
static bool merge_bases(Reader *reader, Value *map, const Value *bases) {
    if (bases->kind == VALUE_LIST) {
        for (const Value *at = bases->first; at; at = at->next)
            if (at->kind != VALUE_MAP || !merge_bases(reader, map, at))
                return fail(reader, bases->origin.line, "<< takes a mapping or a list of mappings");
        return true;
    }
    if (bases->kind != VALUE_MAP) return fail(reader, bases->origin.line, "<< takes a mapping or a list of mappings");
    for (const Value *at = bases->first; at; at = at->next) {
        if (value_get(map, at->key)) continue;
        Value *copy = value_copy(reader->arena, at, &reader->budget);
        if (!copy) return fail(reader, bases->origin.line, "merge keys (<<) expand to more than 100000 values");
        value_set(reader->arena, map, at->key, copy);
    }
    return true;
}

static bool read_map(Reader *reader, Value *map, int depth) {
    Value *bases = NULL;
    for (int count = 0;; count++) {
        Value *key, *child;
        if (!read_next(reader, &key, depth)) return false;
        if (!key) return bases ? merge_bases(reader, map, bases) : true;
        if (key->kind == VALUE_LIST || key->kind == VALUE_MAP || key->kind == VALUE_NULL || !*key->text)
            return fail(reader, key->origin.line, "a key must be a word");
        if (!read_next(reader, &child, depth)) return false;
        CHECK(child, "a key without value at line %d", key->origin.line);
        const Value *first = value_get(map, key->text);
        if (first || (bases && !strcmp(key->text, "<<")))
            return error_set(reader->error, "%s:%d: the key %.80s stands twice in this mapping (first at line %d)",
                             reader->name, key->origin.line, key->text, (first ? first : bases)->origin.line);
        if (count >= VALUE_MAX_KEYS) return fail(reader, key->origin.line, "a mapping of more than 1024 keys");
        // A key's line says more than its value's: an empty value has the line of what follows.
        child->origin = key->origin;
        if (!strcmp(key->text, "<<"))
            bases = child;
        else
            value_set(reader->arena, map, key->text, child);
    }
}

static bool read_node(Reader *reader, Value **out, struct fy_event *event, int depth) {
    Origin origin = origin_of(reader, event);
    if (depth > VALUE_MAX_DEPTH) return fail(reader, origin.line, "more than 32 lists and mappings in each other");
    if (--reader->budget < 0) return fail(reader, origin.line, "more than 100000 values");
    if (has_tag(event)) return fail(reader, origin.line, "tags (!) are not taken");
    bool fine = true;
    if (event->type == FYET_ALIAS) {
        fine = read_alias(reader, out, event, origin);
    } else if (event->type == FYET_SCALAR) {
        fine = read_scalar(reader, out, event, origin);
    } else if (event->type == FYET_SEQUENCE_START) {
        *out = value_container(reader->arena, VALUE_LIST, origin);
        fine = read_list(reader, *out, depth + 1);
    } else if (event->type == FYET_MAPPING_START) {
        *out = value_container(reader->arena, VALUE_MAP, origin);
        fine = read_map(reader, *out, depth + 1);
    } else {
        return fail(reader, origin.line, "not valid YAML: a value is missing");
    }
    struct fy_token *token = anchor_of(event);
    if (!fine || !token) return fine;
    Anchor *anchor = arena_alloc(reader->arena, sizeof *anchor);
    size_t length;
    *anchor = (Anchor){token_text(reader, token, &length), *out, reader->anchors};
    reader->anchors = anchor;
    return true;
}

// stream start, one document (or none), stream end.
static bool read_stream(Reader *reader, Value **root) {
    int documents = 0;
    for (;;) {
        struct fy_event *event = fy_parser_parse(reader->parser);
        if (!event) return fail_as_told(reader);
        enum fy_event_type type = event->type;
        bool fine = true;
        if (type == FYET_DOCUMENT_START)
            fine = ++documents == 1 ||
                   fail(reader, origin_of(reader, event).line, "a second document (---); a recipe is one document");
        else if (type != FYET_STREAM_START && type != FYET_STREAM_END && type != FYET_DOCUMENT_END)
            fine = read_node(reader, root, event, 0);
        fy_parser_event_free(reader->parser, event);
        if (!fine) return false;
        if (type == FYET_STREAM_END) return true;
    }
}

// libfyaml reads broken UTF-8 as nothing, so it never gets to see it.
static bool check_bytes(const Reader *reader, const char *text, size_t size) {
    int line = 1;
    for (size_t i = 0; i < size;) {
        unsigned char byte = (unsigned char)text[i];
        if (byte == '\n') line++;
        if ((byte < ' ' && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7F)
            return error_set(reader->error, "%s:%d: byte 0x%02x: this is no text file", reader->name, line, byte);
        Utf8Step step = utf8_step(text + i, size - i);
        if (step.kind != UTF8_GOOD)
            return error_set(reader->error, "%s:%d: byte 0x%02x: not valid UTF-8", reader->name, line, byte);
        i += step.size;
    }
    return true;
}

bool yaml_parse(Value **root, Arena *arena, const char *text, size_t size, const char *name, Error *error) {
    Reader reader = {.arena = arena, .error = error, .name = name, .budget = VALUE_MAX_NODES};
    if (size > YAML_MAX_BYTES)
        return error_set(error, "%s: %zu bytes; a recipe has at most %d", name, size, YAML_MAX_BYTES);
    if (!check_bytes(&reader, text, size)) return false;
    *root = size ? NULL : value_container(arena, VALUE_MAP, (Origin){name, 1});
    if (!size) return true;
    struct fy_diag_cfg quiet;
    fy_diag_cfg_default(&quiet);
    quiet.fp = NULL;
    quiet.output_fn = NULL;
    reader.diag = fy_diag_create(&quiet);
    CHECK(reader.diag, "libfyaml gives no diagnostics object");
    fy_diag_set_collect_errors(reader.diag, true);
    // Like PyYAML, which asks for no indentation within brackets.
    enum fy_parse_cfg_flags flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG | FYPCF_SLOPPY_FLOW_INDENTATION;
    struct fy_parse_cfg options = {.flags = flags, .diag = reader.diag};
    reader.parser = fy_parser_create(&options);
    CHECK(reader.parser, "libfyaml gives no parser");
    bool fine = !fy_parser_set_string(reader.parser, text, size) ? read_stream(&reader, root) : fail_as_told(&reader);
    fy_parser_destroy(reader.parser);
    fy_diag_destroy(reader.diag);
    if (!fine) return false;
    if (!*root || (*root)->kind == VALUE_NULL) *root = value_container(arena, VALUE_MAP, (Origin){name, 1});
    if ((*root)->kind != VALUE_MAP) return fail(&reader, (*root)->origin.line, "a recipe is a mapping (key: value)");
    return true;
}

bool yaml_read(Value **root, Arena *arena, const char *path, Error *error) {
    FileMap map;
    if (!file_map(&map, path, error)) return false;
    bool fine = yaml_parse(root, arena, (const char *)map.data, map.size, arena_string(arena, path), error);
    file_unmap(&map);
    return fine;
}
