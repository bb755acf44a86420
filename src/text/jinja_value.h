// Values of the template interpreter: Python's, as far as templates can see them. Values are small and passed by
// value; what they point to lives in the run's memory and is never changed once built (the sandbox of chat templates
// forbids it), except for namespaces and iterators.
#pragma once
#include "text/jinja_run.h"

typedef enum JinjaKind {
    JINJA_MISSING,   // no value at all: an absent argument, a variable without a value
    JINJA_UNDEFINED, // jinja2.Undefined: prints as nothing, fails when used
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT, // 128 bits
    JINJA_BIG, // a longer integer as decimal text: printed and compared, refused in arithmetic
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_DICT,
    JINJA_RANGE,
    JINJA_VIEW,      // dict.keys(), .values(), .items()
    JINJA_ITERATOR,  // a generator: can be walked once
    JINJA_NAMESPACE, // changed by {% set ns.name = … %}
    JINJA_LOOP,      // the variable loop
    JINJA_MACRO,
    JINJA_FUNCTION, // a global such as range
    JINJA_METHOD,   // a method with its object
    JINJA_CYCLER,
    JINJA_JOINER,
} JinjaKind;

typedef struct JinjaList JinjaList;
typedef struct JinjaDict JinjaDict;
typedef struct JinjaIterator JinjaIterator;
typedef __int128 JinjaInteger;

// Names what was looked for in vain.
typedef struct JinjaUndefined {
    const char *message; // what the UndefinedError says; in the run's memory
    bool unsafe;         // it is a SecurityError instead
} JinjaUndefined;

typedef struct JinjaRange {
    JinjaInteger start, stop, step; // of under 100 bits; step is not 0
} JinjaRange;

typedef enum JinjaViewKind { JINJA_KEYS, JINJA_VALUES, JINJA_ITEMS } JinjaViewKind;

typedef struct JinjaValue {
    JinjaKind kind;
    bool safe; // a string marked by `safe` or `escape` (markupsafe.Markup); a tuple that groupby made
    union {
        bool truth;           // BOOL
        JinjaInteger integer; // INT
        double real;          // FLOAT
        struct {
            const char *text; // STRING (valid UTF-8, may hold 0 bytes), BIG
            size_t size;
        };
        const JinjaUndefined *undefined;
        JinjaList *list; // LIST, TUPLE
        JinjaDict *dict; // DICT, NAMESPACE
        const JinjaRange *range;
        struct {
            JinjaDict *viewed; // VIEW
            JinjaViewKind view;
        };
        JinjaIterator *iterator;
        struct JinjaLoop *loop;     // jinja_eval.h
        struct JinjaMacro *macro;   // jinja_eval.h
        struct JinjaMethod *method; // jinja_eval.h
        struct JinjaCycler *cycler; // jinja_eval.h
        int function;               // FUNCTION: JinjaFunction of jinja_eval.h
    };
} JinjaValue;

struct JinjaList {
    JinjaValue *items;
    size_t count, capacity;
};

typedef struct JinjaEntry {
    JinjaValue key, value;
    uint64_t hash;
} JinjaEntry;

// Keeps the order of insertion.
struct JinjaDict {
    JinjaEntry *entries;
    size_t count, capacity;
    uint32_t *index; // entry + 1 by hash, open addressing, a power of two long; NULL for few entries
    size_t index_size;
};

// Walks over any iterable value.
struct JinjaIterator {
    JinjaValue source;
    size_t at; // next item, or byte of a string
};

