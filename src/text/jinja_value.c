#include "text/jinja_value.h"

#include "text/jinja_eval.h"
#include "text/jinja_number.h"
#include "text/jinja_text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

enum { FEW = 8 }; // dicts up to this size are searched without an index

JinjaValue jinja_value_string(const char *text) {
    return jinja_value_text(text, strlen(text));
}

JinjaValue jinja_value_copy(JinjaRun *run, const char *text, size_t size) {
    if (!jinja_run_room(run, size)) return jinja_value_text("", 0);
    char *copy = jinja_run_alloc(run, size + 1);
    if (size) memcpy(copy, text, size);
    return jinja_value_text(copy, size);
}

JinjaValue jinja_value_list(JinjaRun *run, JinjaKind kind) {
    return (JinjaValue){.kind = kind, .list = jinja_run_new(run, JinjaList)};
}

JinjaValue jinja_value_pair(JinjaRun *run, JinjaValue first, JinjaValue second) {
    JinjaValue pair = jinja_value_list(run, JINJA_TUPLE);
    jinja_value_push(run, pair, first);
    jinja_value_push(run, pair, second);
    return pair;
}

JinjaValue jinja_value_dict(JinjaRun *run) {
    return (JinjaValue){.kind = JINJA_DICT, .dict = jinja_run_new(run, JinjaDict)};
}

JinjaValue jinja_value_range(JinjaRun *run, JinjaInteger start, JinjaInteger stop, JinjaInteger step) {
    JinjaRange *range = jinja_run_new(run, JinjaRange);
    *range = (JinjaRange){start, stop, step};
    return (JinjaValue){.kind = JINJA_RANGE, .range = range};
}

JinjaValue jinja_value_iterator(JinjaRun *run, JinjaValue source) {
    JinjaIterator *iterator = jinja_run_new(run, JinjaIterator);
    iterator->source = source;
    return (JinjaValue){.kind = JINJA_ITERATOR, .iterator = iterator};
}

JinjaValue jinja_value_undefined(JinjaRun *run, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    JinjaUndefined *undefined = jinja_run_new(run, JinjaUndefined);
    undefined->message = jinja_value_copy(run, text, strlen(text)).text;
    return (JinjaValue){.kind = JINJA_UNDEFINED, .undefined = undefined};
}

bool jinja_value_fail(JinjaRun *run, JinjaValue undefined) {
    return jinja_run_fault(run, undefined.undefined->unsafe ? "SecurityError" : "UndefinedError", "%s",
                           undefined.undefined->message);
}

const char *jinja_value_type(JinjaValue value) {
    switch (value.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED: return "Undefined";
    case JINJA_NONE: return "NoneType";
    case JINJA_BOOL: return "bool";
    case JINJA_INT:
    case JINJA_BIG: return "int";
    case JINJA_FLOAT: return "float";
    case JINJA_STRING: return value.safe ? "Markup" : "str";
    case JINJA_LIST: return "list";
    case JINJA_TUPLE: return "tuple";
    case JINJA_DICT: return "dict";
    case JINJA_RANGE: return "range";
    case JINJA_VIEW:
        return value.view == JINJA_KEYS ? "dict_keys" : value.view == JINJA_VALUES ? "dict_values" : "dict_items";
    case JINJA_ITERATOR: return "generator";
    case JINJA_NAMESPACE: return "Namespace";
    case JINJA_LOOP: return "LoopContext";
    case JINJA_MACRO: return "Macro";
    case JINJA_FUNCTION: return "function";
    case JINJA_METHOD: return "builtin_function_or_method";
    case JINJA_CYCLER: return "Cycler";
    case JINJA_JOINER: return "Joiner";
    }
    return "object";
}

static size_t range_length(const JinjaRange *range) {
    JinjaInteger distance = range->stop - range->start, step = range->step;
    if (step < 0) distance = -distance, step = -step;
    return distance <= 0 ? 0 : (size_t)((distance + step - 1) / step);
}

