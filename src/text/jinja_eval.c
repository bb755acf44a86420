#include "text/jinja_eval.h"

#include "text/jinja_text.h"

#include <string.h>

// Each variable begins as its scope says.
JinjaFrame *jinja_eval_enter(JinjaRun *run, const JinjaScope *scope, JinjaFrame *parent) {
    JinjaFrame *frame = jinja_run_new(run, JinjaFrame);
    *frame = (JinjaFrame){parent, scope, jinja_run_alloc(run, (size_t)scope->count * sizeof *frame->slots)};
    for (int i = 0; i < scope->count; i++) {
        const JinjaSymbol *symbol = &scope->symbols[i];
        if (symbol->load == JINJA_LOAD_CONTEXT) {
            jinja_value_get(run, run->render->variables, symbol->name, &frame->slots[i]);
            if (frame->slots[i].kind == JINJA_MISSING) frame->slots[i] = jinja_call_global(symbol->name);
        } else if (symbol->load == JINJA_LOAD_ALIAS) {
            const JinjaFrame *outer = frame;
            for (int hop = 0; hop < symbol->hops; hop++) outer = outer->parent;
            frame->slots[i] = outer->slots[symbol->slot];
        }
    }
    return frame;
}

static JinjaValue *variable(const JinjaNode *name, JinjaFrame *frame) {
    for (int hop = 0; hop < name->hops; hop++) frame = frame->parent;
    return &frame->slots[name->slot];
}

static bool unpack(JinjaRun *run, const JinjaNode *target, JinjaFrame *frame, JinjaValue value) {
    size_t expected = target->items.count;
    if (!jinja_value_iterable(value))
        return jinja_run_fault(run, "TypeError", "cannot unpack non-iterable %s object", jinja_value_type(value));
    JinjaIterator *iterator;
    if (!jinja_value_iterate(run, value, &iterator)) return false;
    JinjaValue items = jinja_value_list(run, JINJA_LIST);
    for (JinjaValue item; (item = jinja_value_next(run, iterator)).kind != JINJA_MISSING;) {
        if (items.list->count == expected)
            return jinja_run_fault(run, "ValueError", "too many values to unpack (expected %zu)", expected);
        jinja_value_push(run, items, item);
    }
    if (!jinja_run_good(run)) return false;
    if (items.list->count < expected)
        return jinja_run_fault(run, "ValueError", "not enough values to unpack (expected %zu, got %zu)", expected,
                               items.list->count);
    for (size_t i = 0; i < expected; i++)
        if (!jinja_eval_assign(run, target->items.at[i], frame, items.list->items[i])) return false;
    return true;
}

bool jinja_eval_assign(JinjaRun *run, const JinjaNode *target, JinjaFrame *frame, JinjaValue value) {
    if (target->type == JINJA_N_TUPLE) return unpack(run, target, frame, value);
    JinjaValue *slot = variable(target, frame);
    if (target->type == JINJA_N_NAME) {
        *slot = value;
        return true;
    }
    if (slot->kind != JINJA_NAMESPACE)
        return jinja_run_fault(run, "TemplateRuntimeError", "cannot assign attribute on non-namespace object");
    return jinja_value_put(run, (JinjaValue){.kind = JINJA_DICT, .dict = slot->dict}, target->attribute, value);
}

static bool eval_name(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    *value = *variable(node, frame);
    if (value->kind == JINJA_MISSING)
        *value = jinja_value_undefined(run, "'%.*s' is undefined", (int)(node->name.size < 400 ? node->name.size : 400),
                                       node->name.text);
    return true;
}

static bool eval_items(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    *value = jinja_value_list(run, node->type == JINJA_N_TUPLE ? JINJA_TUPLE : JINJA_LIST);
    for (size_t i = 0; i < node->items.count; i++) {
        JinjaValue item;
        if (!jinja_eval(run, node->items.at[i], frame, &item)) return false;
        jinja_value_push(run, *value, item);
    }
    return true;
}

static bool eval_dict(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    *value = jinja_value_dict(run);
    for (size_t i = 0; i < node->items.count; i += 2) {
        JinjaValue key, item;
        if (!jinja_eval(run, node->items.at[i], frame, &key) || !jinja_eval(run, node->items.at[i + 1], frame, &item) ||
            !jinja_value_put(run, *value, key, item))
            return false;
    }
    return true;
}

static bool eval_binary(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    JinjaValue a, b;
    return jinja_eval(run, node->first, frame, &a) && jinja_eval(run, node->second, frame, &b) &&
           jinja_operate(run, node->operator, a, b, value);
}

static bool eval_concat(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    JinjaBuffer buffer = {0};
    for (size_t i = 0; i < node->items.count; i++) {
        JinjaValue item;
        if (!jinja_eval(run, node->items.at[i], frame, &item)) return false;
        jinja_text_str(run, &buffer, item);
    }
    *value = jinja_text_taken(&buffer);
    return true;
}

static bool eval_compare(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    JinjaValue a, b;
    bool truth = true;
    if (!jinja_eval(run, node->first, frame, &a)) return false;
    for (size_t i = 0; truth && i < node->items.count; i++, a = b) {
        const JinjaNode *operand = node->items.at[i];
        if (!jinja_eval(run, operand->first, frame, &b) || !jinja_operate_compare(run, operand->compare, a, b, &truth))
            return false;
    }
    *value = jinja_value_bool(truth);
    return true;
}

