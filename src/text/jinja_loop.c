// The variable loop and the walk of {% for %} (jinja2.runtime.LoopContext).
#include "text/jinja_eval.h"

#include <string.h>

static const JinjaValue missing = {.kind = JINJA_MISSING};

JinjaLoop *jinja_loop_open(JinjaRun *run, const JinjaNode *node, JinjaFrame *outer, JinjaValue items, int depth) {
    JinjaLoop *loop = jinja_run_new(run, JinjaLoop);
    *loop = (JinjaLoop){.node = node,
                        .outer = outer,
                        .source = items,
                        .filtered = node->third != NULL,
                        .index0 = -1,
                        .length = -1,
                        .depth0 = depth};
    return jinja_value_iterate(run, items, &loop->iterator) ? loop : NULL;
}

// The next item that passes the loop's test, or MISSING.
static bool fetch(JinjaRun *run, JinjaLoop *loop, JinjaValue *item) {
    for (;;) {
        *item = jinja_value_next(run, loop->iterator);
        if (!jinja_run_good(run)) return false;
        if (item->kind == JINJA_MISSING || !loop->filtered) return true;
        JinjaValue test;
        JinjaFrame *frame = jinja_eval_enter(run, loop->node->test_scope, loop->outer);
        if (!jinja_eval_assign(run, loop->node->first, frame, *item) ||
            !jinja_eval(run, loop->node->third, frame, &test))
            return false;
        if (jinja_value_truth(test)) return true;
    }
}

bool jinja_loop_next(JinjaRun *run, JinjaLoop *loop, JinjaValue *item) {
    if (loop->after.kind != JINJA_MISSING) {
        *item = loop->after;
        loop->after = missing;
    } else if (!fetch(run, loop, item)) {
        return false;
    }
    if (item->kind == JINJA_MISSING) return true;
    loop->index0++;
    loop->before = loop->current;
    loop->current = *item;
    return true;
}

static bool peek(JinjaRun *run, JinjaLoop *loop) {
    return loop->after.kind != JINJA_MISSING || fetch(run, loop, &loop->after);
}

// Of items without a length, the rest is fetched now.
static bool measure(JinjaRun *run, JinjaLoop *loop) {
    size_t length;
    if (loop->length >= 0) return true;
    if (!loop->filtered && jinja_value_length(loop->source, &length)) {
        loop->length = (int64_t)length;
        return true;
    }
    JinjaValue rest = jinja_value_list(run, JINJA_LIST), item;
    do {
        if (!fetch(run, loop, &item)) return false;
        if (item.kind != JINJA_MISSING) jinja_value_push(run, rest, item);
    } while (item.kind != JINJA_MISSING);
    loop->filtered = false;
    loop->length = (int64_t)rest.list->count + loop->index0 + 1 + (loop->after.kind != JINJA_MISSING);
    return jinja_value_iterate(run, rest, &loop->iterator);
}

bool jinja_loop_attribute(JinjaRun *run, JinjaValue self, JinjaValue name, JinjaValue *value) {
    static const char *const numbers[] = {"index0", "index", "depth0", "depth", "length", "revindex", "revindex0"};
    JinjaLoop *loop = self.loop;
    *value = missing;
    for (int i = 0; i < 7; i++) {
        if (!jinja_value_is(name, numbers[i])) continue;
        if (i > 3 && !measure(run, loop)) return false;
        const int64_t results[] = {loop->index0,
                                   loop->index0 + 1,
                                   loop->depth0,
                                   loop->depth0 + 1,
                                   loop->length,
                                   loop->length - loop->index0,
                                   loop->length - loop->index0 - 1};
        *value = jinja_value_int(results[i]);
    }
    if (jinja_value_is(name, "first")) *value = jinja_value_bool(loop->index0 == 0);
    if (jinja_value_is(name, "last")) {
        if (!peek(run, loop)) return false;
        *value = jinja_value_bool(loop->after.kind == JINJA_MISSING);
    }
    if (jinja_value_is(name, "previtem"))
        *value = loop->index0 ? loop->before : jinja_value_undefined(run, "there is no previous item");
    if (jinja_value_is(name, "nextitem")) {
        if (!peek(run, loop)) return false;
        *value = loop->after.kind != JINJA_MISSING ? loop->after : jinja_value_undefined(run, "there is no next item");
    }
    return true;
}

bool jinja_loop_cycle(JinjaRun *run, JinjaLoop *loop, const JinjaArguments *arguments, JinjaValue *value) {
    const JinjaList *items = arguments->positional.list;
    if (!items->count) return jinja_run_fault(run, "TypeError", "no items for cycling given");
    int64_t index = loop->index0 < 0 ? 0 : loop->index0;
    *value = items->items[(size_t)index % items->count];
    return true;
}

bool jinja_loop_changed(JinjaRun *run, JinjaLoop *loop, const JinjaArguments *arguments, JinjaValue *value) {
    bool equal = false;
    if (loop->changed.kind != JINJA_MISSING && !jinja_value_equal(run, loop->changed, arguments->positional, &equal))
        return false;
    loop->changed = arguments->positional;
    *value = jinja_value_bool(!equal);
    return true;
}
