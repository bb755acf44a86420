// A recipe as a tree: scalars, lists and maps, each with the place where it was written. Nodes and texts live in the arena
// they were made in; a node belongs to one parent.
#pragma once
#include "base/arena.h"
#include "base/error.h"

typedef enum ValueKind {
    VALUE_NULL,
    VALUE_BOOL,
    VALUE_INTEGER,
    VALUE_REAL,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_MAP
} ValueKind;

typedef struct Origin {
    const char *place; // a file, "override grpo.seed=7", "built-in default"
    int line;          // 1 and up in files, else 0
} Origin;

typedef enum ValueState { VALUE_RAW, VALUE_RESOLVING, VALUE_RESOLVED } ValueState; // of config/interpolate.h

typedef struct Value Value;
struct Value {
    ValueKind kind;
    ValueState state;
    Origin origin;
    const char *text;    // scalars: as written, without quotes and escapes
    bool boolean;        // VALUE_BOOL
    int64_t integer;     // VALUE_INTEGER
    double real;         // VALUE_INTEGER (nearest) and VALUE_REAL
    const char *formula; // the text that an interpolation stood in, or NULL
    const char *key;     // in a map
    Value *parent, *first, *last, *next;
};

enum {
    VALUE_MAX_DEPTH = 32,      // of lists and maps in each other
    VALUE_MAX_KEYS = 1024,     // of one map
    VALUE_MAX_NODES = 100000,  // of one file, or made by interpolation
    VALUE_MAX_TEXT = 64 * 1024 // bytes of one scalar
};

// A scalar written without quotes: null, bool (true, yes, on …), integer, real or text, by the rules of OmegaConf's YAML
// loader: YAML 1.1, but 1e-8 is a number. Integers with a leading zero, dates and sexagesimals stay text.
Value *value_plain(Arena *arena, const char *text, Origin origin);
Value *value_text(Arena *arena, const char *text, Origin origin); // written in quotes
Value *value_integer(Arena *arena, int64_t integer, Origin origin);
Value *value_real(Arena *arena, double real, Origin origin); // text: shortest that reads back; 128.0 for whole numbers
Value *value_container(Arena *arena, ValueKind kind, Origin origin); // an empty list or map

void value_append(Value *list, Value *child);
void value_set(Arena *arena, Value *map, const char *key, Value *child); // puts or replaces, keeping the order
void value_take(Value *child);                                           // unlinks child from its parent
Value *value_get(const Value *map, const char *key);                     // NULL where there is none
bool value_is_mandatory(const Value *value);                             // ???, which someone must replace
int64_t value_count(const Value *container);

// The child that one part of a path names: a key of a map, a number (0…) into a list. NULL where there is none.
Value *value_child(const Value *container, const char *part);
// Moves the next part of a dotted path ("a.b[0].c" and "a.b.0.c" alike) into part[size]; false where it is malformed.
bool value_next_part(const char **path, char *part, size_t size);
Value *value_find(const Value *root, const char *path);

// A deep copy without parent. NULL when it would take more than *budget nodes; what it took is subtracted.
Value *value_copy(Arena *arena, const Value *value, int64_t *budget);
void value_become(Value *value,
                  Value *content); // value takes content's kind, payload and children; keeps key and place

const char *value_path(Arena *arena, const Value *value);  // "policy.scheduler.0.name"
const char *value_origin(Arena *arena, Origin origin);     // "file:line", or the place alone
const char *value_shown(Arena *arena, const Value *value); // for messages: 5, 'text', null, a list, a mapping

// "place: path: message", always false. arena holds the pieces.
bool value_fail(Error *error, Arena *arena, const Value *value, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
