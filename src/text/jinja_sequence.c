#include "text/jinja_sequence.h"

#include "text/jinja_string.h"
#include "text/jinja_text.h"

#include <string.h>

static bool given(JinjaValue value) {
    return value.kind != JINJA_MISSING && value.kind != JINJA_NONE;
}

// One step of an attribute path: digits are an index.
static JinjaValue path_part(JinjaRun *run, JinjaValue part) {
    JinjaValue index;
    if (jinja_string_is(part, JINJA_IS_DIGIT) && jinja_number_parse_int(run, part.text, part.size, 10, &index))
        return index;
    return part;
}

// jinja2's make_attrgetter: "a.b.0" walks; absent gives the item itself. otherwise: for undefined, or MISSING.
static bool get_path(JinjaRun *run, JinjaValue item, JinjaValue path, JinjaValue otherwise, JinjaValue *value) {
    *value = item;
    if (!given(path)) return true;
    if (path.kind != JINJA_STRING) return jinja_method_item(run, item, path, value);
    for (size_t at = 0; at <= path.size;) {
        size_t end = at;
        while (end < path.size && path.text[end] != '.') end++;
        JinjaValue part = path_part(run, jinja_text_part(path, at, end));
        if (!jinja_run_step(run, 1) || !jinja_method_item(run, *value, part, value)) return false;
        if (value->kind == JINJA_UNDEFINED && given(otherwise)) *value = otherwise;
        at = end + 1;
    }
    return true;
}

// The value that sorting and comparing go by: strings in lower case unless case matters.
static bool key_of(JinjaRun *run, JinjaValue item, JinjaValue path, JinjaValue otherwise, bool case_sensitive,
                   JinjaValue *key) {
    if (!get_path(run, item, path, otherwise, key)) return false;
    if (case_sensitive || key->kind != JINJA_STRING) return true;
    return jinja_string_case(run, *key, JINJA_LOWER, key);
}

static JinjaValue generator(JinjaRun *run, JinjaValue list) {
    return jinja_value_iterator(run, list);
}

bool jinja_sequence_length(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    size_t length;
    if (subject.kind == JINJA_LOOP) return jinja_loop_attribute(run, subject, jinja_value_string("length"), value);
    if (!jinja_value_length(subject, &length))
        return jinja_run_fault(run, "TypeError", "object of type '%s' has no len()", jinja_value_type(subject));
    *value = jinja_value_int((JinjaInteger)length);
    return !subject.size || subject.kind != JINJA_STRING || jinja_run_step(run, subject.size / 64);
}

bool jinja_sequence_list(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    return jinja_value_collect(run, subject, value);
}

bool jinja_sequence_first(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    JinjaIterator *iterator;
    if (!jinja_value_iterate(run, subject, &iterator)) return false;
    *value = jinja_value_next(run, iterator);
    if (value->kind == JINJA_MISSING) *value = jinja_value_undefined(run, "No first item, sequence was empty.");
    return jinja_run_good(run);
}

static bool reversed(JinjaRun *run, JinjaValue subject, JinjaValue *list) {
    if (!jinja_value_collect(run, subject, list)) return false;
    JinjaList *items = list->list;
    for (size_t i = 0; i < items->count / 2; i++) {
        JinjaValue other = items->items[i];
        items->items[i] = items->items[items->count - 1 - i];
        items->items[items->count - 1 - i] = other;
    }
    return true;
}

bool jinja_sequence_last(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    JinjaValue list;
    if (!jinja_value_iterable(subject) || subject.kind == JINJA_ITERATOR || subject.kind == JINJA_LOOP)
        return jinja_run_fault(run, "TypeError", "'%s' object is not reversible", jinja_value_type(subject));
    if (!jinja_value_collect(run, subject, &list)) return false;
    *value = list.list->count ? list.list->items[list.list->count - 1]
                              : jinja_value_undefined(run, "No last item, sequence was empty.");
    return true;
}

bool jinja_sequence_reverse(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    JinjaValue none = jinja_value_none();
    if (subject.kind == JINJA_STRING) return jinja_operate_slice(run, subject, none, none, jinja_value_int(-1), value);
    if (!jinja_value_iterable(subject)) return jinja_run_fault(run, "FilterArgumentError", "argument must be iterable");
    if (!reversed(run, subject, value)) return false;
    if (subject.kind != JINJA_ITERATOR) *value = generator(run, *value);
    return true;
}

bool jinja_sequence_items(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    (void)bound;
    if (subject.kind == JINJA_UNDEFINED) {
        *value = generator(run, jinja_value_list(run, JINJA_LIST));
        return true;
    }
    if (subject.kind != JINJA_DICT) return jinja_run_fault(run, "TypeError", "Can only get item pairs from a mapping.");
    *value = generator(run, (JinjaValue){.kind = JINJA_VIEW, .viewed = subject.dict, .view = JINJA_ITEMS});
    return true;
}