bool jinja_value_length(JinjaValue value, size_t *length) {
    switch (value.kind) {
    case JINJA_UNDEFINED: *length = 0; return true;
    case JINJA_STRING: *length = jinja_text_length(value); return true;
    case JINJA_LIST:
    case JINJA_TUPLE: *length = value.list->count; return true;
    case JINJA_DICT: *length = value.dict->count; return true;
    case JINJA_VIEW: *length = value.viewed->count; return true;
    case JINJA_RANGE: *length = range_length(value.range); return true;
    default: *length = 0; return false;
    }
}

bool jinja_value_truth(JinjaValue value) {
    switch (value.kind) {
    case JINJA_MISSING:
    case JINJA_UNDEFINED:
    case JINJA_NONE: return false;
    case JINJA_BOOL: return value.truth;
    case JINJA_INT: return value.integer != 0;
    case JINJA_FLOAT: return value.real != 0;
    case JINJA_STRING: return value.size != 0;
    case JINJA_LIST:
    case JINJA_TUPLE: return value.list->count != 0;
    case JINJA_DICT: return value.dict->count != 0;
    case JINJA_VIEW: return value.viewed->count != 0;
    case JINJA_RANGE: return range_length(value.range) != 0;
    default: return true;
    }
}

void jinja_value_push(JinjaRun *run, JinjaValue value, JinjaValue item) {
    JinjaList *list = value.list;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 4;
        if (!jinja_run_room(run, capacity * sizeof *list->items)) return;
        JinjaValue *grown = jinja_run_alloc(run, capacity * sizeof *grown);
        if (list->count) memcpy(grown, list->items, list->count * sizeof *grown);
        list->items = grown;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
}

static bool is_integer(JinjaValue value) {
    return value.kind == JINJA_INT || value.kind == JINJA_BOOL;
}

static JinjaInteger integer_of(JinjaValue value) {
    return value.kind == JINJA_BOOL ? (JinjaInteger)value.truth : value.integer;
}

static bool is_number(JinjaValue value) {
    return is_integer(value) || value.kind == JINJA_FLOAT || value.kind == JINJA_BIG;
}

static bool is_hashable_alone(JinjaValue value) {
    return value.kind == JINJA_VIEW ? value.view == JINJA_VALUES : value.kind != JINJA_LIST && value.kind != JINJA_DICT;
}

bool jinja_value_hashable(JinjaRun *run, JinjaValue value, bool *hashable) {
    *hashable = is_hashable_alone(value);
    if (value.kind != JINJA_TUPLE) return true;
    if (!jinja_run_step(run, value.list->count) || !jinja_run_enter(run)) return false;
    for (size_t i = 0; i < value.list->count && *hashable; i++)
        if (!jinja_value_hashable(run, value.list->items[i], hashable)) return false;
    jinja_run_leave(run);
    return true;
}

// Equal keys have equal hashes: 1, 1.0 and True are one key.
static bool hash_of(JinjaRun *run, JinjaValue key, uint64_t *hash) {
    switch (key.kind) {
    case JINJA_FLOAT:
        if (key.real == floor(key.real) && fabs(key.real) < 1e38) {
            key = jinja_value_int((JinjaInteger)key.real);
        } else {
            *hash = XXH3_64bits(&key.real, sizeof key.real);
            return true;
        } // fall through
    case JINJA_BOOL:
    case JINJA_INT: {
        JinjaInteger integer = integer_of(key);
        *hash = XXH3_64bits(&integer, sizeof integer);
        return true;
    }
    case JINJA_STRING:
    case JINJA_BIG: *hash = XXH3_64bits(key.text, key.size); return jinja_run_step(run, key.size / 64);
    case JINJA_TUPLE: {
        *hash = key.list->count;
        if (!jinja_run_step(run, key.list->count) || !jinja_run_enter(run)) return false;
        for (size_t i = 0; i < key.list->count; i++) {
            uint64_t part;
            if (!hash_of(run, key.list->items[i], &part)) return false;
            *hash = (*hash ^ part) * 0x9e3779b97f4a7c15u;
        }
        jinja_run_leave(run);
        return true;
    }
    default:
        *hash = key.kind;
        return is_hashable_alone(key) ||
               jinja_run_fault(run, "TypeError", "unhashable type: '%s'", jinja_value_type(key));
    }
}

