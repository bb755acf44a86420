#include "text/jinja_eval.h"
#include "text/jinja_text.h"

#include <stdio.h>
#include <string.h>

enum { MAX_RANGE = 100000 }; // jinja2.sandbox

static const char *const globals[] = {"range",  "dict",   "namespace",       "cycler",
                                      "joiner", "lipsum", "raise_exception", "strftime_now"};

JinjaValue jinja_call_global(JinjaValue name) {
    for (int i = 0; i < (int)(sizeof globals / sizeof *globals); i++)
        if (jinja_value_is(name, globals[i])) return (JinjaValue){.kind = JINJA_FUNCTION, .function = i};
    return (JinjaValue){.kind = JINJA_MISSING};
}

void jinja_call_describe(JinjaRun *run, JinjaBuffer *buffer, JinjaValue value) {
    char text[96] = "";
    if (value.kind == JINJA_FUNCTION) snprintf(text, sizeof text, " %s", globals[value.function]);
    if (value.kind == JINJA_METHOD)
        snprintf(text, sizeof text, " %s of %s", jinja_method_name(value.method), jinja_value_type(value.method->self));
    if (value.kind == JINJA_LOOP) {
        JinjaValue length;
        jinja_loop_attribute(run, value, jinja_value_string("length"), &length);
        snprintf(text, sizeof text, " %lld/%lld", (long long)value.loop->index0 + 1, (long long)value.loop->length);
    }
    if (value.kind == JINJA_MACRO && value.macro->node->type != JINJA_N_MACRO)
        snprintf(text, sizeof text, " anonymous");
    jinja_run_puts(run, buffer, text);
    if (value.kind != JINJA_MACRO || text[0]) return;
    jinja_run_puts(run, buffer, " ");
    jinja_text_repr(run, buffer, value.macro->node->name);
}

// *items appended, **mapping merged in.
static bool spread(JinjaRun *run, JinjaNodeType type, JinjaValue value, JinjaArguments *arguments) {
    if (type == JINJA_N_SPREAD) {
        JinjaIterator *iterator;
        if (!jinja_value_iterable(value))
            return jinja_run_fault(run, "TypeError", "argument after * must be an iterable, not %s",
                                   jinja_value_type(value));
        if (!jinja_value_iterate(run, value, &iterator)) return false;
        for (JinjaValue item; (item = jinja_value_next(run, iterator)).kind != JINJA_MISSING;)
            jinja_value_push(run, arguments->positional, item);
        return jinja_run_good(run);
    }
    if (value.kind != JINJA_DICT)
        return jinja_run_fault(run, "TypeError", "argument after ** must be a mapping, not %s",
                               jinja_value_type(value));
    for (size_t i = 0; i < value.dict->count; i++) {
        const JinjaEntry *entry = &value.dict->entries[i];
        JinjaValue known;
        if (entry->key.kind != JINJA_STRING) return jinja_run_fault(run, "TypeError", "keywords must be strings");
        if (!jinja_value_get(run, arguments->keywords, entry->key, &known)) return false;
        if (known.kind != JINJA_MISSING)
            return jinja_run_fault(run, "TypeError", "got multiple values for keyword argument");
        if (!jinja_value_put(run, arguments->keywords, entry->key, entry->value)) return false;
    }
    return true;
}

bool jinja_call_arguments(JinjaRun *run, const JinjaNodes *nodes, JinjaFrame *frame, JinjaArguments *arguments) {
    *arguments = (JinjaArguments){jinja_value_list(run, JINJA_TUPLE), jinja_value_dict(run)};
    for (size_t i = 0; i < nodes->count; i++) {
        const JinjaNode *node = nodes->at[i];
        bool plain =
            node->type != JINJA_N_KEYWORD && node->type != JINJA_N_SPREAD && node->type != JINJA_N_SPREAD_KEYWORDS;
        JinjaValue value;
        if (!jinja_eval(run, plain ? node : node->first, frame, &value)) return false;
        if (plain) {
            jinja_value_push(run, arguments->positional, value);
        } else if (node->type == JINJA_N_KEYWORD) {
            size_t before = arguments->keywords.dict->count;
            if (!jinja_value_put(run, arguments->keywords, node->name, value)) return false;
            if (arguments->keywords.dict->count == before)
                return jinja_run_fault(run, "TemplateSyntaxError", "keyword argument repeated");
        } else if (!spread(run, node->type, value, arguments)) {
            return false;
        }
    }
    return jinja_run_good(run);
}