static inline JinjaValue jinja_value_none(void) {
    return (JinjaValue){.kind = JINJA_NONE};
}
static inline JinjaValue jinja_value_bool(bool truth) {
    return (JinjaValue){.kind = JINJA_BOOL, .truth = truth};
}
static inline JinjaValue jinja_value_int(JinjaInteger integer) {
    return (JinjaValue){.kind = JINJA_INT, .integer = integer};
}
static inline JinjaValue jinja_value_real(double real) {
    return (JinjaValue){.kind = JINJA_FLOAT, .real = real};
}
static inline JinjaValue jinja_value_text(const char *text, size_t size) { // text is not copied
    return (JinjaValue){.kind = JINJA_STRING, .text = text, .size = size};
}
JinjaValue jinja_value_string(const char *text);                                 // of a C string, not copied
JinjaValue jinja_value_copy(JinjaRun *run, const char *, size_t);                // a copy in the run's memory
JinjaValue jinja_value_list(JinjaRun *run, JinjaKind kind);                      // empty; kind LIST or TUPLE
JinjaValue jinja_value_pair(JinjaRun *run, JinjaValue first, JinjaValue second); // a tuple
JinjaValue jinja_value_dict(JinjaRun *run);
JinjaValue jinja_value_range(JinjaRun *run, JinjaInteger start, JinjaInteger stop, JinjaInteger step);
JinjaValue jinja_value_iterator(JinjaRun *run, JinjaValue source);
JinjaValue jinja_value_undefined(JinjaRun *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Fails with what the undefined value has to say.
bool jinja_value_fail(JinjaRun *run, JinjaValue undefined);

static inline bool jinja_value_is(JinjaValue value, const char *text) { // a string equal to the C string
    return value.kind == JINJA_STRING && value.size == __builtin_strlen(text) &&
           !__builtin_memcmp(value.text, text, value.size);
}

const char *jinja_value_type(JinjaValue value); // Python's class name: "str", "NoneType", …

bool jinja_value_truth(JinjaValue value);

// Python's ==. The result goes to *equal; false only on a fault (too deep, too much work).
bool jinja_value_equal(JinjaRun *run, JinjaValue a, JinjaValue b, bool *equal);

// Python's <, <=, >, >=: *order becomes -1, 0, 1, or 2 when the two have none (NaN). Fails with a TypeError that names
// the operator when the types have no order.
bool jinja_value_order(JinjaRun *run, JinjaValue a, JinjaValue b, const char *operator, int * order);

// Python's `item in container`.
bool jinja_value_contains(JinjaRun *run, JinjaValue container, JinjaValue item, bool *contains);

void jinja_value_push(JinjaRun *run, JinjaValue list, JinjaValue item);

// Whether the value may be a key. Fails when it is nested too deeply to tell.
bool jinja_value_hashable(JinjaRun *run, JinjaValue value, bool *hashable);

// Sets or replaces. Fails when the key cannot be hashed.
bool jinja_value_put(JinjaRun *run, JinjaValue dict, JinjaValue key, JinjaValue value);

// *value becomes MISSING when the key is not there. Fails when the key cannot be hashed.
bool jinja_value_get(JinjaRun *run, JinjaValue dict, JinjaValue key, JinjaValue *value);
JinjaValue jinja_value_member(JinjaValue dict, const char *name); // MISSING when not there

// Number of items. False without a fault when the type has no length.
bool jinja_value_length(JinjaValue value, size_t *length);

// Python's iter(): fails with "'int' object is not iterable". Walking an ITERATOR uses it up.
bool jinja_value_iterate(JinjaRun *run, JinjaValue value, JinjaIterator **iterator);
bool jinja_value_iterable(JinjaValue value);

// The next item, or MISSING at the end.
JinjaValue jinja_value_next(JinjaRun *run, JinjaIterator *iterator);

// Python's list(value): a new list of its items.
bool jinja_value_collect(JinjaRun *run, JinjaValue value, JinjaValue *list);

// Item i of a list, tuple or range, i < its length.
JinjaValue jinja_value_at(JinjaValue sequence, size_t i);

// Sorts the items of a list in place by keys (a list as long, which is sorted along), stable; reverse keeps the order
// of equal keys, as Python's sorted does. Fails when two keys have no order.
bool jinja_value_sort(JinjaRun *run, JinjaValue items, JinjaValue keys, bool reverse);