static bool find_entry(JinjaRun *run, const JinjaDict *dict, JinjaValue key, uint64_t hash, JinjaEntry **found) {
    *found = NULL;
    bool equal;
    if (!dict->index) {
        for (size_t i = 0; i < dict->count; i++) {
            if (dict->entries[i].hash != hash) continue;
            if (!jinja_value_equal(run, dict->entries[i].key, key, &equal)) return false;
            if (equal) *found = &dict->entries[i];
        }
        return true;
    }
    for (size_t slot = hash & (dict->index_size - 1); dict->index[slot]; slot = (slot + 1) & (dict->index_size - 1)) {
        JinjaEntry *entry = &dict->entries[dict->index[slot] - 1];
        if (entry->hash != hash) continue;
        if (!jinja_value_equal(run, entry->key, key, &equal)) return false;
        if (equal) {
            *found = entry;
            return true;
        }
    }
    return true;
}

static void index_entry(JinjaDict *dict, size_t i) {
    size_t slot = dict->entries[i].hash & (dict->index_size - 1);
    while (dict->index[slot]) slot = (slot + 1) & (dict->index_size - 1);
    dict->index[slot] = (uint32_t)(i + 1);
}

// Doubles the entries, and keeps the index at most half full.
static bool grow(JinjaRun *run, JinjaDict *dict) {
    size_t capacity = dict->capacity ? dict->capacity * 2 : FEW;
    if (!jinja_run_room(run, capacity * (sizeof *dict->entries + 2 * sizeof *dict->index))) return false;
    JinjaEntry *grown = jinja_run_alloc(run, capacity * sizeof *grown);
    if (dict->count) memcpy(grown, dict->entries, dict->count * sizeof *grown);
    dict->entries = grown;
    dict->capacity = capacity;
    if (capacity > FEW) {
        dict->index_size = capacity * 2;
        dict->index = jinja_run_alloc(run, dict->index_size * sizeof *dict->index);
        for (size_t i = 0; i < dict->count; i++) index_entry(dict, i);
    }
    return true;
}

bool jinja_value_put(JinjaRun *run, JinjaValue value, JinjaValue key, JinjaValue item) {
    JinjaDict *dict = value.dict;
    uint64_t hash;
    JinjaEntry *entry;
    if (!hash_of(run, key, &hash) || !find_entry(run, dict, key, hash, &entry)) return false;
    if (entry) {
        entry->value = item;
        return true;
    }
    if (dict->count == dict->capacity && !grow(run, dict)) return false;
    dict->entries[dict->count] = (JinjaEntry){.key = key, .value = item, .hash = hash};
    if (dict->index) index_entry(dict, dict->count);
    dict->count++;
    return true;
}

bool jinja_value_get(JinjaRun *run, JinjaValue dict, JinjaValue key, JinjaValue *value) {
    uint64_t hash;
    JinjaEntry *entry;
    *value = (JinjaValue){.kind = JINJA_MISSING};
    if (!hash_of(run, key, &hash) || !find_entry(run, dict.dict, key, hash, &entry)) return false;
    if (entry) *value = entry->value;
    return true;
}

JinjaValue jinja_value_member(JinjaValue dict, const char *name) {
    for (size_t i = 0; i < dict.dict->count; i++)
        if (jinja_value_is(dict.dict->entries[i].key, name)) return dict.dict->entries[i].value;
    return (JinjaValue){.kind = JINJA_MISSING};
}