bool jinja_sequence_join(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    JinjaValue list, separator = jinja_value_string(""), missing = {.kind = JINJA_MISSING};
    JinjaBuffer buffer = {0};
    if (bound[0].kind != JINJA_MISSING && !jinja_text_of(run, bound[0], &separator)) return false;
    if (!jinja_value_collect(run, subject, &list)) return false;
    for (size_t i = 0; i < list.list->count; i++) {
        JinjaValue item;
        if (!get_path(run, list.list->items[i], bound[1], missing, &item)) return false;
        if (i) jinja_run_put(run, &buffer, separator.text, separator.size);
        jinja_text_str(run, &buffer, item);
    }
    *value = jinja_text_taken(&buffer);
    return jinja_run_good(run);
}

// Sorts what is iterable into a new list by one or several attribute paths ("a,b.c").
static bool sort_by(JinjaRun *run, JinjaValue subject, JinjaValue paths, JinjaValue otherwise, bool several,
                    bool case_sensitive, bool reverse, JinjaValue *list) {
    JinjaValue keys = jinja_value_list(run, JINJA_LIST), parts = jinja_value_list(run, JINJA_LIST);
    if (!jinja_value_collect(run, subject, list)) return false;
    if (several && paths.kind == JINJA_STRING) {
        if (!jinja_string_split(run, paths, jinja_value_string(","), -1, false, &parts)) return false;
    } else {
        jinja_value_push(run, parts, paths);
    }
    for (size_t i = 0; i < list->list->count; i++) {
        JinjaValue key = jinja_value_list(run, JINJA_LIST), part = key;
        for (size_t p = 0; p < parts.list->count; p++) {
            if (!key_of(run, list->list->items[i], parts.list->items[p], otherwise, case_sensitive, &part))
                return false;
            jinja_value_push(run, key, part);
        }
        // One path is compared as it is; among lists, equal keys would hide that they have no order.
        jinja_value_push(run, keys, several ? key : part);
    }
    return jinja_run_good(run) && jinja_value_sort(run, *list, keys, reverse);
}

bool jinja_sequence_sort(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    JinjaValue missing = {.kind = JINJA_MISSING};
    return sort_by(run, subject, bound[2], missing, true, jinja_value_truth(bound[1]), jinja_value_truth(bound[0]),
                   value);
}

bool jinja_sequence_dictsort(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    bool by_value = jinja_value_is(bound[1], "value");
    if (bound[1].kind != JINJA_MISSING && !by_value && !jinja_value_is(bound[1], "key"))
        return jinja_run_fault(run, "FilterArgumentError", "You can only sort by either \"key\" or \"value\"");
    if (subject.kind == JINJA_UNDEFINED) return jinja_value_fail(run, subject);
    if (subject.kind != JINJA_DICT)
        return jinja_run_fault(run, "AttributeError", "'%s' object has no attribute 'items'",
                               jinja_value_type(subject));
    JinjaValue items = {.kind = JINJA_VIEW, .viewed = subject.dict, .view = JINJA_ITEMS};
    JinjaValue missing = {.kind = JINJA_MISSING};
    return sort_by(run, items, jinja_value_int(by_value), missing, false, jinja_value_truth(bound[0]),
                   jinja_value_truth(bound[2]), value);
}

bool jinja_sequence_groupby(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    JinjaValue sorted, key, last = {.kind = JINJA_MISSING}, group = {.kind = JINJA_MISSING};
    bool case_sensitive = jinja_value_truth(bound[2]);
    if (!sort_by(run, subject, bound[0], bound[1], false, case_sensitive, false, &sorted)) return false;
    *value = jinja_value_list(run, JINJA_LIST);
    for (size_t i = 0; i < sorted.list->count; i++) {
        JinjaValue item = sorted.list->items[i], shown;
        bool same = false;
        if (!key_of(run, item, bound[0], bound[1], case_sensitive, &key)) return false;
        if (last.kind != JINJA_MISSING && !jinja_value_equal(run, key, last, &same)) return false;
        if (!same) {
            group = jinja_value_list(run, JINJA_LIST);
            if (!get_path(run, item, bound[0], bound[1], &shown)) return false;
            JinjaValue pair = jinja_value_pair(run, shown, group);
            pair.safe = true; // with the attributes grouper and list
            jinja_value_push(run, *value, pair);
        }
        jinja_value_push(run, group, item);
        last = key;
    }
    return jinja_run_good(run);
}