// Word i of names, or NULL.
static const char *word(const char *names, size_t i, size_t *size) {
    for (;; i--) {
        *size = strcspn(names, " ");
        if (!*size) return NULL;
        if (!i) return names;
        names += *size + (names[*size] == ' ');
    }
}

bool jinja_call_bind(JinjaRun *run, const char *function, const char *names, size_t required,
                     const JinjaArguments *arguments, JinjaValue bound[JINJA_MOST_BOUND]) {
    size_t size, count = 0;
    while (word(names, count, &size)) count++;
    const JinjaList *positional = arguments->positional.list;
    if (positional->count > count)
        return jinja_run_fault(run, "TypeError", "%s() takes at most %zu arguments (%zu given)", function, count,
                               positional->count);
    for (size_t i = 0; i < JINJA_MOST_BOUND; i++)
        bound[i] = i < positional->count ? positional->items[i] : (JinjaValue){.kind = JINJA_MISSING};
    const JinjaDict *keywords = arguments->keywords.dict;
    for (size_t k = 0; k < keywords->count; k++) {
        JinjaValue key = keywords->entries[k].key;
        size_t i = 0;
        const char *name;
        while ((name = word(names, i, &size)) && (size != key.size || memcmp(name, key.text, size))) i++;
        int shown = (int)(key.size < 100 ? key.size : 100);
        if (!name)
            return jinja_run_fault(run, "TypeError", "%s() got an unexpected keyword argument '%.*s'", function, shown,
                                   key.text);
        if (bound[i].kind != JINJA_MISSING)
            return jinja_run_fault(run, "TypeError", "%s() got multiple values for argument '%.*s'", function, shown,
                                   key.text);
        bound[i] = keywords->entries[k].value;
    }
    for (size_t i = 0; i < required; i++) {
        const char *name = word(names, i, &size);
        if (bound[i].kind == JINJA_MISSING)
            return jinja_run_fault(run, "TypeError", "%s() missing a required argument: '%.*s'", function, (int)size,
                                   name);
    }
    return true;
}

bool jinja_call_integer(JinjaRun *run, JinjaValue value, int64_t otherwise, int64_t *integer) {
    *integer = otherwise;
    if (value.kind == JINJA_MISSING || value.kind == JINJA_NONE) return true;
    if (value.kind == JINJA_UNDEFINED) return jinja_value_fail(run, value);
    if (value.kind == JINJA_BOOL) value = jinja_value_int(value.truth);
    if (value.kind == JINJA_BIG) value = jinja_value_int((value.text[0] == '-' ? -1 : 1) * ((JinjaInteger)1 << 100));
    if (value.kind != JINJA_INT)
        return jinja_run_fault(run, "TypeError", "'%s' object cannot be interpreted as an integer",
                               jinja_value_type(value));
    *integer = value.integer > INT64_MAX ? INT64_MAX : value.integer < INT64_MIN ? INT64_MIN : (int64_t)value.integer;
    return true;
}