// -1, 0, 1, or 2 when one is NaN.
static int number_order(JinjaValue a, JinjaValue b) {
    if (a.kind == JINJA_BIG || b.kind == JINJA_BIG) return jinja_number_order_big(a, b);
    if (a.kind == JINJA_FLOAT && b.kind == JINJA_FLOAT)
        return a.real < b.real ? -1 : a.real > b.real ? 1 : a.real == b.real ? 0 : 2;
    if (b.kind == JINJA_FLOAT) {
        int order = number_order(b, a);
        return order == 2 ? 2 : -order;
    }
    if (a.kind == JINJA_FLOAT) { // against an integer: exact, not through rounding the integer
        if (isnan(a.real)) return 2;
        if (fabs(a.real) >= 0x1p126) return a.real < 0 ? -1 : 1;
        JinjaInteger whole = (JinjaInteger)floor(a.real), integer = integer_of(b);
        if (whole != integer) return whole < integer ? -1 : 1;
        return a.real > floor(a.real);
    }
    JinjaInteger x = integer_of(a), y = integer_of(b);
    return x < y ? -1 : x > y;
}

static int string_order(JinjaValue a, JinjaValue b) { // UTF-8 sorts like code points
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size ? memcmp(a.text, b.text, size) : 0;
    return order ? (order < 0 ? -1 : 1) : a.size < b.size ? -1 : a.size > b.size;
}

static bool dict_equal(JinjaRun *run, JinjaValue a, JinjaValue b, bool *equal) {
    *equal = a.dict->count == b.dict->count;
    for (size_t i = 0; *equal && i < a.dict->count; i++) {
        JinjaEntry *entry = &a.dict->entries[i], *other;
        if (!find_entry(run, b.dict, entry->key, entry->hash, &other)) return false;
        if (!other)
            *equal = false;
        else if (!jinja_value_equal(run, entry->value, other->value, equal))
            return false;
    }
    return true;
}

static bool range_equal(const JinjaRange *a, const JinjaRange *b) {
    size_t length = range_length(a);
    if (length != range_length(b)) return false;
    return !length || (a->start == b->start && (length == 1 || a->step == b->step));
}

bool jinja_value_equal(JinjaRun *run, JinjaValue a, JinjaValue b, bool *equal) {
    if (!jinja_run_step(run, 1) || !jinja_run_enter(run)) return false;
    bool good = true;
    *equal = false;
    if (is_number(a) && is_number(b))
        *equal = number_order(a, b) == 0;
    else if (a.kind != b.kind)
        *equal = false;
    else
        switch (a.kind) {
        case JINJA_STRING:
            *equal = a.size == b.size && string_order(a, b) == 0;
            good = jinja_run_step(run, a.size == b.size ? a.size / 64 : 0);
            break;
        case JINJA_LIST:
        case JINJA_TUPLE:
            *equal = a.list == b.list || a.list->count == b.list->count;
            for (size_t i = 0; good && *equal && a.list != b.list && i < a.list->count; i++)
                good = jinja_value_equal(run, a.list->items[i], b.list->items[i], equal);
            break;
        case JINJA_DICT:
            if (a.dict == b.dict)
                *equal = true;
            else
                good = dict_equal(run, a, b, equal);
            break;
        case JINJA_RANGE: *equal = range_equal(a.range, b.range); break;
        case JINJA_VIEW: *equal = a.view == b.view && a.viewed == b.viewed; break;
        case JINJA_UNDEFINED:
        case JINJA_NONE: *equal = true; break;
        case JINJA_FUNCTION: *equal = a.function == b.function; break;
        default: *equal = a.dict == b.dict; break; // one object
        }
    jinja_run_leave(run);
    return good;
}

static bool list_order(JinjaRun *run, JinjaValue a, JinjaValue b, const char *operator, int * order) {
    size_t x = a.list->count, y = b.list->count;
    for (size_t i = 0; i < x && i < y; i++) {
        bool equal;
        if (!jinja_value_equal(run, a.list->items[i], b.list->items[i], &equal)) return false;
        if (!equal) return jinja_value_order(run, a.list->items[i], b.list->items[i], operator, order);
    }
    *order = x < y ? -1 : x > y;
    return true;
}