static bool extreme(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, int wanted, JinjaValue *value) {
    JinjaValue list, best, key, missing = {.kind = JINJA_MISSING};
    if (!jinja_value_collect(run, subject, &list)) return false;
    *value = jinja_value_undefined(run, "No aggregated item, sequence was empty.");
    for (size_t i = 0; i < list.list->count; i++) {
        int order = wanted;
        if (!key_of(run, list.list->items[i], bound[1], missing, jinja_value_truth(bound[0]), &key)) return false;
        if (i && !jinja_value_order(run, key, best, wanted < 0 ? "<" : ">", &order)) return false;
        if (order != wanted) continue;
        best = key;
        *value = list.list->items[i];
    }
    return true;
}

bool jinja_sequence_min(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    return extreme(run, subject, bound, -1, value);
}

bool jinja_sequence_max(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    return extreme(run, subject, bound, 1, value);
}

bool jinja_sequence_sum(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    JinjaValue list, missing = {.kind = JINJA_MISSING};
    *value = bound[1].kind == JINJA_MISSING ? jinja_value_int(0) : bound[1];
    if (value->kind == JINJA_STRING)
        return jinja_run_fault(run, "TypeError", "sum() can't sum strings [use ''.join(seq) instead]");
    if (!jinja_value_collect(run, subject, &list)) return false;
    for (size_t i = 0; i < list.list->count; i++) {
        JinjaValue item;
        if (!get_path(run, list.list->items[i], bound[0], missing, &item)) return false;
        if (!jinja_operate(run, JINJA_ADD, *value, item, value)) return false;
    }
    return true;
}

bool jinja_sequence_unique(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    JinjaValue list, key, seen = jinja_value_dict(run), missing = {.kind = JINJA_MISSING};
    JinjaValue kept = jinja_value_list(run, JINJA_LIST);
    if (!jinja_value_collect(run, subject, &list)) return false;
    for (size_t i = 0; i < list.list->count; i++) {
        size_t before = seen.dict->count;
        if (!key_of(run, list.list->items[i], bound[1], missing, jinja_value_truth(bound[0]), &key)) return false;
        if (!jinja_value_put(run, seen, key, key)) return false;
        if (seen.dict->count > before) jinja_value_push(run, kept, list.list->items[i]);
    }
    *value = generator(run, kept);
    return jinja_run_good(run);
}

bool jinja_sequence_batch(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    JinjaValue list, batches = jinja_value_list(run, JINJA_LIST), batch = {.kind = JINJA_MISSING};
    int64_t size;
    if (!jinja_call_integer(run, bound[0], 0, &size) || !jinja_value_collect(run, subject, &list)) return false;
    for (size_t i = 0; i < list.list->count; i++) {
        if (!i || (int64_t)batch.list->count == size) {
            batch = jinja_value_list(run, JINJA_LIST);
            jinja_value_push(run, batches, batch);
        }
        jinja_value_push(run, batch, list.list->items[i]);
    }
    while (batch.kind != JINJA_MISSING && given(bound[1]) && (int64_t)batch.list->count < size) {
        if (!jinja_run_step(run, 1)) return false;
        jinja_value_push(run, batch, bound[1]);
    }
    *value = generator(run, batches);
    return jinja_run_good(run);
}

bool jinja_sequence_slice(JinjaRun *run, JinjaValue subject, const JinjaValue *bound, JinjaValue *value) {
    JinjaValue list, slices = jinja_value_list(run, JINJA_LIST);
    int64_t count;
    if (!jinja_call_integer(run, bound[0], 0, &count) || !jinja_value_collect(run, subject, &list)) return false;
    if (!count) return jinja_run_fault(run, "ZeroDivisionError", "integer division or modulo by zero");
    size_t length = list.list->count, each = count > 0 ? length / (size_t)count : 0, at = 0;
    for (int64_t s = 0; s < count; s++) {
        JinjaValue slice = jinja_value_list(run, JINJA_LIST);
        bool longer = (size_t)s < length % (size_t)count;
        if (!jinja_run_step(run, 1)) return false;
        for (size_t i = 0; i < each + longer; i++) jinja_value_push(run, slice, list.list->items[at++]);
        if (given(bound[1]) && !longer) jinja_value_push(run, slice, bound[1]);
        jinja_value_push(run, slices, slice);
    }
    *value = generator(run, slices);
    return jinja_run_good(run);
}

// The arguments behind the first `skip`.
static JinjaArguments rest_of(JinjaRun *run, const JinjaArguments *arguments, size_t skip) {
    JinjaArguments rest = {jinja_value_list(run, JINJA_TUPLE), arguments->keywords};
    for (size_t i = skip; i < arguments->positional.list->count; i++)
        jinja_value_push(run, rest.positional, arguments->positional.list->items[i]);
    return rest;
}