static bool call_range(JinjaRun *run, const JinjaArguments *arguments, JinjaValue *value) {
    JinjaValue bound[JINJA_MOST_BOUND];
    int64_t first, second, step;
    if (arguments->keywords.dict->count) return jinja_run_fault(run, "TypeError", "range() takes no keyword arguments");
    if (!jinja_call_bind(run, "range", "start stop step", 1, arguments, bound)) return false;
    for (int i = 0; i < 3; i++)
        if (bound[i].kind == JINJA_NONE)
            return jinja_run_fault(run, "TypeError", "'NoneType' object cannot be interpreted as an integer");
    if (!jinja_call_integer(run, bound[0], 0, &first) || !jinja_call_integer(run, bound[1], 0, &second) ||
        !jinja_call_integer(run, bound[2], 1, &step))
        return false;
    if (!step) return jinja_run_fault(run, "ValueError", "range() arg 3 must not be zero");
    bool one = bound[1].kind == JINJA_MISSING;
    *value = jinja_value_range(run, one ? 0 : first, one ? first : second, step);
    size_t length;
    jinja_value_length(*value, &length);
    if (length <= MAX_RANGE) return true;
    return jinja_run_fault(run, "OverflowError", "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                           MAX_RANGE);
}

// dict(mapping or pairs, name=value …)
static bool call_dict(JinjaRun *run, const char *name, const JinjaArguments *arguments, JinjaValue *dict) {
    const JinjaList *positional = arguments->positional.list;
    *dict = jinja_value_dict(run);
    if (positional->count > 1)
        return jinja_run_fault(run, "TypeError", "%s expected at most 1 argument, got %zu", name, positional->count);
    JinjaValue source = positional->count ? positional->items[0] : *dict, pair;
    if (source.kind == JINJA_UNDEFINED) return jinja_value_fail(run, source);
    if (source.kind == JINJA_DICT) {
        for (size_t i = 0; i < source.dict->count; i++)
            if (!jinja_value_put(run, *dict, source.dict->entries[i].key, source.dict->entries[i].value)) return false;
    } else {
        JinjaIterator *iterator;
        if (!jinja_value_iterate(run, source, &iterator)) return false;
        for (JinjaValue item; (item = jinja_value_next(run, iterator)).kind != JINJA_MISSING;) {
            if (!jinja_value_collect(run, item, &pair)) return false;
            if (pair.list->count != 2)
                return jinja_run_fault(run, "ValueError",
                                       "dictionary update sequence element has length %zu; 2 is required",
                                       pair.list->count);
            if (!jinja_value_put(run, *dict, pair.list->items[0], pair.list->items[1])) return false;
        }
    }
    const JinjaDict *keywords = arguments->keywords.dict;
    for (size_t i = 0; i < keywords->count; i++)
        if (!jinja_value_put(run, *dict, keywords->entries[i].key, keywords->entries[i].value)) return false;
    return jinja_run_good(run);
}

static bool call_raise(JinjaRun *run, const JinjaArguments *arguments) {
    JinjaValue bound[JINJA_MOST_BOUND], text;
    if (!jinja_call_bind(run, "raise_exception", "message", 1, arguments, bound)) return false;
    if (!jinja_text_of(run, bound[0], &text)) return false;
    return jinja_run_fault(run, "raise_exception", "%.*s", (int)(text.size < 1023 ? text.size : 1023), text.text);
}

static bool call_strftime(JinjaRun *run, const JinjaArguments *arguments, JinjaValue *value) {
    JinjaValue bound[JINJA_MOST_BOUND];
    JinjaBuffer buffer = {0};
    if (!jinja_call_bind(run, "strftime_now", "format", 1, arguments, bound)) return false;
    if (bound[0].kind != JINJA_STRING)
        return jinja_run_fault(run, "TypeError", "strftime() argument 1 must be str, not %s",
                               jinja_value_type(bound[0]));
    jinja_clock_format(run, &buffer, run->render->clock, bound[0].text, bound[0].size);
    *value = jinja_text_taken(&buffer);
    return true;
}

static bool call_cycler(JinjaRun *run, JinjaKind kind, const JinjaArguments *arguments, JinjaValue *value) {
    JinjaCycler *cycler = jinja_run_new(run, JinjaCycler);
    JinjaValue bound[JINJA_MOST_BOUND];
    cycler->items = arguments->positional;
    if (kind == JINJA_CYCLER && !cycler->items.list->count)
        return jinja_run_fault(run, "RuntimeError", "at least one item has to be provided");
    if (kind == JINJA_JOINER) {
        if (!jinja_call_bind(run, "joiner", "sep", 0, arguments, bound)) return false;
        cycler->items = jinja_value_list(run, JINJA_LIST);
        jinja_value_push(run, cycler->items, bound[0].kind == JINJA_MISSING ? jinja_value_string(", ") : bound[0]);
    }
    *value = (JinjaValue){.kind = kind, .cycler = cycler};
    return true;
}

static bool call_function(JinjaRun *run, JinjaFunction function, const JinjaArguments *arguments, JinjaValue *value) {
    switch (function) {
    case JINJA_F_RANGE: return call_range(run, arguments, value);
    case JINJA_F_DICT: return call_dict(run, "dict", arguments, value);
    case JINJA_F_NAMESPACE:
        if (!call_dict(run, "namespace", arguments, value)) return false;
        value->kind = JINJA_NAMESPACE;
        return true;
    case JINJA_F_CYCLER: return call_cycler(run, JINJA_CYCLER, arguments, value);
    case JINJA_F_JOINER: return call_cycler(run, JINJA_JOINER, arguments, value);
    case JINJA_F_RAISE_EXCEPTION: return call_raise(run, arguments);
    case JINJA_F_STRFTIME_NOW: return call_strftime(run, arguments, value);
    case JINJA_F_LIPSUM: break;
    }
    return jinja_run_fault(run, "LimitError", "lipsum() is not supported");
}

// Fills the parameters and caller; other keywords are left in rest.
static bool fill_parameters(JinjaRun *run, const JinjaNode *node, const JinjaArguments *arguments, JinjaFrame *body,
                            JinjaValue *rest) {
    const JinjaList *positional = arguments->positional.list;
    const JinjaDict *keywords = arguments->keywords.dict;
    *rest = jinja_value_dict(run);
    for (size_t i = 0; i < positional->count && i < node->items.count; i++)
        body->slots[node->items.at[i]->slot] = positional->items[i];
    if (node->caller_slot >= 0) body->slots[node->caller_slot] = jinja_value_undefined(run, "No caller defined");
    for (size_t k = 0; k < keywords->count; k++) {
        size_t i = positional->count < node->items.count ? positional->count : node->items.count;
        JinjaValue key = keywords->entries[k].key;
        while (i < node->items.count &&
               (node->items.at[i]->name.size != key.size || memcmp(node->items.at[i]->name.text, key.text, key.size)))
            i++;
        if (i < node->items.count)
            body->slots[node->items.at[i]->slot] = keywords->entries[k].value;
        else if (node->caller_slot >= 0 && jinja_value_is(key, "caller"))
            body->slots[node->caller_slot] = keywords->entries[k].value;
        else if (!jinja_value_put(run, *rest, key, keywords->entries[k].value))
            return false;
    }
    return true;
}

// kwargs and varargs: what is left over, if the macro has them.
static bool fill_rest(JinjaRun *run, const JinjaNode *node, const JinjaArguments *arguments, JinjaValue rest,
                      JinjaFrame *body) {
    const JinjaList *positional = arguments->positional.list;
    char name[128] = "None";
    if (node->type == JINJA_N_MACRO)
        snprintf(name, sizeof name, "'%.*s'", (int)(node->name.size < 100 ? node->name.size : 100), node->name.text);
    if (node->keywords_slot >= 0) {
        body->slots[node->keywords_slot] = rest;
    } else if (rest.dict->count) {
        JinjaValue key = rest.dict->entries[0].key;
        return jinja_run_fault(run, "TypeError", "macro %s takes no keyword argument '%.*s'", name,
                               (int)(key.size < 100 ? key.size : 100), key.text);
    }
    if (node->varargs_slot >= 0) {
        JinjaValue varargs = jinja_value_list(run, JINJA_TUPLE);
        for (size_t i = node->items.count; i < positional->count; i++)
            jinja_value_push(run, varargs, positional->items[i]);
        body->slots[node->varargs_slot] = varargs;
    } else if (positional->count > node->items.count) {
        return jinja_run_fault(run, "TypeError", "macro %s takes not more than %zu argument(s)", name,
                               node->items.count);
    }
    return true;
}

// Absent parameters, in order: a default may read those before it.
static bool fill_defaults(JinjaRun *run, const JinjaNode *node, JinjaFrame *body) {
    size_t without = node->items.count - node->other.count;
    for (size_t i = 0; i < node->items.count; i++) {
        JinjaValue *slot = &body->slots[node->items.at[i]->slot], name = node->items.at[i]->name;
        if (slot->kind != JINJA_MISSING) continue;
        JinjaValue value;
        if (i < without)
            value = jinja_value_undefined(run, "parameter '%.*s' was not provided",
                                          (int)(name.size < 200 ? name.size : 200), name.text);
        else if (!jinja_eval(run, node->other.at[i - without], body, &value))
            return false;
        *slot = value;
    }
    return true;
}

static bool call_macro(JinjaRun *run, const JinjaMacro *macro, const JinjaArguments *arguments, JinjaValue *value) {
    const JinjaNode *node = macro->node;
    JinjaValue rest;
    JinjaBuffer buffer = {0};
    JinjaFlow flow = JINJA_GOES_ON;
    JinjaFrame *body = jinja_eval_enter(run, node->scope, macro->frame);
    int line = run->line;
    if (!fill_parameters(run, node, arguments, body, &rest) || !fill_rest(run, node, arguments, rest, body) ||
        !fill_defaults(run, node, body) || !jinja_exec(run, &node->body, body, &buffer, &flow))
        return false;
    run->line = line;
    *value = jinja_text_taken(&buffer);
    return true;
}

// The body of the loop over other items: its text.
static bool call_loop(JinjaRun *run, JinjaLoop *loop, const JinjaArguments *arguments, JinjaValue *value) {
    JinjaValue bound[JINJA_MOST_BOUND];
    JinjaBuffer buffer = {0};
    JinjaFlow flow = JINJA_GOES_ON;
    if (!loop->node->flag)
        return jinja_run_fault(run, "TypeError", "The loop must have the 'recursive' marker to be called recursively.");
    if (!jinja_call_bind(run, "loop", "iterable", 1, arguments, bound) ||
        !jinja_exec_loop(run, loop->node, loop->outer, bound[0], loop->depth0 + 1, &buffer, &flow))
        return false;
    *value = jinja_text_taken(&buffer);
    return true;
}

bool jinja_call(JinjaRun *run, JinjaValue callee, JinjaArguments *arguments, JinjaValue caller, JinjaValue *value) {
    if (caller.kind != JINJA_MISSING) {
        if (jinja_value_member(arguments->keywords, "caller").kind != JINJA_MISSING)
            return jinja_run_fault(run, "TypeError", "got multiple values for keyword argument 'caller'");
        if (!jinja_value_put(run, arguments->keywords, jinja_value_string("caller"), caller)) return false;
    }
    switch (callee.kind) {
    case JINJA_UNDEFINED: return jinja_value_fail(run, callee);
    case JINJA_FUNCTION: return call_function(run, (JinjaFunction)callee.function, arguments, value);
    case JINJA_METHOD: return jinja_method_call(run, callee.method, arguments, value);
    case JINJA_MACRO: return call_macro(run, callee.macro, arguments, value);
    case JINJA_LOOP: return call_loop(run, callee.loop, arguments, value);
    case JINJA_JOINER:
        *value = callee.cycler->at++ ? callee.cycler->items.list->items[0] : jinja_value_string("");
        return true;
    default: return jinja_run_fault(run, "TypeError", "'%s' object is not callable", jinja_value_type(callee));
    }
}