static bool eval_condition(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    JinjaValue test;
    if (!jinja_eval(run, node->first, frame, &test)) return false;
    if (jinja_value_truth(test)) return jinja_eval(run, node->second, frame, value);
    if (node->third) return jinja_eval(run, node->third, frame, value);
    *value = jinja_value_undefined(run,
                                   "the inline if-expression on line %d evaluated to false and no else section "
                                   "was defined.",
                                   node->line);
    return true;
}

static bool eval_optional(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    *value = jinja_value_none();
    return !node || jinja_eval(run, node, frame, value);
}

static bool eval_item(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    JinjaValue object, key, start, stop, step;
    if (!jinja_eval(run, node->first, frame, &object)) return false;
    const JinjaNode *slice = node->second;
    if (slice->type != JINJA_N_SLICE)
        return jinja_eval(run, slice, frame, &key) && jinja_method_item(run, object, key, value);
    return eval_optional(run, slice->first, frame, &start) && eval_optional(run, slice->second, frame, &stop) &&
           eval_optional(run, slice->third, frame, &step) && jinja_operate_slice(run, object, start, stop, step, value);
}

static bool eval_filter(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    JinjaValue subject = run->render->block;
    JinjaArguments arguments;
    int name = (int)(node->name.size < 200 ? node->name.size : 200);
    if (node->first && !jinja_eval(run, node->first, frame, &subject)) return false;
    if (!jinja_call_arguments(run, &node->items, frame, &arguments)) return false;
    if (node->builtin < 0)
        return jinja_run_fault(run, "TemplateRuntimeError", "No filter named '%.*s' found.", name, node->name.text);
    return jinja_filter_apply(run, node->builtin, subject, &arguments, value);
}

static bool eval_test(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    JinjaValue subject;
    JinjaArguments arguments;
    bool truth = false;
    int name = (int)(node->name.size < 200 ? node->name.size : 200);
    if (!jinja_eval(run, node->first, frame, &subject)) return false;
    if (!jinja_call_arguments(run, &node->items, frame, &arguments)) return false;
    if (node->builtin < 0)
        return jinja_run_fault(run, "TemplateRuntimeError", "No test named '%.*s' found.", name, node->name.text);
    if (!jinja_test_apply(run, node->builtin, subject, &arguments, &truth)) return false;
    *value = jinja_value_bool(truth);
    return true;
}

static bool eval_call(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    JinjaValue callee, missing = {.kind = JINJA_MISSING};
    JinjaArguments arguments;
    return jinja_eval(run, node->first, frame, &callee) && jinja_call_arguments(run, &node->items, frame, &arguments) &&
           jinja_call(run, callee, &arguments, missing, value);
}

static bool eval_logic(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    if (!jinja_eval(run, node->first, frame, value)) return false;
    if (node->type == JINJA_N_NOT) {
        *value = jinja_value_bool(!jinja_value_truth(*value));
        return true;
    }
    if (jinja_value_truth(*value) == (node->type == JINJA_N_OR)) return true;
    return jinja_eval(run, node->second, frame, value);
}

static bool eval_sign(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    JinjaValue a;
    return jinja_eval(run, node->first, frame, &a) && jinja_operate_negate(run, a, node->type == JINJA_N_PLUS, value);
}

static bool eval_attribute(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    JinjaValue object;
    return jinja_eval(run, node->first, frame, &object) && jinja_method_attribute(run, object, node->name, value);
}

static bool eval_node(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    switch (node->type) {
    case JINJA_N_CONST: *value = node->value; return true;
    case JINJA_N_NAME: return eval_name(run, node, frame, value);
    case JINJA_N_LIST:
    case JINJA_N_TUPLE: return eval_items(run, node, frame, value);
    case JINJA_N_DICT: return eval_dict(run, node, frame, value);
    case JINJA_N_BINARY: return eval_binary(run, node, frame, value);
    case JINJA_N_NEGATE:
    case JINJA_N_PLUS: return eval_sign(run, node, frame, value);
    case JINJA_N_NOT:
    case JINJA_N_AND:
    case JINJA_N_OR: return eval_logic(run, node, frame, value);
    case JINJA_N_CONCAT: return eval_concat(run, node, frame, value);
    case JINJA_N_COMPARE: return eval_compare(run, node, frame, value);
    case JINJA_N_CONDITION: return eval_condition(run, node, frame, value);
    case JINJA_N_GETATTR: return eval_attribute(run, node, frame, value);
    case JINJA_N_GETITEM: return eval_item(run, node, frame, value);
    case JINJA_N_CALL: return eval_call(run, node, frame, value);
    case JINJA_N_FILTER: return eval_filter(run, node, frame, value);
    case JINJA_N_TEST: return eval_test(run, node, frame, value);
    case JINJA_N_SLICE: // among several subscripts, which nothing here takes
        *value = jinja_value_none();
        return true;
    default: CHECK(false, "node %d of line %d is no expression", (int)node->type, node->line); return false;
    }
}

bool jinja_eval(JinjaRun *run, const JinjaNode *node, JinjaFrame *frame, JinjaValue *value) {
    int line = run->line;
    run->line = node->line;
    if (!jinja_run_step(run, 1) || !jinja_run_enter(run)) return false;
    if (!eval_node(run, node, frame, value) || !jinja_run_good(run)) return false;
    jinja_run_leave(run);
    run->line = line;
    return true;
}