static bool map_attribute(JinjaRun *run, JinjaValue subject, const JinjaArguments *arguments, JinjaValue mapped) {
    JinjaValue bound[JINJA_MOST_BOUND], list;
    if (!jinja_call_bind(run, "map", "attribute default", 1, arguments, bound) ||
        !jinja_value_collect(run, subject, &list))
        return false;
    for (size_t i = 0; i < list.list->count; i++) {
        JinjaValue item;
        if (!get_path(run, list.list->items[i], bound[0], bound[1], &item)) return false;
        jinja_value_push(run, mapped, item);
    }
    return jinja_run_good(run);
}

static bool named(JinjaRun *run, JinjaValue name, bool filter, int *index) {
    JinjaBuffer buffer = {0};
    *index = name.kind != JINJA_STRING ? -1 : filter ? jinja_filter_find(name) : jinja_test_find(name);
    if (*index >= 0) return true;
    jinja_text_repr(run, &buffer, name);
    return jinja_run_fault(run, "TemplateRuntimeError", "No %s named %.*s.", filter ? "filter" : "test",
                           (int)(buffer.length < 200 ? buffer.length : 200), buffer.text);
}

bool jinja_sequence_map(JinjaRun *run, JinjaValue subject, const JinjaArguments *arguments, JinjaValue *value) {
    JinjaValue mapped = jinja_value_list(run, JINJA_LIST), list;
    const JinjaList *positional = arguments->positional.list;
    *value = generator(run, mapped);
    if (!jinja_value_truth(subject)) return true;
    if (!positional->count && jinja_value_member(arguments->keywords, "attribute").kind != JINJA_MISSING)
        return map_attribute(run, subject, arguments, mapped);
    if (!positional->count) return jinja_run_fault(run, "FilterArgumentError", "map requires a filter argument");
    JinjaArguments rest = rest_of(run, arguments, 1);
    int filter;
    if (!named(run, positional->items[0], true, &filter) || !jinja_value_collect(run, subject, &list)) return false;
    for (size_t i = 0; i < list.list->count; i++) {
        JinjaValue item;
        if (!jinja_run_step(run, 1) || !jinja_run_enter(run)) return false;
        if (!jinja_filter_apply(run, filter, list.list->items[i], &rest, &item)) return false;
        jinja_run_leave(run);
        jinja_value_push(run, mapped, item);
    }
    return jinja_run_good(run);
}

// The items whose test (or truth, without one) is `wanted`; attribute: of a path that is the first argument.
static bool pick(JinjaRun *run, JinjaValue subject, const JinjaArguments *arguments, bool wanted, bool attribute,
                 JinjaValue *value) {
    JinjaValue picked = jinja_value_list(run, JINJA_LIST), list, missing = {.kind = JINJA_MISSING};
    const JinjaList *positional = arguments->positional.list;
    *value = generator(run, picked);
    if (!jinja_value_truth(subject)) return true;
    if (attribute && !positional->count)
        return jinja_run_fault(run, "FilterArgumentError", "Missing parameter for attribute name");
    bool tested = positional->count > (size_t)attribute;
    JinjaArguments rest = rest_of(run, arguments, (size_t)attribute + 1);
    int test = -1;
    if (tested && !named(run, positional->items[attribute], false, &test)) return false;
    if (!jinja_value_collect(run, subject, &list)) return false;
    for (size_t i = 0; i < list.list->count; i++) {
        JinjaValue item = list.list->items[i];
        bool truth;
        if (attribute && !get_path(run, item, positional->items[0], missing, &item)) return false;
        if (!tested)
            truth = jinja_value_truth(item);
        else if (!jinja_test_apply(run, test, item, &rest, &truth))
            return false;
        if (truth == wanted) jinja_value_push(run, picked, list.list->items[i]);
    }
    return jinja_run_good(run);
}

bool jinja_sequence_select(JinjaRun *run, JinjaValue subject, const JinjaArguments *arguments, JinjaValue *value) {
    return pick(run, subject, arguments, true, false, value);
}

bool jinja_sequence_reject(JinjaRun *run, JinjaValue subject, const JinjaArguments *arguments, JinjaValue *value) {
    return pick(run, subject, arguments, false, false, value);
}

bool jinja_sequence_selectattr(JinjaRun *run, JinjaValue subject, const JinjaArguments *arguments, JinjaValue *value) {
    return pick(run, subject, arguments, true, true, value);
}

bool jinja_sequence_rejectattr(JinjaRun *run, JinjaValue subject, const JinjaArguments *arguments, JinjaValue *value) {
    return pick(run, subject, arguments, false, true, value);
}