bool jinja_value_order(JinjaRun *run, JinjaValue a, JinjaValue b, const char *operator, int * order) {
    if (!jinja_run_step(run, 1) || !jinja_run_enter(run)) return false;
    bool good = true;
    if (a.kind == JINJA_UNDEFINED)
        good = jinja_value_fail(run, a);
    else if (b.kind == JINJA_UNDEFINED)
        good = jinja_value_fail(run, b);
    else if (is_number(a) && is_number(b))
        *order = number_order(a, b);
    else if (a.kind == JINJA_STRING && b.kind == JINJA_STRING)
        *order = string_order(a, b), good = jinja_run_step(run, a.size / 64);
    else if (a.kind == b.kind && (a.kind == JINJA_LIST || a.kind == JINJA_TUPLE))
        good = list_order(run, a, b, operator, order);
    else
        good = jinja_run_fault(run, "TypeError", "'%s' not supported between instances of '%s' and '%s'", operator,
                               jinja_value_type(a), jinja_value_type(b));
    jinja_run_leave(run);
    return good;
}

bool jinja_value_contains(JinjaRun *run, JinjaValue container, JinjaValue item, bool *contains) {
    *contains = false;
    JinjaValue found;
    switch (container.kind) {
    case JINJA_STRING:
        if (item.kind != JINJA_STRING)
            return jinja_run_fault(run, "TypeError", "'in <string>' requires string as left operand, not %s",
                                   jinja_value_type(item));
        if (!jinja_run_step(run, container.size / 64)) return false;
        *contains = memmem(container.text, container.size, item.text, item.size) != NULL || !item.size;
        return true;
    case JINJA_DICT:
        if (!jinja_value_get(run, container, item, &found)) return false;
        *contains = found.kind != JINJA_MISSING;
        return true;
    case JINJA_VIEW:
        if (container.view != JINJA_KEYS) break;
        return jinja_value_contains(run, (JinjaValue){.kind = JINJA_DICT, .dict = container.viewed}, item, contains);
    default: break;
    }
    if (!jinja_value_iterable(container))
        return jinja_run_fault(run, "TypeError", "argument of type '%s' is not iterable", jinja_value_type(container));
    JinjaIterator *iterator;
    if (!jinja_value_iterate(run, container, &iterator)) return false;
    for (JinjaValue each; !*contains && (each = jinja_value_next(run, iterator)).kind != JINJA_MISSING;)
        if (!jinja_value_equal(run, each, item, contains)) return false;
    return jinja_run_good(run);
}

bool jinja_value_iterable(JinjaValue value) {
    switch (value.kind) {
    case JINJA_UNDEFINED:
    case JINJA_STRING:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_DICT:
    case JINJA_RANGE:
    case JINJA_VIEW:
    case JINJA_ITERATOR:
    case JINJA_LOOP: return true;
    default: return false;
    }
}

bool jinja_value_iterate(JinjaRun *run, JinjaValue value, JinjaIterator **iterator) {
    if (!jinja_value_iterable(value))
        return jinja_run_fault(run, "TypeError", "'%s' object is not iterable", jinja_value_type(value));
    if (value.kind == JINJA_ITERATOR)
        *iterator = value.iterator;
    else
        *iterator = jinja_value_iterator(run, value).iterator;
    return true;
}

JinjaValue jinja_value_at(JinjaValue sequence, size_t i) {
    if (sequence.kind != JINJA_RANGE) return sequence.list->items[i];
    return jinja_value_int(sequence.range->start + (JinjaInteger)i * sequence.range->step);
}

static JinjaValue view_at(JinjaRun *run, JinjaDict *dict, JinjaViewKind view, size_t i) {
    if (view == JINJA_KEYS) return dict->entries[i].key;
    if (view == JINJA_VALUES) return dict->entries[i].value;
    return jinja_value_pair(run, dict->entries[i].key, dict->entries[i].value);
}

JinjaValue jinja_value_next(JinjaRun *run, JinjaIterator *iterator) {
    JinjaValue missing = {.kind = JINJA_MISSING}, source = iterator->source;
    if (!jinja_run_step(run, 1)) return missing;
    size_t i = iterator->at, length;
    switch (source.kind) {
    case JINJA_STRING: {
        if (i >= source.size) return missing;
        size_t size = jinja_text_size_at(source, i);
        iterator->at += size;
        return jinja_value_text(source.text + i, size);
    }
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_RANGE:
        jinja_value_length(source, &length);
        if (i >= length) return missing;
        iterator->at++;
        return jinja_value_at(source, i);
    case JINJA_DICT:
    case JINJA_VIEW: {
        JinjaDict *dict = source.kind == JINJA_DICT ? source.dict : source.viewed;
        if (i >= dict->count) return missing;
        iterator->at++;
        return view_at(run, dict, source.kind == JINJA_DICT ? JINJA_KEYS : source.view, i);
    }
    case JINJA_ITERATOR: return jinja_value_next(run, source.iterator);
    case JINJA_LOOP: {
        JinjaValue item;
        if (!jinja_loop_next(run, source.loop, &item) || item.kind == JINJA_MISSING) return missing;
        return jinja_value_pair(run, item, source);
    }
    default: return missing;
    }
}

bool jinja_value_collect(JinjaRun *run, JinjaValue value, JinjaValue *list) {
    JinjaIterator *iterator;
    if (!jinja_value_iterate(run, value, &iterator)) return false;
    *list = jinja_value_list(run, JINJA_LIST);
    for (JinjaValue item; (item = jinja_value_next(run, iterator)).kind != JINJA_MISSING;)
        jinja_value_push(run, *list, item);
    return jinja_run_good(run);
}

// Merges the sorted halves [from, middle) and [middle, to) of order into spare, then back.
static bool merge(JinjaRun *run, const JinjaValue *keys, size_t *order, size_t *spare, size_t from, size_t middle,
                  size_t to, bool reverse) {
    size_t left = from, right = middle;
    for (size_t i = from; i < to; i++) {
        int compared = 0;
        if (left < middle && right < to) {
            JinjaValue a = keys[order[right]], b = keys[order[left]]; // the right one goes first only if smaller
            if (!(reverse ? jinja_value_order(run, b, a, "<", &compared)
                          : jinja_value_order(run, a, b, "<", &compared)))
                return false;
        }
        bool take_right = left == middle || (right < to && compared == -1);
        spare[i] = take_right ? order[right++] : order[left++];
    }
    memcpy(order + from, spare + from, (to - from) * sizeof *order);
    return true;
}

bool jinja_value_sort(JinjaRun *run, JinjaValue items, JinjaValue keys, bool reverse) {
    size_t count = items.list->count;
    CHECK(count == keys.list->count, "%zu items, %zu keys", count, keys.list->count);
    if (!jinja_run_room(run, count * (2 * sizeof(size_t) + 2 * sizeof(JinjaValue)))) return false;
    size_t *order = jinja_run_alloc(run, 2 * count * sizeof *order), *spare = order + count;
    for (size_t i = 0; i < count; i++) order[i] = i;
    for (size_t width = 1; width < count; width *= 2)
        for (size_t from = 0; from + width < count; from += 2 * width) {
            size_t to = from + 2 * width < count ? from + 2 * width : count;
            if (!merge(run, keys.list->items, order, spare, from, from + width, to, reverse)) return false;
        }
    JinjaValue *old = jinja_run_alloc(run, 2 * count * sizeof *old), *old_keys = old + count;
    if (count) {
        memcpy(old, items.list->items, count * sizeof *old);
        memcpy(old_keys, keys.list->items, count * sizeof *old);
    }
    for (size_t i = 0; i < count; i++) {
        items.list->items[i] = old[order[i]];
        keys.list->items[i] = old_keys[order[i]];
    }
    return true;
}
